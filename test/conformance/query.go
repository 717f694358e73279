package conformance

import (
	"fmt"
	"strings"
)

const (
	queries    = "API_Query"
	keyQueries = "Query.KeyConditionExpressions"
	queryPages = "Query.Pagination"
	filters    = "Query.FilterExpression"
	scans      = "API_Scan"
	parallel   = "Scan" // "Parallel scan"
	lsi        = "LSI"
	gsi        = "GSI"
)

// query returns a Query of the case's partition, with the operands that the expression names.
func query(table, expression string, more ...string) string {
	if expression != "" {
		expression = " AND " + expression
	}
	parameters := strings.TrimSuffix(strings.TrimPrefix(operandsOf(expression+" "+strings.Join(more, " ")), `"ExpressionAttributeValues":{`), "}")
	return with(append([]string{
		`"TableName":"$` + table + `","KeyConditionExpression":"pk = :pk` + expression + `"`,
		values(with(`":pk":{"S":"$k"}`, parameters)), consistent,
	}, more...)...)
}

// sorts puts items with these sort keys, each an attribute value, into the case's partition.
func (c *run) sorts(table string, keys ...string) {
	for i, key := range keys {
		c.is("PutItem", put(table, fmt.Sprintf(`"sk":%s,"n":{"N":"%d"}`, key, i)), "")
	}
}

// found checks which sort keys a query returns, in order.
func (c *run) found(request string, want ...string) answer {
	a := c.ok("Query", request)
	if a.code != "" {
		return a
	}
	var got []string
	for _, it := range list(a.document, "Items") {
		got = append(got, text(at(it, "sk")))
	}
	for i, key := range want {
		want[i] = strings.ReplaceAll(key, " ", "")
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		c.differ("Query gives the sort keys %s, want %s", strings.Join(got, " "), strings.Join(want, " "))
	}
	if what := mismatch(c.wanted(fmt.Sprintf(`"Count":%d,"ScannedCount":"*"`, len(got))), a.document, true); what != "" {
		c.differ("Query: %s", what)
	}
	return a
}

