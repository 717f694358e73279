package cdctest_test

import (
	"context"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/cdc/cdctest"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

const table = "Conformance"

// The conformance tests over HTTP and the AWS client: cdc.DynamoDBStream on the embedded DynamoDB.
func TestConformanceOnEmbeddedDynamoDB(t *testing.T) {
	cdctest.Conformance(t, func(t *testing.T) cdctest.Harness {
		var seconds atomic.Int64
		clock := func() time.Time { return time.Unix(1_732_000_000+seconds.Load(), 5e8) }
		server := dynamodbtest.New(dynamodbtest.Options{Clock: clock})
		listener := httptest.NewServer(server)
		t.Cleanup(listener.Close)
		config := aws.Config{
			Region: "eu-west-1", BaseEndpoint: aws.String(listener.URL),
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
			}),
		}
		db := dynamodb.NewFromConfig(config)
		created, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String(table), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
			StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
		})
		if err != nil {
			t.Fatal(err)
		}
		check := func(t *testing.T, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		key := func(key string) map[string]types.AttributeValue {
			return map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: key}}
		}
		return cdctest.Harness{
			Source: cdc.NewSource(dynamodbstreams.NewFromConfig(config), aws.ToString(created.TableDescription.LatestStreamArn)),
			Put: func(t *testing.T, pk string, n int) {
				item := key(pk)
				item["n"] = &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
				_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: item})
				check(t, err)
			},
			Delete: func(t *testing.T, pk string) {
				_, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: key(pk)})
				check(t, err)
			},
			Roll: func(t *testing.T, shard string) {
				_, err := server.RollShard(table, shard)
				check(t, err)
			},
			ExpireIterators: func(t *testing.T) { check(t, server.ExpireIterators(table)) },
			Trim: func(t *testing.T) {
				check(t, server.TrimTo(table, clock()))
				seconds.Add(1)
			},
		}
	})
}
