package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// TestH53_LongListing: a stream of 7,000 shards is listed however little is left of the ten calls a
// second: a page that is throttled is asked for again, and none before it. Where nobody else asks,
// none is throttled.
func TestH53_LongListing(t *testing.T) {
	for _, c := range []struct {
		perSecond float64
		throttled bool
		within    time.Duration
	}{{10, false, 15 * time.Second}, {3, true, time.Minute}, {0.2, true, 10 * time.Minute}} {
		var pages [][]cdc.Shard
		for i := range 70 {
			var page []cdc.Shard
			for j := range 100 {
				page = append(page, cdc.Shard{ID: fmt.Sprintf("%02d-%02d", i, j)})
			}
			pages = append(pages, page)
		}
		tokens, filled, refused := 10.0, time.Duration(0), 0
		stream := &enginetest.PagedStream{Pages: pages, Before: func(ctx context.Context, _ string) error {
			now := task.Mono(ctx)
			tokens, filled = min(10, tokens+c.perSecond*(now-filled).Seconds()), now
			if tokens < 1 {
				refused++
				return &cdc.Error{Op: "DescribeStream", Reason: cdc.Throttled, Err: errors.New("slow down")}
			}
			tokens--
			return nil
		}}
		enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
			listing, err := reconcilerOf(k).list(engine.Until(ctx), state)
			if err != nil || len(listing.Shards) != 7000 {
				t.Errorf("%d shards, %v", len(listing.Shards), err)
			}
			if took := task.Now(ctx).Sub(enginetest.ListingsBegin); took > c.within || !listing.At.Equal(enginetest.ListingsBegin.Add(20*time.Millisecond)) {
				t.Errorf("it took %s, and is of %s", took, listing.At)
			}
			if slices.Contains(stream.Asked[1:], "") || (refused > 0) != c.throttled {
				t.Errorf("%d of %d calls were throttled, asked after %q", refused, len(stream.Asked), stream.Asked)
			}
		})
	}
}

// A shard that is shown open on one page, and whose children are on another, split in between. A
// shard counts as open when the first page was read: it may have been closed while the others were.
// A listing that does not say when it was given claims nothing.
func TestH75_ShardsSplitBetweenThePages(t *testing.T) {
	for _, silent := range []bool{false, true} {
		stream := &enginetest.PagedStream{Silent: silent, Pages: [][]cdc.Shard{{{ID: "p"}, {ID: "q"}}, {{ID: "r"}}, {{ID: "s", Parent: "p"}, {ID: "t", Parent: "p"}}}}
		stream.Before = func(ctx context.Context, after string) error {
			if after != "" {
				_ = task.Sleep(ctx, time.Hour)
			}
			return nil
		}
		enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
			first := task.Now(ctx)
			var err error
			if reconcilerOf(k).listing, err = reconcilerOf(k).list(engine.Until(ctx), state); err == nil {
				err = errors.Join(reconcilerOf(k).discover(engine.Until(ctx), state, reconcilerOf(k).listing, true), task.Sleep(ctx, time.Hour), reconcilerOf(k).noteOpen(ctx, state))
			}
			listings, errOpen := k.Ledger.Listings(ctx, "Orders", "label")
			if err = errors.Join(err, errOpen); err != nil {
				t.Error(err)
			}
			if _, counts := listings.Open["p"]; counts || len(listings.Open) != map[bool]int{false: 4}[silent] {
				t.Errorf("open: %v", listings.Open)
			}
			for id, at := range listings.Open {
				if at.Before(first) || at.After(first.Add(time.Second)) {
					t.Errorf("shard %s counts as open at %s, and the first page is of %s", id, at, first)
				}
			}
		})
	}
}

