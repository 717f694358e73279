package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
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
		nodes int
		want  int
	}{
		{nil, 1 << 50, 50, 0},
		{[]string{"a"}, 1 << 50, 50, 0},
		{keys[:30], 0, 50, 0},
		{keys[:100], 0, 50, 1},
		{keys, 0, 50, 19},
		{keys, 10 << 30, 0, 19},
		{keys, 20 << 30, 0, 39},
		{keys, 1 << 50, 0, 99},
		{keys[:30], 1 << 50, 0, 29},
		{keys, 10 << 30, 3, 19},
		{keys, 10 << 30, 10, 39},
		{keys, 2 << 30, 50, 31}, // no tablet below 64 MiB
		{keys, 1 << 50, 30, 119},
		{keys, 1 << 50, 500, 199}, // the sample says no more
	} {
		got := SplitKeys(c.keys, c.bytes, c.nodes)
		if len(got) != c.want {
			t.Errorf("%d keys, %d bytes, %d nodes: %d splits, want %d", len(c.keys), c.bytes, c.nodes, len(got), c.want)
		}
	}
	if got := SplitKeys(keys[:1000], 2<<30, 0); got[0] != "k0050" || got[18] != "k0950" {
		t.Errorf("not the quantiles: %v", got)
	}
}

// Splits ascend strictly, as Bigtable requires, and are keys of the sample.
func TestSplitKeysAscend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.StringN(1, 3, -1), 0, 300).Draw(t, "keys")
		splits := SplitKeys(keys, rapid.Int64Range(0, 1<<45).Draw(t, "bytes"), rapid.IntRange(0, 200).Draw(t, "nodes"))
		for i, s := range splits {
			if !slices.Contains(keys, s) || i > 0 && s <= splits[i-1] {
				t.Fatalf("split %d of %q", i, splits)
			}
		}
	})
}

// A sample has the requested number of items if the table has them, from everywhere in it. Of a
// small table it has all.
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

// Items that a segment lacks are taken from later ones, and no more than requested are read.
func TestASampleMakesUp(t *testing.T) {
	have := []int{0, 30, 1, 30, 30}
	var limits []int
	service := func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Segment, Limit int }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		limits = append(limits, in.Limit)
		items := make([]string, min(in.Limit, have[in.Segment]))
		for i := range items {
			items[i] = fmt.Sprintf(`{"pk":{"S":"%d-%d"}}`, in.Segment, i)
		}
		answer(http.StatusOK, fmt.Sprintf(`{"Items":[%s],"Count":%d,"ScannedCount":%[2]d,"ConsumedCapacity":{"TableName":"T","CapacityUnits":0.5}}`, strings.Join(items, ","), len(items)))(w, r)
	}
	items, units, err := tables(t, http.HandlerFunc(service)).Sample(t.Context(), "T", 50)
	if err != nil || len(items) != 50 || units != 2.5 || fmt.Sprint(limits) != "[10 13 13 18 18]" {
		t.Errorf("%d items for %g units by %v, %v", len(items), units, limits, err)
	}
}

// A canary is written and removed as given. An invalid key is not sent. A refusal has its reason in
// the service's words, which quote nothing but the canary.
func TestCanariesAreWritten(t *testing.T) {
	var asked []string
	status, body := http.StatusOK, `{}`
	w := NewCanaryWriter(client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Header.Get("X-Amz-Target")+" "+string(text))
		answer(status, body)(w, r)
	})))
	key := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("_cdc")}})
	if err := errors.Join(w.Put(t.Context(), "Orders", key), w.Delete(t.Context(), "Orders", key)); err != nil || len(asked) != 2 {
		t.Fatal(asked, err)
	}
	for i, want := range [][]string{{"PutItem", `"Item":{"pk":{"S":"_cdc"}}`, `"TableName":"Orders"`}, {"DeleteItem", `"Key":{"pk":{"S":"_cdc"}}`, `"TableName":"Orders"`}} {
		for _, part := range want {
			if !strings.Contains(asked[i], part) {
				t.Errorf("%s lacks %s", asked[i], part)
			}
		}
	}
	flag := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.Bool(true)}})
	if err := w.Put(t.Context(), "Orders", flag); !cdc.Is(err, cdc.Malformed) || len(asked) != 2 {
		t.Errorf("%v after %d requests", err, len(asked))
	}
	status, body = http.StatusBadRequest, `{"__type":"com.amazon.coral.validate#ValidationException","message":"no such attribute"}`
	if err := w.Delete(t.Context(), "Orders", key); !cdc.Is(err, cdc.Malformed) || !strings.Contains(err.Error(), "no such attribute") {
		t.Error(err)
	}
}
