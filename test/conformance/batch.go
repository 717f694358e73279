package conformance

import (
	"fmt"
	"strings"
)

const (
	batchWrite    = "API_BatchWriteItem"
	batchGet      = "API_BatchGetItem"
	transactWrite = "API_TransactWriteItems"
	transactGet   = "API_TransactGetItems"
	transactions  = "transaction-apis"
)

// sortKey returns the key of an item in the case's partition of the table "pair".
func sortKey(sort string) string { return `{` + partition + `,"sk":{"S":"` + sort + `"}}` }

// pairItem returns an item in the case's partition of the table "pair".
func pairItem(sort, more string) string {
	return `{` + with(partition, `"sk":{"S":"`+sort+`"}`, more) + `}`
}

// pairHas checks that the table "pair" holds this item, or with "" that it holds none.
func (c *run) pairHas(sort, want string) {
	if want != "" {
		want = `"Item":` + want
	}
	c.is("GetItem", on("pair", `"sk":{"S":"`+sort+`"}`, consistent), want)
}

func repeated(n int, element func(i int) string) string {
	var out []string
	for i := range n {
		out = append(out, element(i))
	}
	return strings.Join(out, ",")
}

var batchCases = []Case{
	{"batch/writes puts and deletes", batchWrite, func(c *run) {
		c.is("PutItem", put("pair", `"sk":{"S":"old"}`), "")
		c.is("BatchWriteItem", `"RequestItems":{"$pair":[{"DeleteRequest":{"Key":`+sortKey("old")+`}},{"PutRequest":{"Item":`+pairItem("new", `"a":{"N":"1"}`)+`}}],
			"$simple":[{"PutRequest":{"Item":{`+partition+`}}}]}`, `"UnprocessedItems":{}`)
		c.pairHas("old", "")
		c.pairHas("new", pairItem("new", `"a":{"N":"1"}`))
		c.stored("")
	}},
	{"batch/writes at most 25", batchWrite, func(c *run) {
		element := func(i int) string { return fmt.Sprintf(`{"PutRequest":{"Item":%s}}`, pairItem(fmt.Sprint(i), "")) }
		c.is("BatchWriteItem", `"RequestItems":{"$pair":[`+repeated(25, element)+`]}`, `"UnprocessedItems":{}`)
		c.fails("BatchWriteItem", `"RequestItems":{"$pair":[`+repeated(26, element)+`]}`, validation)
	}},
	{"batch/invalid writes are rejected", batchWrite, func(c *run) {
		one := `{"PutRequest":{"Item":` + pairItem("a", "") + `}}`
		c.fails("BatchWriteItem", `"RequestItems":{"$pair":[`+one+`,`+one+`]}`, validation, "Provided list of item keys contains duplicates")
		c.fails("BatchWriteItem", `"RequestItems":{"$pair":[`+one+`,{"DeleteRequest":{"Key":`+sortKey("a")+`}}]}`, validation, "Provided list of item keys contains duplicates")
		c.fails("BatchWriteItem", `"RequestItems":{"$pair":[{"PutRequest":{"Item":`+pairItem("", "")+`}}]}`, validation)
		c.fails("BatchWriteItem", `"RequestItems":{"$pair":[{"PutRequest":{"Item":`+pairItem("b", `"s":{"SS":[]}`)+`}}]}`, validation)
		c.fails("BatchWriteItem", `"RequestItems":{}`, validation)
		c.fails("BatchWriteItem", `"RequestItems":{"$pair":[]}`, validation)
		c.fails("BatchWriteItem", `"RequestItems":{"$pair":[{}]}`, validation)
		c.fails("BatchWriteItem", `"RequestItems":{"$no-such-table":[`+one+`]}`, notFound)
		c.pairHas("a", "")
	}},
	{"batch/one invalid request rejects the batch", batchWrite, func(c *run) {
		c.fails("BatchWriteItem", `"RequestItems":{"$pair":[{"PutRequest":{"Item":`+pairItem("a", "")+`}},{"PutRequest":{"Item":{`+partition+`}}}]}`, validation)
		c.pairHas("a", "")
	}},
	{"batch/gets existing items", batchGet, func(c *run) {
		c.is("PutItem", put("pair", `"sk":{"S":"a"},"n":{"N":"1"},"m":{"N":"2"}`), "")
		c.is("BatchGetItem", `"RequestItems":{"$pair":{"ConsistentRead":true,"ProjectionExpression":"n","Keys":[`+sortKey("a")+`,`+sortKey("none")+`]}}`,
			`"Responses":{"$pair":[{"n":{"N":"1"}}]},"UnprocessedKeys":{}`)
		c.is("BatchGetItem", `"RequestItems":{"$pair":{"Keys":[`+sortKey("none")+`]}}`, `"Responses":{"$pair":[]},"UnprocessedKeys":{}`)
	}},
	{"batch/gets at most 100", batchGet, func(c *run) {
		keys := func(n int) string { return repeated(n, func(i int) string { return sortKey(fmt.Sprint(i)) }) }
		c.is("BatchGetItem", `"RequestItems":{"$pair":{"Keys":[`+keys(100)+`]}}`, `"Responses":{"$pair":[]},"UnprocessedKeys":{}`)
		c.fails("BatchGetItem", `"RequestItems":{"$pair":{"Keys":[`+keys(101)+`]}}`, validation)
	}},
	{"batch/invalid gets are rejected", batchGet, func(c *run) {
		c.fails("BatchGetItem", `"RequestItems":{"$pair":{"Keys":[`+sortKey("a")+`,`+sortKey("a")+`]}}`, validation, "Provided list of item keys contains duplicates")
		c.fails("BatchGetItem", `"RequestItems":{"$pair":{"Keys":[]}}`, validation)
		c.fails("BatchGetItem", `"RequestItems":{}`, validation)
		c.fails("BatchGetItem", `"RequestItems":{"$pair":{"Keys":[{`+partition+`}]}}`, validation)
		c.fails("BatchGetItem", `"RequestItems":{"$no-such-table":{"Keys":[`+sortKey("a")+`]}}`, notFound)
	}},
	{"batch/gets up to 16 MB, and returns the unprocessed keys", batchGet, func(c *run) {
		keys := ""
		for i := range 44 {
			sort := fmt.Sprintf("big %d", i)
			c.is("PutItem", put("large", `"sk":{"S":"`+sort+`"},"a":{"S":"`+strings.Repeat("x", 390<<10)+`"}`), "")
			keys = with(keys, sortKey(sort))
		}
		a := c.ok("BatchGetItem", `"RequestItems":{"$large":{"Keys":[`+keys+`]}}`)
		found := len(list(a.document, "Responses", "$large"))
		left := len(list(a.document, "UnprocessedKeys", "$large", "Keys"))
		if found == 0 || left == 0 || found+left != 44 {
			c.differ("BatchGetItem gives %d items and leaves %d, want some of each and 44 together", found, left)
		}
	}},
}

