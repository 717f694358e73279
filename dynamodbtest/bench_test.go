package dynamodbtest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// call sends a request to the handler, without a network.
func call(b *testing.B, s http.Handler, target, body string) []byte {
	b.Helper()
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	req.Header.Set("X-Amz-Target", target)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		b.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

const benchTable = `{"TableName":"Bench","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],` +
	`"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`

func benchItem(i int) string {
	return fmt.Sprintf(`{"TableName":"Bench","Item":{"pk":{"S":"item-%d"},"n":{"N":"%d"},"text":{"S":%q},"map":{"M":{"a":{"L":[{"N":"1"},{"BOOL":true}]}}},"set":{"SS":["x","y"]}}}`,
		i%10000, i, strings.Repeat("v", 200))
}

func BenchmarkPutItem(b *testing.B) {
	s := dynamodbtest.New(dynamodbtest.Options{})
	call(b, s, "DynamoDB_20120810.CreateTable", benchTable)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		call(b, s, "DynamoDB_20120810.PutItem", benchItem(i))
		i++
	}
}

// BenchmarkPutItemHTTP includes the network stack and a plain client, on one connection.
func BenchmarkPutItemHTTP(b *testing.B) {
	s := dynamodbtest.New(dynamodbtest.Options{})
	call(b, s, "DynamoDB_20120810.CreateTable", benchTable)
	listener := httptest.NewServer(s)
	defer listener.Close()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		req, err := http.NewRequest(http.MethodPost, listener.URL, strings.NewReader(benchItem(i)))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
		resp, err := listener.Client().Do(req)
		if err != nil {
			b.Fatal(err)
		}
		var body bytes.Buffer
		_, _ = body.ReadFrom(resp.Body)
		resp.Body.Close()
		i++
	}
}

func BenchmarkScanPage(b *testing.B) {
	s := dynamodbtest.New(dynamodbtest.Options{})
	call(b, s, "DynamoDB_20120810.CreateTable", benchTable)
	for i := range 10000 {
		call(b, s, "DynamoDB_20120810.PutItem", benchItem(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(call(b, s, "DynamoDB_20120810.Scan", `{"TableName":"Bench"}`))))
	}
}

func BenchmarkGetRecordsPage(b *testing.B) {
	s := dynamodbtest.New(dynamodbtest.Options{})
	call(b, s, "DynamoDB_20120810.CreateTable", benchTable)
	for i := range 1000 {
		call(b, s, "DynamoDB_20120810.PutItem", benchItem(i))
	}
	shards, err := s.Shards("Bench")
	if err != nil {
		b.Fatal(err)
	}
	listed := call(b, s, "DynamoDBStreams_20120810.ListStreams", `{}`)
	_, rest, _ := bytes.Cut(listed, []byte(`"StreamArn":"`))
	arn, _, _ := bytes.Cut(rest, []byte(`"`))
	answer := call(b, s, "DynamoDBStreams_20120810.GetShardIterator", fmt.Sprintf(`{"StreamArn":%q,"ShardId":%q,"ShardIteratorType":"TRIM_HORIZON"}`, arn, shards[0].ID))
	request := `{"ShardIterator` + strings.TrimPrefix(string(answer), `{"ShardIterator`)
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(call(b, s, "DynamoDBStreams_20120810.GetRecords", request))))
	}
}
