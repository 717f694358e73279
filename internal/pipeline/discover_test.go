package pipeline

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// TestH24_AnOldListingIsNotOneOfANewStream: a keeper that stood still between its first listing and
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
	k := newRig(ledger, Table{})
	listing := cdc.Listing{Shards: []cdc.Shard{{ID: "s1"}}}
	before := follow("first", 1)
	for _, c := range []struct {
		label  string
		listed uint32
	}{{"second", 0}, {"first", 1}} {
		follow(c.label, 1)
		if err := reconcilerOf(k).discover(until(ctx), before, listing, true); err != nil {
			t.Fatal(err)
		}
		if now, _, err := ledger.Table(ctx, "Orders"); err != nil || now.Listed != c.listed {
			t.Errorf("stream %s is listed in generation %d: %v", c.label, now.Listed, err)
		}
	}
}

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

// What could not be looked for, and what kept a table from being suspended meanwhile, are both
// told: the second may end the process, the first alone would be repeated.
func TestAFailedLookDoesNotHideTheNext(t *testing.T) {
	ctx, failed := t.Context(), errors.New("some tables could not be described")
	store := &checkpointtest.Memory{}
	ledger, err := checkpoint.Open(ctx, store, "discover", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	o := &Options{Ledger: ledger, Discover: func(context.Context, func(string) bool) (Discovery, error) {
		return Discovery{Refused: []Refusal{{"Orders", "no stream"}}}, failed
	}}
	o.Events = Events{}.orSilent()
	j := newJoining(newWorker(o, nil), nil, &nameSet{names: map[string]bool{}})
	if err := j.admit(until(ctx)); !errors.Is(err, failed) {
		t.Errorf("ended with %v", err)
	}
	if state, _, err := ledger.Table(ctx, "Orders"); err != nil || state.Suspended.Reason != "no stream" {
		t.Errorf("suspended for %q, %v", state.Suspended.Reason, err)
	}
	store.OnRead = func(context.Context, string) error { return checkpoint.ErrLedgerExchanged }
	if err := j.admit(until(ctx)); !errors.Is(err, failed) || !errors.Is(err, checkpoint.ErrLedgerExchanged) {
		t.Errorf("ended with %v", err)
	}
}

// TestWhatWasFoundJoins: what was found joins, or is suspended, at once, though another table
// cannot be described for now; that one is looked for again, and a run with Once waits for it.
func TestWhatWasFoundJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "join", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		throttled := &cdc.Error{Op: "DescribeTable", Reason: cdc.Throttled, Err: errors.New("injected")}
		looks := []struct {
			gives, refuses []string
			err            error
			before         []string // what has joined when it is asked
		}{
			{gives: []string{"A"}, refuses: []string{"X"}, err: throttled},
			{err: throttled, before: []string{"A"}},
			{gives: []string{"C"}, refuses: []string{"A"}, err: throttled, before: []string{"A"}},
			{gives: []string{"A", "B"}, before: []string{"A", "C"}},
		}
		var begun []string
		look, whole, failed := 0, 0, 0
		events := Events{Discovered: func(err error) {
			if err == nil {
				whole++
			} else {
				failed++
			}
		}}
		o := &Options{Ledger: ledger, Once: true, Events: events.orSilent()}
		run := &completion{}
		o.Discover = func(_ context.Context, followed func(string) bool) (found Discovery, err error) {
			l := looks[look]
			look++
			if !slices.Equal(begun, l.before) || slices.ContainsFunc(begun, func(s string) bool { return !followed(s) }) || followed("B") {
				t.Errorf("look %d: %v have joined", look, begun)
			}
			if run.tables[discovery].done {
				t.Errorf("look %d: the run waits for it no more", look)
			}
			if state, _, err := ledger.Table(ctx, "X"); err != nil || (state.Suspended.Reason == "no") != (look > 1) {
				t.Errorf("look %d: suspended for %q, %v", look, state.Suspended.Reason, err)
			}
			for _, source := range l.gives {
				found.Tables = append(found.Tables, Table{Mapping: &transform.Mapping{Source: source}})
			}
			for _, source := range l.refuses {
				found.Refused = append(found.Refused, Refusal{source, "no"})
			}
			return found, l.err
		}
		run.await(discovery, new(task.Wakeup))
		j := newJoining(newWorker(o, nil), func(spec Table) {
			run.await(spec.Mapping.Source, new(task.Wakeup))
			begun = append(begun, spec.Mapping.Source)
		}, &nameSet{names: map[string]bool{}})
		j.once = run
		if err := j.join(until(ctx)); err != nil {
			t.Fatal(err)
		}
		if want := []string{"A", "C", "B"}; look != len(looks) || !slices.Equal(begun, want) || !run.tables[discovery].done {
			t.Errorf("after %d looks %v have joined, want %v", look, begun, want)
		}
		if failed != 3 || whole != 1 {
			t.Errorf("told of %d looks that failed, and of %d that were whole", failed, whole)
		}
		if state, found, err := ledger.Table(ctx, "A"); err != nil || found {
			t.Errorf("a table that is followed is suspended: %+v, %v", state, err)
		}
	})
}