// canceled checks that a transaction is refused with these codes, one for each operation.
func (c *run) canceled(request string, codes ...string) answer {
	a := c.fails("TransactWriteItems", request, "TransactionCanceledException", "["+strings.Join(codes, ", ")+"]")
	reasons := list(a.document, "CancellationReasons")
	if len(reasons) != len(codes) {
		c.differ("TransactWriteItems fails with %d reasons, want %d", len(reasons), len(codes))
		return a
	}
	for i, code := range codes {
		if got := at(reasons[i], "Code"); got != code {
			c.differ("TransactWriteItems: the reason %d is %s, want %s", i, brief(got), code)
		}
	}
	return a
}

// add returns an operation that increments an attribute of an item in the table "pair".
func add(sort string) string {
	return `{"Update":{"TableName":"$pair","Key":` + sortKey(sort) + `,"UpdateExpression":"ADD n :one","ExpressionAttributeValues":{":one":{"N":"1"}}}}`
}

var transactionCases = []Case{
	{"transaction/writes all", transactWrite, func(c *run) {
		c.is("PutItem", put("pair", `"sk":{"S":"old"}`), "")
		c.is("PutItem", put("pair", `"sk":{"S":"there"},"a":{"N":"1"}`), "")
		c.is("TransactWriteItems", `"TransactItems":[{"Put":{"TableName":"$pair","Item":`+pairItem("new", "")+`}},{"Delete":{"TableName":"$pair","Key":`+sortKey("old")+`}},`+
			add("counted")+`,{"ConditionCheck":{"TableName":"$pair","Key":`+sortKey("there")+`,"ConditionExpression":"attribute_exists(a)"}},
			{"Put":{"TableName":"$simple","Item":{`+partition+`}}}]`, "")
		c.pairHas("new", pairItem("new", ""))
		c.pairHas("old", "")
		c.pairHas("counted", pairItem("counted", `"n":{"N":"1"}`))
		c.stored("")
	}},
	{"transaction/writes all or nothing", transactWrite, func(c *run) {
		c.is("PutItem", put("pair", `"sk":{"S":"there"},"a":{"N":"1"}`), "")
		c.canceled(`"TransactItems":[`+add("x")+`,{"ConditionCheck":{"TableName":"$pair","Key":`+sortKey("there")+`,"ConditionExpression":"attribute_not_exists(a)"}},`+add("y")+`]`,
			"None", "ConditionalCheckFailed", "None")
		c.pairHas("x", "")
		c.pairHas("y", "")
	}},
	{"transaction/a failed condition can show its item", transactWrite, func(c *run) {
		c.is("PutItem", put("pair", `"sk":{"S":"there"},"a":{"N":"1"}`), "")
		a := c.canceled(`"TransactItems":[{"Delete":{"TableName":"$pair","Key":`+sortKey("there")+`,"ConditionExpression":"attribute_not_exists(a)",
			"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}}]`, "ConditionalCheckFailed")
		if reasons := list(a.document, "CancellationReasons"); len(reasons) == 1 {
			if what := mismatch(c.wanted(`"Item":`+pairItem("there", `"a":{"N":"1"}`)), reasons[0], true); what != "" {
				c.differ("TransactWriteItems: %s", what)
			}
		}
	}},
	{"transaction/an invalid update is a cancellation reason", transactWrite, func(c *run) {
		c.is("PutItem", put("pair", `"sk":{"S":"text"},"n":{"S":"x"}`), "")
		c.canceled(`"TransactItems":[`+add("other")+`,`+add("text")+`]`, "None", "ValidationError")
		c.pairHas("other", "")
	}},
	{"transaction/an item may occur only once", transactWrite, func(c *run) {
		c.fails("TransactWriteItems", `"TransactItems":[`+add("a")+`,`+add("a")+`]`, validation, "Transaction request cannot include multiple operations on one item")
		c.pairHas("a", "")
	}},
	{"transaction/at most 100 operations", transactWrite, func(c *run) {
		c.fails("TransactWriteItems", `"TransactItems":[`+repeated(101, func(i int) string { return add(fmt.Sprint(i)) })+`]`, validation)
		c.fails("TransactWriteItems", `"TransactItems":[]`, validation)
		c.is("TransactWriteItems", `"TransactItems":[`+repeated(100, func(i int) string { return add(fmt.Sprint(i)) })+`]`, "")
	}},
	{"transaction/invalid operations are rejected", transactWrite, func(c *run) {
		c.fails("TransactWriteItems", `"TransactItems":[{}]`, validation)
		c.fails("TransactWriteItems", `"TransactItems":[{"ConditionCheck":{"TableName":"$pair","Key":`+sortKey("a")+`}}]`, validation)
		c.fails("TransactWriteItems", `"TransactItems":[{"Put":{"TableName":"$no-such-table","Item":{`+partition+`}}}]`, notFound)
	}},
	{"transaction/a client token makes a retry harmless", transactions, func(c *run) {
		token := `,"ClientRequestToken":"` + c.suite.prefix + `0123"`
		c.is("TransactWriteItems", `"TransactItems":[`+add("a")+`]`+token, "")
		c.is("TransactWriteItems", `"TransactItems":[`+add("a")+`]`+token, "")
		c.pairHas("a", pairItem("a", `"n":{"N":"1"}`))
		c.fails("TransactWriteItems", `"TransactItems":[`+add("b")+`]`+token, "IdempotentParameterMismatchException")
	}},
	{"transaction/gets in order", transactGet, func(c *run) {
		c.is("PutItem", put("pair", `"sk":{"S":"a"},"n":{"N":"1"},"m":{"N":"2"}`), "")
		get := func(sort, more string) string {
			return `{"Get":{` + with(`"TableName":"$pair","Key":`+sortKey(sort), more) + `}}`
		}
		c.is("TransactGetItems", `"TransactItems":[`+get("none", "")+`,`+get("a", `"ProjectionExpression":"n"`)+`]`, `"Responses":[{},{"Item":{"n":{"N":"1"}}}]`)
		c.fails("TransactGetItems", `"TransactItems":[]`, validation)
	}},
	{"transaction/a get without its key cancels the transaction", transactGet, func(c *run) {
		a := c.fails("TransactGetItems", `"TransactItems":[{"Get":{"TableName":"$pair","Key":`+sortKey("a")+`}},{"Get":{"TableName":"$pair","Key":{}}}]`,
			"TransactionCanceledException", "[None, ValidationError]")
		if reasons := list(a.document, "CancellationReasons"); len(reasons) != 2 || at(reasons[1], "Code") != "ValidationError" {
			c.differ("TransactGetItems gives the reasons %s", brief(reasons))
		}
	}},
	{"transaction/a removal does not create a missing item", transactWrite, func(c *run) {
		c.is("TransactWriteItems", `"TransactItems":[{"Update":{"TableName":"$pair","Key":`+sortKey("none")+`,"UpdateExpression":"REMOVE a"}}]`, "")
		c.pairHas("none", "")
	}},
	{"transaction/a repeated token costs reads", capacity, func(c *run) {
		request := `"ReturnConsumedCapacity":"TOTAL","ClientRequestToken":"` + c.suite.prefix + `4567","TransactItems":[` + add("a") + `]`
		c.has("TransactWriteItems", request, `"ConsumedCapacity":[{"TableName":"$pair","CapacityUnits":2,"WriteCapacityUnits":2}]`)
		c.has("TransactWriteItems", request, `"ConsumedCapacity":[{"TableName":"$pair","CapacityUnits":2,"ReadCapacityUnits":2}]`)
	}},
	{"transaction/gets distinct items", transactions, func(c *run) {
		get := `{"Get":{"TableName":"$pair","Key":` + sortKey("a") + `}}`
		c.fails("TransactGetItems", `"TransactItems":[`+get+`,`+get+`]`, validation)
	}},
	{"transaction/capacity is doubled", capacity, func(c *run) {
		c.has("TransactWriteItems", `"ReturnConsumedCapacity":"TOTAL","TransactItems":[`+add("a")+`]`, `"ConsumedCapacity":[{"TableName":"$pair","CapacityUnits":2}]`)
		c.has("TransactGetItems", `"ReturnConsumedCapacity":"TOTAL","TransactItems":[{"Get":{"TableName":"$pair","Key":`+sortKey("a")+`}}]`,
			`"ConsumedCapacity":[{"TableName":"$pair","CapacityUnits":2}]`)
	}},
}