var queryCases = []Case{
	{"query/string sort keys sort by bytes", keyQueries, func(c *run) {
		c.sorts("pair", `{"S":"b"}`, `{"S":"a"}`, `{"S":"é"}`, `{"S":"Z"}`, `{"S":"ab"}`, `{"S":"10"}`, `{"S":"9"}`)
		c.found(query("pair", ""), `{"S":"10"}`, `{"S":"9"}`, `{"S":"Z"}`, `{"S":"a"}`, `{"S":"ab"}`, `{"S":"b"}`, `{"S":"é"}`)
	}},
	{"query/number sort keys sort by value", keyQueries, func(c *run) {
		c.sorts("numbers", `{"N":"10"}`, `{"N":"9"}`, `{"N":"-1.5"}`, `{"N":"0"}`, `{"N":"-20"}`, `{"N":"1E20"}`, `{"N":"0.001"}`)
		c.found(query("numbers", ""), `{"N":"-20"}`, `{"N":"-1.5"}`, `{"N":"0"}`, `{"N":"0.001"}`, `{"N":"9"}`, `{"N":"10"}`, `{"N":"100000000000000000000"}`)
	}},
	{"query/binary sort keys sort by unsigned bytes", keyQueries, func(c *run) {
		c.sorts("bytes", `{"B":"/w=="}`, `{"B":"AA=="}`, `{"B":"fw=="}`, `{"B":"gA=="}`, `{"B":"AAA="}`)
		c.found(query("bytes", ""), `{"B":"AA=="}`, `{"B":"AAA="}`, `{"B":"fw=="}`, `{"B":"gA=="}`, `{"B":"/w=="}`)
	}},
	{"query/conditions on a number", keyQueries, func(c *run) {
		c.sorts("numbers", `{"N":"1"}`, `{"N":"2"}`, `{"N":"3"}`, `{"N":"4"}`, `{"N":"5"}`)
		one, two, three, four, five := `{"N":"1"}`, `{"N":"2"}`, `{"N":"3"}`, `{"N":"4"}`, `{"N":"5"}`
		c.found(query("numbers", "sk = :three"), three)
		c.found(query("numbers", "sk < :three"), one, two)
		c.found(query("numbers", "sk <= :three"), one, two, three)
		c.found(query("numbers", "sk > :three"), four, five)
		c.found(query("numbers", "sk >= :three"), three, four, five)
		c.found(query("numbers", "sk BETWEEN :two AND :four"), two, three, four)
		c.found(query("numbers", "sk > :ten"))
	}},
	{"query/begins_with", keyQueries, func(c *run) {
		c.sorts("pair", `{"S":"a"}`, `{"S":"ab"}`, `{"S":"abc"}`, `{"S":"ac"}`, `{"S":"b"}`)
		c.found(query("pair", "begins_with(sk, :ab)"), `{"S":"ab"}`, `{"S":"abc"}`)
		c.fails("Query", query("numbers", "begins_with(sk, :five)"), validation)
	}},
	{"query/backward", queries, func(c *run) {
		c.sorts("numbers", `{"N":"1"}`, `{"N":"2"}`, `{"N":"3"}`)
		c.found(query("numbers", "", `"ScanIndexForward":false`), `{"N":"3"}`, `{"N":"2"}`, `{"N":"1"}`)
		c.found(query("numbers", "sk <= :two", `"ScanIndexForward":false,"Limit":1`), `{"N":"2"}`)
	}},
	{"query/pages", queryPages, func(c *run) {
		c.sorts("numbers", `{"N":"1"}`, `{"N":"2"}`, `{"N":"3"}`, `{"N":"4"}`)
		a := c.found(query("numbers", "", `"Limit":3`), `{"N":"1"}`, `{"N":"2"}`, `{"N":"3"}`)
		if what := mismatch(c.wanted(`"LastEvaluatedKey":{`+partition+`,"sk":{"N":"3"}}`), a.document, true); what != "" {
			c.differ("Query: %s", what)
		}
		a = c.found(query("numbers", "", `"Limit":3,"ExclusiveStartKey":{`+partition+`,"sk":{"N":"3"}}`), `{"N":"4"}`)
		if at(a.document, "LastEvaluatedKey") != nil {
			c.differ("Query's last page has a LastEvaluatedKey")
		}
		c.found(query("numbers", "", `"ScanIndexForward":false,"ExclusiveStartKey":{`+partition+`,"sk":{"N":"2.5"}}`), `{"N":"2"}`, `{"N":"1"}`)
	}},
	{"query/a page that Limit ends has a LastEvaluatedKey", queryPages, func(c *run) {
		c.sorts("numbers", `{"N":"1"}`, `{"N":"2"}`)
		a := c.found(query("numbers", "", `"Limit":2`), `{"N":"1"}`, `{"N":"2"}`)
		if at(a.document, "LastEvaluatedKey") == nil {
			c.differ("Query has no LastEvaluatedKey")
		}
	}},
	{"query/a page ends at 1 MB", queryPages, func(c *run) {
		for i := range 5 {
			c.is("PutItem", put("large", fmt.Sprintf(`"sk":{"S":"%d"},"a":{"S":"%s"}`, i, strings.Repeat("x", 300_000))), "")
		}
		a := c.found(query("large", "", `"ProjectionExpression":"sk"`), `{"S":"0"}`, `{"S":"1"}`, `{"S":"2"}`)
		if what := mismatch(c.wanted(`"LastEvaluatedKey":{`+partition+`,"sk":{"S":"2"}}`), a.document, true); what != "" {
			c.differ("Query: %s", what)
		}
	}},
	{"query/a filter is applied after Limit", filters, func(c *run) {
		c.sorts("numbers", `{"N":"1"}`, `{"N":"2"}`, `{"N":"3"}`, `{"N":"4"}`)
		a := c.found(query("numbers", "", `"Limit":3,"FilterExpression":"n >= :two"`), `{"N":"3"}`)
		if what := mismatch(c.wanted(`"Count":1,"ScannedCount":3,"LastEvaluatedKey":{`+partition+`,"sk":{"N":"3"}}`), a.document, true); what != "" {
			c.differ("Query: %s", what)
		}
	}},
	{"query/a filter must not name key attributes", filters, func(c *run) {
		c.fails("Query", query("numbers", "", `"FilterExpression":"sk >= :two"`), validation, "Filter Expression can only contain non-primary key attributes")
	}},
	{"query/KeyConditions with a filter and a projection", queries, func(c *run) {
		c.sorts("pair", `{"S":"a"}`, `{"S":"b"}`)
		key := `"TableName":"$pair","ConsistentRead":true,"KeyConditions":{"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"$k"}]}}`
		c.has("Query", with(key, `"FilterExpression":"n > :n","ProjectionExpression":"sk"`, values(`":n":{"N":"0"}`)), `"Items":[{"sk":{"S":"b"}}],"Count":1,"ScannedCount":2`)
		c.fails("Query", with(key, `"AttributesToGet":["n"],"FilterExpression":"n > :n"`, values(`":n":{"N":"0"}`)), validation, "Can not use both expression and non-expression parameters")
		c.fails("Query", with(key, `"KeyConditionExpression":"pk = :n"`, values(`":n":{"S":"$k"}`)), validation, "Can not use both expression and non-expression parameters")
	}},
	{"query/COUNT", queries, func(c *run) {
		c.sorts("numbers", `{"N":"1"}`, `{"N":"2"}`)
		c.is("Query", query("numbers", "", `"Select":"COUNT","FilterExpression":"n = :one"`), `"Count":1,"ScannedCount":2`)
		c.fails("Query", query("numbers", "", `"Select":"COUNT","ProjectionExpression":"n"`), validation)
		c.fails("Query", query("numbers", "", `"Select":"ALL_PROJECTED_ATTRIBUTES"`), validation)
	}},
	{"query/projection", queries, func(c *run) {
		c.is("PutItem", put("numbers", `"sk":{"N":"1"},"m":{"M":{"x":{"N":"1"},"y":{"N":"2"}}}`), "")
		c.is("Query", query("numbers", "", `"ProjectionExpression":"m.y"`), `"Items":[{"m":{"M":{"y":{"N":"2"}}}}],"Count":1,"ScannedCount":1`)
	}},
	{"query/a partition without items gives an empty page", queries, func(c *run) {
		c.is("Query", query("numbers", ""), `"Items":[],"Count":0,"ScannedCount":0`)
	}},
	{"query/invalid key conditions are rejected", keyQueries, func(c *run) {
		for _, expression := range []string{
			"sk <> :two", "sk IN (:two)", "attribute_exists(sk)", "n = :two", "sk = :two AND sk > :two", "sk = :two OR sk = :three", "NOT sk = :two",
			"contains(sk, :two)", "sk BETWEEN :three AND :two", "sk = :abc", "sk > size(n)",
		} {
			c.about(expression)
			c.fails("Query", query("numbers", expression), validation)
		}
		c.about("")
		c.fails("Query", `"TableName":"$numbers","KeyConditionExpression":"sk = :two"`+`,`+operandsOf(":two"), validation, "Query condition missed key schema element: pk")
		c.fails("Query", `"TableName":"$numbers","KeyConditionExpression":"pk > :x"`+`,`+operandsOf(":x"), validation, "Query key condition not supported")
		c.fails("Query", `"TableName":"$numbers"`, validation)
	}},
	{"query/Limit must be positive", queries, func(c *run) {
		c.fails("Query", query("numbers", "", `"Limit":0`), validation)
	}},
	{"query/an invalid start key is rejected", queries, func(c *run) {
		c.fails("Query", query("numbers", "", `"ExclusiveStartKey":{`+partition+`}`), validation)
		c.fails("Query", query("numbers", "", `"ExclusiveStartKey":{`+partition+`,"sk":{"S":"1"}}`), validation)
		c.fails("Query", query("numbers", "", `"ExclusiveStartKey":{"pk":{"S":"other"},"sk":{"N":"1"}}`), validation)
	}},
	{"query/capacity", capacity, func(c *run) {
		c.sorts("numbers", `{"N":"1"}`, `{"N":"2"}`, `{"N":"3"}`)
		c.has("Query", query("numbers", "", `"ReturnConsumedCapacity":"TOTAL"`), `"ConsumedCapacity":{"TableName":"$numbers","CapacityUnits":1}`)
		c.has("Query", strings.Replace(query("numbers", "", `"ReturnConsumedCapacity":"TOTAL"`), "true", "false", 1), `"ConsumedCapacity":{"CapacityUnits":0.5}`)
	}},
}

