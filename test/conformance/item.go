package conformance

import (
	"fmt"
	"strings"
)

// Pages of the AWS documentation: below the developer guide,
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/<page>.html, and the API reference,
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/<page>.html, whose pages begin with API_.
const (
	dataTypes   = "HowItWorks.NamingRulesDataTypes"
	quotas      = "Constraints" // "Quotas in Amazon DynamoDB"
	attributes  = "API_AttributeValue"
	putItem     = "API_PutItem"
	getItem     = "API_GetItem"
	deleteItem  = "API_DeleteItem"
	updateItem  = "API_UpdateItem"
	updates     = "Expressions.UpdateExpressions"
	conditions  = "Expressions.OperatorsAndFunctions"
	projections = "Expressions.ProjectionExpressions"
	names       = "Expressions.ExpressionAttributeNames"
	capacity    = "capacity-unit-calculator" // "DynamoDB read and write operations"
	wrongInput  = "Programming.Errors"       // ValidationException: "Varies depending upon the specific error(s) encountered"
)

// partition is the partition key of a fixture's tables, with the case's value.
const partition = `"pk":{"S":"$k"}`

// with joins the members of an object and omits empty ones.
func with(members ...string) string {
	var out []string
	for _, m := range members {
		if m != "" {
			out = append(out, m)
		}
	}
	return strings.Join(out, ",")
}

// put returns a PutItem of an item in the case's partition, with more parameters.
func put(table, item string, more ...string) string {
	return with(`"TableName":"$`+table+`","Item":{`+with(partition, item)+`}`, with(more...))
}

// on returns a request for the item of the case's partition with this sort key, which may be empty.
func on(table, sort string, more ...string) string {
	return with(`"TableName":"$`+table+`","Key":{`+with(partition, sort)+`}`, with(more...))
}

// update returns an UpdateItem of an item in the table "simple".
func update(expression string, more ...string) string {
	return on("simple", "", append([]string{fmt.Sprintf(`"UpdateExpression":%q`, expression)}, more...)...)
}

// values returns ExpressionAttributeValues: members of an object.
func values(members string) string { return `"ExpressionAttributeValues":{` + members + `}` }

// called returns ExpressionAttributeNames: members of an object.
func called(members string) string { return `"ExpressionAttributeNames":{` + members + `}` }

// condition returns a ConditionExpression.
func condition(expression string) string { return fmt.Sprintf(`"ConditionExpression":%q`, expression) }

// consistent makes a read see all earlier writes.
const consistent = `"ConsistentRead":true`

// given puts an item into the table "simple", and reports only a failure.
func (c *run) given(item string) { c.is("PutItem", put("simple", item), "") }

// stored checks that the table "simple" holds this item.
func (c *run) stored(item string) {
	c.is("GetItem", on("simple", "", consistent), `"Item":{`+with(partition, item)+`}`)
}

// absent checks that the table "simple" holds no item.
func (c *run) absent() { c.is("GetItem", on("simple", "", consistent), "") }

const (
	validation = "ValidationException"
	failed     = "ConditionalCheckFailedException"
	notFound   = "ResourceNotFoundException"
)

