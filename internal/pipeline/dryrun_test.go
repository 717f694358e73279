package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// busyShard returns a change with every page, made a second before the page. Pages come ten seconds
// apart.
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
	key := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(fmt.Sprint(b.pages))}})
	change := cdc.Change{Event: cdc.Insert, Keys: key, New: key, Sequence: cdc.SequenceOf(uint64(b.pages)), Time: b.now.Add(-time.Second)}
	return cdc.Page{Changes: []cdc.Change{change}, Next: "i", At: b.now}, nil
}

// A shard with constant writes never returns an empty page: a dry run reads only what existed when
// it began.
func TestDryRunOfABusyTableEnds(t *testing.T) {
	m := enginetest.OrdersMapping(t)
	o := engine.Options{Timing: engine.Timing{}.OrDefault(0), Events: engine.Events{}.OrSilent()}
	r := newRehearsal(&o, engine.Spec{Mapping: m})
	shard := &busyShard{now: time.Unix(1_800_000_000, 0)}
	if err := r.shard(context.Background(), &cdc.Reader{Source: shard, Shard: "s"}); err != nil {
		t.Fatal(err)
	}
	if shard.pages != 2 || r.found.Changes != 2 {
		t.Errorf("%d pages with %d changes were read", shard.pages, r.found.Changes)
	}
}

// coming returns two empty pages and one page with an old change, in turn.
type coming struct {
	busyShard
	changes int
}

func (c *coming) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	if c.pages++; c.pages%3 > 0 || c.pages > 12 {
		return cdc.Page{Next: "i", At: c.now}, nil
	}
	c.changes++
	key := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(fmt.Sprint(c.pages))}})
	change := cdc.Change{Event: cdc.Insert, Keys: key, New: key, Sequence: cdc.SequenceOf(uint64(c.pages)), Time: c.now.Add(-time.Hour)}
	return cdc.Page{Changes: []cdc.Change{change}, Next: "i", At: c.now}, nil
}

// Pages of a stream may be empty although more changes follow. A dry run ends after a number of
// empty pages in a row, not in total.
func TestDryRunReadsOverEmptyPages(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		r := newRehearsal(k.Options, engine.Spec{Mapping: mapping})
		shard := &coming{busyShard: busyShard{now: task.Now(ctx)}}
		if err := r.shard(ctx, &cdc.Reader{Source: shard, Shard: "s"}); err != nil {
			t.Error(err)
		}
		if r.found.Changes != 4 || shard.pages != 12+rehearsalPages {
			t.Errorf("%d pages with %d changes were read", shard.pages, r.found.Changes)
		}
	})
}

// Beyond the maximum number of reasons, only the known ones are counted.
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

// rehearsed is a table with two items, one of which lacks the attribute of its row key.
type rehearsed struct {
	enginetest.Answering
	scanned int
}

func (r *rehearsed) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	r.scanned++
	text := func(name, value string) attribute.Attribute {
		return attribute.Attribute{Name: name, Value: attribute.String(value)}
	}
	return backfill.ScanPage{Items: []attribute.Item{
		attribute.NewItem([]attribute.Attribute{text("pk", "a"), text("name", "x")}), attribute.NewItem([]attribute.Attribute{text("name", "y")}),
	}}, nil
}

// fading is a stream in which some shards were trimmed or removed after the listing, and one ended.
type fading struct{ *backlog }

func (fading) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "gone", Closed: true}, {ID: "trimmed", Closed: true}, {ID: "ended", Closed: true}, {ID: "open", Parent: "ended"}}}, nil
}

func (f fading) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	switch at {
	case "gone|0":
		return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.NotFound, Err: errors.New("no")}
	case "trimmed|1":
		return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.Trimmed, Err: errors.New("no")}
	}
	page, err := f.backlog.Read(ctx, at)
	for i := range page.Changes { // old changes: all existed when the run began
		page.Changes[i].Time = page.Changes[i].Time.Add(-time.Hour)
	}
	if at == "ended|2" {
		page.Next, page.End = "", true
	}
	return page, err
}

// A dry run reports all that it can read: each item, open shards and ended ones, whatever was
// trimmed meanwhile. For a table whose stream cannot be followed it reports nothing.
func TestADryRunTellsOfAll(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		db := &rehearsed{Answering: enginetest.Answering{Described: backfill.Description{Name: "Orders", StreamARN: "arn", StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", Bytes: 100}}}
		o := engine.Options{Database: db, Open: func(string) cdc.Source { return fading{newBacklog(5)} }}
		got, err := DryRun(ctx, o, engine.Spec{Mapping: mapping, Segments: 1})
		unmappable := int64(0)
		for _, n := range got.Unmappable {
			unmappable += n
		}
		if err != nil || got.Table != "Orders" || got.Items != 2 || got.Rows != 1 || got.Cells != 2 || got.Shards != 4 || got.Changes != 1+3+5 || unmappable != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		db.Described.StreamEnabled, db.scanned = false, 0
		var stream *engine.StreamError
		if _, err := DryRun(ctx, o, engine.Spec{Mapping: mapping, Segments: 1}); !errors.As(err, &stream) || db.scanned > 0 {
			t.Errorf("a table without a stream, which was scanned %d times: %v", db.scanned, err)
		}
	})
}
