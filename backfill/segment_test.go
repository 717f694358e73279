package backfill

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

func TestNumberOfParts(t *testing.T) {
	const mega = 1 << 20
	for _, c := range []struct {
		bytes    int64
		segments int
		want     int
	}{
		{0, 4, 16}, {0, 0, 4}, {-1, 1, 4}, // unknown
		{1, 4, 1}, {mega / 2, 4, 3}, {mega - 1, 4, 4},
		{mega, 4, 16}, {16 * 64 * mega, 4, 16}, {16*64*mega + 1, 4, 17}, {100 * 64 * mega, 1, 100},
		{1 << 50, 4, 1024}, {mega, 1_000_000, 1024},
	} {
		if got := NumberOfParts(c.bytes, c.segments); got != c.want {
			t.Errorf("%d bytes, %d segments: %d parts", c.bytes, c.segments, got)
		}
	}
}

// A page of a segment states its cost and its approximate size.
func TestASegmentSaysWhatItCost(t *testing.T) {
	page, err := Segments{"Orders", costly{newMemory(20)}}.Read(t.Context(), 0, 1, nil, 5)
	if err != nil || page.Consumed != 2.5 || page.Bytes != 10_240 || len(page.Items) != 5 || page.Next == nil || !page.At.Equal(day) {
		t.Errorf("%+v %v", page, err)
	}
	same := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("item1")}})
	for _, items := range [][]attribute.Item{nil, {same}} { // it would be read forever
		if _, err := (Segments{"Orders", still{same, items}}).Read(t.Context(), 0, 1, []byte(`{"pk":{"S":"item1"}}`), 5); !cdc.Is(err, cdc.Malformed) {
			t.Errorf("a page of %d items that ends where it began: %v", len(items), err)
		}
	}
}

// still is a source whose pages end where they began.
type still struct {
	next  attribute.Item
	items []attribute.Item
}

func (s still) Scan(context.Context, string, int, int, attribute.Item, int) (ScanPage, error) {
	return ScanPage{Items: s.items, Next: s.next}, nil
}

type costly struct{ *memory }

func (c costly) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (ScanPage, error) {
	page, err := c.memory.Scan(ctx, table, segment, total, after, limit)
	page.Consumed, page.At = 2.5, day
	return page, err
}
