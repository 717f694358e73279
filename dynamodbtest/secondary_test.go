package dynamodbtest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

func keys(names ...string) []types.KeySchemaElement {
	list := []types.KeySchemaElement{{AttributeName: &names[0], KeyType: "HASH"}}
	if len(names) > 1 {
		list = append(list, types.KeySchemaElement{AttributeName: &names[1], KeyType: "RANGE"})
	}
	return list
}

func defined(pairs ...string) []types.AttributeDefinition {
	var list []types.AttributeDefinition
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, types.AttributeDefinition{AttributeName: &pairs[i], AttributeType: types.ScalarAttributeType(pairs[i+1])})
	}
	return list
}

// createIndexed creates the table Orders with the key (pk, sk), the global indexes byCustomer
// (customer, amount; INCLUDE note) and byState (state; KEYS_ONLY), and the local indexes byDate
// (pk, date; ALL) and byAmount (pk, amount; KEYS_ONLY).
func (f *fixture) createIndexed() {
	f.t.Helper()
	_, err := f.db.CreateTable(f.ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: defined("pk", "S", "sk", "S", "customer", "S", "amount", "N", "state", "S", "date", "S"), KeySchema: keys("pk", "sk"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			{IndexName: aws.String("byCustomer"), KeySchema: keys("customer", "amount"), Projection: &types.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []string{"note"}}},
			{IndexName: aws.String("byState"), KeySchema: keys("state"), Projection: &types.Projection{ProjectionType: "KEYS_ONLY"}},
		},
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{
			{IndexName: aws.String("byDate"), KeySchema: keys("pk", "date"), Projection: &types.Projection{ProjectionType: "ALL"}},
			{IndexName: aws.String("byAmount"), KeySchema: keys("pk", "amount"), Projection: &types.Projection{ProjectionType: "KEYS_ONLY"}},
		},
	})
	f.noError(err)
}

// names returns the attribute names of an item, sorted and joined.
func names(it attrs) string {
	var list []string
	for name := range it {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (f *fixture) query(in dynamodb.QueryInput) *dynamodb.QueryOutput {
	f.t.Helper()
	in.TableName = aws.String("Orders")
	out, err := f.db.Query(f.ctx, &in)
	f.noError(err)
	return out
}

func order(pk, sk, customer, amount string) attrs {
	it := attrs{"pk": str(pk), "sk": str(sk), "note": str("n" + sk), "secret": str("x")}
	if customer != "" {
		it["customer"] = str(customer)
	}
	if amount != "" {
		it["amount"] = num(amount)
	}
	return it
}

func TestIndexesAreDescribed(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	f.put("Orders", order("a", "1", "c", "5"))
	out, err := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: aws.String("Orders")})
	f.noError(err)
	if len(out.Table.GlobalSecondaryIndexes) != 2 || len(out.Table.LocalSecondaryIndexes) != 2 || len(out.Table.AttributeDefinitions) != 6 {
		t.Fatalf("%+v", out.Table)
	}
	x := out.Table.GlobalSecondaryIndexes[0]
	if *x.IndexName != "byCustomer" || x.IndexStatus != "ACTIVE" || *x.ItemCount != 1 || x.Projection.NonKeyAttributes[0] != "note" || !strings.HasSuffix(*x.IndexArn, ":table/Orders/index/byCustomer") {
		t.Errorf("%+v", x)
	}
}

func TestQueryOfIndexes(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	for i, amount := range []string{"10", "9", "-1.5", "100"} {
		f.put("Orders", order(fmt.Sprintf("p%d", i%2), fmt.Sprint(i), "c", amount))
	}
	f.put("Orders", order("p0", "sparse", "", "7"))
	global := dynamodb.QueryInput{IndexName: aws.String("byCustomer"), KeyConditionExpression: aws.String("customer = :c"), ExpressionAttributeValues: attrs{":c": str("c")}}
	out := f.query(global)
	var totals []string
	for _, it := range out.Items {
		totals = append(totals, it["amount"].(*types.AttributeValueMemberN).Value)
		if names(it) != "amount customer note pk sk" {
			t.Errorf("an INCLUDE projection has %s", names(it))
		}
	}
	if got := strings.Join(totals, " "); got != "-1.5 9 10 100" {
		t.Errorf("totals in the order %s", got)
	}
	global.ScanIndexForward = aws.Bool(false)
	global.KeyConditionExpression, global.ExpressionAttributeValues[":t"] = aws.String("customer = :c AND amount < :t"), num("100")
	out = f.query(global)
	if out.Count != 3 || out.Items[0]["amount"].(*types.AttributeValueMemberN).Value != "10" {
		t.Errorf("backwards %+v", out.Items)
	}
	local := dynamodb.QueryInput{IndexName: aws.String("byAmount"), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: attrs{":p": str("p0")}}
	out = f.query(local)
	if out.Count != 3 || names(out.Items[1]) != "amount pk sk" {
		t.Errorf("local index: %+v", out.Items)
	}
	local.Select = types.SelectAllAttributes
	local.ReturnConsumedCapacity = "INDEXES"
	out = f.query(local)
	if names(out.Items[0]) != "amount customer note pk secret sk" {
		t.Errorf("ALL_ATTRIBUTES of a local index has %s", names(out.Items[0]))
	}
	if c := out.ConsumedCapacity; *c.CapacityUnits != 4 || *c.Table.CapacityUnits != 3 || *c.LocalSecondaryIndexes["byAmount"].CapacityUnits != 1 {
		t.Errorf("the items behind a local index are not billed: %+v", c)
	}
	local.Select, local.ProjectionExpression = "", aws.String("secret")
	if out = f.query(local); names(out.Items[0]) != "secret" {
		t.Errorf("a projection of what a local index lacks has %s", names(out.Items[0]))
	}
}

