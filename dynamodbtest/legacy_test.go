package dynamodbtest_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

func test(operator types.ComparisonOperator, operands ...types.AttributeValue) types.Condition {
	return types.Condition{ComparisonOperator: operator, AttributeValueList: operands}
}

func TestLegacyFilters(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "S")
	for _, it := range []attrs{
		{"pk": str("p"), "sk": str("1"), "n": num("1"), "s": str("hello world")},
		{"pk": str("p"), "sk": str("2"), "n": num("2"), "ss": &types.AttributeValueMemberSS{Value: []string{"a", "b"}}},
		{"pk": str("p"), "sk": str("3"), "n": num("30"), "s": str("bye")},
	} {
		f.put("Orders", it)
	}
	for _, c := range []struct {
		name   string
		filter map[string]types.Condition
		either types.ConditionalOperator
		want   string // sort keys
	}{
		{"EQ", map[string]types.Condition{"n": test("EQ", num("2.0"))}, "", "2"},
		{"NE", map[string]types.Condition{"s": test("NE", str("bye"))}, "", "1 2"},
		{"LE", map[string]types.Condition{"n": test("LE", num("2"))}, "", "1 2"},
		{"GT", map[string]types.Condition{"n": test("GT", num("2"))}, "", "3"},
		{"BETWEEN", map[string]types.Condition{"n": test("BETWEEN", num("2"), num("100"))}, "", "2 3"},
		{"IN", map[string]types.Condition{"n": test("IN", num("1"), num("30"))}, "", "1 3"},
		{"NULL", map[string]types.Condition{"s": test("NULL")}, "", "2"},
		{"NOT_NULL", map[string]types.Condition{"s": test("NOT_NULL")}, "", "1 3"},
		{"CONTAINS of text", map[string]types.Condition{"s": test("CONTAINS", str("wor"))}, "", "1"},
		{"CONTAINS of a set", map[string]types.Condition{"ss": test("CONTAINS", str("b"))}, "", "2"},
		{"NOT_CONTAINS", map[string]types.Condition{"s": test("NOT_CONTAINS", str("wor"))}, "", "3"},
		{"BEGINS_WITH", map[string]types.Condition{"s": test("BEGINS_WITH", str("by"))}, "", "3"},
		{"AND", map[string]types.Condition{"s": test("NOT_NULL"), "n": test("LT", num("5"))}, "", "1"},
		{"OR", map[string]types.Condition{"s": test("EQ", str("bye")), "n": test("LT", num("2"))}, "OR", "1 3"},
	} {
		in := dynamodb.QueryInput{KeyConditions: map[string]types.Condition{"pk": test("EQ", str("p"))}, QueryFilter: c.filter, ConditionalOperator: c.either, AttributesToGet: []string{"sk"}}
		queried := f.query(in)
		var got []string
		for _, it := range queried.Items {
			if names(it) != "sk" {
				t.Errorf("AttributesToGet gives %s", names(it))
			}
			got = append(got, it["sk"].(*types.AttributeValueMemberS).Value)
		}
		if strings.Join(got, " ") != c.want || queried.ScannedCount != 3 {
			t.Errorf("%s gives %v of %d, want %s", c.name, got, queried.ScannedCount, c.want)
		}
		scanned, err := f.db.Scan(f.ctx, &dynamodb.ScanInput{TableName: aws.String("Orders"), ScanFilter: c.filter, ConditionalOperator: c.either})
		f.noError(err)
		if scanned.Count != queried.Count {
			t.Errorf("%s: a scan finds %d, a query %d", c.name, scanned.Count, queried.Count)
		}
	}
	for sortKeys, condition := range map[string]types.Condition{"2 3": test("GE", str("2")), "1": test("BEGINS_WITH", str("1")), "1 2": test("BETWEEN", str("0"), str("2"))} {
		out := f.query(dynamodb.QueryInput{KeyConditions: map[string]types.Condition{"pk": test("EQ", str("p")), "sk": condition}})
		if int(out.Count) != len(strings.Fields(sortKeys)) {
			t.Errorf("%v finds %d, want %s", condition, out.Count, sortKeys)
		}
	}
}

