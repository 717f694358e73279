package starter

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// api is a DynamoDB with one table. The first answers to each operation are errors with a code.
type api struct {
	backfill.API
	code  string
	fails int
	asked map[string]int
}

func (a *api) fail(op string) error {
	if a.asked[op]++; a.asked[op] > a.fails {
		return nil
	}
	return &smithy.OperationError{ServiceID: dynamodb.ServiceID, OperationName: op, Err: &smithy.GenericAPIError{Code: a.code, Message: "not now"}}
}

func (a *api) ListTables(context.Context, *dynamodb.ListTablesInput, ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error) {
	return &dynamodb.ListTablesOutput{TableNames: []string{"Orders"}}, a.fail("ListTables")
}

func (a *api) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return &dynamodb.DescribeTableOutput{Table: &types.TableDescription{TableName: aws.String("Orders"), TableStatus: types.TableStatusActive,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}}}}, a.fail("DescribeTable")
}

func (a *api) DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return &dynamodb.DescribeTimeToLiveOutput{}, a.fail("DescribeTimeToLive")
}

func (a *api) Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return &dynamodb.ScanOutput{Count: 1, ScannedCount: 1, Items: []map[string]types.AttributeValue{{"id": &types.AttributeValueMemberS{Value: "1"}}}}, a.fail("Scan")
}

// Requests for a proposal are retried while DynamoDB throttles or fails briefly, but not for long.
func TestReadingIsRepeated(t *testing.T) {
	for _, c := range []struct {
		code  string
		fails int
		want  string // of the error; "": none
	}{
		{"ThrottlingException", 3, ""}, {"ProvisionedThroughputExceededException", 3, ""}, {"InternalServerError", 3, ""}, {"LimitExceededException", 1, ""},
		{"ThrottlingException", 1000, "throttled: ThrottlingException: not now"}, {"AccessDeniedException", 1, "AccessDeniedException: not now"},
	} {
		synctest.Test(t, func(t *testing.T) {
			service := &api{code: c.code, fails: c.fails, asked: map[string]int{}}
			began := time.Now()
			tables, err := Read(t.Context(), &preflight.Source{Region: "eu-west-1", Tables: backfill.NewTables(service), Expiry: backfill.NewExpiry(service)}, nil, false)
			if c.want == "" && (err != nil || len(tables) != 1 || len(tables[0].Items) == 0) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %d tables, %v", c.code, len(tables), err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: it took %s", c.code, took)
			}
		})
	}
}
