package backfill_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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

// exporting returns the embedded service with a table Orders.
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

// TestExportsThatAreAskedFor: an order with the same token gives the same export, and permanent
// refusals differ from transient errors.
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
	_, err = e.Request(t.Context(), order) // a second before it was enabled
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

// TestH89_WhatAnExportLeavesOut: the report says it in DynamoDB's words.
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

// exporterOf sends its requests to a service with one answer, and records the request.
func exporterOf(t *testing.T, status int, body string) (*backfill.Exporter, *string) {
	t.Helper()
	asked := new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		*asked = string(text)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return backfill.NewExporter(dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}, backfill.ClientOptions)), asked
}

// An order contains all that the service needs, and an answer without a known state is an error.
func TestOrdersAndReports(t *testing.T) {
	const running = `{"ExportDescription":{"ExportArn":"arn","ExportStatus":"IN_PROGRESS","ExportFormat":"ION"}}`
	for prefix, want := range map[string]bool{"deep": true, "": false} {
		e, asked := exporterOf(t, 200, running)
		if r, err := e.Request(t.Context(), backfill.ExportOrder{TableARN: "table", Bucket: "bucket", Prefix: prefix, At: time.Unix(1_795_170_000, 0), Token: "token"}); err != nil || r.Done || r.JSON || r.ARN != "arn" {
			t.Errorf("%+v, %v", r, err)
		}
		for _, part := range []string{`"TableArn":"table"`, `"S3Bucket":"bucket"`, `"ExportTime":1795170000`, `"ClientToken":"token"`, `"ExportFormat":"DYNAMODB_JSON"`, `"ExportType":"FULL_EXPORT"`} {
			if !strings.Contains(*asked, part) {
				t.Errorf("%s lacks %s", *asked, part)
			}
		}
		if strings.Contains(*asked, `"S3Prefix":"deep"`) != want || strings.Contains(*asked, "S3Prefix") != want {
			t.Errorf("prefix %q: %s", prefix, *asked)
		}
	}
	e, asked := exporterOf(t, 200, running)
	if _, err := e.Request(t.Context(), backfill.ExportOrder{TableARN: "table", Bucket: "b", From: time.Unix(1_795_083_600, 0), At: time.Unix(1_795_170_000, 0), Token: "t"}); err != nil {
		t.Error(err)
	}
	for _, part := range []string{`"ExportType":"INCREMENTAL_EXPORT"`, `"ExportFromTime":1795083600`, `"ExportToTime":1795170000`, `"ExportViewType":"NEW_AND_OLD_IMAGES"`} {
		if !strings.Contains(*asked, part) || strings.Contains(*asked, `"ExportTime"`) {
			t.Errorf("a window: %s lacks %s", *asked, part)
		}
	}
	for members, want := range map[string]backfill.ExportReport{
		`"ExportStatus":"COMPLETED","S3Bucket":"b","ExportManifest":"m","ExportFormat":"DYNAMODB_JSON"`: {ARN: "arn", Done: true, Bucket: "b", Manifest: "m", JSON: true},
		`"ExportStatus":"FAILED","FailureCode":"S3AccessDenied","FailureMessage":"no"`:                  {ARN: "arn", Failed: "S3AccessDenied: no"},
		`"ExportStatus":"IN_PROGRESS","FilterSpecification":{"KeyConditionExpression":"a"}`:             {ARN: "arn", Part: "a condition on keys"},
		`"ExportStatus":"IN_PROGRESS","FilterSpecification":{"FilterExpression":"a"}`:                   {ARN: "arn", Part: "a filter"},
		`"ExportStatus":"IN_PROGRESS","FilterSpecification":{}`:                                         {ARN: "arn", Part: "a filter"},
		`"ExportStatus":"COMPLETED","S3Bucket":"b"`:                                                     {},
		`"ExportStatus":"COMPLETED","ExportManifest":"m"`:                                               {},
		`"ExportStatus":"PAUSED"`: {},
	} {
		e, _ := exporterOf(t, 200, `{"ExportDescription":{"ExportArn":"arn",`+members+`}}`)
		got, err := e.Report(t.Context(), "arn")
		if got != want || cdc.Is(err, cdc.Malformed) != (want == backfill.ExportReport{}) {
			t.Errorf("%s: %+v, %v", members, got, err)
		}
	}
	for _, body := range []string{`{}`, `{"ExportDescription":{"ExportStatus":"IN_PROGRESS"}}`} {
		e, _ := exporterOf(t, 200, body)
		if _, err := e.Report(t.Context(), "arn"); !cdc.Is(err, cdc.Malformed) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// The request has the owner and the key of the bucket only if they are given. Without an algorithm,
// DynamoDB would ignore the key.
func TestOrdersIntoABucketOfAnotherAccount(t *testing.T) {
	const key = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	for _, c := range []struct {
		to   backfill.ExportBucket
		want []string
	}{
		{backfill.ExportBucket{}, nil},
		{backfill.ExportBucket{Owner: "111122223333"}, []string{`"S3BucketOwner":"111122223333"`}},
		{backfill.ExportBucket{KMSKey: key}, []string{`"S3SseAlgorithm":"KMS"`, `"S3SseKmsKeyId":"` + key + `"`}},
	} {
		e, asked := exporterOf(t, 200, `{"ExportDescription":{"ExportArn":"arn","ExportStatus":"IN_PROGRESS"}}`)
		if _, err := e.To(c.to).Request(t.Context(), backfill.ExportOrder{TableARN: "table", Bucket: "bucket", At: time.Unix(1_795_170_000, 0), Token: "token"}); err != nil {
			t.Error(err)
		}
		given := strings.Count(*asked, "S3BucketOwner") + strings.Count(*asked, "S3Sse")
		for _, part := range c.want {
			if !strings.Contains(*asked, part) {
				t.Errorf("%+v: %s lacks %s", c.to, *asked, part)
			}
		}
		if given != len(c.want) {
			t.Errorf("%+v: %s has more than was given", c.to, *asked)
		}
	}
}

// Permanent refusals differ from transient errors. Recovery is on if the service says so.
func TestRefusalsOfExports(t *testing.T) {
	for code, refused := range map[string]bool{"PointInTimeRecoveryUnavailableException": true, "InvalidExportTimeException": true, "ExportConflictException": true,
		"ExportNotFoundException": true, "ValidationException": true, "LimitExceededException": false, "ThrottlingException": false} {
		e, _ := exporterOf(t, 400, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`","message":"m"}`)
		_, err := e.Request(t.Context(), backfill.ExportOrder{TableARN: "table", Bucket: "bucket", Token: "token"})
		var r *backfill.ExportRefusal
		if errors.As(err, &r) != refused || refused && (r.Code != code || r.OfTime() != (code == "InvalidExportTimeException") || r.Unknown() != (code == "ExportNotFoundException")) || err == nil {
			t.Errorf("%s: %v", code, err)
		}
	}
	for status, on := range map[string]bool{"ENABLED": true, "DISABLED": false, "ENABLING": false} {
		e, _ := exporterOf(t, 200, `{"ContinuousBackupsDescription":{"ContinuousBackupsStatus":"ENABLED","PointInTimeRecoveryDescription":{"PointInTimeRecoveryStatus":"`+status+
			`","EarliestRestorableDateTime":1000,"LatestRestorableDateTime":2000}}}`)
		if r, err := e.Recovery(t.Context(), "Orders"); err != nil || r.On != on || r.From.Unix() != 1000 || r.To.Unix() != 2000 {
			t.Errorf("%s: %+v, %v", status, r, err)
		}
	}
	for _, body := range []string{`{}`, `{"ContinuousBackupsDescription":{"ContinuousBackupsStatus":"ENABLED"}}`} {
		e, _ := exporterOf(t, 200, body)
		if _, err := e.Recovery(t.Context(), "Orders"); !cdc.Is(err, cdc.Malformed) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
