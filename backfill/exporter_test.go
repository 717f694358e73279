package backfill_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// exporting is the embedded service with a table Orders.
func exporting(t *testing.T, o dynamodbtest.Options) (*dynamodb.Client, *backfill.Exporter, string) {
	t.Helper()
	server := httptest.NewServer(dynamodbtest.New(o))
	t.Cleanup(server.Close)
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: http.DefaultClient}, backfill.ClientOptions)
	made, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}}})
	if err != nil {
		t.Fatal(err)
	}
	return client, backfill.NewExporter(client), *made.TableDescription.TableArn
}

func turnOn(t *testing.T, client *dynamodb.Client) {
	t.Helper()
	_, err := client.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: aws.String("Orders"),
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestExportsThatAreAskedFor: an order with the same token is the same export, and what the service
// refuses for good can be told from what passes.
func TestExportsThatAreAskedFor(t *testing.T) {
	now := time.Now().Truncate(time.Second).Add(500 * time.Millisecond)
	client, e, arn := exporting(t, dynamodbtest.Options{ExportTakes: time.Hour, Clock: func() time.Time { return now }})
	refusal := func(err error) *backfill.ExportRefusal {
		t.Helper()
		var r *backfill.ExportRefusal
		if !errors.As(err, &r) {
			t.Fatalf("%v", err)
		}
		return r
	}
	if r, err := e.Recovery(t.Context(), "Orders"); err != nil || r.On {
		t.Errorf("%+v, %v", r, err)
	}
	order := backfill.ExportOrder{TableARN: arn, Bucket: "bucket", Prefix: "deep", At: now.Truncate(time.Second), Token: "1"}
	_, err := e.Request(t.Context(), order)
	if r := refusal(err); r.OfTime() || r.Code != "PointInTimeRecoveryUnavailableException" {
		t.Error(r)
	}
	turnOn(t, client)
	r, err := e.Recovery(t.Context(), "Orders")
	if err != nil || !r.On || r.From.IsZero() || r.To.Before(r.From) {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = e.Request(t.Context(), order) // of the second before it was turned on
	if r := refusal(err); !r.OfTime() {
		t.Error(r)
	}
	order.At = r.From.Truncate(time.Second).Add(time.Second)
	now = now.Add(time.Minute)
	first, err := e.Request(t.Context(), order)
	if err != nil || first.Done || first.ARN == "" || first.Bucket != "bucket" || !first.JSON || first.Part != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := e.Request(t.Context(), order)
	if err != nil || again.ARN != first.ARN {
		t.Errorf("%+v, %v", again, err)
	}
	if report, err := e.Report(t.Context(), first.ARN); err != nil || report.Done || report.ARN != first.ARN {
		t.Errorf("%+v, %v", report, err)
	}
	_, err = e.Report(t.Context(), first.ARN+"0")
	if r := refusal(err); !r.Unknown() {
		t.Error(r)
	}
	if _, err := e.Recovery(t.Context(), "Nowhere"); !cdc.Is(err, cdc.NotFound) {
		t.Error(err)
	}
}

// TestH89_WhatAnExportLeavesOut is what DynamoDB says of it.
func TestH89_WhatAnExportLeavesOut(t *testing.T) {
	client, e, arn := exporting(t, dynamodbtest.Options{})
	turnOn(t, client)
	values := map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "1"}}
	for want, filter := range map[string]*types.FilterSpecification{
		"":             nil,
		"a filter":     {FilterExpression: aws.String("v = :v"), ExpressionAttributeValues: values},
		"a projection": {ProjectionExpression: aws.String("pk")},
	} {
		made, err := client.ExportTableToPointInTime(t.Context(), &dynamodb.ExportTableToPointInTimeInput{TableArn: &arn, S3Bucket: aws.String("b"), FilterSpecification: filter})
		if err != nil {
			t.Fatal(err)
		}
		report, err := e.Report(t.Context(), *made.ExportDescription.ExportArn)
		if err != nil || report.Part != want || !report.Done || report.Manifest == "" {
			t.Errorf("%q: %+v, %v", want, report, err)
		}
	}
}
