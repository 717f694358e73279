package conformance

import "fmt"

const (
	createTable   = "API_CreateTable"
	describeTable = "API_DescribeTable"
	listTables    = "API_ListTables"
	protocol      = "Programming.LowLevelAPI"
	describeTTL   = "API_DescribeTimeToLive"
	updateTTL     = "API_UpdateTimeToLive"
)

var tableCases = []Case{
	{"table/description", describeTable, func(c *run) {
		c.has("DescribeTable", `"TableName":"$numbers"`, `"Table":{"TableName":"$numbers","TableStatus":"ACTIVE","TableArn":"*","TableId":"*","CreationDateTime":"*",
			"ItemCount":"*","TableSizeBytes":"*","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"N"}],
			"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST"}}`)
		c.has("DescribeTable", `"TableName":"$new-images"`, `"Table":{"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_IMAGE"},
			"LatestStreamArn":"*","LatestStreamLabel":"*"}`)
	}},
	{"table/an unknown table is rejected", describeTable, func(c *run) {
		for _, operation := range []string{"DescribeTable", "DeleteTable", "DescribeTimeToLive"} {
			c.fails(operation, `"TableName":"$no-such-table"`, notFound)
		}
		c.fails("Scan", `"TableName":"$no-such-table"`, notFound)
		c.fails("GetItem", `"TableName":"$no-such-table","Key":{"pk":{"S":"a"}}`, notFound)
	}},
	{"table/an existing table cannot be created again", createTable, func(c *run) {
		c.fails("CreateTable", `"TableName":"$simple","BillingMode":"PAY_PER_REQUEST",`+keys("pk", "S"), "ResourceInUseException")
	}},
	{"table/invalid names are rejected", dataTypes, func(c *run) {
		for _, name := range []string{"ab", "a b c", "a/b/c", ""} {
			c.fails("CreateTable", fmt.Sprintf(`"TableName":%q,"BillingMode":"PAY_PER_REQUEST",%s`, name, keys("pk", "S")), validation)
		}
		c.fails("CreateTable", `"BillingMode":"PAY_PER_REQUEST",`+keys("pk", "S"), validation)
	}},
	{"table/invalid schemas are rejected", createTable, func(c *run) {
		for _, t := range []struct{ what, parameters string }{
			{"a definition that no key uses", `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"x","AttributeType":"S"}],
				"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`},
			{"a key without a definition", `"AttributeDefinitions":[{"AttributeName":"x","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`},
			{"a key of another type", `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"BOOL"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`},
			{"a sort key alone", `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"RANGE"}]`},
			{"no key", `"AttributeDefinitions":[],"KeySchema":[]`},
		} {
			c.about(t.what)
			c.fails("CreateTable", `"TableName":"$never","BillingMode":"PAY_PER_REQUEST",`+t.parameters, validation)
		}
		c.fails("DescribeTable", `"TableName":"$never"`, notFound)
		c.call("DeleteTable", `"TableName":"$never"`) // in case it was created
	}},
	{"table/capacity must be given", createTable, func(c *run) {
		c.fails("CreateTable", `"TableName":"$without-capacity",`+keys("pk", "S"), validation)
		c.call("DeleteTable", `"TableName":"$without-capacity"`) // in case it was created
	}},
	{"table/list in pages", listTables, func(c *run) {
		a := c.ok("ListTables", `"Limit":1`)
		found, last := list(a.document, "TableNames"), at(a.document, "LastEvaluatedTableName")
		if len(found) != 1 || last != found[0] {
			c.differ("ListTables gives %s and the last name %s, want one name, which is the last", brief(found), brief(last))
			return
		}
		a = c.ok("ListTables", `"Limit":1,"ExclusiveStartTableName":`+text(last))
		if next := list(a.document, "TableNames"); len(next) != 1 || text(next[0]) <= text(last) {
			c.differ("ListTables gives %s after %s", brief(next), brief(last))
		}
		c.fails("ListTables", `"Limit":0`, validation)
		c.fails("ListTables", `"Limit":101`, validation)
	}},
	{"table/a stream cannot be enabled twice", "API_UpdateTable", func(c *run) {
		enabled := `"TableName":"$keys-only","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}`
		if a := c.call("UpdateTable", enabled); a.code == "" {
			// The documentation has two codes for this.
			c.differ("UpdateTable enables a stream where there is one")
		}
	}},
	{"protocol/unknown operations are rejected", protocol, func(c *run) {
		c.fails("NoSuchOperation", "", "UnknownOperationException")
	}},
	{"protocol/a member of the wrong type is rejected", protocol, func(c *run) {
		c.fails("GetItem", `"TableName":"$simple","Key":"pk"`, "SerializationException")
		c.fails("PutItem", `"TableName":"$simple","Item":{"pk":{"S":1}}`, "SerializationException")
		c.fails("PutItem", `"TableName":"$simple","Item":{"pk":{"S":"a"},"n":{"N":1}}`, "SerializationException")
	}},
	{"ttl/disabled at first", describeTTL, func(c *run) {
		c.is("DescribeTimeToLive", `"TableName":"$simple"`, `"TimeToLiveDescription":{"TimeToLiveStatus":"DISABLED"}`)
	}},
	{"ttl/enabled", updateTTL, func(c *run) {
		enable := `"TableName":"$expiring","TimeToLiveSpecification":{"Enabled":true,"AttributeName":"expires"}`
		c.is("UpdateTimeToLive", enable, `"TimeToLiveSpecification":{"Enabled":true,"AttributeName":"expires"}`)
		c.has("DescribeTimeToLive", `"TableName":"$expiring"`, `"TimeToLiveDescription":{"TimeToLiveStatus":"*","AttributeName":"expires"}`)
		status := at(c.ok("DescribeTimeToLive", `"TableName":"$expiring"`).document, "TimeToLiveDescription", "TimeToLiveStatus")
		if status != "ENABLED" && status != "ENABLING" {
			c.differ("DescribeTimeToLive: the status is %s, want ENABLED or ENABLING", brief(status))
		}
		c.fails("UpdateTimeToLive", enable, validation)
		c.fails("UpdateTimeToLive", `"TableName":"$expiring","TimeToLiveSpecification":{"Enabled":true,"AttributeName":"other"}`, validation)
		c.fails("UpdateTimeToLive", `"TableName":"$no-such-table","TimeToLiveSpecification":{"Enabled":true,"AttributeName":"x"}`, notFound)
	}},
	{"ttl/an item that is due can still be read until it is deleted", "howitworks-ttl", func(c *run) {
		c.is("PutItem", put("expiring", `"expires":{"N":"1"}`), "")
		a := c.ok("GetItem", on("expiring", "", consistent))
		if it := at(a.document, "Item"); it != nil {
			if what := mismatch(c.wanted(partition+`,"expires":{"N":"1"}`), it, false); what != "" {
				c.differ("GetItem: %s", what)
			}
		}
	}},
	{"tags/of a table", "API_TagResource", func(c *run) {
		arn := text(at(c.ok("DescribeTable", `"TableName":"$simple"`).document, "Table", "TableArn"))
		if c.ok("TagResource", `"ResourceArn":`+arn+`,"Tags":[{"Key":"team","Value":"a"},{"Key":"stage","Value":"b"}]`).code != "" {
			return
		}
		c.ok("UntagResource", `"ResourceArn":`+arn+`,"TagKeys":["stage"]`)
		c.eventually(func() string {
			return mismatch(c.wanted(`"Tags":[{"Key":"team","Value":"a"}]`), c.call("ListTagsOfResource", `"ResourceArn":`+arn).document, true)
		})
	}},
}
