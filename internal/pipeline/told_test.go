package pipeline

import (
	"context"
	"errors"
	"maps"
	"strings"
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

// ending is a backlog of shards that end after one page. One of them is missing, and one is
// throttled for a while.
type ending struct{ *backlog }

func (e ending) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	now := task.Mono(ctx)
	switch {
	case at == "Orders0|0":
		return cdc.Page{End: true}, task.Sleep(ctx, 10*time.Millisecond)
	case at == "Orders1|0":
		return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.NotFound, Err: errors.New("no such shard")}
	case at == "Orders2|0" && now < 30*time.Second:
		return cdc.Page{}, &cdc.Error{Op: "GetRecords", Reason: cdc.Throttled, Err: errors.New("slow down")}
	}
	return e.backlog.Read(ctx, at)
}

// Metrics, logs and alerts depend on a worker's events. These report the shards by state, an ended
// shard, a lost shard, the generation that begins then, the headroom, and the wait for a limit.
func TestWhatAWorkerTells(t *testing.T) {
	o := crowd(t, newBacklog(1), enginetest.Targets{}, "Orders")
	o.Open = func(string) cdc.Source { return ending{newBacklog(1)} }
	var first, last map[checkpoint.State]int
	o.Events.Ledger = func(_ checkpoint.TableState, shards map[checkpoint.State]int) {
		if last = maps.Clone(shards); first == nil {
			first = last
		}
	}
	var done, gaps []string
	raised, throttled, lags := uint32(0), time.Duration(0), 0
	o.Events.ShardDone = func(table, shard string) { done = append(done, table+"/"+shard) }
	o.Events.Gap = func(table, shard, _ string) { gaps = append(gaps, table+"/"+shard) }
	o.Events.Raised = func(_ string, generation uint32, _ string) { raised = generation }
	o.Events.Throttled = func(_, reason string, waited time.Duration) {
		if reason == engine.LimitSource {
			throttled += waited
		}
	}
	o.Events.Lag = func(_ string, lag, headroom time.Duration) {
		if lags++; lag+headroom > cdc.Retention {
			t.Errorf("a lag of %s, and %s are left of the day", lag, headroom)
		}
	}
	var ledger *checkpoint.Ledger
	play(t, &checkpointtest.Memory{}, 5*time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		ledger = l
		return enginetest.Behind(4, "Orders")(ctx, l)
	})
	state, _, err := ledger.Table(t.Context(), "Orders")
	if err != nil {
		t.Fatal(err)
	}
	if want := (map[checkpoint.State]int{checkpoint.Waiting: 4, checkpoint.Reading: 0, checkpoint.Done: 0, checkpoint.Gap: 0}); !maps.Equal(first, want) {
		t.Errorf("at first %v", first)
	}
	if want := (map[checkpoint.State]int{checkpoint.Waiting: 0, checkpoint.Reading: 2, checkpoint.Done: 1, checkpoint.Gap: 1}); !maps.Equal(last, want) {
		t.Errorf("in the end %v", last)
	}
	if len(done) != 1 || done[0] != "Orders/Orders0" || len(gaps) != 1 || gaps[0] != "Orders/Orders1" || raised != state.Generation || raised <= 7 {
		t.Errorf("done %q, lost %q, raised to %d, and it is %d", done, gaps, raised, state.Generation)
	}
	if throttled < 20*time.Second || throttled > time.Minute || lags == 0 {
		t.Errorf("throttled for %s; the lag was told %d times", throttled, lags)
	}
}

// A generation that begins with a new mapping is reported like any other.
func TestAnAcceptedMappingIsTold(t *testing.T) {
	o := crowd(t, newBacklog(1), enginetest.Targets{}, "Orders")
	o.Tables[0].MappingHash, o.Tables[0].AcceptMapping = "after", true
	raised, why := uint32(0), ""
	o.Events.Raised = func(_ string, generation uint32, reason string) { raised, why = generation, reason }
	play(t, &checkpointtest.Memory{}, time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.MappingHash = "before"; return nil })
		return errors.Join(err, enginetest.Behind(1, "Orders")(ctx, l))
	})
	if raised <= 7 || why != checkpoint.ChangedMapping {
		t.Errorf("raised to %d, for %q", raised, why)
	}
}