// Pages are of several moments: a shard that was not to be listed yet when its page was read, while
// its child is on a later one, is looked for once more before a gap is declared.
func TestH76_AParentIsListedBetweenThePages(t *testing.T) {
	for _, found := range []bool{true, false} {
		stream := &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "p"}}, {{ID: "r", Parent: "q"}}}}
		enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
			listing, err := reconcilerOf(k).list(engine.Until(ctx), state)
			if found {
				stream.Pages[0] = append(stream.Pages[0], cdc.Shard{ID: "q", Parent: "p"})
			}
			if err = errors.Join(err, reconcilerOf(k).discover(engine.Until(ctx), state, listing, false)); err != nil {
				t.Error(err)
			}
			now, _, err := k.Ledger.Table(ctx, "Orders")
			if err != nil || now.NeedsLoad == found || (len(now.Gaps) == 0) != found {
				t.Errorf("with the parent listed %v: %+v, %v", found, now, err)
			}
			shards, err := k.Ledger.Shards(ctx, "Orders")
			if err != nil || len(shards) != len(slices.Concat(stream.Pages...)) {
				t.Errorf("%d rows, %v", len(shards), err)
			}
			for _, s := range shards {
				if s.ID == "r" && s.CoveredTo.IsZero() != found { // after a gap what follows it must be there: the load makes up for what was before
					t.Errorf("with the parent listed %v: covered to %s", found, s.CoveredTo)
				}
			}
		})
	}
}

// What is looked for once more is judged together with what was listed before: the second listing
// may be older than the first, and leave out what that one has.
func TestH76_TheSecondListingIsOlder(t *testing.T) {
	stream := &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "p"}}, {{ID: "r", Parent: "q"}}}}
	enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		listing, err := reconcilerOf(k).list(engine.Until(ctx), state)
		stream.Pages[0] = []cdc.Shard{{ID: "q", Parent: "p"}}
		if err = errors.Join(err, reconcilerOf(k).discover(engine.Until(ctx), state, listing, false)); err != nil {
			t.Error(err)
		}
		now, _, err := k.Ledger.Table(ctx, "Orders")
		if err != nil || now.NeedsLoad || len(now.Gaps) > 0 {
			t.Errorf("%+v, %v", now, err)
		}
		if shards, err := k.Ledger.Shards(ctx, "Orders"); err != nil || len(shards) != 3 {
			t.Errorf("%d rows, %v", len(shards), err)
		}
	})
}

// Where the second listing does not come about, because the worker is stopped or leaves the coordinator
// lease to another one, nothing is known of the parent. It is left to the next coordinator, and no gap
// is declared.
func TestH76_TheSecondListingIsStopped(t *testing.T) {
	stream := &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "p"}}, {{ID: "r", Parent: "q"}}}}
	enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		listing, err := reconcilerOf(k).list(engine.Until(ctx), state)
		if err != nil {
			t.Error(err)
		}
		drain, cancel := context.WithCancelCause(ctx)

		stream.Before = func(context.Context, string) error {
			cancel(errors.New("stop"))
			return &cdc.Error{Op: "DescribeStream", Reason: cdc.Unavailable, Err: context.Cause(drain)}
		}
		if err := reconcilerOf(k).discover(engine.Lifecycle{Drain: drain, Work: ctx}, state, listing, false); err == nil {
			t.Error("the pass goes on")
		}
		now, _, err := k.Ledger.Table(ctx, "Orders")
		if err != nil || now.NeedsLoad || len(now.Gaps) > 0 {
			t.Errorf("%+v, %v", now, err)
		}
	})
}

// TestH76_AParentIsWrittenDownMeanwhile: a coordinator that was taken for gone has written a parent down
// after this one read what is known, and the second listing lacks it as the first did. It was not
// lost.
func TestH76_AParentIsWrittenDownMeanwhile(t *testing.T) {
	stream := &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "p"}, {ID: "r", Parent: "q"}}}}
	enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		listing, err := reconcilerOf(k).list(engine.Until(ctx), state)
		stream.Before = func(ctx context.Context, _ string) error {
			q := checkpoint.Shard{Source: "Orders", Label: state.Label, ID: "q", Parent: "p", State: checkpoint.Waiting, Hop: cdc.RootHop + 1, Generation: 1}
			return k.Ledger.CreateShard(ctx, q)
		}
		if err = errors.Join(err, reconcilerOf(k).discover(engine.Until(ctx), state, listing, false)); err != nil {
			t.Error(err)
		}
		now, _, err := k.Ledger.Table(ctx, "Orders")
		if err != nil || now.NeedsLoad || len(now.Gaps) > 0 {
			t.Errorf("%+v, %v", now, err)
		}
		shards, err := k.Ledger.Shards(ctx, "Orders")
		if err != nil || len(shards) != 3 || shards[2].Hop != cdc.RootHop+2 {
			t.Errorf("%+v, %v", shards, err)
		}
	})
}

