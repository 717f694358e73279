package dynamodbtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// An update that only removes does not create a missing item, and makes no stream record.
func TestRemovalsFromAMissingItem(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", types.StreamViewTypeNewAndOldImages, "")
	const key = `"TableName":"Orders","Key":{"pk":{"S":"a"}}`
	const set = `"ExpressionAttributeValues":{":s":{"SS":["x"]}}`
	for _, c := range []struct{ operation, body string }{
		{"UpdateItem", key + `,"UpdateExpression":"REMOVE a"`},
		{"UpdateItem", key + `,"UpdateExpression":"REMOVE x.y, l[0], m.n[3].o"`}, // missing paths
		{"UpdateItem", key + `,"UpdateExpression":"DELETE s :s",` + set},
		{"UpdateItem", key + `,"UpdateExpression":"REMOVE a DELETE s :s","ReturnValues":"ALL_NEW",` + set},
		{"UpdateItem", key + `,"UpdateExpression":"REMOVE a","ConditionExpression":"attribute_not_exists(pk)"`},
		{"UpdateItem", key + `,"AttributeUpdates":{"a":{"Action":"DELETE"},"s":{"Action":"DELETE","Value":{"SS":["x"]}}}`},
		{"TransactWriteItems", `"TransactItems":[{"Update":{` + key + `,"UpdateExpression":"REMOVE a"}}]`},
		{"TransactWriteItems", `"TransactItems":[{"Update":{` + key + `,"UpdateExpression":"DELETE s :s",` + set + `}}]`},
	} {
		if resp, body := f.post("DynamoDB_20120810."+c.operation, "{"+c.body+"}"); resp.StatusCode != 200 || body != "{}" {
			t.Errorf("%s %s gives %d %s", c.operation, c.body, resp.StatusCode, body)
		}
		if it := f.get("Orders", attrs{"pk": str("a")}); it != nil {
			t.Fatalf("%s %s makes an item: %v", c.operation, c.body, names(it))
		}
	}
	arn := f.streamARN("Orders")
	if n := len(f.records(arn, f.onlyShard(arn))); n != 0 {
		t.Errorf("%d records", n)
	}
	// With a SET, or without any clause, the item is created.
	f.noErrorOf("UpdateItem", key+`,"UpdateExpression":"SET b = :b REMOVE a","ExpressionAttributeValues":{":b":{"N":"1"}}`)
	f.noErrorOf("UpdateItem", `"TableName":"Orders","Key":{"pk":{"S":"b"}},"AttributeUpdates":{}`)
	if n := len(f.records(arn, f.onlyShard(arn))); n != 2 {
		t.Errorf("%d records of items that were made", n)
	}
	// In an existing item, a missing path is an error.
	if _, body := f.post("DynamoDB_20120810.UpdateItem", "{"+key+`,"UpdateExpression":"REMOVE x.y"}`); !strings.Contains(body, "document path provided in the update expression is invalid") {
		t.Error(body)
	}
}

// noErrorOf sends a request, an object without its braces, that must succeed. It returns the
// answer.
func (f *fixture) noErrorOf(operation, body string) string {
	f.t.Helper()
	resp, answer := f.post("DynamoDB_20120810."+operation, "{"+body+"}")
	if resp.StatusCode != 200 {
		f.t.Fatalf("%s %s gives %s", operation, body, answer)
	}
	return answer
}

// A read of a key that does not match the schema cancels the transaction.
func TestTransactGetItemsWithoutAKey(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	get := func(key string) string { return `{"Get":{"TableName":"Orders","Key":` + key + `}}` }
	for _, key := range []string{`{}`, `{"pk":{"N":"1"}}`, `{"other":{"S":"a"}}`} {
		resp, body := f.post("DynamoDB_20120810.TransactGetItems", `{"TransactItems":[`+get(`{"pk":{"S":"a"}}`)+`,`+get(key)+`]}`)
		for _, want := range []string{
			"#TransactionCanceledException", "specific reasons [None, ValidationError]",
			`"CancellationReasons":[{"Code":"None"},{"Code":"ValidationError","Message":"The provided key element does not match the schema"}]`,
		} {
			if resp.StatusCode != 400 || !strings.Contains(body, want) {
				t.Errorf("%s gives %s, want %s", key, body, want)
			}
		}
	}
	if _, body := f.post("DynamoDB_20120810.TransactGetItems", `{"TransactItems":[`+get(`{"pk":{"S":""}}`)+`]}`); !strings.Contains(body, "#ValidationException") {
		t.Errorf("an empty value gives %s", body)
	}
}

// A transaction that was already executed costs reads, two for each item as in transactions.
func TestCapacityOfARepeatedToken(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	request := fmt.Sprintf(`"TransactItems":[{"Put":{"TableName":"Orders","Item":{"pk":{"S":"a"},"v":{"S":"%s"}}}},{"Delete":{"TableName":"Orders","Key":{"pk":{"S":"b"}}}}],`+
		`"ClientRequestToken":"t","ReturnConsumedCapacity":"TOTAL"`, strings.Repeat("x", 5000))
	if answer := f.noErrorOf("TransactWriteItems", request); !strings.Contains(answer, `"CapacityUnits":12,"WriteCapacityUnits":12}`) {
		t.Errorf("the first gives %s", answer)
	}
	if answer := f.noErrorOf("TransactWriteItems", request); !strings.Contains(answer, `"CapacityUnits":6,"ReadCapacityUnits":6}`) {
		t.Errorf("the repeated one gives %s", answer)
	}
}
