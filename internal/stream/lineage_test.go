package stream

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// knows writes rows of shards into the ledger.
func knows(t *testing.T, ctx context.Context, r *enginetest.Rig, shards ...checkpoint.Shard) {
	t.Helper()
	for _, s := range shards {
		s.Source, s.StreamARN, s.Label = "Orders", "arn", "label"
		if err := r.Ledger.CreateShard(ctx, s); err != nil {
			t.Error(err)
		}
	}
}

func rowsOf(t *testing.T, ctx context.Context, r *enginetest.Rig) map[string]checkpoint.Shard {
	t.Helper()
	shards, err := r.Ledger.Shards(ctx, "Orders")
	if err != nil {
		t.Error(err)
	}
	rows := map[string]checkpoint.Shard{}
	for _, s := range shards {
		rows[s.ID] = s
	}
	return rows
}

// A shard is read still, and so is what follows its child; that one is known too late, after a raise.
// What is left of the shard would outrank what its grandchild has applied: it is given up, before
// the load of yet another generation. Whoever holds it cannot commit any more.
func TestWhatItsDescendantsOutranIsGivenUp(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{Pages: [][]cdc.Shard{nil}}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		k.Ledger.Heard(ctx, task.Now(ctx))
		knows(t, ctx, k,
			checkpoint.Shard{ID: "old", State: checkpoint.Reading, Hop: 1, Generation: 1, Began: 1},
			checkpoint.Shard{ID: "late", Parent: "old", State: checkpoint.Waiting, Hop: 2, Generation: 1, Began: 1},
			checkpoint.Shard{ID: "young", Parent: "late", State: checkpoint.Reading, Hop: 3, Generation: 1, Began: 1},
			checkpoint.Shard{ID: "other", State: checkpoint.Reading, Hop: 1, Generation: 1, Began: 1})
		pass := func() map[string]checkpoint.Shard {
			if err := reconcilerOf(k).quickPass(engine.Until(ctx)); err != nil {
				t.Error(err)
			}
			return rowsOf(t, ctx, k)
		}
		if rows := pass(); rows["old"].State != checkpoint.Reading || rows["late"].State != checkpoint.Waiting {
			t.Errorf("in one generation hops are enough: %+v", rows)
		}
		raised, err := k.Ledger.Raise(ctx, "Orders", 1, checkpoint.DeclaredGap{Reason: "any"}, nil)
		if err != nil {
			t.Error(err)
		}
		rows := pass()
		for _, id := range []string{"old", "late"} {
			if s := rows[id]; s.State != checkpoint.Gap || s.Loss != checkpoint.Late || s.Epoch < 2 || s.DoneAt.IsZero() {
				t.Errorf("%s is %+v", id, s)
			}
		}
		now, _, err := k.Ledger.Table(ctx, "Orders")
		if err != nil || now.Generation <= raised.Generation || now.Adopted != now.Generation || now.GapCount != 3 {
			t.Errorf("%+v, %v", now, err)
		}
		for _, id := range []string{"young", "other"} {
			if s := rows[id]; s.State != checkpoint.Reading || s.Generation != now.Generation {
				t.Errorf("%s is %+v", id, s)
			}
		}
		if pass(); rowsOf(t, ctx, k)["young"].Generation != now.Generation {
			t.Error("it is given up again")
		}
	})
}

// What is left of shards below a parent that was never listed is dropped up to the gap: the load
// covers it, and some of it may be trimmed without another gap, so that the rest would outrank the
// load. Where something else is still applied that may be an ancestor, it must outrank that.
func TestOrphansAreCutAtTheirGap(t *testing.T) {
	for _, c := range []struct {
		other checkpoint.State
		cut   bool
	}{{checkpoint.Done, true}, {checkpoint.Reading, false}} {
		stream := &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "s2", Parent: "lost"}, {ID: "s3", Parent: "s2"}}}}
		enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
			k.Ledger.Heard(ctx, task.Now(ctx))
			knows(t, ctx, k, checkpoint.Shard{ID: "s0", State: c.other, Hop: cdc.RootHop, Generation: 1, Began: 1, DoneAt: task.Now(ctx)})
			discover := func() {
				listing, err := reconcilerOf(k).list(engine.Until(ctx), state)
				if err == nil {
					err = reconcilerOf(k).discover(engine.Until(ctx), state, listing, false)
				}
				if err != nil {
					t.Error(err)
				}
			}
			discover()
			s := rowsOf(t, ctx, k)["s2"]
			if s.Dropping != c.cut || s.Cut.IsZero() == c.cut || s.CoveredTo.IsZero() || c.cut && !s.Cut.Equal(s.CoveredTo.Add(-checkpoint.Slack)) {
				t.Errorf("beside a shard that is %s: %+v", c.other, s)
			}
			at, changes := s.Progress(), []cdc.Change{{Time: s.CoveredTo.Add(-time.Hour)}, {Time: s.CoveredTo}}
			if kept := engine.Keep(&at, engine.CutOf(s, state), changes); (len(kept) == 1) != c.cut {
				t.Errorf("beside a shard that is %s: %d changes are kept", c.other, len(kept))
			}
			if !c.cut {
				return
			}
			// A late ancestor must not apply what its descendants drop.
			stream.Pages[0] = slices.Concat(stream.Pages[0], []cdc.Shard{{ID: "lost", Parent: "s0"}})
			if state, _, _ = k.Ledger.Table(ctx, "Orders"); state.NeedsLoad {
				discover()
			}
			rows := rowsOf(t, ctx, k)
			if late := rows["lost"]; !late.Dropping || !late.Cut.Equal(s.Cut) {
				t.Errorf("the parent is %+v", late)
			}
			parent := rows["lost"]
			lease, err := k.Ledger.Take(ctx, parent, new(rows["s0"]))
			if err != nil || !lease.Shard().Dropping || !lease.Shard().Cut.Equal(s.Cut) {
				t.Errorf("the parent is leased as %+v, %v", lease, err)
			}
			parent.State, parent.Dropping = checkpoint.Done, false
			lease, err = k.Ledger.Take(ctx, rows["s3"], &parent)
			if err != nil || lease.Shard().Dropping {
				t.Errorf("a child drops what comes after something that was kept: %v", err)
			}
			parent.State, parent.DoneAt, parent.Cut = checkpoint.Gap, task.Now(ctx).Add(time.Hour), time.Time{}
			lease, err = k.Ledger.Take(ctx, rowsOf(t, ctx, k)["s3"], &parent)
			if want := parent.DoneAt.Add(-checkpoint.Slack); err != nil || !lease.Shard().Dropping || !lease.Shard().Cut.Equal(want) {
				t.Errorf("a child of a gap is leased as %+v, %v", lease, err)
			}
		})
	}
}
