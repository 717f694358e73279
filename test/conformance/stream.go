package conformance

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"
)

const (
	streams       = "Streams"
	describe      = "API_streams_DescribeStream"
	shardIterator = "API_streams_GetShardIterator"
	records       = "API_streams_GetRecords"
	record        = "API_streams_StreamRecord"
	recordEvent   = "API_streams_Record"
)

// arn returns the ARN of a table's stream.
func (c *run) arn(table string) string {
	arn, _ := at(c.ok("DescribeTable", `"TableName":"$`+table+`"`).document, "Table", "LatestStreamArn").(string)
	return arn
}

// shards returns the descriptions of a stream's shards.
func (c *run) shards(arn string) []any {
	var all []any
	start := ""
	for {
		a := c.ok("DescribeStream", with(fmt.Sprintf(`"StreamArn":%q`, arn), start))
		all = append(all, list(a.document, "StreamDescription", "Shards")...)
		last, _ := at(a.document, "StreamDescription", "LastEvaluatedShardId").(string)
		if last == "" {
			return all
		}
		start = fmt.Sprintf(`"ExclusiveStartShardId":%q`, last)
	}
}

// iterator returns an iterator of a shard; more may hold a sequence number.
func (c *run) iterator(arn string, shard any, kind string, more ...string) string {
	a := c.ok("GetShardIterator", with(append([]string{fmt.Sprintf(`"StreamArn":%q,"ShardId":%s,"ShardIteratorType":%q`, arn, text(at(shard, "ShardId")), kind)}, more...)...))
	it, _ := at(a.document, "ShardIterator").(string)
	return it
}

// page reads one page.
func (c *run) page(iterator string, more ...string) answer {
	return c.ok("GetRecords", with(append([]string{fmt.Sprintf(`"ShardIterator":%q`, iterator)}, more...)...))
}

// history returns all records of the case's partition, in the order of its shard, once there are at
// least atLeast.
func (c *run) history(table string, atLeast int) []any {
	arn := c.arn(table)
	deadline := time.Now().Add(c.suite.endpoint.Patience)
	for {
		var found []any
		for _, shard := range c.shards(arn) {
			found = append(found, c.ownRecords(c.iterator(arn, shard, "TRIM_HORIZON"))...)
		}
		if len(found) >= atLeast || time.Now().After(deadline) {
			return found
		}
		if err := pause(c.ctx); err != nil {
			panic(broken{err})
		}
	}
}

// ownRecords returns the records of the case's partition from an iterator on, until a few pages
// were empty or the shard ended.
func (c *run) ownRecords(iterator string) []any {
	const enough = 3
	var found []any
	for empty := 0; iterator != "" && empty < enough; {
		a := c.page(iterator)
		page := list(a.document, "Records")
		if empty++; len(page) > 0 {
			empty = 0
		}
		for _, r := range page {
			if at(r, "dynamodb", "Keys", "pk", "S") == c.key {
				found = append(found, r)
			}
		}
		iterator, _ = at(a.document, "NextShardIterator").(string)
	}
	return found
}

// sequence returns a record's sequence number.
func sequence(r any) string {
	s, _ := at(r, "dynamodb", "SequenceNumber").(string)
	return s
}

// live creates an item, changes it twice and removes it. The second change has no effect.
func (c *run) live(table string) {
	c.is("PutItem", put(table, `"sk":{"S":"a"},"n":{"N":"1"}`), "")
	c.is("UpdateItem", on(table, `"sk":{"S":"a"}`, `"UpdateExpression":"SET n = :v"`, values(`":v":{"N":"2"}`)), "")
	c.is("UpdateItem", on(table, `"sk":{"S":"a"}`, `"UpdateExpression":"SET n = :v"`, values(`":v":{"N":"2"}`)), "")
	c.is("DeleteItem", on(table, `"sk":{"S":"a"}`), "")
}

