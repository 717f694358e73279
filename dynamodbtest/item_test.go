package dynamodbtest_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

var sameItem = cmp.Options{
	cmpopts.IgnoreUnexported(
		types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{}, types.AttributeValueMemberBS{}, types.AttributeValueMemberL{}, types.AttributeValueMemberM{},
		types.AttributeValueMemberN{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberS{}, types.AttributeValueMemberSS{},
	),
}

func everyType() attrs {
	return attrs{
		"pk":   str("all"),
		"S":    str("text \" \\ \n \u2028 é 😀"),
		"N":    num("-1234567890.1234567890123456789012345678"),
		"B":    &types.AttributeValueMemberB{Value: []byte{0, 255, 10}},
		"BOOL": &types.AttributeValueMemberBOOL{Value: true},
		"NULL": &types.AttributeValueMemberNULL{Value: true},
		"SS":   &types.AttributeValueMemberSS{Value: []string{"", "a", "b"}},
		"NS":   &types.AttributeValueMemberNS{Value: []string{"-1", "2", "10"}},
		"BS":   &types.AttributeValueMemberBS{Value: [][]byte{{}, {1}, {2}}},
		"L":    &types.AttributeValueMemberL{Value: []types.AttributeValue{str(""), num("1"), &types.AttributeValueMemberL{Value: []types.AttributeValue{}}}},
		"M":    &types.AttributeValueMemberM{Value: attrs{"in.side": &types.AttributeValueMemberM{Value: attrs{}}, "": str("x")}},
		"e":    str(""),
	}
}

func TestEveryTypeComesBack(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "NEW_AND_OLD_IMAGES", "")
	want := everyType()
	f.put("Orders", want)
	if diff := cmp.Diff(want, f.get("Orders", attrs{"pk": str("all")}), sameItem); diff != "" {
		t.Error(diff)
	}
	if f.get("Orders", attrs{"pk": str("absent")}) != nil {
		t.Error("an item that was never put")
	}
}

func TestNumericKeysAreValues(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "N")
	for _, text := range []string{"1", "1.0", "1e0", "+1", "001"} {
		f.put("Orders", attrs{"pk": str("a"), "sk": num(text)})
	}
	out, err := f.db.Scan(f.ctx, &dynamodb.ScanInput{TableName: ptr("Orders")})
	f.noError(err)
	if diff := cmp.Diff([]attrs{{"pk": str("a"), "sk": num("1")}}, out.Items, sameItem); diff != "" {
		t.Error(diff)
	}
	f.remove("Orders", attrs{"pk": str("a"), "sk": num("10e-1")})
	if *f.describe("Orders").ItemCount != 0 {
		t.Error("the item is still there")
	}
}

func TestPutRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "B")
	binary := func(n int) types.AttributeValue {
		return &types.AttributeValueMemberB{Value: bytes.Repeat([]byte{1}, n)}
	}
	long := func(n int) types.AttributeValue { return str(strings.Repeat("x", n)) }
	cases := []struct {
		item attrs
		want string
	}{
		{attrs{"pk": str("a")}, "Missing the key sk in the item"},
		{attrs{"sk": binary(1)}, "Missing the key pk in the item"},
		{attrs{"pk": num("1"), "sk": binary(1)}, "Type mismatch for key pk expected: S actual: N"},
		{attrs{"pk": str(""), "sk": binary(1)}, "empty string value. Key: pk"},
		{attrs{"pk": str("a"), "sk": binary(0)}, "empty binary value. Key: sk"},
		{attrs{"pk": long(2049), "sk": binary(1)}, "2048 bytes"},
		{attrs{"pk": str("a"), "sk": binary(1025)}, "1024 bytes"},
		{attrs{"pk": str("a"), "sk": binary(1), "x": num("1e126")}, "overflow"},
		{attrs{"pk": str("a"), "sk": binary(1), "x": &types.AttributeValueMemberSS{Value: []string{}}}, "may not be empty"},
		{attrs{"pk": str("a"), "sk": binary(1), "x": &types.AttributeValueMemberNS{Value: []string{"1", "1.0"}}}, "duplicates"},
		{attrs{"pk": str("a"), "sk": binary(1), "": str("x")}, "name must not be empty"},
		{attrs{"pk": str("a"), "sk": binary(1), "x": long(400<<10 - 2 - 1 - 2 - 1)}, "Item size has exceeded"},
	}
	for _, c := range cases {
		_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: ptr("Orders"), Item: c.item})
		f.wantCode(err, "ValidationException")
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	// The largest keys and the largest item are accepted.
	f.put("Orders", attrs{"pk": long(2048), "sk": binary(1024)})
	f.put("Orders", attrs{"pk": str("a"), "sk": binary(1), "x": long(400<<10 - 2 - 1 - 2 - 1 - 1)})
}

func TestKeyRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "N")
	for _, key := range []attrs{
		{"pk": str("a")}, {"pk": str("a"), "other": num("1")}, {"pk": str("a"), "sk": str("1")}, {"pk": str("a"), "sk": num("1"), "x": str("")},
	} {
		_, err := f.db.GetItem(f.ctx, &dynamodb.GetItemInput{TableName: ptr("Orders"), Key: key})
		f.wantCode(err, "ValidationException")
		_, err = f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: ptr("Orders"), Key: key})
		f.wantCode(err, "ValidationException")
	}
}

func TestReturnValues(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	key := attrs{"pk": str("a")}
	put := func(v string) attrs {
		out, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: ptr("Orders"), Item: attrs{"pk": str("a"), "v": num(v), "w": num("0")}, ReturnValues: "ALL_OLD"})
		f.noError(err)
		return out.Attributes
	}
	if old := put("1"); old != nil {
		t.Errorf("nothing was replaced, but %v", old)
	}
	if diff := cmp.Diff(attrs{"pk": str("a"), "v": num("1"), "w": num("0")}, put("2"), sameItem); diff != "" {
		t.Error(diff)
	}
	update := func(returned types.ReturnValue) attrs {
		out, err := f.db.UpdateItem(f.ctx, &dynamodb.UpdateItemInput{
			TableName: ptr("Orders"), Key: key, UpdateExpression: ptr("SET v = v + :one"), ReturnValues: returned,
			ExpressionAttributeValues: attrs{":one": num("1")},
		})
		f.noError(err)
		return out.Attributes
	}
	for _, c := range []struct {
		returned types.ReturnValue
		want     attrs
	}{
		{"NONE", nil}, {"ALL_OLD", attrs{"pk": str("a"), "v": num("3"), "w": num("0")}}, {"ALL_NEW", attrs{"pk": str("a"), "v": num("5"), "w": num("0")}},
		{"UPDATED_OLD", attrs{"v": num("5")}}, {"UPDATED_NEW", attrs{"v": num("7")}},
	} {
		if diff := cmp.Diff(c.want, update(c.returned), sameItem); diff != "" {
			t.Errorf("%s: %s", c.returned, diff)
		}
	}
	out, err := f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: ptr("Orders"), Key: key, ReturnValues: "ALL_OLD"})
	f.noError(err)
	if diff := cmp.Diff(attrs{"pk": str("a"), "v": num("7"), "w": num("0")}, out.Attributes, sameItem); diff != "" {
		t.Error(diff)
	}
	_, err = f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: ptr("Orders"), Item: key, ReturnValues: "ALL_NEW"})
	f.wantCode(err, "ValidationException")
}