// A shard that could not be leased is tried again in the next pass, because the reason may be gone
// by then.
func TestALeaseThatFailedIsTriedAgain(t *testing.T) {
	store, failed := &checkpointtest.Memory{}, 0
	source := newBacklog(3)
	o := crowd(t, source, enginetest.Targets{}, "Orders")
	play(t, store, time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		if err := enginetest.Behind(1, "Orders")(ctx, l); err != nil {
			return err
		}
		store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			if key == "outage/shard/Orders/L/Orders0" && failed == 0 {
				failed++
				return false, errors.New("no answer")
			}
			return execute(), nil
		}
		return nil
	})
	if failed != 1 || source.total("Orders") != 3 {
		t.Errorf("failed %d times, %d pages were read", failed, source.total("Orders"))
	}
}

// A table that is being dropped is gone. A table is not gone if it could not be described, or if it
// exists. A scan that did not find it may have come a moment too early.
func TestWhatIsGone(t *testing.T) {
	for _, c := range []struct {
		described backfill.Description
		err       error
		want      bool
	}{
		{backfill.Description{Status: "ACTIVE"}, nil, false}, {backfill.Description{Status: "UPDATING"}, nil, false}, {backfill.Description{Status: "DELETING"}, nil, true},
		{backfill.Description{}, &cdc.Error{Reason: cdc.NotFound, Err: errors.New("no")}, true}, {backfill.Description{}, &cdc.Error{Reason: cdc.Unavailable, Err: errors.New("no")}, false},
	} {
		k := enginetest.NewRig(nil, engine.Spec{Joined: true})
		k.Database = enginetest.Answering{Described: c.described, Err: c.err}
		reason, yes := coordinatorOf(k).unfollowable(t.Context(), &cdc.Error{Op: "Scan", Reason: cdc.NotFound, Err: errors.New("no")})
		if got := engine.Gone(c.described, c.err); got != c.want || yes != c.want || yes && reason != engine.GoneReason {
			t.Errorf("%+v, %v: gone %v, suspended for %q", c.described, c.err, got, reason)
		}
	}
}

// A table of a pattern is suspended for an obstacle of its own, in fixed words. A failure of the
// worker, or one that passes, suspends no table, and a named table is never suspended.
func TestWhyATableIsSuspended(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string // a part of the reason; "": it is not suspended
	}{
		{nil, ""}, {errors.New("anything"), ""}, {checkpoint.ErrMappingChanged, ""}, {&checkpoint.SourceError{Table: "Orders"}, ""},
		{&engine.StreamError{Table: "Orders"}, "no enabled stream"}, {&engine.StreamError{Table: "Orders", View: "KEYS_ONLY"}, "KEYS_ONLY"}, {&engine.KeyError{Table: "Orders"}, "primary key"},
		{engine.ErrGone, "no longer exists"}, {&cdc.Error{Reason: cdc.Unavailable, Err: errors.New("no")}, ""},
	} {
		for _, joined := range []bool{true, false} {
			k := enginetest.NewRig(nil, engine.Spec{Joined: joined})
			k.Database = enginetest.Dropped{}
			reason, yes := coordinatorOf(k).unfollowable(t.Context(), c.err)
			if yes != (joined && c.want != "") || yes && !strings.Contains(reason, c.want) || !yes && reason != "" {
				t.Errorf("%v, joined %v: %v for %q", c.err, joined, yes, reason)
			}
		}
	}
}

// A worker without tables ends if it finds, during a search, that its ledger was replaced. No other
// task of it would notice that.
func TestALookForTablesEndsTheProcess(t *testing.T) {
	store := &checkpointtest.Memory{}
	o := engine.Options{DiscoverEvery: time.Minute, Discover: func(ctx context.Context, _ func(string) bool) (engine.Discovery, error) {
		if task.Mono(ctx) > 5*time.Minute {
			store.OnRead = func(context.Context, string) error { return checkpoint.ErrLedgerExchanged }
		}
		return engine.Discovery{Refused: []engine.Refusal{{Table: "Orders", Reason: "no stream"}}}, nil
	}}
	runs(t, store, time.Hour, o, func(context.Context, *checkpoint.Ledger) error { return nil }, func(ctx context.Context, err error) {
		if now := task.Mono(ctx); !errors.Is(err, checkpoint.ErrLedgerExchanged) || now > 10*time.Minute {
			t.Errorf("ended after %s with %v", now, err)
		}
	})
}