func TestExpected(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.put("Orders", attrs{"pk": str("a"), "n": num("1"), "s": str("x")})
	for _, c := range []struct {
		name     string
		expected map[string]types.ExpectedAttributeValue
		either   types.ConditionalOperator
		holds    bool
	}{
		{"value", map[string]types.ExpectedAttributeValue{"n": {Value: num("1")}}, "", true},
		{"another value", map[string]types.ExpectedAttributeValue{"n": {Exists: aws.Bool(true), Value: num("2")}}, "", false},
		{"absent", map[string]types.ExpectedAttributeValue{"q": {Exists: aws.Bool(false)}}, "", true},
		{"present", map[string]types.ExpectedAttributeValue{"n": {Exists: aws.Bool(false)}}, "", false},
		{"operator", map[string]types.ExpectedAttributeValue{"n": {ComparisonOperator: "GE", AttributeValueList: []types.AttributeValue{num("1")}}}, "", true},
		{"operator and value", map[string]types.ExpectedAttributeValue{"n": {ComparisonOperator: "LT", Value: num("1")}}, "", false},
		{"both", map[string]types.ExpectedAttributeValue{"n": {Value: num("1")}, "s": {Value: str("y")}}, "", false},
		{"either", map[string]types.ExpectedAttributeValue{"n": {Value: num("1")}, "s": {Value: str("y")}}, "OR", true},
	} {
		_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: attrs{"pk": str("a"), "n": num("1"), "s": str("x")}, Expected: c.expected, ConditionalOperator: c.either})
		if c.holds {
			f.noError(err)
		} else {
			f.wantCode(err, "ConditionalCheckFailedException")
		}
	}
	_, err := f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: aws.String("Orders"), Key: attrs{"pk": str("a")}, Expected: map[string]types.ExpectedAttributeValue{"s": {Value: str("x")}}})
	f.noError(err)
}

func TestAttributeUpdates(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.put("Orders", attrs{"pk": str("a"), "n": num("1"), "ss": &types.AttributeValueMemberSS{Value: []string{"a", "b"}}, "gone": str("x")})
	out, err := f.db.UpdateItem(f.ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String("Orders"), Key: attrs{"pk": str("a")}, ReturnValues: types.ReturnValueAllNew,
		AttributeUpdates: map[string]types.AttributeValueUpdate{
			"n": {Action: "ADD", Value: num("4")}, "ss": {Action: "DELETE", Value: &types.AttributeValueMemberSS{Value: []string{"a"}}}, "gone": {Action: "DELETE"}, "new": {Value: str("y")},
		},
	})
	f.noError(err)
	if names(out.Attributes) != "n new pk ss" || out.Attributes["n"].(*types.AttributeValueMemberN).Value != "5" || len(out.Attributes["ss"].(*types.AttributeValueMemberSS).Value) != 1 {
		t.Errorf("%+v", out.Attributes)
	}
}

func TestLegacyParametersRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "S")
	const mixed = "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: "
	for _, c := range []struct{ operation, body, want string }{
		{"Query", `"KeyConditions":{"pk":{"ComparisonOperator":"EQ"}}`, "Invalid number of argument(s) for the EQ ComparisonOperator"},
		{"Query", `"KeyConditions":{"pk":{"ComparisonOperator":"NE","AttributeValueList":[{"S":"a"}]}}`, "not an indexable operation"},
		{"Query", `"KeyConditions":{"sk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]}}`, "Query condition missed key schema element: pk"},
		{"Query", `"KeyConditions":{"pk":{"ComparisonOperator":"LIKE","AttributeValueList":[{"S":"a"}]}}`, "comparisonOperator"},
		{"Query", `"KeyConditions":{"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"a"}]}},"QueryFilter":{"sk":{"ComparisonOperator":"NULL"}}`, "QueryFilter can only contain non-primary key attributes"},
		{"Query", `"KeyConditions":{},"KeyConditionExpression":"pk = :p"`, mixed + "{KeyConditions} Expression parameters: {KeyConditionExpression}"},
		{"Scan", `"ScanFilter":{"a":{"ComparisonOperator":"LT","AttributeValueList":[{"BOOL":true}]}}`, "ComparisonOperator LT is not valid for BOOL AttributeValue type"},
		{"Scan", `"ScanFilter":{"a":{"ComparisonOperator":"BETWEEN","AttributeValueList":[{"N":"2"},{"N":"1"}]}}`, "lower bound is greater"},
		{"Scan", `"ConditionalOperator":"OR"`, "cannot be used without Filter or Expected"},
		{"Scan", `"ScanFilter":{"a":{"ComparisonOperator":"NULL"}},"FilterExpression":"a = :b"`, mixed + "{ScanFilter} Expression parameters: {FilterExpression}"},
		{"PutItem", `"Item":{"pk":{"S":"a"},"sk":{"S":"b"}},"Expected":{"pk":{"Exists":true}}`, "Value must be provided when Exists is true"},
		{"PutItem", `"Item":{"pk":{"S":"a"},"sk":{"S":"b"}},"Expected":{"pk":{"Exists":false}},"ConditionExpression":"attribute_exists(pk)"`, mixed + "{Expected} Expression parameters: {ConditionExpression}"},
		{"UpdateItem", `"Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"AttributeUpdates":{"a":{"Action":"ADD","Value":{"S":"x"}}}`, "ADD action is not supported for the type S"},
		{"UpdateItem", `"Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"AttributeUpdates":{"a":{"Action":"PUT"}}`, "Only DELETE action is allowed"},
		{"UpdateItem", `"Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"AttributeUpdates":{"pk":{"Value":{"S":"x"}}}`, "Cannot update attribute pk"},
		{"UpdateItem", `"Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"AttributeUpdates":{},"UpdateExpression":"REMOVE a"`, mixed + "{AttributeUpdates} Expression parameters: {UpdateExpression}"},
		{"GetItem", `"Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"AttributesToGet":["a"],"ProjectionExpression":"a"`, mixed + "{AttributesToGet} Expression parameters: {ProjectionExpression}"},
	} {
		resp, body := f.post("DynamoDB_20120810."+c.operation, `{"TableName":"Orders",`+c.body+`}`)
		if resp.StatusCode != 400 || !strings.Contains(body, "ValidationException") || !strings.Contains(body, c.want) {
			t.Errorf("%s %s gives %s, want %q", c.operation, c.body, body, c.want)
		}
	}
}

// KeyConditions may be combined with a filter and a projection that are expressions; other old
// parameters may not.
func TestKeyConditionsWithExpressions(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "S")
	for _, n := range []string{"1", "2", "3"} {
		f.put("Orders", attrs{"pk": str("p"), "sk": str(n), "n": num(n)})
	}
	const key = `"TableName":"Orders","KeyConditions":{"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"p"}]}}`
	const filter = `,"FilterExpression":"n > :n","ExpressionAttributeValues":{":n":{"N":"1"}}`
	for more, want := range map[string]string{
		filter:                                 `"Count":2,"ScannedCount":3`,
		`,"ProjectionExpression":"n"`:          `{"Items":[{"n":{"N":"1"}},{"n":{"N":"2"}},{"n":{"N":"3"}}]`,
		`,"ProjectionExpression":"n"` + filter: `{"Items":[{"n":{"N":"2"}},{"n":{"N":"3"}}]`,
	} {
		if answer := f.noErrorOf("Query", key+more); !strings.Contains(answer, want) {
			t.Errorf("%s gives %s, want %s", more, answer, want)
		}
	}
	for more, want := range map[string]string{
		`,"AttributesToGet":["n"]` + filter:                                             "Non-expression parameters: {AttributesToGet} Expression parameters: {FilterExpression}",
		`,"QueryFilter":{"n":{"ComparisonOperator":"NULL"}},"ProjectionExpression":"n"`: "Non-expression parameters: {QueryFilter} Expression parameters: {ProjectionExpression}",
		`,"KeyConditionExpression":"pk = :n"` + filter:                                  "Non-expression parameters: {KeyConditions} Expression parameters: {FilterExpression, KeyConditionExpression}",
	} {
		if _, answer := f.post("DynamoDB_20120810.Query", "{"+key+more+"}"); !strings.Contains(answer, want) {
			t.Errorf("%s gives %s, want %s", more, answer, want)
		}
	}
}