func TestUpdateItem(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	key := attrs{"pk": str("a")}
	update := func(text string, values attrs) error {
		in := &dynamodb.UpdateItemInput{TableName: ptr("Orders"), Key: key, ExpressionAttributeValues: values}
		if text != "" {
			in.UpdateExpression = &text
		}
		_, err := f.db.UpdateItem(f.ctx, in)
		return err
	}
	f.noError(update("", nil))
	if diff := cmp.Diff(key, f.get("Orders", key), sameItem); diff != "" {
		t.Errorf("an update without expression creates the item: %s", diff)
	}
	f.noError(update("SET m = :m ADD c :one", attrs{":m": &types.AttributeValueMemberM{Value: attrs{"x": str("1")}}, ":one": num("1")}))
	f.noError(update("SET m.y = m.x REMOVE m.x ADD c :one", attrs{":one": num("1")}))
	want := attrs{"pk": str("a"), "c": num("2"), "m": &types.AttributeValueMemberM{Value: attrs{"y": str("1")}}}
	if diff := cmp.Diff(want, f.get("Orders", key), sameItem); diff != "" {
		t.Error(diff)
	}
	f.wantCode(update("SET pk = :v", attrs{":v": str("b")}), "ValidationException")
	f.wantCode(update("SET v = :v", attrs{":v": str("b"), ":w": str("c")}), "ValidationException")
	f.wantCode(update("", attrs{":v": str("b")}), "ValidationException")
	f.wantCode(update("SET v = :v", attrs{":v": str(strings.Repeat("x", 400<<10))}), "ValidationException")
	if diff := cmp.Diff(want, f.get("Orders", key), sameItem); diff != "" {
		t.Errorf("a refused update changed the item: %s", diff)
	}
}

func TestConditionalWrites(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "NEW_IMAGE", "")
	put := func() error {
		_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{
			TableName: ptr("Orders"), Item: attrs{"pk": str("a"), "v": num("1")}, ConditionExpression: ptr("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: "ALL_OLD",
		})
		return err
	}
	f.noError(put())
	err := put()
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(attrs{"pk": str("a"), "v": num("1")}, failed.Item, sameItem); diff != "" {
		t.Error(diff)
	}
	_, err = f.db.UpdateItem(f.ctx, &dynamodb.UpdateItemInput{
		TableName: ptr("Orders"), Key: attrs{"pk": str("a")}, UpdateExpression: ptr("SET v = :two"), ConditionExpression: ptr("v = :two"),
		ExpressionAttributeValues: attrs{":two": num("2")},
	})
	if !errors.As(err, &failed) || failed.Item != nil {
		t.Errorf("got %v", err)
	}
	_, err = f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: ptr("Orders"), Key: attrs{"pk": str("b")}, ConditionExpression: ptr("attribute_exists(pk)")})
	f.wantCode(err, "ConditionalCheckFailedException")
	arn := f.streamARN("Orders")
	if n := len(f.records(arn, f.onlyShard(arn))); n != 1 {
		t.Errorf("%d records; failed writes leave none", n)
	}
}

func TestBatchWriteItem(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "KEYS_ONLY", "")
	f.createTable("Others", "", "")
	f.put("Orders", attrs{"pk": str("gone")})
	put := func(pk string) types.WriteRequest {
		return types.WriteRequest{PutRequest: &types.PutRequest{Item: attrs{"pk": str(pk)}}}
	}
	del := types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: attrs{"pk": str("gone")}}}
	write := func(items map[string][]types.WriteRequest) (*dynamodb.BatchWriteItemOutput, error) {
		return f.db.BatchWriteItem(f.ctx, &dynamodb.BatchWriteItemInput{RequestItems: items, ReturnConsumedCapacity: "TOTAL"})
	}
	out, err := write(map[string][]types.WriteRequest{"Orders": {put("a"), del, put("b")}, "Others": {put("a")}})
	f.noError(err)
	if len(out.UnprocessedItems) != 0 || len(out.ConsumedCapacity) != 2 || *out.ConsumedCapacity[0].CapacityUnits != 3 {
		t.Errorf("unprocessed %v, capacity %v", out.UnprocessedItems, out.ConsumedCapacity)
	}
	if *f.describe("Orders").ItemCount != 2 || *f.describe("Others").ItemCount != 1 {
		t.Error("not all was written")
	}
	many := make([]types.WriteRequest, 26)
	for i := range many {
		many[i] = put(itoa(int64(i)))
	}
	for _, refused := range []map[string][]types.WriteRequest{
		{"Orders": {put("a"), put("a")}}, {"Orders": {put("gone"), del}}, {"Orders": many}, {"Orders": {}}, {"Orders": {put("")}}, {"Orders": {{}}},
	} {
		_, err := write(refused)
		f.wantCode(err, "ValidationException")
	}
	_, err = write(map[string][]types.WriteRequest{"Absent": {put("a")}, "Orders": {put("z")}})
	f.wantCode(err, "ResourceNotFoundException")
	if *f.describe("Orders").ItemCount != 2 {
		t.Error("a refused batch wrote")
	}
}

