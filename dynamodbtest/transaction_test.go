package dynamodbtest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

func (f *fixture) transact(token string, items ...types.TransactWriteItem) error {
	in := &dynamodb.TransactWriteItemsInput{TransactItems: items}
	if token != "" {
		in.ClientRequestToken = &token
	}
	_, err := f.db.TransactWriteItems(f.ctx, in)
	return err
}

func transactPut(table, pk, v string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: attrs{"pk": str(pk), "v": num(v)}}}
}

func TestTransactWriteItems(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "NEW_IMAGE", "")
	f.createTable("Others", "", "")
	f.put("Orders", attrs{"pk": str("old"), "v": num("1")})
	f.put("Orders", attrs{"pk": str("counter"), "v": num("1")})
	table := ptr("Orders")
	check := func(pk string) types.TransactWriteItem {
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: table, Key: attrs{"pk": str(pk)}, ConditionExpression: ptr("attribute_exists(pk)"), ReturnValuesOnConditionCheckFailure: "ALL_OLD",
		}}
	}
	increment := types.TransactWriteItem{Update: &types.Update{
		TableName: table, Key: attrs{"pk": str("counter")}, UpdateExpression: ptr("ADD v :one"), ConditionExpression: ptr("v < :ten"),
		ExpressionAttributeValues: attrs{":one": num("1"), ":ten": num("10")},
	}}
	remove := types.TransactWriteItem{Delete: &types.Delete{TableName: table, Key: attrs{"pk": str("old")}}}
	err := f.transact("", transactPut("Others", "x", "1"), increment, remove, check("absent"))
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		t.Fatalf("got %v", err)
	}
	var codes []string
	for _, r := range cancelled.CancellationReasons {
		codes = append(codes, *r.Code)
	}
	if diff := cmp.Diff([]string{"None", "None", "None", "ConditionalCheckFailed"}, codes); diff != "" {
		t.Error(diff)
	}
	if f.get("Others", attrs{"pk": str("x")}) != nil || f.get("Orders", attrs{"pk": str("old")}) == nil {
		t.Error("a cancelled transaction wrote")
	}
	f.noError(f.transact("", transactPut("Others", "x", "1"), increment, remove))
	if f.get("Others", attrs{"pk": str("x")}) == nil || f.get("Orders", attrs{"pk": str("old")}) != nil {
		t.Error("the transaction did not write")
	}
	if diff := cmp.Diff(attrs{"pk": str("counter"), "v": num("2")}, f.get("Orders", attrs{"pk": str("counter")}), sameItem); diff != "" {
		t.Error(diff)
	}
	arn := f.streamARN("Orders")
	if n := len(f.records(arn, f.onlyShard(arn))); n != 4 {
		t.Errorf("%d records", n)
	}
}

func TestTransactWriteRefused(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	many := make([]types.TransactWriteItem, 101)
	for i := range many {
		many[i] = transactPut("Orders", itoa(int64(i)), "1")
	}
	both := transactPut("Orders", "a", "1")
	both.Delete = &types.Delete{TableName: ptr("Orders"), Key: attrs{"pk": str("b")}}
	for _, items := range [][]types.TransactWriteItem{
		many, {{}}, {both}, {transactPut("Orders", "a", "1"), transactPut("Orders", "a", "2")}, {transactPut("Orders", "", "1")},
	} {
		f.wantCode(f.transact("", items...), "ValidationException")
	}
	f.wantCode(f.transact("", transactPut("Absent", "a", "1")), "ResourceNotFoundException")
	if *f.describe("Orders").ItemCount != 0 {
		t.Error("a refused transaction wrote")
	}
}

func TestTransactionToken(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.noError(f.transact("token", transactPut("Orders", "a", "1")))
	f.put("Orders", attrs{"pk": str("a"), "v": num("2")})
	f.noError(f.transact("token", transactPut("Orders", "a", "1")))
	if diff := cmp.Diff(attrs{"pk": str("a"), "v": num("2")}, f.get("Orders", attrs{"pk": str("a")}), sameItem); diff != "" {
		t.Errorf("the repeated request wrote again: %s", diff)
	}
	f.wantCode(f.transact("token", transactPut("Orders", "a", "3")), "IdempotentParameterMismatchException")
	f.wantCode(f.transact("other", transactPut("Orders", "a", "4"), transactPut("Orders", "", "4")), "ValidationException")
	f.noError(f.transact("other", transactPut("Orders", "b", "4")))
	f.clock.Advance(10 * time.Minute)
	f.noError(f.transact("token", transactPut("Orders", "a", "3")))
	if diff := cmp.Diff(attrs{"pk": str("a"), "v": num("3")}, f.get("Orders", attrs{"pk": str("a")}), sameItem); diff != "" {
		t.Error(diff)
	}
}

func TestTransactGetItems(t *testing.T) {
	f := newFixture(t, dynamodbtest.Options{})
	f.createTable("Orders", "", "")
	f.put("Orders", attrs{"pk": str("a"), "v": num("1"), "w": num("2")})
	get := func(pk string) types.TransactGetItem {
		return types.TransactGetItem{Get: &types.Get{TableName: ptr("Orders"), Key: attrs{"pk": str(pk)}, ProjectionExpression: ptr("v")}}
	}
	out, err := f.db.TransactGetItems(f.ctx, &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get("b"), get("a")}, ReturnConsumedCapacity: "TOTAL"})
	f.noError(err)
	if out.Responses[0].Item != nil || *out.ConsumedCapacity[0].CapacityUnits != 4 {
		t.Errorf("%v", out.Responses)
	}
	if diff := cmp.Diff(attrs{"v": num("1")}, out.Responses[1].Item, sameItem); diff != "" {
		t.Error(diff)
	}
}
