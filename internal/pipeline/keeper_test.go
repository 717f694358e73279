package pipeline

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A table is suspended once for each reason, and since then: the keeper finds the same every
// minute, and only a table that was dropped two days ago is left. Of another reason the ledger
// tells the new one.
func TestSetAsideOnceForEachReason(t *testing.T) {
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, _ checkpoint.TableState) {
		var told []string
		events := Events{Suspended: func(_, reason string) { told = append(told, reason) }}
		for i, step := range []struct {
			reason string
			since  int // the step of which it is
		}{{"no stream", 0}, {"no stream", 0}, {GoneReason, 2}, {GoneReason, 2}, {"no stream", 4}} {
			if err := suspend(ctx, k.Ledger, events, "Orders", step.reason); err != nil {
				t.Error(err)
			}
			state, _, err := k.Ledger.Table(ctx, "Orders")
			since := listingsBegin.Add(time.Duration(step.since) * time.Minute)
			if err != nil || state.Suspended.Reason != step.reason || !state.Suspended.Since.Equal(since) {
				t.Errorf("step %d: %+v, want it since %s, %v", i, state.Suspended, since, err)
			}
			if err := task.Sleep(ctx, time.Minute); err != nil {
				t.Error(err)
			}
		}
		if want := []string{"no stream", GoneReason, "no stream"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// dropped is a database in which no table is any more.
type dropped struct{ Database }

func (dropped) Describe(context.Context, string) (backfill.Description, error) {
	return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("no such table")}
}

// A worker that begins after its table was dropped reads what is left of the stream: it is not kept
// from that by a table that cannot be described.
func TestADroppedTableIsNobodyElses(t *testing.T) {
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, _ checkpoint.TableState) {
		k.Database = dropped{}
		if err := k.table().sameSource(ctx); err != nil {
			t.Error(err)
		}
	})
}

// narrow is a steady database whose stream has come to carry keys alone.
type narrow struct{ steady }

func (n narrow) Describe(ctx context.Context, table string) (backfill.Description, error) {
	d, err := n.steady.Describe(ctx, table)
	d.ViewType = "KEYS_ONLY"
	return d, err
}

// TestH62_AKeeperEndsTheProcess: what the keeper of a named table finds out ends the process with
// its cause. That the keeper lease could be released is no reason to go on: nobody would ever be
// told.
func TestH62_AKeeperEndsTheProcess(t *testing.T) {
	var ended, left error
	o := clusterOptions(t, &rolled{}, nil)
	o.Cluster, o.Database = nil, narrow{}
	o.Events.KeeperLeft = func(_ string, err error) { left = err }
	store := &checkpointtest.Memory{}
	runs(t, store, time.Hour, o, begun, func(ctx context.Context, err error) {
		ended = err
		if now := task.Mono(ctx); now > time.Minute {
			t.Errorf("ended after %s", now)
		}
	})
	for _, err := range []error{ended, left} {
		var stream *StreamError
		if !errors.As(err, &stream) || stream.View != "KEYS_ONLY" {
			t.Errorf("ended by %v", err)
		}
	}
}

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

// A raise that another one has overtaken was not made with its change: whoever wanted it is told
// so, and looks again.
func TestH24_AnOvertakenRaiseIsTold(t *testing.T) {
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
		if _, err := k.Ledger.Raise(ctx, "Orders", state.Generation, checkpoint.DeclaredGap{Reason: "another"}, nil); err != nil {
			t.Error(err)
		}
		err := k.table().raise(until(ctx), state.Generation, checkpoint.DeclaredGap{Reason: "the stream is gone"}, func(s *checkpoint.TableState) { s.StreamEnded = true })
		if !errors.Is(err, checkpoint.ErrRaised) {
			t.Errorf("overtaken, it ends with %v", err)
		}
	})
}

// endedStream is one that the service does not know any more.
type endedStream struct{ cdc.Source }

func (endedStream) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, &cdc.Error{Op: "DescribeStream", Reason: cdc.NotFound, Err: errors.New("no such stream")}
}

// TestH24_TheEndOfAStreamIsDeclaredOnce: a keeper that finds the stream gone in every pass must not
// begin a generation with each of them, in which nothing that is loaded would ever count.
func TestH24_TheEndOfAStreamIsDeclaredOnce(t *testing.T) {
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
		k.Open = func(string) cdc.Source { return endedStream{} }
		first := state.Generation
		for pass := range 3 {
			listing, err := reconcilerOf(k).list(until(ctx), state)
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
// in the same moment, and one of them raises the generation while the keeper lists. The keeper
// declares the end all the same, and goes on: a stream that is enabled afterwards would be noticed
// by nobody.
func TestH24_TheEndOfAStreamIsFoundByAll(t *testing.T) {
	mapping := ordersMapping(t)
	stream := &pagedStream{}
	listed(t, stream, func(ctx context.Context, k *rig, state checkpoint.TableState) {
		store := &checkpointtest.Memory{}
		k.Timing = Timing{}.orDefault(k.Ledger.Lease())
		k.Mapping, k.Witness = mapping, func(string) checkpoint.Store { return store }
		k.Database = &heldUp{told: backfill.Description{Name: "Orders", StreamARN: state.StreamARN, StreamLabel: state.Label, StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES"}}
		stream.before = func(ctx context.Context, _ string) error {
			if len(stream.asked) == 1 {
				if _, err := k.Ledger.Raise(ctx, "Orders", state.Generation, checkpoint.DeclaredGap{Shard: "a", Reason: "not found"}, nil); err != nil {
					t.Error(err)
				}
			}
			return &cdc.Error{Op: "DescribeStream", Reason: cdc.NotFound, Err: errors.New("no such stream")}
		}
		limited, cancel := task.WithTimeout(ctx, time.Hour)
		defer cancel()
		if err := reconcilerOf(k).complete(until(limited)); err != nil {
			t.Error(err)
		}
		now, _, err := k.Ledger.Table(ctx, "Orders")
		if err != nil || !now.StreamEnded || now.GapCount != 2 {
			t.Errorf("after %d listings: %+v, %v", len(stream.asked), now, err)
		}
	})
}