func TestBatchGetItem(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	big := strings.Repeat("x", 390<<10)
	for i := range 50 {
		f.put("Orders", attrs{"pk": str(itoa(int64(i))), "big": str(big)})
	}
	request := map[string]types.KeysAndAttributes{"Orders": {ConsistentRead: ptr(true)}}
	var keys []attrs
	for i := range 60 {
		keys = append(keys, attrs{"pk": str(itoa(int64(i)))})
	}
	request["Orders"] = types.KeysAndAttributes{Keys: keys, ConsistentRead: ptr(true), ProjectionExpression: ptr("pk")}
	found, calls := 0, 0
	for len(request) > 0 {
		out, err := f.db.BatchGetItem(f.ctx, &dynamodb.BatchGetItemInput{RequestItems: request})
		f.noError(err)
		for _, it := range out.Responses["Orders"] {
			if len(it) != 1 {
				t.Fatalf("projection gives %d attributes", len(it))
			}
		}
		found += len(out.Responses["Orders"])
		calls++
		request = out.UnprocessedKeys
	}
	if found != 50 || calls != 2 {
		t.Errorf("%d items in %d calls, want 50 in 2 of 16 MB", found, calls)
	}
	for _, refused := range [][]attrs{{}, {{"pk": str("a")}, {"pk": str("a")}}, append(keys, make([]attrs, 41)...)} {
		_, err := f.db.BatchGetItem(f.ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"Orders": {Keys: refused}}})
		f.wantCode(err, "ValidationException")
	}
}

func TestConsumedCapacity(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	it := attrs{"pk": str("a"), "v": str(strings.Repeat("x", 5000))}
	put, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: ptr("Orders"), Item: it, ReturnConsumedCapacity: "TOTAL"})
	f.noError(err)
	if *put.ConsumedCapacity.CapacityUnits != 5 {
		t.Errorf("put consumes %v", *put.ConsumedCapacity.CapacityUnits)
	}
	for consistent, want := range map[bool]float64{true: 2, false: 1} {
		get, err := f.db.GetItem(f.ctx, &dynamodb.GetItemInput{TableName: ptr("Orders"), Key: attrs{"pk": str("a")}, ConsistentRead: &consistent, ReturnConsumedCapacity: "TOTAL"})
		f.noError(err)
		scan, err := f.db.Scan(f.ctx, &dynamodb.ScanInput{TableName: ptr("Orders"), ConsistentRead: &consistent, ReturnConsumedCapacity: "TOTAL"})
		f.noError(err)
		if *get.ConsumedCapacity.CapacityUnits != want || *scan.ConsumedCapacity.CapacityUnits != want {
			t.Errorf("get consumes %v, scan %v", *get.ConsumedCapacity.CapacityUnits, *scan.ConsumedCapacity.CapacityUnits)
		}
	}
}

func TestGetItemProjection(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.put("Orders", everyType())
	out, err := f.db.GetItem(f.ctx, &dynamodb.GetItemInput{
		TableName: ptr("Orders"), Key: attrs{"pk": str("all")}, ProjectionExpression: ptr("#n, L[1]"), ExpressionAttributeNames: map[string]string{"#n": "N"},
	})
	f.noError(err)
	want := attrs{"N": everyType()["N"], "L": &types.AttributeValueMemberL{Value: []types.AttributeValue{num("1")}}}
	if diff := cmp.Diff(want, out.Item, sameItem); diff != "" {
		t.Error(diff)
	}
}
