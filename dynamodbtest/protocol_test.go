package dynamodbtest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// post sends a raw request and returns the response, whose body is read.
func (f *fixture) post(target, body string) (*http.Response, string) {
	f.t.Helper()
	req, err := http.NewRequest(http.MethodPost, f.url, strings.NewReader(body))
	f.noError(err)
	req.Header.Set("X-Amz-Target", target)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	resp, err := http.DefaultClient.Do(req)
	f.noError(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	f.noError(err)
	return resp, string(text)
}

func TestResponseHeaders(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	resp, body := f.post("DynamoDB_20120810.ListTables", "{}")
	if resp.StatusCode != 200 || body != `{"TableNames":[]}` {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if got := resp.Header.Get("Date"); got != "Sat, 21 Nov 2026 10:00:00 GMT" {
		t.Errorf("Date is %q, not the clock's", got)
	}
	if got := resp.Header.Get("X-Amz-Crc32"); got != strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10) {
		t.Errorf("X-Amz-Crc32 is %q", got)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/x-amz-json-1.0" {
		t.Errorf("Content-Type is %q", got)
	}
	first := resp.Header.Get("X-Amzn-Requestid")
	resp, _ = f.post("DynamoDB_20120810.ListTables", "{}")
	if second := resp.Header.Get("X-Amzn-Requestid"); len(first) != 52 || first == second {
		t.Errorf("request ids %q and %q", first, second)
	}
}

func TestErrorBodies(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.server.Fail(dynamodbtest.Fault{Operation: "GetItem", Error: "InternalServerError"})
	f.server.Fail(dynamodbtest.Fault{Operation: "DeleteItem", Error: "ServiceUnavailable"})
	cases := []struct {
		target, body string
		status       int
		errorType    string
		message      string
	}{
		{"DynamoDB_20120810.DescribeTable", `{"TableName":"Absent"}`, 400, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "Table: Absent not found"},
		{"DynamoDB_20120810.DescribeTable", `{"TableName":"x/y"}`, 400, "com.amazon.coral.validate#ValidationException", "'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern"},
		{"DynamoDB_20120810.DescribeTable", `{"TableName":1}`, 400, "com.amazon.coral.service#SerializationException", "TableName"},
		{"DynamoDB_20120810.DescribeTable", `{"TableName"`, 400, "com.amazon.coral.service#SerializationException", "not valid JSON"},
		{"DynamoDB_20120810.PutItem", `{"TableName":"Orders","Item":{"pk":{"S":1}}}`, 400, "com.amazon.coral.service#SerializationException", "string"},
		{"DynamoDB_20120810.PutItem", `{"TableName":"Orders","Item":{"pk":{}}}`, 400, "com.amazon.coral.validate#ValidationException", "AttributeValue is empty"},
		{"DynamoDB_20120810.PutItem", `{"TableName":"Orders","Item":{"pk":{"S":"a"}},"Unheard":{}}`, 400, "com.amazon.coral.validate#ValidationException", "Unheard is not supported"},
		{"DynamoDB_20120810.Query", `{"TableName":"Orders","IndexName":"byDate","KeyConditionExpression":"a = :a"}`, 400, "com.amazon.coral.validate#ValidationException", "The table does not have the specified index: byDate"},
		{"DynamoDB_20120810.CreateBackup", `{}`, 400, "com.amazon.coral.service#UnknownOperationException", `"CreateBackup" is not supported`},
		{"DynamoDBStreams_20120810.ListTables", `{}`, 400, "com.amazon.coral.service#UnknownOperationException", `"ListTables" is not supported`},
		{"Kinesis_20131202.ListStreams", `{}`, 400, "com.amazon.coral.service#UnknownOperationException", "Unknown service"},
		{"", `{}`, 400, "com.amazon.coral.service#UnknownOperationException", "no X-Amz-Target"},
		{"DynamoDB_20120810.GetItem", `{}`, 500, "com.amazonaws.dynamodb.v20120810#InternalServerError", "Injected fault"},
		{"DynamoDB_20120810.DeleteItem", `{}`, 503, "com.amazon.coral.service#ServiceUnavailable", "Injected fault"},
	}
	for _, c := range cases {
		resp, body := f.post(c.target, c.body)
		var got struct {
			Type    string `json:"__type"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Errorf("%s %s: %v", c.target, c.body, err)
		}
		if resp.StatusCode != c.status || got.Type != c.errorType || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s %s gives %d %s %q", c.target, c.body, resp.StatusCode, got.Type, got.Message)
		}
	}
}

func TestHealth(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{Region: "eu-west-1"})
	resp, err := http.Get(f.url)
	f.noError(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	f.noError(err)
	if string(body) != "healthy: dynamodb.eu-west-1.amazonaws.com " {
		t.Errorf("%q", body)
	}
}

// TestErrorsDecodeIntoSDKTypes injects each error that the services document for these operations;
// the SDK decodes each into its own type.
func TestErrorsDecodeIntoSDKTypes(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	inject := func(code string) error {
		f.server.Fail(dynamodbtest.Fault{Operation: "DescribeTable", Error: code, Message: "told so"})
		_, err := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: ptr("Orders")})
		return err
	}
	injectStreams := func(code string) error {
		f.server.Fail(dynamodbtest.Fault{Operation: "GetRecords", Error: code, Message: "told so"})
		_, err := f.page("some iterator")
		return err
	}
	check := func(name string, ok bool, err error) {
		t.Helper()
		var api smithy.APIError
		if !ok || !errors.As(err, &api) || api.ErrorMessage() != "told so" {
			t.Errorf("%s decodes into %T: %v", name, err, err)
		}
	}
	err := inject("ResourceNotFoundException")
	check("ResourceNotFoundException", is[*types.ResourceNotFoundException](err), err)
	err = inject("ResourceInUseException")
	check("ResourceInUseException", is[*types.ResourceInUseException](err), err)
	err = inject("ProvisionedThroughputExceededException")
	check("ProvisionedThroughputExceededException", is[*types.ProvisionedThroughputExceededException](err), err)
	err = inject("RequestLimitExceeded")
	check("RequestLimitExceeded", is[*types.RequestLimitExceeded](err), err)
	err = inject("ThrottlingException")
	check("ThrottlingException", is[*types.ThrottlingException](err), err)
	err = inject("LimitExceededException")
	check("LimitExceededException", is[*types.LimitExceededException](err), err)
	err = inject("InternalServerError")
	check("InternalServerError", is[*types.InternalServerError](err), err)
	err = inject("ConditionalCheckFailedException")
	check("ConditionalCheckFailedException", is[*types.ConditionalCheckFailedException](err), err)
	err = inject("TransactionConflictException")
	check("TransactionConflictException", is[*types.TransactionConflictException](err), err)
	err = injectStreams("ResourceNotFoundException")
	check("streams ResourceNotFoundException", is[*streamtypes.ResourceNotFoundException](err), err)
	err = injectStreams("ExpiredIteratorException")
	check("ExpiredIteratorException", is[*streamtypes.ExpiredIteratorException](err), err)
	err = injectStreams("TrimmedDataAccessException")
	check("TrimmedDataAccessException", is[*streamtypes.TrimmedDataAccessException](err), err)
	err = injectStreams("LimitExceededException")
	check("streams LimitExceededException", is[*streamtypes.LimitExceededException](err), err)
	err = injectStreams("InternalServerError")
	check("streams InternalServerError", is[*streamtypes.InternalServerError](err), err)
	for _, code := range []string{"ValidationException", "ExpiredTokenException", "UnrecognizedClientException", "AccessDeniedException"} {
		f.wantCode(inject(code), code)
		f.wantCode(injectStreams(code), code)
	}
}

func is[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

// TestRealErrorsDecode does the same with the server's own errors.
func TestRealErrorsDecode(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	_, err := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: ptr("Absent")})
	if !is[*types.ResourceNotFoundException](err) {
		t.Errorf("DescribeTable: %v", err)
	}
	_, err = f.db.CreateTable(f.ctx, &dynamodb.CreateTableInput{
		TableName: ptr("Orders"), BillingMode: "PAY_PER_REQUEST",
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: ptr("pk"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: ptr("pk"), KeyType: "HASH"}},
	})
	if !is[*types.ResourceInUseException](err) {
		t.Errorf("CreateTable: %v", err)
	}
	_, err = f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: ptr("arn:aws:dynamodb:us-east-1:000000000000:table/Orders/stream/2020-01-01T00:00:00.000")})
	if !is[*streamtypes.ResourceNotFoundException](err) {
		t.Errorf("DescribeStream: %v", err)
	}
	_, err = f.streams.DescribeStream(f.ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: ptr("an identifier that is not an ARN at all")})
	f.wantCode(err, "ValidationException")
	_, err = f.iterator(f.streamARN("Orders"), "shardId-00000000000000000000-00000000", "LATEST", "")
	if !is[*streamtypes.ResourceNotFoundException](err) {
		t.Errorf("GetShardIterator: %v", err)
	}
}

func TestSameSeedSameAnswers(t *testing.T) {
	run := func() string {
		f := newFixture(t, dynamodbtest.Options{Seed: 7, InitialShards: 3})
		f.createTable("Orders", "NEW_AND_OLD_IMAGES", "")
		f.putKeys("Orders", "k", 50)
		shards, err := f.server.Shards("Orders")
		f.noError(err)
		_, err = f.server.SplitShard("Orders", shards[1].ID)
		f.noError(err)
		f.putKeys("Orders", "l", 50)
		arn := f.streamARN("Orders")
		var trace strings.Builder
		for _, sh := range f.shards(arn) {
			trace.WriteString(*sh.ShardId + "\n")
			for _, r := range f.records(arn, *sh.ShardId) {
				trace.WriteString(*r.EventID + " " + *r.Dynamodb.SequenceNumber + "\n")
			}
		}
		return trace.String()
	}
	if a, b := run(), run(); a != b || strings.Count(a, "\n") != 105 {
		t.Errorf("two runs of one seed differ:\n%s\n%s", a, b)
	}
}

func TestCompressedBody(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	send := func(body []byte) string {
		req, err := http.NewRequest(http.MethodPost, f.url, bytes.NewReader(body))
		f.noError(err)
		req.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
		req.Header.Set("Content-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(req)
		f.noError(err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		f.noError(err)
		return string(text)
	}
	compressed := func(plain string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := io.WriteString(w, plain)
		f.noError(err)
		f.noError(w.Close())
		return b.Bytes()
	}
	if got := send(compressed(`{"Limit":1}`)); got != `{"TableNames":[]}` {
		t.Error(got)
	}
	for what, body := range map[string][]byte{
		"no gzip": []byte("{}"), "cut": compressed("{}")[:20], "too large": compressed("{" + strings.Repeat(" ", 33<<20) + "}"),
	} {
		if got := send(body); !strings.Contains(got, "SerializationException") {
			t.Errorf("%s: %s", what, got)
		}
	}
}
