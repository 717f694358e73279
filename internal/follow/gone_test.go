package follow

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// TestH75_WhatARootIsCoveredTo: the earliest of what the load rests on and what the first read saw.
// A root that is listed after the load began may give empty pages while it holds changes from
// before its first read; until something of it is applied they are missing, and so its first read
// must not be what a later seek at the horizon is judged by.
func TestH75_WhatARootIsCoveredTo(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	const generation = 7
	loads := func(generation uint32, started time.Time) checkpoint.TableState {
		return checkpoint.TableState{Load: checkpoint.Load{Generation: generation, StartedAt: started}}
	}
	from := checkpoint.TableState{Cut: at}
	broken := from
	broken.NeedsLoad = true
	for _, c := range []struct {
		name  string
		shard checkpoint.Shard
		table checkpoint.TableState
		want  time.Time
	}{
		{"what was inherited", checkpoint.Shard{CoveredTo: at, FirstRead: at.Add(-time.Hour)}, loads(generation, at.Add(-time.Hour)), at},
		{"read before the load began", checkpoint.Shard{FirstRead: at}, loads(generation, at.Add(time.Minute)), at},
		{"read after the load began", checkpoint.Shard{FirstRead: at.Add(time.Hour)}, loads(generation, at), at},
		{"not read yet", checkpoint.Shard{}, loads(generation, at), at},
		{"no load", checkpoint.Shard{FirstRead: at}, loads(0, time.Time{}), at},
		{"a load of another generation", checkpoint.Shard{FirstRead: at}, loads(generation-1, at.Add(-time.Hour)), at},
		{"nothing is known", checkpoint.Shard{}, loads(0, time.Time{}), time.Time{}},
		{"from now on, not read yet", checkpoint.Shard{}, from, at},
		{"from now on, read", checkpoint.Shard{FirstRead: at.Add(time.Hour)}, from, at.Add(time.Hour)},
		{"after a gap the load makes up for it", checkpoint.Shard{}, broken, time.Time{}},
	} {
		c.shard.Generation = generation
		if got := covered(c.shard, c.table); !got.Equal(c.want) {
			t.Errorf("%s: covered to %s, want %s", c.name, got, c.want)
		}
	}
}

// TestLongGone: a table is left alone when it was dropped so long ago that its stream is gone, as
// the ledger and the coordinator here know.
func TestLongGone(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		once, found bool
		reason      string
		passed      time.Duration
		want        bool
	}{
		{name: "long gone", found: true, reason: engine.GoneReason, passed: engine.LookedAfter + time.Minute, want: true},
		{name: "its stream may be read", found: true, reason: engine.GoneReason, passed: engine.LookedAfter - time.Minute},
		{name: "known from before it was created anew", reason: engine.GoneReason, passed: engine.LookedAfter + time.Minute},
		{name: "readmitted by another", found: true, passed: engine.LookedAfter + time.Minute},
		{name: "it is there, without a stream", found: true, reason: "the table has no enabled stream", passed: engine.LookedAfter + time.Minute},
		{name: "a run with Once ends as a whole", once: true, found: true, reason: engine.GoneReason, passed: engine.LookedAfter + time.Minute},
	} {
		k := enginetest.NewRig(nil, engine.Spec{})
		k.Once = c.once
		k.Table().Tracker.SetSuspended(c.found)
		v := engine.View{State: checkpoint.TableState{Suspended: checkpoint.Suspension{Since: now.Add(-c.passed), Reason: c.reason}}}
		if got := assignerOf(k).longGone(v, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
