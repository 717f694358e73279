package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// TestH76_EachGapIsNotedByItself: neither another shard's gap for the same reason nor the same
// shard's for another is this one.
func TestH76_EachGapIsNotedByItself(t *testing.T) {
	state := checkpoint.TableState{Gaps: []checkpoint.DeclaredGap{gapOf(cdc.Orphan{ID: "a", Reason: cdc.UnknownParent})}}
	for _, c := range []struct {
		orphan cdc.Orphan
		want   bool
	}{
		{cdc.Orphan{ID: "a", Reason: cdc.UnknownParent}, true},
		{cdc.Orphan{ID: "b", Reason: cdc.UnknownParent}, false},
		{cdc.Orphan{ID: "a", Reason: cdc.NoRoom}, false},
	} {
		if got := noted(state, gapOf(c.orphan)); got != c.want {
			t.Errorf("%+v is noted: %v", c.orphan, got)
		}
	}
}

// TestH24_TheEndOfAStreamIsDeclaredOnce: a coordinator that finds the stream gone in every pass must not
// begin a generation with each of them, in which nothing that is loaded would ever count.
func TestH24_TheEndOfAStreamIsDeclaredOnce(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		k.Open = func(string) cdc.Source { return enginetest.EndedStream{} }
		first := state.Generation
		for pass := range 3 {
			listing, err := reconcilerOf(k).list(engine.Until(ctx), state)
			if err != nil || !listing.Ended || len(listing.Shards) != 0 {
				t.Errorf("pass %d: %+v, %v", pass, listing, err)
			}
			if state, _, err = k.Ledger.Table(ctx, "Orders"); err != nil || !state.StreamEnded || !state.NeedsLoad || state.GapCount != 1 {
				t.Errorf("pass %d: %+v, %v", pass, state, err)
			}
			if pass > 0 && state.Generation != first {
				t.Errorf("pass %d: generation %d after %d", pass, state.Generation, first)
			}
			first = state.Generation
		}
	})
}

// TestH24_TheEndOfAStreamIsFoundByAll: where a stream is gone, its followers find their shards gone
// in the same moment, and one of them raises the generation while the coordinator lists. The coordinator
// declares the end all the same, and goes on: a stream that is enabled afterwards would be noticed
// by nobody.
func TestH24_TheEndOfAStreamIsFoundByAll(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	stream := &enginetest.PagedStream{}
	enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		store := &checkpointtest.Memory{}
		k.Timing = engine.Timing{}.OrDefault(k.Ledger.Lease())
		k.Mapping, k.Witness = mapping, func(string) checkpoint.Store { return store }
		k.Database = &heldUp{told: backfill.Description{Name: "Orders", StreamARN: state.StreamARN, StreamLabel: state.Label, StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES"}}
		stream.Before = func(ctx context.Context, _ string) error {
			if len(stream.Asked) == 1 {
				if _, err := k.Ledger.Raise(ctx, "Orders", state.Generation, checkpoint.DeclaredGap{Shard: "a", Reason: "not found"}, nil); err != nil {
					t.Error(err)
				}
			}
			return &cdc.Error{Op: "DescribeStream", Reason: cdc.NotFound, Err: errors.New("no such stream")}
		}
		limited, cancel := task.WithTimeout(ctx, time.Hour)
		defer cancel()
		if err := reconcilerOf(k).fullPass(engine.Until(limited)); err != nil {
			t.Error(err)
		}
		now, _, err := k.Ledger.Table(ctx, "Orders")
		if err != nil || !now.StreamEnded || now.GapCount != 2 {
			t.Errorf("after %d listings: %+v, %v", len(stream.Asked), now, err)
		}
	})
}

// throttledStream does not say whether it is over.
type throttledStream struct{ cdc.Source }

func (throttledStream) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, &cdc.Error{Op: "DescribeStream", Reason: cdc.Throttled, Err: errors.New("no")}
}

// TestH24_WhoDoesNotAnswerIsNotOver: a stream that does not answer for the moment has not ended,
// and an old answer of its table's is not believed for that.
func TestH24_WhoDoesNotAnswerIsNotOver(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		k.Open = func(string) cdc.Source { return throttledStream{} }
		if over, err := reconcilerOf(k).over(ctx, state); over || !cdc.Is(err, cdc.Throttled) {
			t.Errorf("over %v, %v", over, err)
		}
		k.Open = func(string) cdc.Source { return enginetest.EndedStream{} }
		if over, err := reconcilerOf(k).over(ctx, state); !over || err != nil {
			t.Errorf("gone: over %v, %v", over, err)
		}
	})
}

// TestADroppedTableStaysSuspended: a pass takes back that a table is suspended when it has found
// the table, and not before: it was dropped since what the ledger says, and is left two days after
// that.
func TestADroppedTableStaysSuspended(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Mapping, k.Joined, k.Database, k.Witness = mapping, true, enginetest.Dropped{}, func(string) checkpoint.Store { return &checkpointtest.Memory{} }
		if err := engine.Suspend(ctx, k.Ledger, k.Events, "Orders", engine.GoneReason); err != nil {
			t.Error(err)
		}
		since := task.Now(ctx)
		err := errors.Join(task.Sleep(ctx, time.Minute), reconcilerOf(k).fullPass(engine.Until(ctx)))
		state, _, errTable := k.Ledger.Table(ctx, "Orders")
		if !errors.Is(err, engine.ErrGone) || errTable != nil || state.Suspended.Reason != engine.GoneReason || !state.Suspended.Since.Equal(since) {
			t.Errorf("%+v, %v, %v", state.Suspended, err, errTable)
		}
	})
}

// TestH24_AnOldListingIsNotOneOfANewStream: a coordinator that stood still between its first listing and
// the note of it finds that another one has noticed a new stream. The listing says nothing of that
// one, whose shards are still to be ranked as roots.
func TestH24_AnOldListingIsNotOneOfANewStream(t *testing.T) {
	ctx := context.Background()
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "discover", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	follow := func(label string, generation uint32) checkpoint.TableState {
		state, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.Generation, s.Adopted, s.Listed = "arn:"+label, label, generation, generation, 0
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	k := enginetest.NewRig(ledger, engine.Spec{})
	listing := cdc.Listing{Shards: []cdc.Shard{{ID: "s1"}}}
	before := follow("first", 1)
	for _, c := range []struct {
		label  string
		listed uint32
	}{{"second", 0}, {"first", 1}} {
		follow(c.label, 1)
		if err := reconcilerOf(k).discover(engine.Until(ctx), before, listing, true); err != nil {
			t.Fatal(err)
		}
		if now, _, err := ledger.Table(ctx, "Orders"); err != nil || now.Listed != c.listed {
			t.Errorf("stream %s is listed in generation %d: %v", c.label, now.Listed, err)
		}
	}
}
