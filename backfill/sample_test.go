package backfill

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

func TestSplitKeys(t *testing.T) {
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%04d", i*7%1000)
	}
	for _, c := range []struct {
		keys  []string
		bytes int64
		want  int
	}{
		{nil, 1 << 50, 0},
		{[]string{"a"}, 1 << 50, 0},
		{keys[:30], 0, 0},
		{keys[:100], 0, 1},
		{keys, 0, 19},
		{keys, 10 << 30, 19},
		{keys, 20 << 30, 39},
		{keys, 1 << 50, 99},
		{keys[:30], 1 << 50, 29},
	} {
		got := SplitKeys(c.keys, c.bytes)
		if len(got) != c.want {
			t.Errorf("%d keys, %d bytes: %d splits, want %d", len(c.keys), c.bytes, len(got), c.want)
		}
	}
	if got := SplitKeys(keys[:1000], 2<<30); got[0] != "k0050" || got[18] != "k0950" {
		t.Errorf("not the quantiles: %v", got)
	}
}

// Splits ascend strictly, as Bigtable demands, and are keys of the sample.
func TestSplitKeysAscend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.StringN(1, 3, -1), 0, 300).Draw(t, "keys")
		splits := SplitKeys(keys, rapid.Int64Range(0, 1<<45).Draw(t, "bytes"))
		for i, s := range splits {
			if !slices.Contains(keys, s) || i > 0 && s <= splits[i-1] {
				t.Fatalf("split %d of %q", i, splits)
			}
		}
	})
}

// A sample has as many items as were asked for if the table has them, from all over it; of a small table it has all.
func TestSample(t *testing.T) {
	ctx := context.Background()
	c := client(t, dynamodbtest.New(dynamodbtest.Options{Seed: 1}))
	name := aws.String("Orders")
	_, err := c.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		item := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: fmt.Sprint(i)}}
		if _, err := c.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]int{0: 0, 1: 1, 7: 7, 50: 50, 5000: 300} {
		items, consumed, err := NewTables(c).Sample(ctx, "Orders", n)
		seen := map[string]bool{}
		for _, item := range items {
			pk, _ := item.Get("pk")
			seen[pk.Text()] = true
		}
		if err != nil || len(seen) != want || (consumed > 0) != (n > 0) {
			t.Errorf("%d: %d items, %d different, %v units, %v", n, len(items), len(seen), consumed, err)
		}
	}
	if _, _, err := NewTables(c).Sample(ctx, "Nothing", 5); err == nil {
		t.Error("a sample of no table")
	}
}
