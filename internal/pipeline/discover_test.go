package pipeline

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A failed search and a failed suspension in the same look are both reported. The second may end
// the process, but the first alone would be retried.
func TestAFailedLookDoesNotHideTheNext(t *testing.T) {
	ctx, failed := t.Context(), errors.New("some tables could not be described")
	store := &checkpointtest.Memory{}
	ledger, err := checkpoint.Open(ctx, store, "discover", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	o := &engine.Options{Ledger: ledger, Discover: func(context.Context, func(string) bool) (engine.Discovery, error) {
		return engine.Discovery{Refused: []engine.Refusal{{Table: "Orders", Reason: "no stream"}}}, failed
	}}
	o.Events = engine.Events{}.OrSilent()
	j := newJoining(newWorker(o, nil), nil, &engine.NameSet{Names: map[string]bool{}})
	if err := j.admit(engine.Until(ctx)); !errors.Is(err, failed) {
		t.Errorf("ended with %v", err)
	}
	if state, _, err := ledger.Table(ctx, "Orders"); err != nil || state.Suspended.Reason != "no stream" {
		t.Errorf("suspended for %q, %v", state.Suspended.Reason, err)
	}
	store.OnRead = func(context.Context, string) error { return checkpoint.ErrLedgerExchanged }
	if err := j.admit(engine.Until(ctx)); !errors.Is(err, failed) || !errors.Is(err, checkpoint.ErrLedgerExchanged) {
		t.Errorf("ended with %v", err)
	}
}

// TestWhatWasFoundJoins: a table that was found joins or is suspended immediately, even if another
// one cannot be described now. That one is searched for again, and a run with Once waits for it.
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
			before         []string // tables that joined before the search
		}{
			{gives: []string{"A"}, refuses: []string{"X"}, err: throttled},
			{err: throttled, before: []string{"A"}},
			{gives: []string{"C"}, refuses: []string{"A"}, err: throttled, before: []string{"A"}},
			{gives: []string{"A", "B"}, before: []string{"A", "C"}},
		}
		var begun []string
		look, whole, failed := 0, 0, 0
		events := engine.Events{Discovered: func(err error) {
			if err == nil {
				whole++
			} else {
				failed++
			}
		}}
		o := &engine.Options{Ledger: ledger, Once: true, Events: events.OrSilent()}
		run := &engine.Completion{}
		o.Discover = func(_ context.Context, followed func(string) bool) (found engine.Discovery, err error) {
			l := looks[look]
			look++
			if !slices.Equal(begun, l.before) || slices.ContainsFunc(begun, func(s string) bool { return !followed(s) }) || followed("B") {
				t.Errorf("look %d: %v have joined", look, begun)
			}
			if run.Tables[discovery].Done {
				t.Errorf("look %d: the run waits for it no more", look)
			}
			if state, _, err := ledger.Table(ctx, "X"); err != nil || (state.Suspended.Reason == "no") != (look > 1) {
				t.Errorf("look %d: suspended for %q, %v", look, state.Suspended.Reason, err)
			}
			for _, source := range l.gives {
				found.Tables = append(found.Tables, engine.Spec{Mapping: &transform.Mapping{Source: source}})
			}
			for _, source := range l.refuses {
				found.Refused = append(found.Refused, engine.Refusal{Table: source, Reason: "no"})
			}
			return found, l.err
		}
		run.Await(discovery, new(task.Wakeup))
		j := newJoining(newWorker(o, nil), func(spec engine.Spec) {
			run.Await(spec.Mapping.Source, new(task.Wakeup))
			begun = append(begun, spec.Mapping.Source)
		}, &engine.NameSet{Names: map[string]bool{}})
		j.once = run
		if err := j.join(engine.Until(ctx)); err != nil {
			t.Fatal(err)
		}
		if want := []string{"A", "C", "B"}; look != len(looks) || !slices.Equal(begun, want) || !run.Tables[discovery].Done {
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

// TestAStopEndsALook: after a stop no found table begins, and the stop does not wait for the
// search.
func TestAStopEndsALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain, cancel := context.WithCancel(t.Context())
		w := newWorker(&engine.Options{Events: engine.Events{}.OrSilent()}, nil)
		w.Discover = func(ctx context.Context, _ func(string) bool) (engine.Discovery, error) {
			cancel()
			w.Calls.Cancel(context.Canceled)
			<-ctx.Done()
			return engine.Discovery{Tables: []engine.Spec{{Mapping: &transform.Mapping{Source: "A"}}}}, ctx.Err()
		}
		j := newJoining(w, func(engine.Spec) { t.Error("begun") }, &engine.NameSet{Names: map[string]bool{}})
		if err := j.join(engine.Lifecycle{Drain: drain, Work: t.Context()}); err != nil {
			t.Error(err)
		}
	})
}

// TestLivesWithoutTables: while there is no table, the search for tables shows that the process is
// alive.
func TestLivesWithoutTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain, cancel := context.WithCancel(t.Context())
		ticks, looks := 0, 0
		o := &engine.Options{DiscoverEvery: 5 * time.Minute, Discover: func(context.Context, func(string) bool) (engine.Discovery, error) {
			if looks++; looks == 3 {
				cancel()
			}
			return engine.Discovery{}, nil
		}}
		o.Events = engine.Events{Tick: func() { ticks++ }}.OrSilent()
		w := newWorker(o, nil)
		began := time.Now()
		if err := newJoining(w, nil, &engine.NameSet{Names: map[string]bool{}}).join(engine.Lifecycle{Drain: drain, Work: t.Context()}); err != nil {
			t.Error(err)
		}
		if passed := time.Since(began); passed != 2*o.DiscoverEvery || ticks < int(passed/tickEvery) {
			t.Errorf("%d ticks and %d looks in %s", ticks, looks, passed)
		}
		joined := &engine.NameSet{Names: map[string]bool{"A": true}}
		ticks = 0
		newJoining(w, nil, joined).rest(t.Context())
		if ticks > 0 {
			t.Errorf("%d ticks beside a table, whose loop may stand", ticks)
		}
	})
}