// shapes checks the images of the three records of live, as far as the view has them.
func (c *run) shapes(table, view string, newImages, oldImages bool) {
	c.live(table)
	found := c.history(table, 3)
	if len(found) != 3 {
		c.differ("%d records, want 3", len(found))
		return
	}
	image := func(n int) string { return fmt.Sprintf(`{%s,"sk":{"S":"a"},"n":{"N":"%d"}}`, partition, n) }
	for i, want := range []struct{ event, oldImage, newImage string }{{"INSERT", "", image(1)}, {"MODIFY", image(1), image(2)}, {"REMOVE", image(2), ""}} {
		body := `"Keys":{` + partition + `,"sk":{"S":"a"}},"SequenceNumber":"*","SizeBytes":"*","StreamViewType":"` + view + `","ApproximateCreationDateTime":"*"`
		if newImages && want.newImage != "" {
			body += `,"NewImage":` + want.newImage
		}
		if oldImages && want.oldImage != "" {
			body += `,"OldImage":` + want.oldImage
		}
		if what := mismatch(c.wanted(`"eventName":"`+want.event+`","eventID":"*","eventSource":"aws:dynamodb","eventVersion":"1.1","awsRegion":"*","dynamodb":{`+body+`}`), found[i], false); what != "" {
			c.differ("record %d: %s", i+1, what)
		}
	}
}