var itemCases = []Case{
	{"put/a new item", putItem, func(c *run) {
		c.is("PutItem", put("simple", `"a":{"N":"1"}`), "")
		c.stored(`"a":{"N":"1"}`)
	}},
	{"put/replaces the whole item", putItem, func(c *run) {
		c.given(`"a":{"N":"1"},"b":{"S":"x"}`)
		c.given(`"c":{"BOOL":false}`)
		c.stored(`"c":{"BOOL":false}`)
	}},
	{"put/ALL_OLD returns the former item", putItem, func(c *run) {
		c.is("PutItem", put("simple", `"a":{"N":"1"}`, `"ReturnValues":"ALL_OLD"`), "")
		c.is("PutItem", put("simple", `"a":{"N":"2"}`, `"ReturnValues":"ALL_OLD"`), `"Attributes":{`+partition+`,"a":{"N":"1"}}`)
	}},
	{"put/ReturnValues other than NONE and ALL_OLD are rejected", putItem, func(c *run) {
		for _, v := range []string{"ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"} {
			c.fails("PutItem", put("simple", "", `"ReturnValues":"`+v+`"`), validation)
		}
		c.absent()
	}},
	{"put/all types are stored", dataTypes, func(c *run) {
		item := `"s":{"S":"é帽🎩\u0001\""},"n":{"N":"-3.5"},"b":{"B":"AP8="},"t":{"BOOL":true},"f":{"BOOL":false},"u":{"NULL":true},
			"ss":{"SS":["b","a"]},"ns":{"NS":["10","9","-1.5"]},"bs":{"BS":["Ag==","AQA="]},
			"l":{"L":[{"S":""},{"L":[]},{"M":{"x":{"N":"1"}}},{"NULL":true}]},"m":{"M":{"":{"S":"no name"},"a.b":{"SS":["x"]},"e":{"M":{}}}}`
		c.given(strings.Replace(item, `"":{"S":"no name"},`, "", 1))
		c.stored(strings.Replace(item, `"":{"S":"no name"},`, "", 1))
	}},
	{"put/empty strings and binaries are stored", attributes, func(c *run) {
		c.given(`"s":{"S":""},"b":{"B":""},"l":{"L":[{"S":""},{"B":""}]},"ss":{"SS":["","a"]}`)
		c.stored(`"s":{"S":""},"b":{"B":""},"l":{"L":[{"S":""},{"B":""}]},"ss":{"SS":["","a"]}`)
	}},
	{"put/an item with only its keys", putItem, func(c *run) {
		c.given("")
		c.stored("")
	}},
	{"put/numbers lose superfluous zeros", dataTypes, func(c *run) {
		for written, read := range map[string]string{
			"0": "0", "-0": "0", "007.50": "7.5", "+1": "1", "1e3": "1000", "12E-3": "0.012", "-1.10": "-1.1", "1.0": "1", ".5": "0.5", "100": "100",
		} {
			c.given(`"n":{"N":"` + written + `"}`)
			c.stored(`"n":{"N":"` + read + `"}`)
		}
	}},
	{"put/numbers of 38 digits are stored exactly", dataTypes, func(c *run) {
		for _, n := range []string{
			"12345678901234567890123456789012345678", "-0.12345678901234567890123456789012345678", "1234567890123456789.0123456789012345678",
		} {
			c.given(`"n":{"N":"` + n + `"},"ns":{"NS":["` + n + `","1"]}`)
			c.stored(`"n":{"N":"` + n + `"},"ns":{"NS":["` + n + `","1"]}`)
		}
	}},
	{"put/the largest and the smallest number are stored", dataTypes, func(c *run) {
		for written, read := range map[string]string{
			"9.9999999999999999999999999999999999999E125": strings.Repeat("9", 38) + strings.Repeat("0", 88),
			"-1E-130": "-0." + strings.Repeat("0", 129) + "1",
		} {
			c.given(`"n":{"N":"` + written + `"}`)
			c.stored(`"n":{"N":"` + read + `"}`)
		}
	}},
	{"put/numbers beyond the limits are rejected", dataTypes, func(c *run) {
		c.fails("PutItem", put("simple", `"n":{"N":"123456789012345678901234567890123456789"}`), validation, "more than 38 significant digits")
		c.fails("PutItem", put("simple", `"n":{"N":"1E126"}`), validation, "magnitude larger than supported range")
		c.fails("PutItem", put("simple", `"n":{"N":"-1E126"}`), validation, "magnitude larger than supported range")
		c.fails("PutItem", put("simple", `"n":{"N":"1E-131"}`), validation, "magnitude smaller than supported range")
	}},
	{"put/invalid numbers are rejected", attributes, func(c *run) {
		for _, n := range []string{"", "abc", "1e", "0x10", "NaN", "Infinity", "1 2", "--1"} {
			c.fails("PutItem", put("simple", `"n":{"N":"`+n+`"}`), validation)
		}
	}},
	{"put/empty sets are rejected", dataTypes, func(c *run) {
		for _, set := range []string{`{"SS":[]}`, `{"NS":[]}`, `{"BS":[]}`, `{"L":[{"SS":[]}]}`} {
			c.fails("PutItem", put("simple", `"s":`+set), validation, "empty")
		}
	}},
	{"put/members of a set must be distinct", dataTypes, func(c *run) {
		for _, set := range []string{`{"SS":["a","b","a"]}`, `{"NS":["1","1.0"]}`, `{"BS":["AA==","AA=="]}`} {
			c.fails("PutItem", put("simple", `"s":`+set), validation, "contains duplicates")
		}
	}},
	{"put/NULL must be true", attributes, func(c *run) {
		c.fails("PutItem", put("simple", `"u":{"NULL":false}`), validation)
	}},
	{"put/a value must have exactly one type", attributes, func(c *run) {
		c.fails("PutItem", put("simple", `"a":{"S":"x","N":"1"}`), validation, "must contain exactly one of the supported datatypes")
		c.fails("PutItem", put("simple", `"a":{}`), validation, "must contain exactly one of the supported datatypes")
	}},
	{"put/binaries must be base64", attributes, func(c *run) {
		c.fails("PutItem", put("simple", `"a":{"B":"*"}`), "SerializationException")
	}},
	{"put/an item without its key is rejected", putItem, func(c *run) {
		c.fails("PutItem", `"TableName":"$simple","Item":{"a":{"N":"1"}}`, validation, "Missing the key pk in the item")
		c.fails("PutItem", put("pair", `"a":{"N":"1"}`), validation, "Missing the key sk in the item")
	}},
	{"put/a key of another type is rejected", putItem, func(c *run) {
		c.fails("PutItem", `"TableName":"$simple","Item":{"pk":{"N":"1"}}`, validation, "Type mismatch for key pk expected: S actual: N")
		c.fails("PutItem", put("numbers", `"sk":{"S":"1"}`), validation, "Type mismatch for key sk expected: N actual: S")
	}},
	{"put/an empty key is rejected", attributes, func(c *run) {
		c.fails("PutItem", `"TableName":"$simple","Item":{"pk":{"S":""}}`, validation, "cannot contain an empty string value. Key: pk")
		c.fails("PutItem", put("bytes", `"sk":{"B":""}`), validation, "cannot contain an empty binary value. Key: sk")
	}},
	{"put/an unknown table is rejected", putItem, func(c *run) {
		c.fails("PutItem", `"TableName":"$no-such-table","Item":{"pk":{"S":"a"}}`, notFound, "Requested resource not found")
	}},
	{"put/a condition can require that the item is absent", putItem, func(c *run) {
		request := put("simple", `"a":{"N":"1"}`, condition("attribute_not_exists(pk)"))
		c.is("PutItem", request, "")
		c.fails("PutItem", request, failed, "The conditional request failed")
	}},
	{"put/a failed condition changes nothing and can show the item", putItem, func(c *run) {
		c.given(`"a":{"N":"1"}`)
		a := c.fails("PutItem", put("simple", `"a":{"N":"2"}`, condition("a > :v"), values(`":v":{"N":"5"}`),
			`"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`), failed)
		if want := c.wanted(`"Item":{` + partition + `,"a":{"N":"1"}}`); a.code == failed {
			if what := mismatch(want, a.document, true); what != "" {
				c.differ("PutItem: %s", what)
			}
		}
		c.stored(`"a":{"N":"1"}`)
	}},
	{"put/capacity", capacity, func(c *run) {
		c.has("PutItem", put("simple", "", `"ReturnConsumedCapacity":"TOTAL"`), `"ConsumedCapacity":{"TableName":"$simple","CapacityUnits":1}`)
		large := `"a":{"S":"` + strings.Repeat("x", 2500) + `"}`
		c.has("PutItem", put("simple", large, `"ReturnConsumedCapacity":"TOTAL"`), `"ConsumedCapacity":{"CapacityUnits":3}`)
		c.has("DeleteItem", on("simple", "", `"ReturnConsumedCapacity":"TOTAL"`), `"ConsumedCapacity":{"CapacityUnits":3}`)
	}},
	{"get/a missing item gives no item", getItem, func(c *run) { c.absent() }},
	{"get/capacity", capacity, func(c *run) {
		c.is("GetItem", on("simple", "", `"ReturnConsumedCapacity":"TOTAL"`), `"ConsumedCapacity":{"TableName":"$simple","CapacityUnits":0.5}`)
		c.given(`"a":{"S":"` + strings.Repeat("x", 5000) + `"}`)
		c.has("GetItem", on("simple", "", consistent, `"ReturnConsumedCapacity":"TOTAL"`), `"ConsumedCapacity":{"TableName":"$simple","CapacityUnits":2}`)
		c.has("GetItem", on("simple", "", `"ReturnConsumedCapacity":"TOTAL"`), `"ConsumedCapacity":{"TableName":"$simple","CapacityUnits":1}`)
	}},
	{"get/the key must have exactly the key attributes", getItem, func(c *run) {
		for _, operation := range []string{"GetItem", "DeleteItem", "UpdateItem"} {
			c.fails(operation, on("pair", ""), validation)
			c.fails(operation, on("simple", `"x":{"S":"1"}`), validation)
			c.fails(operation, `"TableName":"$simple","Key":{"other":{"S":"1"}}`, validation)
			c.fails(operation, `"TableName":"$simple","Key":{"pk":{"N":"1"}}`, validation)
			c.fails(operation, `"TableName":"$simple","Key":{"pk":{"S":""}}`, validation)
		}
	}},
	{"get/numeric keys are equal as numbers", dataTypes, func(c *run) {
		c.is("PutItem", put("numbers", `"sk":{"N":"1.50"},"a":{"S":"x"}`), "")
		c.is("GetItem", on("numbers", `"sk":{"N":"15e-1"}`, consistent), `"Item":{`+partition+`,"sk":{"N":"1.5"},"a":{"S":"x"}}`)
	}},
	{"delete/ALL_OLD returns the former item", deleteItem, func(c *run) {
		c.given(`"a":{"N":"1"}`)
		c.is("DeleteItem", on("simple", "", `"ReturnValues":"ALL_OLD"`), `"Attributes":{`+partition+`,"a":{"N":"1"}}`)
		c.absent()
	}},
	{"delete/a second delete is not an error", deleteItem, func(c *run) {
		c.is("DeleteItem", on("simple", ""), "")
		c.is("DeleteItem", on("simple", "", `"ReturnValues":"ALL_OLD"`), "")
	}},
	{"delete/with a condition", deleteItem, func(c *run) {
		c.fails("DeleteItem", on("simple", "", condition("attribute_exists(pk)")), failed)
		c.given(`"a":{"N":"1"}`)
		c.fails("DeleteItem", on("simple", "", condition("a = :v"), values(`":v":{"N":"2"}`)), failed)
		c.stored(`"a":{"N":"1"}`)
		c.is("DeleteItem", on("simple", "", condition("a = :v"), values(`":v":{"N":"1.0"}`)), "")
		c.absent()
	}},
	{"delete/ReturnValues other than NONE and ALL_OLD are rejected", deleteItem, func(c *run) {
		c.fails("DeleteItem", on("simple", "", `"ReturnValues":"ALL_NEW"`), validation)
	}},
}