// scannedItems is the number of items in the table "scanned".
const scannedItems = 24

// fill puts the items into the table "scanned".
func (c *run) fill() {
	for i := range scannedItems {
		c.is("PutItem", fmt.Sprintf(`"TableName":"$scanned","Item":{"pk":{"S":"item %d"},"n":{"N":"%d"}}`, i, i), "")
	}
}

// scan reads the table "scanned" page by page, and counts how often each item occurs.
func (c *run) scan(seen map[string]int, parameters string) {
	start := ""
	for range scannedItems + 2 {
		a := c.ok("Scan", with(`"TableName":"$scanned"`, consistent, parameters, start))
		for _, it := range list(a.document, "Items") {
			seen[text(at(it, "pk"))]++
		}
		key := at(a.document, "LastEvaluatedKey")
		if key == nil {
			return
		}
		start = `"ExclusiveStartKey":` + text(key)
	}
	c.differ("Scan does not end")
}

// once checks that a scan returned every item once.
func (c *run) once(seen map[string]int) {
	twice := 0
	for _, n := range seen {
		if n > 1 {
			twice++
		}
	}
	if len(seen) != scannedItems || twice > 0 {
		c.differ("Scan gives %d of %d items, %d of them more than once", len(seen), scannedItems, twice)
	}
}