// The stream is gone if its first page says so. A page after it may be refused because the shard
// after which it begins is gone, and then the listing begins anew; where it always is, the attempts
// become rare.
func TestListingThatBeginsAnew(t *testing.T) {
	third := func(after string) bool { return after == "page 2" }
	reached := false
	fromThird := func(after string) bool { reached = reached || third(after); return reached }
	for name, c := range map[string]struct {
		gone  func(after string) bool // what is not found until then
		until time.Duration
		asked int // calls, at the most
		ended bool
	}{
		"a shard is gone":           {third, 50 * time.Millisecond, 6, false},
		"a page is gone for hours":  {third, 3 * time.Hour, 1200, false},
		"the stream is gone":        {func(string) bool { return true }, 24 * time.Hour, 1, true},
		"the stream goes meanwhile": {fromThird, 24 * time.Hour, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			stream := &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "a"}}, {{ID: "b"}}, {{ID: "c"}}}}
			stream.Before = func(ctx context.Context, after string) error {
				if c.gone(after) && task.Now(ctx).Before(enginetest.ListingsBegin.Add(c.until)) {
					return &cdc.Error{Op: "DescribeStream", Reason: cdc.NotFound, Err: errors.New("gone")}
				}
				return nil
			}
			enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
				listing, err := reconcilerOf(k).list(engine.Until(ctx), state)
				if err != nil || listing.Ended != c.ended || (len(listing.Shards) == 3) == c.ended || len(stream.Asked) > c.asked {
					t.Errorf("%+v after %d calls, %v", listing, len(stream.Asked), err)
				}
				if now, _, err := k.Ledger.Table(ctx, "Orders"); err != nil || now.StreamEnded != c.ended || now.NeedsLoad != c.ended {
					t.Errorf("%+v, %v", now, err)
				}
			})
		})
	}
}

// A stop ends a listing between two pages.
func TestListingIsStopped(t *testing.T) {
	stream := &enginetest.PagedStream{Pages: make([][]cdc.Shard, 70)}
	enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		drain, cancel := context.WithCancelCause(ctx)

		stream.Before = func(context.Context, string) error {
			if len(stream.Asked) == 3 {
				cancel(errors.New("stop"))
			}
			return nil
		}
		if _, err := reconcilerOf(k).list(engine.Lifecycle{Drain: drain, Work: ctx}, state); err == nil || engine.Repeatable(err) || len(stream.Asked) != 3 {
			t.Errorf("%d pages were read: %v", len(stream.Asked), err)
		}
	})
}

// A listing says nothing of a shard that is known to be closed: because a child of it is known, or
// because it was read to its end.
func TestH75_ListedOpenAndKnownToBeClosed(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		for _, s := range []checkpoint.Shard{
			{ID: "parent", State: checkpoint.Reading}, {ID: "child", Parent: "parent", State: checkpoint.Waiting}, {ID: "read", State: checkpoint.Done}, {ID: "open", State: checkpoint.Reading},
		} {
			s.Source, s.Label, s.StreamARN, s.Generation = k.Mapping.Source, state.Label, state.StreamARN, state.Generation
			if err := k.Ledger.CreateShard(ctx, s); err != nil {
				t.Error(err)
			}
		}
		reconcilerOf(k).listing = cdc.Listing{At: enginetest.ListingsBegin, Shards: []cdc.Shard{{ID: "parent"}, {ID: "read"}, {ID: "open"}}} // as it was before
		if err := reconcilerOf(k).noteOpen(ctx, state); err != nil {
			t.Error(err)
		}
		seen, err := k.Ledger.Listings(ctx, k.Mapping.Source, state.Label)
		if err != nil || len(seen.Open) != 1 || !seen.Open["open"].Equal(enginetest.ListingsBegin) {
			t.Errorf("%v, %v", seen.Open, err)
		}
	})
}
