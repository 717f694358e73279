package load

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Each setting of a table sets one setting of its loads, and no other.
func TestEachSettingHasItsEffect(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		for name, c := range map[string]struct {
			spec engine.Spec
			want loadSettings
		}{
			"nothing":                {engine.Spec{}, loadSettings{}},
			"a copy":                 {engine.Spec{Copy: true}, loadSettings{wanted: true}},
			"copies after gaps":      {engine.Spec{Copy: true, LoadAgain: true}, loadSettings{wanted: true, again: true}},
			"no copies":              {engine.Spec{LoadAgain: true}, loadSettings{}},
			"owned rows":             {engine.Spec{Owned: true}, loadSettings{owned: true}},
			"a shared target":        {engine.Spec{Shared: true}, loadSettings{shared: true}},
			"changes from now on":    {engine.Spec{FromNow: true, Young: true, Joined: true}, loadSettings{}},
			"no expired items":       {engine.Spec{SkipExpired: true}, loadSettings{skipExpired: true}},
			"dual writes":            {engine.Spec{Late: time.Minute, Settle: time.Hour}, loadSettings{late: time.Minute}},
			"limits that may change": {engine.Spec{LiveLimits: func() checkpoint.Limits { return checkpoint.Limits{} }}, loadSettings{live: true}},
			"rows of several tables": {engine.Spec{Rows: backfill.NewThrottle(1)}, loadSettings{}},
			"both kinds of limits":   {engine.Spec{Rows: backfill.NewThrottle(1), LiveLimits: func() checkpoint.Limits { return checkpoint.Limits{} }}, loadSettings{}},
		} {
			c.spec.Mapping = s.Mapping
			s.Spec = c.spec
			s.Reset()
			for _, got := range []loadSettings{s.loader().settings, s.conductor().settings} {
				if got.wanted != c.want.wanted || got.again != c.want.again || got.owned != c.want.owned || got.shared != c.want.shared ||
					got.skipExpired != c.want.skipExpired || got.live != c.want.live || got.late != c.want.late || got.segments != 1 {
					t.Errorf("%s: %+v", name, got)
				}
			}
		}
	})
}

// A limit that changes while a load runs applies to the rest of the load.
func TestALimitMayChangeDuringALoad(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		rows := 1000.0
		s.LiveLimits = func() checkpoint.Limits { return checkpoint.Limits{RowsPerSecond: &rows} }
		l := s.loader()
		for _, c := range []struct {
			limit float64
			least time.Duration
		}{{1000, 0}, {1, 8 * time.Second}, {1000, 0}} {
			rows = c.limit
			kind{l}.Pace(ctx, checkpoint.TableState{}, l.settings.limits())
			s.check(task.Sleep(ctx, 10*time.Second)) // earlier reservations are over
			began := task.Mono(ctx)
			for range 12 {
				_, _, err := l.loop.Limits.Take(ctx, ctx, 1, 0.5)
				s.check(err)
			}
			if took := task.Mono(ctx) - began; took < c.least || c.least == 0 && took > time.Second {
				t.Errorf("%v rows a second: it took %s", c.limit, took)
			}
		}
	})
}

// An error of the ledger, or of the progress that a step saves, is the step's error. A part is not
// leased on an empty record.
func TestAStepFailsWithTheLedger(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		away := errors.New("away")
		if err := s.conductor().step(engine.Until(ctx), failingPace{away}); !errors.Is(err, away) {
			t.Errorf("a pace that is not saved: %v", err)
		}
		s.store.OnRead = func(context.Context, string) error { return away }
		if _, of, err := (kind{s.loader()}).Look(ctx); !errors.Is(err, away) || of.Total != 0 {
			t.Errorf("a look: %+v, %v", of, err)
		}
		if err := s.step(ctx); !errors.Is(err, away) {
			t.Errorf("a step: %v", err)
		}
		s.store.OnRead = nil
	})
}

type failingPace struct{ err error }

func (f failingPace) SavePace(context.Context, checkpoint.Pace) error { return f.err }

// The last pass of a sweep is not complete while the witnesses of former tables cannot be
// withdrawn.
func TestAPassWaitsForTheWitnesses(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Load.DoneAt = task.Now(ctx)
			state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 1, Approved: true, BegunAt: task.Now(ctx), Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
			state.Former = []checkpoint.Former{{Hash: "h", Tables: []string{"former"}, Generation: 1}}
		})
		s.finish(ctx, checkpoint.PartProgress{})
		witness := s.Witness
		former := &checkpointtest.Memory{OnRead: func(_ context.Context, prefix string) error {
			return checkpoint.ErrLedgerExchanged
		}}
		s.Witness = func(table string) checkpoint.Store {
			if table == "former" {
				return former
			}
			return witness(table)
		}
		s.Reset()
		if err := s.conductor().sweep(engine.Until(ctx), s.state(ctx)); err == nil || s.state(ctx).Stage() != checkpoint.StageSweeping {
			t.Errorf("%v, %+v", err, s.state(ctx).Load.Sweep)
		}
	})
}

// sampled is a target whose tables have split points.
type sampled struct {
	sink.MarkReader
	keys []string
}

func (s sampled) SampleKeys(context.Context, string) ([]string, error) { return s.keys, nil }

// The ranges of a sweep cover each table from its first to its last row, without a hole.
func TestTheRangesOfASweepCoverEachTable(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		c := s.conductor()
		c.target = sampled{s.target, []string{"a", "k", "t"}}
		ranges, err := c.ranges(ctx, s.sealed(ctx, 1), nil, []string{"former"})
		s.check(err)
		tables := []string{}
		end := ""
		for _, r := range ranges {
			if end == "" {
				tables = append(tables, r.Table)
			}
			if string(r.From) != end || len(r.To) > 0 && string(r.To) <= end {
				t.Errorf("%q to %q after %q", r.From, r.To, end)
			}
			end = string(r.To)
		}
		if end != "" || !slices.Equal(tables, []string{"orders", "former"}) || len(ranges) < 4 {
			t.Errorf("%+v", ranges)
		}
	})
}

// The counts of a sweep reach the ledger, each under its name.
func TestTheCountsOfASweep(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		for _, pk := range []string{"i1", "i2", "gone"} {
			s.inherited(ctx, pk)
		}
		s.sealed(ctx, 1)
		s.change(ctx, func(state *checkpoint.TableState) {
			state.NeedsLoad, state.Load.DoneAt = true, task.Now(ctx)
			state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 1, Approved: true, BegunAt: task.Now(ctx), Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
		})
		s.check(s.work(ctx, time.Minute, false))
		parts, err := s.Ledger.Parts(ctx, s.state(ctx), checkpoint.PhaseSweep(1))
		s.check(err)
		if len(parts) != 1 || parts[0].State != checkpoint.PartDone || parts[0].Counts.Put != 2 || parts[0].Counts.Removed != 1 || parts[0].Counts.Unexplained != 0 || parts[0].Counts.Seen != 3 || parts[0].Items < 3 {
			t.Errorf("%+v", parts)
		}
	})
}
