package conformance

import (
	"fmt"
	"strings"
)

// indexQuery returns a Query of an index for the case's owner.
func indexQuery(index string, more ...string) string {
	return with(append([]string{`"TableName":"$indexed","IndexName":"` + index + `","KeyConditionExpression":"#o = :o"`, called(`"#o":"owner"`),
		values(`":o":{"S":"$k"}`)}, more...)...)
}

// indexed puts items of the case's partition and owner, with ranks that fall as sort keys rise.
func (c *run) indexed(n int) {
	for i := range n {
		c.is("PutItem", put("indexed", fmt.Sprintf(`"sk":{"S":"%d"},"owner":{"S":"$k"},"rank":{"N":"%d"},"local":{"N":"%d"},"a":{"S":"x"},"b":{"S":"y"}`, i, -i, -i)), "")
	}
}

// indexShows waits until a query of an index returns these items, because a global index follows
// its table with a delay.
func (c *run) indexShows(request, want string) {
	document := c.wanted(want)
	if c.ok("Query", request).code != "" {
		return
	}
	c.eventually(func() string {
		a := c.call("Query", request)
		if what := mismatch(document, a.document, true); what != "" {
			return "Query: " + what
		}
		return ""
	})
}

var indexCases = []Case{
	{"index/global, all attributes, in its own order", gsi, func(c *run) {
		c.indexed(2)
		item := func(n int) string {
			return fmt.Sprintf(`{%s,"sk":{"S":"%d"},"owner":{"S":"$k"},"rank":{"N":"%d"},"local":{"N":"%d"},"a":{"S":"x"},"b":{"S":"y"}}`, partition, n, -n, -n)
		}
		c.indexShows(indexQuery("by-owner"), `"Items":[`+item(1)+`,`+item(0)+`],"Count":2,"ScannedCount":2`)
	}},
	{"index/global, projections", gsi, func(c *run) {
		c.indexed(1)
		c.indexShows(indexQuery("owners"), `"Items":[{`+partition+`,"sk":{"S":"0"},"owner":{"S":"$k"}}],"Count":1`)
		c.indexShows(indexQuery("some"), `"Items":[{`+partition+`,"sk":{"S":"0"},"owner":{"S":"$k"},"a":{"S":"x"}}],"Count":1`)
	}},
	{"index/holds only items with its key", gsi, func(c *run) {
		c.indexed(1)
		c.is("PutItem", put("indexed", `"sk":{"S":"1"},"owner":{"S":"$k"}`), "")
		c.is("PutItem", put("indexed", `"sk":{"S":"2"},"rank":{"N":"1"}`), "")
		c.indexShows(indexQuery("owners", `"Select":"COUNT"`), `"Count":2`)
		c.indexShows(indexQuery("by-owner", `"Select":"COUNT"`), `"Count":1`)
	}},
	{"index/follows updates and deletes", gsi, func(c *run) {
		c.indexed(2)
		c.is("UpdateItem", on("indexed", `"sk":{"S":"0"}`, called(`"#o":"owner"`), `"UpdateExpression":"REMOVE #o"`), "")
		c.is("DeleteItem", on("indexed", `"sk":{"S":"1"}`), "")
		c.indexShows(indexQuery("by-owner"), `"Items":[],"Count":0`)
	}},
	{"index/pages continue after index key and table key", gsi, func(c *run) {
		c.indexed(3)
		c.indexShows(indexQuery("by-owner", `"Select":"COUNT"`), `"Count":3`)
		key := `{` + partition + `,"sk":{"S":"1"},"owner":{"S":"$k"},"rank":{"N":"-1"}}`
		c.indexShows(indexQuery("by-owner", `"Limit":2`), `"Count":2,"LastEvaluatedKey":`+key)
		c.indexShows(indexQuery("by-owner", `"ProjectionExpression":"sk","ExclusiveStartKey":`+key), `"Items":[{"sk":{"S":"0"}}]`)
	}},
	{"index/a global index rejects consistent reads", gsi, func(c *run) {
		c.fails("Query", indexQuery("by-owner", consistent), validation, "Consistent reads are not supported on global secondary indexes")
	}},
	{"index/a global index returns only projected attributes", gsi, func(c *run) {
		c.fails("Query", indexQuery("owners", `"ProjectionExpression":"b"`), validation)
		c.fails("Query", indexQuery("owners", `"Select":"ALL_ATTRIBUTES"`), validation)
	}},
	{"index/a local index", lsi, func(c *run) {
		c.indexed(3)
		request := `"TableName":"$indexed","IndexName":"by-local","ConsistentRead":true,"ProjectionExpression":"sk","KeyConditionExpression":"pk = :pk AND #l >= :v",` +
			called(`"#l":"local"`) + "," + values(`":pk":{"S":"$k"},":v":{"N":"-1"}`)
		c.is("Query", request, `"Items":[{"sk":{"S":"1"}},{"sk":{"S":"0"}}],"Count":2,"ScannedCount":2`)
	}},
	{"index/key attributes must have their type", gsi, func(c *run) {
		c.fails("PutItem", put("indexed", `"sk":{"S":"0"},"owner":{"N":"1"}`), validation, "Type mismatch for Index Key owner")
		c.fails("PutItem", put("indexed", `"sk":{"S":"0"},"local":{"S":"1"}`), validation, "Type mismatch for Index Key local")
		c.fails("UpdateItem", on("indexed", `"sk":{"S":"0"}`, `"UpdateExpression":"SET #o = :o"`, called(`"#o":"owner"`), values(`":o":{"BOOL":true}`)), validation)
		c.fails("PutItem", put("indexed", `"sk":{"S":"0"},"owner":{"S":""}`), validation)
	}},
	{"index/keys of several attributes", "GSI.DesignPattern.MultiAttributeKeys", func(c *run) {
		c.is("PutItem", put("several", `"tenant":{"S":"$k"},"region":{"S":"eu"},"day":{"S":"mon"},"seq":{"N":"10"}`), "")
		query := func(condition, more string) string {
			return with(`"TableName":"$several","IndexName":"by-parts","KeyConditionExpression":"tenant = :t AND #r = :r`+condition+`"`, called(`"#r":"region","#d":"day"`),
				values(with(`":t":{"S":"$k"},":r":{"S":"eu"},":d":{"S":"mon"}`, more)))
		}
		c.indexShows(query(" AND #d = :d AND seq > :n", `":n":{"N":"9"}`), `"Count":1`)
		c.has("Query", query(" AND #d > :d", ""), `"Count":0`)
		c.fails("Query", query(" AND #d > :d AND seq = :n", `":n":{"N":"9"}`), validation)
		c.fails("Query", strings.Replace(query(" AND #d = :d", ""), "tenant = :t AND #r = :r", "tenant = :t", 1), validation)
	}},
	{"index/an unknown index is rejected", queries, func(c *run) {
		c.fails("Query", indexQuery("none"), validation, "The table does not have the specified index")
		c.fails("Scan", `"TableName":"$indexed","IndexName":"none"`, validation, "The table does not have the specified index")
	}},
	{"index/scan of an index", scans, func(c *run) {
		c.indexed(2)
		request := `"TableName":"$indexed","IndexName":"owners","FilterExpression":"#o = :o",` + called(`"#o":"owner"`) + "," + values(`":o":{"S":"$k"}`)
		if c.ok("Scan", request).code != "" {
			return
		}
		c.eventually(func() string {
			return mismatch(c.wanted(`"Count":2,"Items":[{"pk":"*","sk":"*","owner":"*"},{"pk":"*","sk":"*","owner":"*"}]`), c.call("Scan", request).document, true)
		})
	}},
	{"index/capacity of each index", "API_ConsumedCapacity", func(c *run) {
		c.has("PutItem", put("indexed", `"sk":{"S":"a"},"owner":{"S":"$k"},"rank":{"N":"1"},"local":{"N":"1"}`, `"ReturnConsumedCapacity":"INDEXES"`),
			`"ConsumedCapacity":{"TableName":"$indexed","CapacityUnits":5,"Table":{"CapacityUnits":1},"LocalSecondaryIndexes":{"by-local":{"CapacityUnits":1}},
			"GlobalSecondaryIndexes":{"by-owner":{"CapacityUnits":1},"owners":{"CapacityUnits":1},"some":{"CapacityUnits":1}}}`)
		c.has("Query", indexQuery("owners", `"ReturnConsumedCapacity":"INDEXES"`), `"ConsumedCapacity":{"TableName":"$indexed","CapacityUnits":0.5,
			"GlobalSecondaryIndexes":{"owners":{"CapacityUnits":0.5}}}`)
	}},
	{"index/description", "API_DescribeTable", func(c *run) {
		c.has("DescribeTable", `"TableName":"$indexed"`, `"Table":{"LocalSecondaryIndexes":[{"IndexName":"by-local","IndexArn":"*",
			"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"local","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]}`)
		a := c.ok("DescribeTable", `"TableName":"$indexed"`)
		if found := list(a.document, "Table", "GlobalSecondaryIndexes"); len(found) != 3 {
			c.differ("DescribeTable gives %d global indexes, want 3", len(found))
		} else {
			for _, index := range found {
				if what := mismatch(c.wanted(`"IndexName":"*","IndexStatus":"ACTIVE","KeySchema":"*","Projection":"*","IndexArn":"*"`), index, true); what != "" {
					c.differ("DescribeTable: %s", what)
				}
			}
		}
	}},
}