// A page ends between items with one index key; the next page begins at the right one of them, in
// both directions.
func TestPagesOfIndexes(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	for i := range 7 {
		f.put("Orders", order(fmt.Sprintf("p%d", i), "s", "c", "1"))
	}
	for _, forward := range []bool{true, false} {
		seen := map[string]bool{}
		in := dynamodb.QueryInput{IndexName: aws.String("byCustomer"), Limit: aws.Int32(2), ScanIndexForward: &forward, KeyConditionExpression: aws.String("customer = :c AND amount = :t"), ExpressionAttributeValues: attrs{":c": str("c"), ":t": num("1")}}
		for pages := 0; ; pages++ {
			out := f.query(in)
			for _, it := range out.Items {
				seen[it["pk"].(*types.AttributeValueMemberS).Value] = true
			}
			if out.LastEvaluatedKey == nil {
				if pages != 3 || len(seen) != 7 {
					t.Errorf("%d pages with %d items", pages+1, len(seen))
				}
				break
			}
			if names(out.LastEvaluatedKey) != "amount customer pk sk" {
				t.Fatalf("last key %s", names(out.LastEvaluatedKey))
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	}
	scanned := 0
	for segment := range int32(3) {
		out, err := f.db.Scan(f.ctx, &dynamodb.ScanInput{TableName: aws.String("Orders"), IndexName: aws.String("byCustomer"), Segment: &segment, TotalSegments: aws.Int32(3)})
		f.noError(err)
		scanned += int(out.Count)
	}
	if scanned != 7 {
		t.Errorf("the segments of an index have %d items", scanned)
	}
}

func TestIndexReadsRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	customer := func(in dynamodb.QueryInput) dynamodb.QueryInput {
		in.TableName, in.IndexName, in.KeyConditionExpression, in.ExpressionAttributeValues = aws.String("Orders"), aws.String("byCustomer"), aws.String("customer = :c"), attrs{":c": str("c")}
		return in
	}
	for want, in := range map[string]dynamodb.QueryInput{
		"Consistent reads are not supported on global secondary indexes":         customer(dynamodb.QueryInput{ConsistentRead: aws.Bool(true)}),
		"Select type ALL_ATTRIBUTES is not supported for global secondary index": customer(dynamodb.QueryInput{Select: types.SelectAllAttributes}),
		"Global secondary index byCustomer does not project [secret]":            customer(dynamodb.QueryInput{ProjectionExpression: aws.String("pk, secret")}),
		"The provided starting key is invalid":                                   customer(dynamodb.QueryInput{ExclusiveStartKey: attrs{"pk": str("a"), "sk": str("b")}}),
	} {
		_, err := f.db.Query(f.ctx, &in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestIndexKeysAreChecked(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	for want, it := range map[string]attrs{
		"Type mismatch for Index Key customer Expected: S Actual: N IndexName: byCustomer": {"pk": str("a"), "sk": str("b"), "customer": num("1")},
		"cannot contain an empty string value. IndexName: byState, IndexKey: state":        {"pk": str("a"), "sk": str("b"), "state": str("")},
		"Aggregated size of all range keys has exceeded the size limit of 1024 bytes":      {"pk": str("a"), "sk": str("b"), "date": str(strings.Repeat("x", 1025))},
		"Size of hashkey has exceeded the maximum size limit of2048 bytes":                 {"pk": str("a"), "sk": str("b"), "state": str(strings.Repeat("x", 2049))},
		"Type mismatch for Index Key amount Expected: N Actual: S IndexName: byCustomer":   {"pk": str("a"), "sk": str("b"), "amount": str("1")},
	} {
		if _, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: it}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestIndexWriteCapacity(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	update := func(expression string, values attrs) *types.ConsumedCapacity {
		out, err := f.db.UpdateItem(f.ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String("Orders"), Key: attrs{"pk": str("a"), "sk": str("1")}, UpdateExpression: &expression, ExpressionAttributeValues: values, ReturnConsumedCapacity: "INDEXES",
			ReturnItemCollectionMetrics: "SIZE",
		})
		f.noError(err)
		if out.ItemCollectionMetrics == nil || names(out.ItemCollectionMetrics.ItemCollectionKey) != "pk" || len(out.ItemCollectionMetrics.SizeEstimateRangeGB) != 2 {
			t.Errorf("metrics %+v", out.ItemCollectionMetrics)
		}
		return out.ConsumedCapacity
	}
	for _, c := range []struct {
		expression    string
		values        attrs
		units         float64
		global, local string // index=units
	}{
		{"SET customer = :c, amount = :t", attrs{":c": str("c"), ":t": num("1")}, 3, "byCustomer=1", "byAmount=1"},
		{"SET secret = :c", attrs{":c": str("y")}, 1, "", ""},           // in no index
		{"SET note = :c", attrs{":c": str("y")}, 2, "byCustomer=1", ""}, // in one index
		{"SET note = :c", attrs{":c": str("y")}, 1, "", ""},             // nothing changes
		{"SET amount = :t", attrs{":t": num("2")}, 5, "byCustomer=2", "byAmount=2"},
		{"REMOVE customer", nil, 2, "byCustomer=1", ""},
	} {
		got := update(c.expression, c.values)
		if *got.CapacityUnits != c.units || *got.Table.CapacityUnits != 1 || arms(got.GlobalSecondaryIndexes) != c.global || arms(got.LocalSecondaryIndexes) != c.local {
			t.Errorf("%s takes %v: %s, %s", c.expression, *got.CapacityUnits, arms(got.GlobalSecondaryIndexes), arms(got.LocalSecondaryIndexes))
		}
	}
}

func arms(indexes map[string]types.Capacity) string {
	var list []string
	for name, c := range indexes {
		list = append(list, fmt.Sprintf("%s=%v", name, *c.CapacityUnits))
	}
	return strings.Join(list, " ")
}

func TestIndexesAddedAndRemoved(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	for i := range 5 {
		f.put("Orders", attrs{"pk": str(fmt.Sprint(i)), "state": str("new")})
	}
	// This item is not in the index, because its type differs.
	f.put("Orders", attrs{"pk": str("other"), "state": num("1")})
	update := func(definitions []types.AttributeDefinition, u types.GlobalSecondaryIndexUpdate) error {
		_, err := f.db.UpdateTable(f.ctx, &dynamodb.UpdateTableInput{TableName: aws.String("Orders"), AttributeDefinitions: definitions, GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{u}})
		return err
	}
	create := types.GlobalSecondaryIndexUpdate{Create: &types.CreateGlobalSecondaryIndexAction{IndexName: aws.String("byState"), KeySchema: keys("state"), Projection: &types.Projection{ProjectionType: "ALL"}}}
	f.wantCode(update(nil, create), "ValidationException")
	f.noError(update(defined("state", "S"), create))
	f.wantCode(update(defined("state", "S"), create), "ValidationException")
	in := dynamodb.QueryInput{IndexName: aws.String("byState"), KeyConditionExpression: aws.String("#s = :s"), ExpressionAttributeNames: map[string]string{"#s": "state"}, ExpressionAttributeValues: attrs{":s": str("new")}}
	if out := f.query(in); out.Count != 5 {
		t.Errorf("the new index has %d items", out.Count)
	}
	f.noError(update(nil, types.GlobalSecondaryIndexUpdate{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: aws.String("byState")}}))
	f.wantCode(update(nil, types.GlobalSecondaryIndexUpdate{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: aws.String("byState")}}), "ResourceNotFoundException")
	in.TableName = aws.String("Orders")
	_, err := f.db.Query(f.ctx, &in)
	f.wantCode(err, "ValidationException")
}

func TestIndexSpecificationsRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	all := &types.Projection{ProjectionType: "ALL"}
	global := func(x types.GlobalSecondaryIndex) dynamodb.CreateTableInput {
		x.IndexName = aws.String("byG")
		return dynamodb.CreateTableInput{AttributeDefinitions: defined("pk", "S", "g", "S"), KeySchema: keys("pk"), GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{x}}
	}
	local := func(key []types.KeySchemaElement, x types.LocalSecondaryIndex) dynamodb.CreateTableInput {
		x.IndexName, x.Projection = aws.String("byL"), all
		return dynamodb.CreateTableInput{AttributeDefinitions: defined("pk", "S", "sk", "S", "l", "S"), KeySchema: key, LocalSecondaryIndexes: []types.LocalSecondaryIndex{x}}
	}
	twice := global(types.GlobalSecondaryIndex{KeySchema: keys("g"), Projection: all})
	twice.GlobalSecondaryIndexes = append(twice.GlobalSecondaryIndexes, twice.GlobalSecondaryIndexes[0])
	unused := global(types.GlobalSecondaryIndex{KeySchema: keys("pk", "g"), Projection: all})
	unused.AttributeDefinitions = defined("pk", "S", "g", "S", "h", "S")
	for want, in := range map[string]dynamodb.CreateTableInput{
		"ProjectionType is INCLUDE, but NonKeyAttributes is not specified": global(types.GlobalSecondaryIndex{KeySchema: keys("g"), Projection: &types.Projection{ProjectionType: "INCLUDE"}}),
		"ProjectionType is KEYS_ONLY, but NonKeyAttributes is specified":   global(types.GlobalSecondaryIndex{KeySchema: keys("g"), Projection: &types.Projection{ProjectionType: "KEYS_ONLY", NonKeyAttributes: []string{"x"}}}),
		"Some index key attributes are not defined":                        global(types.GlobalSecondaryIndex{KeySchema: keys("h"), Projection: all}),
		"Unknown ProjectionType: null":                                     global(types.GlobalSecondaryIndex{KeySchema: keys("g"), Projection: &types.Projection{}}),
		"ProvisionedThroughput should not be specified for index: byG":     global(types.GlobalSecondaryIndex{KeySchema: keys("g"), Projection: all, ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(1), WriteCapacityUnits: aws.Int64(1)}}),
		"Duplicate index name: byG":                                        twice,
		"Some AttributeDefinitions are not used":                           unused,
		"Table KeySchema does not have a range key":                        local(keys("pk"), types.LocalSecondaryIndex{KeySchema: keys("pk", "l")}),
		"Index KeySchema does not have a range key for index: byL":         local(keys("pk", "sk"), types.LocalSecondaryIndex{KeySchema: keys("pk")}),
		"does not have the same leading hash key":                          local(keys("pk", "sk"), types.LocalSecondaryIndex{KeySchema: keys("l", "sk")}),
	} {
		in.TableName, in.BillingMode = aws.String("Orders"), types.BillingModePayPerRequest
		if _, err := f.db.CreateTable(f.ctx, &in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// After any writes an index holds what filtering the whole table finds, in the index's order.
func TestIndexesAgreeWithTheTable(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createIndexed()
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	for range 400 {
		key := attrs{"pk": str(pick("p", "q")), "sk": str(pick("1", "2", "3", "4", "5", "6"))}
		switch r.IntN(4) {
		case 0:
			f.remove("Orders", key)
		case 1:
			_, err := f.db.UpdateItem(f.ctx, &dynamodb.UpdateItemInput{TableName: aws.String("Orders"), Key: key, UpdateExpression: aws.String("SET amount = :t REMOVE customer"), ExpressionAttributeValues: attrs{":t": num(pick("1", "2", "-3"))}})
			f.noError(err)
		default:
			f.put("Orders", order(key["pk"].(*types.AttributeValueMemberS).Value, key["sk"].(*types.AttributeValueMemberS).Value, pick("", "c", "c\x00", "d"), pick("", "1", "2", "10", "-3")))
		}
	}
	found := int32(0)
	for _, customer := range []string{"c", "c\x00", "d"} {
		values := attrs{":c": str(customer)}
		indexed := f.query(dynamodb.QueryInput{IndexName: aws.String("byCustomer"), KeyConditionExpression: aws.String("customer = :c"), ExpressionAttributeValues: values})
		scanned, err := f.db.Scan(f.ctx, &dynamodb.ScanInput{TableName: aws.String("Orders"), FilterExpression: aws.String("customer = :c AND attribute_exists(amount)"), ExpressionAttributeValues: values})
		f.noError(err)
		if found += indexed.Count; indexed.Count != scanned.Count {
			t.Errorf("customer %q: %d entries, %d items", customer, indexed.Count, scanned.Count)
		}
	}
	if found == 0 {
		t.Error("no entry is left to compare")
	}
}