var limitCases = []Case{
	{"limit/an item may have 400 KB and not more", quotas, func(c *run) {
		c.is("PutItem", put("simple", `"a":{"S":"`+strings.Repeat("x", 400<<10-2-len(c.key)-1)+`"}`), "")
		c.fails("PutItem", put("simple", `"a":{"S":"`+strings.Repeat("x", 400<<10)+`"}`), validation, "Item size has exceeded the maximum allowed size")
	}},
	{"limit/an update to more than 400 KB is rejected", quotas, func(c *run) {
		c.given(`"a":{"S":"` + strings.Repeat("x", 300<<10) + `"}`)
		c.fails("UpdateItem", update("SET b = a"), validation, "Item size to update has exceeded the maximum allowed size")
	}},
	{"limit/values may nest 32 levels and not more", quotas, func(c *run) {
		nested := func(levels int) string {
			return `"a":` + strings.Repeat(`{"L":[`, levels-1) + `{"L":[]}` + strings.Repeat(`]}`, levels-1)
		}
		c.is("PutItem", put("simple", nested(32)), "")
		c.fails("PutItem", put("simple", nested(33)), validation, "Nesting Levels have exceeded supported limits")
	}},
	{"limit/a partition key may have 2048 bytes and not more", quotas, func(c *run) {
		key := func(n int) string {
			return `"TableName":"$simple","Item":{"pk":{"S":"` + strings.Repeat("p", n) + `"}}`
		}
		c.is("PutItem", key(2048), "")
		c.fails("PutItem", key(2049), validation, "Size of hashkey has exceeded the maximum size limit")
	}},
	{"limit/a sort key may have 1024 bytes and not more", quotas, func(c *run) {
		key := func(n int) string { return put("pair", `"sk":{"S":"`+strings.Repeat("s", n)+`"}`) }
		c.is("PutItem", key(1024), "")
		c.fails("PutItem", key(1025), validation, "exceeded the size limit of 1024 bytes")
	}},
	{"limit/an expression of more than 4 KB is rejected", quotas, func(c *run) {
		c.fails("UpdateItem", update("SET "+strings.Repeat("a", 4096)+" = :v", values(`":v":{"N":"1"}`)), validation, "Expression size has exceeded the maximum allowed size")
	}},
	{"limit/a ValidationException has a message", wrongInput, func(c *run) {
		if a := c.fails("GetItem", `"TableName":"$simple"`, validation); a.code == validation && a.message == "" {
			c.differ("GetItem fails without a message")
		}
	}},
}