var streamCases = []Case{
	{"stream/records with both images", record, func(c *run) { c.shapes("both-images", "NEW_AND_OLD_IMAGES", true, true) }},
	{"stream/records with new images", record, func(c *run) { c.shapes("new-images", "NEW_IMAGE", true, false) }},
	{"stream/records with old images", record, func(c *run) { c.shapes("old-images", "OLD_IMAGE", false, true) }},
	{"stream/records with keys only", record, func(c *run) { c.shapes("keys-only", "KEYS_ONLY", false, false) }},
	{"stream/times are whole seconds", record, func(c *run) {
		before := time.Now().Add(-5 * time.Minute).Unix()
		c.is("PutItem", put("keys-only", `"sk":{"S":"a"}`), "")
		for _, r := range c.history("keys-only", 1) {
			number, _ := at(r, "dynamodb", "ApproximateCreationDateTime").(json.Number)
			when := rational(number)
			if !when.IsInt() || when.Num().Int64() < before {
				c.differ("the record's time is %s, want whole seconds since 1970, about now", number)
			}
		}
	}},
	{"stream/writes without effect give no record", streams, func(c *run) {
		item := `"sk":{"S":"a"},"n":{"N":"1"},"ss":{"SS":["a","b"]}`
		c.is("PutItem", put("both-images", item), "")
		c.is("PutItem", put("both-images", item), "")
		c.is("PutItem", put("both-images", `"sk":{"S":"a"},"n":{"N":"1.0"},"ss":{"SS":["b","a"]}`), "")
		c.is("UpdateItem", on("both-images", `"sk":{"S":"a"}`), "")
		c.is("UpdateItem", on("both-images", `"sk":{"S":"a"}`, `"UpdateExpression":"REMOVE zzz"`), "")
		c.is("DeleteItem", on("both-images", `"sk":{"S":"never"}`), "")
		c.is("UpdateItem", on("both-images", `"sk":{"S":"never"}`, `"UpdateExpression":"REMOVE a"`), "")
		c.is("PutItem", put("both-images", `"sk":{"S":"last"}`), "")
		c.eventsAre("both-images", "INSERT a", "INSERT last")
	}},
	{"stream/writes that fail give no record", streams, func(c *run) {
		c.fails("PutItem", put("both-images", `"sk":{"S":"a"}`, condition("attribute_exists(pk)")), failed)
		c.canceled(`"TransactItems":[{"Put":{"TableName":"$both-images","Item":`+pairItem("b", "")+`}},
			{"ConditionCheck":{"TableName":"$both-images","Key":`+sortKey("c")+`,"ConditionExpression":"attribute_exists(pk)"}}]`, "None", "ConditionalCheckFailed")
		c.is("UpdateItem", on("both-images", `"sk":{"S":"last"}`), "")
		c.eventsAre("both-images", "INSERT last")
	}},
	{"stream/a write to a removed item is an insert", recordEvent, func(c *run) {
		for range 2 {
			c.is("PutItem", put("both-images", `"sk":{"S":"a"}`), "")
			c.is("DeleteItem", on("both-images", `"sk":{"S":"a"}`), "")
		}
		c.eventsAre("both-images", "INSERT a", "REMOVE a", "INSERT a", "REMOVE a")
	}},
	{"stream/batches and transactions give a record for each item", streams, func(c *run) {
		c.is("BatchWriteItem", `"RequestItems":{"$both-images":[{"PutRequest":{"Item":`+pairItem("a", "")+`}}]}`, `"UnprocessedItems":{}`)
		c.is("TransactWriteItems", `"TransactItems":[{"Delete":{"TableName":"$both-images","Key":`+sortKey("a")+`}},{"Put":{"TableName":"$both-images","Item":`+pairItem("b", "")+`}}]`, "")
		found := c.history("both-images", 3)
		if len(found) != 3 {
			c.differ("%d records, want 3", len(found))
		}
	}},
	{"stream/images contain every type", record, func(c *run) {
		item := pairItem("a", `"n":{"N":"12345678901234567890123456789012345678"},"b":{"B":"AP8="},"u":{"NULL":true},"t":{"BOOL":false},"e":{"S":""},"ss":{"SS":["x","é"]},
			"ns":{"NS":["1.5","-2"]},"bs":{"BS":["AA==","AQ=="]},"l":{"L":[{"M":{}},{"L":[]}]},"m":{"M":{"a.b":{"N":"0"}}}`)
		c.is("PutItem", `"TableName":"$both-images","Item":`+item, "")
		for _, r := range c.history("both-images", 1) {
			if what := mismatch(c.wanted(`"NewImage":`+item), at(r, "dynamodb"), true); what != "" {
				c.differ("record: %s", what)
			}
		}
	}},
	{"stream/sequence numbers rise", record, func(c *run) {
		for i := range 5 {
			c.is("PutItem", put("both-images", fmt.Sprintf(`"sk":{"S":"a"},"n":{"N":"%d"}`, i)), "")
		}
		last := new(big.Int)
		for _, r := range c.history("both-images", 5) {
			text := sequence(r)
			n, ok := new(big.Int).SetString(text, 10)
			if !ok || len(text) < 21 || len(text) > 40 || n.Cmp(last) <= 0 {
				c.differ("sequence numbers do not rise, or have not 21 to 40 digits: %s", brief(text))
				return
			}
			last = n
		}
	}},
	{"stream/description", describe, func(c *run) {
		arn := c.arn("both-images")
		c.has("DescribeStream", fmt.Sprintf(`"StreamArn":%q`, arn), `"StreamDescription":{"StreamArn":"*","StreamLabel":"*","StreamStatus":"ENABLED","StreamViewType":"NEW_AND_OLD_IMAGES",
			"CreationRequestDateTime":"*","TableName":"$both-images","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],"Shards":"*"}`)
		open := 0
		for _, shard := range c.shards(arn) {
			if what := mismatch(c.wanted(`"ShardId":"*","SequenceNumberRange":{"StartingSequenceNumber":"*"}`), shard, true); what != "" {
				c.differ("shard: %s", what)
			}
			if at(shard, "SequenceNumberRange", "EndingSequenceNumber") == nil {
				open++
			}
		}
		if open == 0 {
			c.differ("no shard is open")
		}
		if !strings.HasSuffix(arn, "/stream/"+fmt.Sprint(at(c.ok("DescribeTable", `"TableName":"$both-images"`).document, "Table", "LatestStreamLabel"))) {
			c.differ("the stream's ARN does not end with its label")
		}
	}},
	{"stream/list", "API_streams_ListStreams", func(c *run) {
		c.has("ListStreams", `"TableName":"$both-images"`, `"Streams":[{"StreamArn":"*","StreamLabel":"*","TableName":"$both-images"}]`)
		c.has("ListStreams", `"TableName":"$simple"`, `"Streams":[]`)
	}},
	{"stream/unknown streams and shards are rejected", describe, func(c *run) {
		arn := c.arn("both-images")
		gone := arn[:max(0, len(arn)-len("2006-01-02T15:04:05.000"))] + "2001-01-01T00:00:00.000"
		c.fails("DescribeStream", fmt.Sprintf(`"StreamArn":%q`, gone), notFound)
		c.fails("GetShardIterator", fmt.Sprintf(`"StreamArn":%q,"ShardId":"shardId-00000000000000000000-00000000","ShardIteratorType":"LATEST"`, arn), notFound)
		c.fails("DescribeStream", `"StreamArn":"nonsense"`, validation)
	}},
	{"stream/an open shard has no child shards", "API_streams_ShardFilter", func(c *run) {
		arn := c.arn("both-images")
		for _, shard := range c.shards(arn) {
			c.has("DescribeStream", fmt.Sprintf(`"StreamArn":%q,"ShardFilter":{"Type":"CHILD_SHARDS","ShardId":%s}`, arn, text(at(shard, "ShardId"))),
				`"StreamDescription":{"Shards":[]}`)
		}
	}},
	{"iterator/all kinds", shardIterator, iteratorKinds},
	{"iterator/reading does not remove records", records, func(c *run) {
		c.is("PutItem", put("iterated", `"sk":{"S":"a"}`), "")
		c.history("iterated", 1)
		arn := c.arn("iterated")
		for _, shard := range c.shards(arn) {
			it := c.iterator(arn, shard, "TRIM_HORIZON")
			first, again := c.page(it), c.page(it)
			if a, b := list(first.document, "Records"), list(again.document, "Records"); text(a) != text(b) {
				c.differ("an iterator gives %d records, then %d", len(a), len(b))
			}
		}
	}},
	{"iterator/Limit", records, func(c *run) {
		for i := range 3 {
			c.is("PutItem", put("iterated", fmt.Sprintf(`"sk":{"S":"%d"}`, i)), "")
		}
		c.history("iterated", 3)
		arn := c.arn("iterated")
		for _, shard := range c.shards(arn) {
			it := c.iterator(arn, shard, "TRIM_HORIZON")
			if n := len(list(c.page(it, `"Limit":1`).document, "Records")); n > 1 {
				c.differ("%d records with a limit of 1", n)
			}
			c.fails("GetRecords", fmt.Sprintf(`"ShardIterator":%q,"Limit":0`, it), validation)
			c.fails("GetRecords", fmt.Sprintf(`"ShardIterator":%q,"Limit":1001`, it), validation)
		}
	}},
	{"iterator/an open shard always returns a next iterator", records, func(c *run) {
		arn := c.arn("iterated")
		for _, shard := range c.shards(arn) {
			it := c.iterator(arn, shard, "LATEST")
			for range 3 {
				a := c.page(it)
				if it, _ = at(a.document, "NextShardIterator").(string); it == "" {
					c.differ("no next iterator")
					return
				}
			}
		}
	}},
	{"iterator/invalid iterators are rejected", shardIterator, func(c *run) {
		arn := c.arn("iterated")
		for _, shard := range c.shards(arn) {
			head := fmt.Sprintf(`"StreamArn":%q,"ShardId":%s`, arn, text(at(shard, "ShardId")))
			c.fails("GetShardIterator", head+`,"ShardIteratorType":"AT_SEQUENCE_NUMBER"`, validation)
			c.fails("GetShardIterator", head+`,"ShardIteratorType":"NEWEST"`, validation)
			c.fails("GetShardIterator", head, validation)
		}
		c.fails("GetRecords", `"ShardIterator":"nonsense"`, validation)
	}},
	{"stream/a disabled stream ends its shards and keeps its records", streams, streamDisabled},
	{"stream/the stream of a deleted table stays readable", "API_DeleteTable", streamOfDeleted},
}

