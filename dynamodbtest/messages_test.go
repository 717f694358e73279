package dynamodbtest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// Messages that programs and people match word for word.
func TestMessages(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	f.createTable("Simple", "", "")
	for _, c := range []struct{ operation, body, want string }{
		{"GetItem", `{"TableName":"Absent","Key":{"pk":{"S":"a"}}}`, "Requested resource not found"},
		{"DescribeTable", `{"TableName":"Absent"}`, "Requested resource not found: Table: Absent not found"},
		{"PutItem", `{"Item":{"pk":{"S":"a"}}}`, "1 validation error detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null"},
		{"PutItem", `{"TableName":"","Item":{}}`, "1 validation error detected: Value '' at 'tableName' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"PutItem", `{"TableName":"a b","Item":{}}`, "1 validation error detected: Value 'a b' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"},
		{"PutItem", `{"TableName":"Simple","Item":{"pk":{"S":"a"}},"ReturnValues":"X","ReturnConsumedCapacity":"Y"}`, "2 validation errors detected: Value 'Y' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]; Value 'X' at 'returnValues' failed to satisfy constraint: Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"},
		{"PutItem", `{"TableName":"Simple","Item":{"pk":{"S":"a"}},"ReturnValues":"ALL_NEW"}`, "ReturnValues can only be ALL_OLD or NONE"},
		{"PutItem", `{"TableName":"Simple","Item":{"pk":{"N":"1"}}}`, "One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N"},
		{"BatchWriteItem", `{"RequestItems":{}}`, "The requestItems parameter is required for BatchWriteItem"},
		{"BatchWriteItem", `{"RequestItems":{"Simple":[{"PutRequest":{"Item":{"pk":{"N":"5"}}}}]}}`, "The provided key element does not match the schema"},
		{"BatchWriteItem", `{"RequestItems":{"Simple":[` + strings.TrimSuffix(strings.Repeat(`{"DeleteRequest":{"Key":{"pk":{"S":"a"}}}},`, 26), ",") + `]}}`, "1 validation error detected: Value '{Simple=[26 requests]}' at 'requestItems' failed to satisfy constraint: Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]"},
		{"BatchGetItem", `{"RequestItems":{}}`, "The requestItems parameter is required for BatchGetItem"},
		{"TransactWriteItems", `{"TransactItems":[]}`, "1 validation error detected: Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{"UpdateItem", `{"TableName":"Simple","Key":{"pk":{"S":"a"}},"UpdateExpression":"INVALID SYNTAX HERE"}`, `Invalid UpdateExpression: Syntax error; token: "INVALID", near: "INVALID SYNTAX"`},
		{"GetItem", `{"TableName":"Simple","Key":{"pk":{"S":"a"}},"ProjectionExpression":"!!! INVALID !!!"}`, `Invalid ProjectionExpression: Syntax error; token: "!", near: "!!"`},
		{"UpdateItem", `{"TableName":"Simple","Key":{"pk":{"S":"a"}},"UpdateExpression":"SET event-count = :v"}`, `Invalid UpdateExpression: Syntax error; token: "-", near: "event-count"`},
		{"UpdateItem", `{"TableName":"Orders","Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"UpdateExpression":"SET customer = :v","ExpressionAttributeValues":{":v":{"S":""}}}`, "One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty string value."},
		{"Query", `{"TableName":"Simple","KeyConditionExpression":"pk = :p","Limit":0}`, "1 validation error detected: Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"Scan", `{"TableName":"Simple","Limit":0}`, "1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		{"CreateTable", `{"KeySchema":[]}`, "The parameter 'TableName' is required but was not present in the request"},
		{"CreateTable", `{"TableName":"New","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"INVALID"}]}`, "1 validation error detected: Value 'INVALID' at 'keySchema.1.member.keyType' failed to satisfy constraint: Member must satisfy enum value set: [HASH, RANGE]"},
		{"TagResource", `{"ResourceArn":"nonsense","Tags":[{"Key":"a","Value":"b"}]}`, "Invalid TableArn: Invalid ResourceArn provided as input nonsense"},
	} {
		_, body := f.post("DynamoDB_20120810."+c.operation, c.body)
		var got struct{ Message string }
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Message != c.want {
			t.Errorf("%s %.60s says\n%s, want\n%s", c.operation, c.body, got.Message, c.want)
		}
	}
}

// Keys of a wrong type cancel a transaction, and empty keys reject it as a whole.
func TestBadKeysInTransactions(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	for action, want := range map[string]string{
		`{"Put":{"TableName":"Orders","Item":{"pk":{"N":"1"},"sk":{"S":"b"}}}}`:                                                                                       `"Code":"ValidationError","Message":"One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N"`,
		`{"Put":{"TableName":"Orders","Item":{"pk":{"S":"a"},"sk":{"S":"b"},"customer":{"N":"1"}}}}`:                                                                  `"Code":"ValidationError","Message":"One or more parameter values were invalid: Type mismatch for Index Key customer`,
		`{"Delete":{"TableName":"Orders","Key":{"pk":{"N":"1"},"sk":{"S":"b"}}}}`:                                                                                     `"Code":"ValidationError","Message":"The provided key element does not match the schema"`,
		`{"Update":{"TableName":"Orders","Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"UpdateExpression":"SET customer = :v","ExpressionAttributeValues":{":v":{"N":"1"}}}}`: `"Code":"ValidationError","Message":"One or more parameter values were invalid: Type mismatch for Index Key customer`,
		`{"Put":{"TableName":"Orders","Item":{"pk":{"S":""},"sk":{"S":"b"}}}}`:                                                                                        `#ValidationException","message":"One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"`,
		`{"Update":{"TableName":"Orders","Key":{"pk":{"S":"a"},"sk":{"S":"b"}},"UpdateExpression":"SET customer = :v","ExpressionAttributeValues":{":v":{"S":""}}}}`:  `#ValidationException","message":"One or more parameter values are not valid. The update expression attempted to update a secondary index key`,
	} {
		if resp, body := f.post("DynamoDB_20120810.TransactWriteItems", `{"TransactItems":[`+action+`]}`); resp.StatusCode != 400 || !strings.Contains(body, want) {
			t.Errorf("%s gives %s, want %s", action, body, want)
		}
	}
}

func TestTags(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	const arn = `"ResourceArn":"arn:aws:dynamodb:us-east-1:000000000000:table/Orders"`
	for _, c := range []struct{ operation, body, want string }{
		{"TagResource", `{` + arn + `,"Tags":[{"Key":"a","Value":"1"},{"Key":"b","Value":"2"}]}`, "{}"},
		{"TagResource", `{` + arn + `,"Tags":[{"Key":"a","Value":"3"}]}`, "{}"},
		{"ListTagsOfResource", `{` + arn + `}`, `{"Tags":[{"Key":"a","Value":"3"},{"Key":"b","Value":"2"}]}`},
		{"UntagResource", `{` + arn + `,"TagKeys":["b","c"]}`, "{}"},
		{"ListTagsOfResource", `{` + arn + `}`, `{"Tags":[{"Key":"a","Value":"3"}]}`},
		{"ListTagsOfResource", `{"ResourceArn":"arn:aws:dynamodb:us-east-1:000000000000:table/Absent"}`, "AccessDeniedException"},
		{"DescribeEndpoints", `{}`, `"Address":"dynamodb.us-east-1.amazonaws.com"`},
	} {
		if _, body := f.post("DynamoDB_20120810."+c.operation, c.body); !strings.Contains(body, c.want) {
			t.Errorf("%s gives %s, want %s", c.operation, body, c.want)
		}
	}
}

func TestTableConfiguration(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	create := `{"TableName":"Orders","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"BillingMode":"PAY_PER_REQUEST",` +
		`"OnDemandThroughput":{"MaxReadRequestUnits":10,"MaxWriteRequestUnits":5},"SSESpecification":{"Enabled":true},"TableClass":"STANDARD_INFREQUENT_ACCESS"}`
	if resp, body := f.post("DynamoDB_20120810.CreateTable", create); resp.StatusCode != 200 {
		t.Fatal(body)
	}
	_, body := f.post("DynamoDB_20120810.UpdateTable", `{"TableName":"Orders","OnDemandThroughput":{"MaxReadRequestUnits":20,"MaxWriteRequestUnits":15}}`)
	for _, want := range []string{`"OnDemandThroughput":{"MaxReadRequestUnits":20,"MaxWriteRequestUnits":15}`, `"SSEDescription":{"Status":"ENABLED","SSEType":"KMS","KMSMasterKeyArn":"arn:aws:kms:`, `"TableClass":"STANDARD_INFREQUENT_ACCESS"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
}

// Transactions report the kind of the units; single requests do not.
func TestTransactionsTellReadsAndWrites(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	for operation, c := range map[string][2]string{
		"TransactWriteItems": {`{"TransactItems":[{"Put":{"TableName":"Orders","Item":{"pk":{"S":"a"}}}}],"ReturnConsumedCapacity":"TOTAL"}`, `"CapacityUnits":2,"WriteCapacityUnits":2}`},
		"TransactGetItems":   {`{"TransactItems":[{"Get":{"TableName":"Orders","Key":{"pk":{"S":"a"}}}}],"ReturnConsumedCapacity":"INDEXES"}`, `"Table":{"CapacityUnits":2,"ReadCapacityUnits":2}`},
		"GetItem":            {`{"TableName":"Orders","Key":{"pk":{"S":"a"}},"ReturnConsumedCapacity":"INDEXES"}`, `"Table":{"CapacityUnits":0.5}`},
	} {
		if _, body := f.post("DynamoDB_20120810."+operation, c[0]); !strings.Contains(body, c[1]) {
			t.Errorf("%s gives %s, want %s", operation, body, c[1])
		}
	}
}

func TestCollectionMetricsOfManyItems(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	f.createTable("Simple", "", "")
	const want = `"ItemCollectionMetrics":{"Orders":[{"ItemCollectionKey":{"pk":{"S":"a"}},"SizeEstimateRangeGB":[0,1]},{"ItemCollectionKey":{"pk":{"S":"b"}},"SizeEstimateRangeGB":[0,1]}]}`
	put := func(open, pk, sk string) string {
		return open + `"Item":{"pk":{"S":"` + pk + `"},"sk":{"S":"` + sk + `"}}}}`
	}
	for operation, body := range map[string]string{
		"BatchWriteItem": `{"RequestItems":{"Orders":[` + put(`{"PutRequest":{`, "a", "1") + `,` + put(`{"PutRequest":{`, "a", "2") + `,` + put(`{"PutRequest":{`, "b", "1") +
			`],"Simple":[{"PutRequest":{"Item":{"pk":{"S":"x"}}}}]},"ReturnItemCollectionMetrics":"SIZE"}`,
		"TransactWriteItems": `{"TransactItems":[` + put(`{"Put":{"TableName":"Orders",`, "a", "1") + `,` + put(`{"Put":{"TableName":"Orders",`, "b", "2") + `],"ReturnItemCollectionMetrics":"SIZE"}`,
	} {
		if _, got := f.post("DynamoDB_20120810."+operation, body); !strings.Contains(got, want) {
			t.Errorf("%s gives %s, want %s", operation, got, want)
		}
	}
}

// All values outside their enumerations are reported together.
func TestBadEnumerationsAreReportedTogether(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Simple", "", "")
	const capacity = "Value 'X' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
	for _, c := range []struct {
		operation, body string
		count           string
		members         []string
	}{
		{"Scan", `"TableName":"Simple","Select":"X","ReturnConsumedCapacity":"X","ConditionalOperator":"X"`, "3", []string{capacity, "'select'", "'conditionalOperator'"}},
		{"Query", `"TableName":"Simple","Select":"X","ReturnConsumedCapacity":"X"`, "2", []string{capacity, "'select'"}},
		{"GetItem", `"TableName":"Simple","Key":{"pk":{"S":"a"}},"ReturnConsumedCapacity":"X"`, "1", []string{capacity}},
		{"DeleteItem", `"TableName":"Simple","Key":{"pk":{"S":"a"}},"ReturnConsumedCapacity":"X","ReturnValues":"X","ReturnItemCollectionMetrics":"X"`, "3",
			[]string{capacity, "'returnItemCollectionMetrics'", "'returnValues'"}},
		{"BatchWriteItem", `"RequestItems":{"Simple":[{"DeleteRequest":{"Key":{"pk":{"S":"a"}}}}]},"ReturnConsumedCapacity":"X","ReturnItemCollectionMetrics":"X"`, "2", []string{capacity, "'returnItemCollectionMetrics'"}},
		{"BatchGetItem", `"RequestItems":{"Simple":{"Keys":[{"pk":{"S":"a"}}]}},"ReturnConsumedCapacity":"X"`, "1", []string{capacity}},
		{"TransactGetItems", `"TransactItems":[{"Get":{"TableName":"Simple","Key":{"pk":{"S":"a"}}}}],"ReturnConsumedCapacity":"X"`, "1", []string{capacity}},
		{"TransactWriteItems", `"TransactItems":[{"Delete":{"TableName":"Simple","Key":{"pk":{"S":"a"}},"ReturnValuesOnConditionCheckFailure":"X"}}],"ReturnConsumedCapacity":"X","ReturnItemCollectionMetrics":"X"`, "3",
			[]string{capacity, "'returnItemCollectionMetrics'", "'transactItems.1.member.delete.returnValuesOnConditionCheckFailure'"}},
		{"CreateTable", `"TableName":"New","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"X"}],"KeySchema":[{"AttributeName":"pk","KeyType":"X"}],"BillingMode":"X","TableClass":"X",` +
			`"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"X"},"GlobalSecondaryIndexes":[{"IndexName":"byX","KeySchema":[{"AttributeName":"pk","KeyType":"X"}],"Projection":{"ProjectionType":"X"}}]`, "7",
			[]string{"'attributeDefinitions.1.member.attributeType'", "'keySchema.1.member.keyType'", "'globalSecondaryIndexes.1.member.keySchema.1.member.keyType'", "'globalSecondaryIndexes.1.member.projection.projectionType'",
				"'billingMode'", "'tableClass'", "'streamSpecification.streamViewType'"}},
		{"UpdateTable", `"TableName":"Simple","BillingMode":"X","TableClass":"X"`, "2", []string{"'billingMode'", "'tableClass'"}},
	} {
		_, body := f.post("DynamoDB_20120810."+c.operation, "{"+c.body+"}")
		var got struct{ Message string }
		if err := json.Unmarshal([]byte(body), &got); err != nil || !strings.HasPrefix(got.Message, c.count+" validation error") || strings.Count(got.Message, "enum value set") != len(c.members) {
			t.Errorf("%s says %s, want %s errors", c.operation, got.Message, c.count)
		}
		for _, member := range c.members {
			if !strings.Contains(got.Message, member) {
				t.Errorf("%s says %s, not %s", c.operation, got.Message, member)
			}
		}
	}
}