var scanCases = []Case{
	{"scan/pages return every item once", scans, func(c *run) {
		c.fill()
		for _, limit := range []string{"", `"Limit":1`, `"Limit":7`} {
			seen := map[string]int{}
			c.scan(seen, limit)
			c.once(seen)
		}
	}},
	{"scan/segments return every item once", parallel, func(c *run) {
		c.fill()
		for _, total := range []int{1, 3, 50} {
			seen := map[string]int{}
			for segment := range total {
				c.scan(seen, fmt.Sprintf(`"Segment":%d,"TotalSegments":%d,"Limit":5`, segment, total))
			}
			c.once(seen)
		}
	}},
	{"scan/a filter", scans, func(c *run) {
		c.fill()
		c.has("Scan", `"TableName":"$scanned","ConsistentRead":true,"Select":"COUNT","FilterExpression":"n < :ten",`+operandsOf(":ten"),
			fmt.Sprintf(`"Count":10,"ScannedCount":%d`, scannedItems))
		seen := map[string]int{}
		c.scan(seen, `"Limit":2,"FilterExpression":"n < :ten",`+operandsOf(":ten"))
		if len(seen) != 10 {
			c.differ("Scan gives %d items, want 10", len(seen))
		}
	}},
	{"scan/a filter may name key attributes", scans, func(c *run) {
		c.fill()
		c.has("Scan", `"TableName":"$scanned","ConsistentRead":true,"FilterExpression":"pk = :v",`+values(`":v":{"S":"item 3"}`),
			`"Items":[{"pk":{"S":"item 3"},"n":{"N":"3"}}],"Count":1`)
	}},
	{"scan/projection", scans, func(c *run) {
		c.fill()
		c.has("Scan", `"TableName":"$scanned","ConsistentRead":true,"FilterExpression":"pk = :v","ProjectionExpression":"n",`+values(`":v":{"S":"item 3"}`),
			`"Items":[{"n":{"N":"3"}}]`)
	}},
	{"scan/COUNT returns no items", scans, func(c *run) {
		c.fill()
		c.is("Scan", `"TableName":"$scanned","ConsistentRead":true,"Select":"COUNT"`, fmt.Sprintf(`"Count":%d,"ScannedCount":%[1]d`, scannedItems))
	}},
	{"scan/invalid segments are rejected", scans, func(c *run) {
		for _, parameters := range []string{
			`"Segment":3,"TotalSegments":3`, `"Segment":0`, `"TotalSegments":2`, `"Segment":-1,"TotalSegments":2`, `"Segment":0,"TotalSegments":0`,
			`"Segment":0,"TotalSegments":1000001`,
		} {
			c.fails("Scan", `"TableName":"$scanned",`+parameters, validation)
		}
	}},
	{"scan/an invalid start key is rejected", scans, func(c *run) {
		c.fails("Scan", `"TableName":"$scanned","ExclusiveStartKey":{"other":{"S":"x"}}`, validation)
		c.fails("Scan", `"TableName":"$scanned","ExclusiveStartKey":{"pk":{"N":"1"}}`, validation)
		c.fails("Scan", `"TableName":"$scanned","Limit":0`, validation)
	}},
}