// TestAStopEndsALook: nothing of it is begun any more, and it is not waited for.
func TestAStopEndsALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain, cancel := context.WithCancel(t.Context())
		w := newWorker(&Options{Events: Events{}.orSilent()}, nil)
		w.Discover = func(ctx context.Context, _ func(string) bool) (Discovery, error) {
			cancel()
			w.calls.cancel(context.Canceled)
			<-ctx.Done()
			return Discovery{Tables: []Table{{Mapping: &transform.Mapping{Source: "A"}}}}, ctx.Err()
		}
		j := newJoining(w, func(Table) { t.Error("begun") }, &nameSet{names: map[string]bool{}})
		if err := j.join(lifecycle{drain: drain, work: t.Context()}); err != nil {
			t.Error(err)
		}
	})
}

// TestLivesWithoutTables: while there is no table, looking for some is what shows that the process
// lives.
func TestLivesWithoutTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain, cancel := context.WithCancel(t.Context())
		ticks, looks := 0, 0
		o := &Options{DiscoverEvery: 5 * time.Minute, Discover: func(context.Context, func(string) bool) (Discovery, error) {
			if looks++; looks == 3 {
				cancel()
			}
			return Discovery{}, nil
		}}
		o.Events = Events{Tick: func() { ticks++ }}.orSilent()
		w := newWorker(o, nil)
		began := time.Now()
		if err := newJoining(w, nil, &nameSet{names: map[string]bool{}}).join(lifecycle{drain: drain, work: t.Context()}); err != nil {
			t.Error(err)
		}
		if passed := time.Since(began); passed != 2*o.DiscoverEvery || ticks < int(passed/tickEvery) {
			t.Errorf("%d ticks and %d looks in %s", ticks, looks, passed)
		}
		joined := &nameSet{names: map[string]bool{"A": true}}
		ticks = 0
		newJoining(w, nil, joined).rest(t.Context())
		if ticks > 0 {
			t.Errorf("%d ticks beside a table, whose loop may stand", ticks)
		}
	})
}

// TestLongGone: a table is left alone when it was dropped so long ago that its stream is gone, as
// the ledger and the keeper here know.
func TestLongGone(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name        string
		once, found bool
		reason      string
		passed      time.Duration
		want        bool
	}{
		{name: "long gone", found: true, reason: GoneReason, passed: lookedAfter + time.Minute, want: true},
		{name: "its stream may be read", found: true, reason: GoneReason, passed: lookedAfter - time.Minute},
		{name: "known from before it was created anew", reason: GoneReason, passed: lookedAfter + time.Minute},
		{name: "readmitted by another", found: true, passed: lookedAfter + time.Minute},
		{name: "it is there, without a stream", found: true, reason: "the table has no enabled stream", passed: lookedAfter + time.Minute},
		{name: "a run with Once ends as a whole", once: true, found: true, reason: GoneReason, passed: lookedAfter + time.Minute},
	} {
		k := newRig(nil, Table{})
		k.Once = c.once
		k.table().tracker.setSuspended(c.found)
		v := view{state: checkpoint.TableState{Suspended: checkpoint.Suspension{Since: now.Add(-c.passed), Reason: c.reason}}}
		if got := assignerOf(k).longGone(v, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
