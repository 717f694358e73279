package dynamodbtest_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// wantCut fails the test unless the connection was cut without an answer.
func (f *fixture) wantCut(err error) {
	f.t.Helper()
	var api smithy.APIError
	if err == nil || errors.As(err, &api) {
		f.t.Fatalf("got %v, want a cut connection", err)
	}
}

func (f *fixture) putValue(table, key, value string) error {
	_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: &table, Item: attrs{"pk": str(key), "v": str(value)}})
	return err
}

// value returns the text of the attribute v; empty if there is none.
func (f *fixture) value(key string) string {
	f.t.Helper()
	v, ok := f.get("Orders", attrs{"pk": str(key)})["v"].(*types.AttributeValueMemberS)
	if !ok {
		return ""
	}
	return v.Value
}

// Late writes overtake nothing, and later writes overtake them.
func TestStraggle(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "NEW_IMAGE", "")
	f.createTable("Other", "", "")
	f.server.Straggle("Orders", 2, time.Minute)
	f.noError(f.putValue("Other", "a", "0"))
	f.get("Orders", attrs{"pk": str("a")}) // reads are not late
	f.wantCut(f.putValue("Orders", "a", "1"))
	f.clock.Advance(time.Second)
	f.wantCut(f.putValue("Orders", "b", "2"))
	f.noError(f.putValue("Orders", "a", "3"))
	if a, b := f.value("a"), f.value("b"); a != "3" || b != "" {
		t.Errorf("before: a %q, b %q", a, b)
	}
	f.clock.Advance(59 * time.Second)
	if a, b := f.value("a"), f.value("b"); a != "1" || b != "" {
		t.Errorf("after a minute: a %q, b %q", a, b)
	}
	f.server.AdvanceClock(time.Hour)
	if b := f.value("b"); b != "2" {
		t.Errorf("later: b %q", b)
	}
	arn := f.streamARN("Orders")
	if n := len(f.records(arn, f.onlyShard(arn))); n != 3 {
		t.Errorf("%d records", n)
	}
	if n := f.server.Calls("PutItem"); n != 4 {
		t.Errorf("%d calls", n)
	}
}

// Late calls are executed in the order of their times, not of their arrival. Controls see them too.
func TestLateCallsInOrder(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "NEW_IMAGE", "")
	f.server.Fail(dynamodbtest.Fault{Operation: "PutItem", Late: 2 * time.Minute})
	f.wantCut(f.putValue("Orders", "a", "second"))
	f.server.Fail(dynamodbtest.Fault{Operation: "PutItem", Late: time.Minute})
	f.wantCut(f.putValue("Orders", "a", "first"))
	f.clock.Advance(time.Hour)
	shards, err := f.server.Shards("Orders")
	f.noError(err)
	if n := shards[0].Records; n != 2 {
		t.Errorf("%d records", n)
	}
	if v := f.value("a"); v != "second" {
		t.Errorf("the last value is %q", v)
	}
}

// Without a table, the fault also applies to transactions and batches. It does not apply to
// operations on tables, and a count of 0 applies to nothing.
func TestStraggleOnAnyTable(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.server.Straggle("", 0, time.Minute)
	f.noError(f.putValue("Orders", "z", "1"))
	f.server.Straggle("", 4, time.Minute)
	f.createTable("Other", "", "")
	bodies := map[string]string{
		"TransactWriteItems": `{"TransactItems":[{"Put":{"TableName":"Orders","Item":{"pk":{"S":"a"},"v":{"S":"1"}}}}]}`,
		"BatchWriteItem":     `{"RequestItems":{"Orders":[{"PutRequest":{"Item":{"pk":{"S":"b"},"v":{"S":"1"}}}}],"Other":[{"DeleteRequest":{"Key":{"pk":{"S":"b"}}}}]}}`,
		"UpdateItem":         `{"TableName":"Orders","Key":{"pk":{"S":"c"}},"AttributeUpdates":{"v":{"Action":"PUT","Value":{"S":"1"}}}}`,
		"DeleteItem":         `{"TableName":"Orders","Key":{"pk":{"S":"z"}}}`,
	}
	for operation, body := range bodies {
		req, err := http.NewRequest(http.MethodPost, f.url, strings.NewReader(body))
		f.noError(err)
		req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("%s has the answer %s", operation, resp.Status)
		}
	}
	if f.value("z") != "1" {
		t.Error("the deletion is early")
	}
	f.clock.Advance(time.Minute)
	if got := f.value("a") + f.value("b") + f.value("c") + f.value("z"); got != "111" {
		t.Errorf("%q", got)
	}
}

// A late call that fails changes nothing, and the server continues.
func TestLateCallFails(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.server.Straggle("Orders", 1, time.Minute)
	_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: attrs{"pk": str("a")}, ConditionExpression: aws.String("attribute_exists(pk)")})
	f.wantCut(err)
	f.server.Straggle("", 1, time.Minute)
	f.wantCut(f.putValue("Orders", "b", "1"))
	_, err = f.db.DeleteTable(f.ctx, &dynamodb.DeleteTableInput{TableName: aws.String("Orders")})
	f.noError(err)
	f.createTable("Orders", "", "")
	f.clock.Advance(time.Minute)
	if a, b := f.get("Orders", attrs{"pk": str("a")}), f.value("b"); a != nil || b != "1" {
		t.Errorf("a %v, b %q", a, b)
	}
}