// iteratorKinds reads three records from each kind of iterator.
func iteratorKinds(c *run) {
	for i := range 3 {
		c.is("PutItem", put("iterated", fmt.Sprintf(`"sk":{"S":"%d"}`, i)), "")
	}
	found := c.history("iterated", 3)
	if len(found) != 3 {
		c.differ("%d records, want 3", len(found))
		return
	}
	arn := c.arn("iterated")
	for _, shard := range c.shards(arn) {
		own := c.ownRecords(c.iterator(arn, shard, "TRIM_HORIZON"))
		if len(own) == 0 {
			continue // the partition is in one shard
		}
		for kind, want := range map[string]int{"AT_SEQUENCE_NUMBER": 2, "AFTER_SEQUENCE_NUMBER": 1} {
			it := c.iterator(arn, shard, kind, fmt.Sprintf(`"SequenceNumber":%q`, sequence(own[1])))
			if n := len(c.ownRecords(it)); n != want {
				c.differ("%s of the second of three records gives %d, want %d", kind, n, want)
			}
		}
		latest := c.iterator(arn, shard, "LATEST")
		if n := len(c.ownRecords(latest)); n != 0 {
			c.differ("LATEST gives %d records of before", n)
		}
		c.is("PutItem", put("iterated", `"sk":{"S":"later"}`), "")
		c.eventually(func() string {
			if n := len(c.ownRecords(latest)); n != 1 {
				return fmt.Sprintf("LATEST gives %d records of what came later, want 1", n)
			}
			return ""
		})
	}
}

