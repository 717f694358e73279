package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// busyShard gives a change with every page, which was made a second before it, and pages come ten seconds apart.
type busyShard struct {
	cdc.Source
	now   time.Time
	pages int
}

func (b *busyShard) Seek(context.Context, string, cdc.Position) (cdc.Iterator, error) {
	return "i", nil
}

func (b *busyShard) Read(context.Context, cdc.Iterator) (cdc.Page, error) {
	if b.pages++; b.pages > 9 {
		return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.Trimmed, Err: errors.New("too many pages")}
	}
	b.now = b.now.Add(10 * time.Second)
	key := cdc.NewItem([]cdc.Attribute{{Name: "pk", Value: cdc.String(fmt.Sprint(b.pages))}})
	change := cdc.Change{Event: cdc.Insert, Keys: key, New: key, Sequence: cdc.SequenceOf(uint64(b.pages)), Time: b.now.Add(-time.Second)}
	return cdc.Page{Changes: []cdc.Change{change}, Next: "i", At: b.now}, nil
}

// A shard that is written to all the time never gives an empty page: a dry run reads what was there when it began.
func TestDryRunOfABusyTableEnds(t *testing.T) {
	m := ordersMapping(t)
	o := Options{Timing: Timing{}.orDefault(0), Events: Events{}.orSilent()}
	r := &rehearsal{table: newTable(&o, Table{Mapping: m}, func(error) {}), found: Rehearsal{Unmappable: map[string]int64{}}}
	shard := &busyShard{now: time.Unix(1_800_000_000, 0)}
	if err := r.shard(context.Background(), &cdc.Reader{Source: shard, Shard: "s"}); err != nil {
		t.Fatal(err)
	}
	if shard.pages != 2 || r.found.Changes != 2 {
		t.Errorf("%d pages with %d changes were read", shard.pages, r.found.Changes)
	}
}

// coming gives pages by turns: two that are empty, and one with a change of long ago.
type coming struct {
	busyShard
	changes int
}

func (c *coming) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	if c.pages++; c.pages%3 > 0 || c.pages > 12 {
		return cdc.Page{Next: "i", At: c.now}, nil
	}
	c.changes++
	key := cdc.NewItem([]cdc.Attribute{{Name: "pk", Value: cdc.String(fmt.Sprint(c.pages))}})
	change := cdc.Change{Event: cdc.Insert, Keys: key, New: key, Sequence: cdc.SequenceOf(uint64(c.pages)), Time: c.now.Add(-time.Hour)}
	return cdc.Page{Changes: []cdc.Change{change}, Next: "i", At: c.now}, nil
}

// Pages of a stream may be empty although more come after them: a dry run takes as many in a row for the end, and not as many in all.
func TestDryRunReadsOverEmptyPages(t *testing.T) {
	mapping := ordersMapping(t)
	listed(t, &pagedStream{}, func(ctx context.Context, k *rounds, _ checkpoint.TableState) {
		k.Mapping = mapping
		r := &rehearsal{table: k.table, found: Rehearsal{Unmappable: map[string]int64{}}}
		shard := &coming{busyShard: busyShard{now: task.Now(ctx)}}
		if err := r.shard(ctx, &cdc.Reader{Source: shard, Shard: "s"}); err != nil {
			t.Error(err)
		}
		if r.found.Changes != 4 || shard.pages != 12+rehearsalPages {
			t.Errorf("%d pages with %d changes were read", shard.pages, r.found.Changes)
		}
	})
}

// Of more reasons than are told apart the first ones count on.
func TestDryRunBoundsReasons(t *testing.T) {
	r := &rehearsal{found: Rehearsal{Unmappable: map[string]int64{}}}
	for range 2 {
		for n := range rehearsalReasons + 5 {
			r.count(&transform.Batch{Parked: []transform.Parked{{Reason: fmt.Sprint(n)}}})
		}
	}
	if len(r.found.Unmappable) != rehearsalReasons+1 || r.found.Unmappable["0"] != 2 || r.found.Unmappable[otherReasons] != 10 {
		t.Errorf("%d reasons, of the first one %d, of others %d", len(r.found.Unmappable), r.found.Unmappable["0"], r.found.Unmappable[otherReasons])
	}
}
