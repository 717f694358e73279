package verify

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	largeItems = 100
	largeBytes = 400_000 // as large as DynamoDB's items become
)

// large is a source of items that are made when they are read, and measures what the heap keeps
// meanwhile.
type large struct{ first, last uint64 }

func largeItem(n int) attribute.Item {
	return item(fmt.Sprintf("i%05d", n), "v="+strings.Repeat("s", largeBytes))
}

func (s *large) Scan(_ context.Context, _ string, _, _ int, after attribute.Item, _ int) (page backfill.ScanPage, err error) {
	n := 0
	if id, ok := after.Get("id"); ok {
		_, err = fmt.Sscanf(id.Text(), "i%d", &n)
		n++
	}
	if n == 0 || n == largeItems-1 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if s.last = m.HeapAlloc; n == 0 {
			s.first = m.HeapAlloc
		}
	}
	page.Items = []attribute.Item{largeItem(n)}
	if n+1 < largeItems {
		page.Next = item(fmt.Sprintf("i%05d", n))
	}
	return page, err
}

func (*large) Get(_ context.Context, _ string, keys attribute.Item) (attribute.Item, bool, error) {
	id, _ := keys.Get("id")
	return item(id.Text(), "v="+strings.Repeat("s", largeBytes)), true, nil
}

// differing is a target that has a row for each item, with another value.
type differing struct{ sink.MarkReader }

func (differing) SampleKeys(context.Context, string) ([]string, error) { return nil, nil }
func (differing) ReadRows(context.Context, string, sink.Range, func(sink.Row) error) error {
	return nil
}
func (differing) ReadSince(context.Context, string, sink.Range, int64, func(string) error) error {
	return nil
}

func (differing) ReadSet(_ context.Context, _ string, rows []string, f func(sink.Row) error) error {
	version := transform.NewVersion(7, 500000, transform.LoadVersion(1, noon).Sequence(), 1)
	for _, key := range rows {
		if err := f(sink.NewRow(key, []transform.Cell{{Family: "_cdc", Qualifier: "v", Value: []byte(version)}, {Family: "d", Qualifier: "id", Value: []byte(key)},
			{Family: "d", Qualifier: "v", Value: []byte("t")}})); err != nil {
			return err
		}
	}
	return nil
}

// What a part found and has not saved yet is bounded by bytes, not by rows alone: where every row
// differs and items are large, a part keeps no more than 32 MiB of them.
func TestFindingsThatWaitAreBoundedByBytes(t *testing.T) {
	source := &large{}
	c := &Comparison{Mapping: mapping(t, nil, "{id} > d"), Source: source, Target: differing{}, Bounds: Bounds{Candidates: 10}}
	plan, err := c.NewPlan(t.Context(), Live, "", 0, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	plan.Segments = 1
	work := plan.Work(c, 1, nil)
	work.Save = func(context.Context, Progress, []Finding) error { return nil }
	var progress Progress
	err = virtual.NewWorld(1, noon, false).Run(time.Hour, func(ctx context.Context) {
		var err error
		if progress, _, err = plan.Run(ctx, work, 1, 0, Progress{}); err != nil {
			t.Error(err)
		}
	})
	if err != nil || progress.Different != largeItems {
		t.Fatalf("%d rows differ, %v", progress.Different, err)
	}
	if source.last > source.first+32<<20 {
		t.Errorf("%d MiB of items are kept", (source.last-source.first)>>20)
	}
}