// streamDisabled disables a stream.
func streamDisabled(c *run) {
	c.is("PutItem", put("disabled", `"sk":{"S":"a"}`), "")
	c.history("disabled", 1)
	arn := c.arn("disabled")
	c.ok("UpdateTable", `"TableName":"$disabled","StreamSpecification":{"StreamEnabled":false}`)
	c.eventually(func() string {
		status := at(c.ok("DescribeStream", fmt.Sprintf(`"StreamArn":%q`, arn)).document, "StreamDescription", "StreamStatus")
		if status != "DISABLED" {
			return fmt.Sprintf("the status is %s, want DISABLED", brief(status))
		}
		return ""
	})
	shards, found := c.shards(arn), 0
	if len(shards) == 0 {
		c.differ("no shard is left")
	}
	for _, shard := range shards {
		if at(shard, "SequenceNumberRange", "EndingSequenceNumber") == nil {
			c.differ("a shard of a disabled stream is open")
			continue
		}
		found += len(c.toTheEnd(c.iterator(arn, shard, "TRIM_HORIZON")))
	}
	if found != 1 {
		c.differ("%d records are left, want 1", found)
	}
	if err := c.suite.waitActive(c.ctx, "disabled"); err != nil {
		panic(broken{err})
	}
	c.ok("UpdateTable", `"TableName":"$disabled","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_IMAGE"}`)
	if next := c.arn("disabled"); next == arn || next == "" {
		c.differ("enabled again, the stream's ARN is %s, want another one", brief(next))
	}
}

// toTheEnd reads a closed shard, which must end.
func (c *run) toTheEnd(iterator string) []any {
	var found []any
	for range 50 {
		a := c.page(iterator)
		found = append(found, list(a.document, "Records")...)
		if iterator, _ = at(a.document, "NextShardIterator").(string); iterator == "" {
			return found
		}
	}
	c.differ("a closed shard does not end")
	return found
}

// streamOfDeleted deletes a table with a stream.
func streamOfDeleted(c *run) {
	c.is("PutItem", put("dropped", `"sk":{"S":"a"}`), "")
	c.history("dropped", 1)
	arn := c.arn("dropped")
	c.ok("DeleteTable", `"TableName":"$dropped"`)
	c.eventually(func() string {
		if a := c.call("DescribeTable", `"TableName":"$dropped"`); a.code != notFound {
			return "the table is still there"
		}
		return ""
	})
	found := 0
	for _, shard := range c.shards(arn) {
		found += len(c.ownRecords(c.iterator(arn, shard, "TRIM_HORIZON")))
	}
	if found != 1 {
		c.differ("%d records are left, want 1", found)
	}
}

// eventsAre checks that the case's partition has these records, each an event and a sort key.
func (c *run) eventsAre(table string, want ...string) {
	var got []string
	for _, r := range c.history(table, len(want)) {
		got = append(got, fmt.Sprint(at(r, "eventName"), " ", at(r, "dynamodb", "Keys", "sk", "S")))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		c.differ("the records are %s, want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}
