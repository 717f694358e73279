package load

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// fastLoads runs a script with a table whose first load may be fast.
func fastLoads(t *testing.T, script func(ctx context.Context, s *loadScene)) {
	t.Helper()
	loads(t, func(ctx context.Context, s *loadScene) {
		s.LoadMode = checkpoint.AutoLoad
		s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.AdoptedAt = true, task.Now(ctx) })
		s.Reset()
		script(ctx, s)
	})
}

// H142: the first load of a table is fast where nothing speaks against it. All rows then have the
// marker alone, and the table is loaded once the sweep is over. Afterwards no clock of a guarded
// write is corrected any more.
func TestH142_TheFirstLoadIsFast(t *testing.T) {
	fastLoads(t, func(ctx context.Context, s *loadScene) {
		began := task.Now(ctx)
		s.check(s.work(ctx, 20*time.Minute, true))
		state := s.state(ctx)
		if !state.Load.Fast || !state.Loaded() || state.Base != 2 || state.Load.Sweep.Pass != 1 {
			t.Errorf("%+v", state.Load)
		}
		if at := state.Load.CellTime; !at.Equal(began.Add(-checkpoint.FastTimeMargin).Truncate(time.Millisecond)) {
			t.Errorf("cells are at %s, the first read was at %s", at, began)
		}
		rows := 0
		s.check(s.target.ReadRows(ctx, "orders", sink.Range{}, func(r sink.Row) error {
			if rows++; !r.CopiedOnly() || r.Marker != markerOf(state.Load) {
				t.Errorf("%+v", r.Marker)
			}
			return nil
		}))
		target, _, err := s.Ledger.Target(ctx, "orders")
		s.check(err)
		if rows != s.shop.items || !target.Swept || !target.CopiedAt.Equal(state.Load.CellTime) {
			t.Errorf("%d rows, %+v", rows, target)
		}
	})
}

// H142: what speaks against a fast load, and what the record then says. A guarded load says nothing
// if nobody wanted a fast one.
func TestH142_WhyALoadIsGuarded(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(ctx context.Context, s *loadScene)
		why     string
	}{
		"nobody wants it": {func(_ context.Context, s *loadScene) { s.LoadMode = "" }, ""},
		"an operator": {func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.Mode = checkpoint.GuardedLoad })
		}, ""},
		"the record": {func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs = false })
		}, "did not create"},
		"the application":   {func(_ context.Context, s *loadScene) { s.Late = 5 * time.Second }, "dual_writes"},
		"others":            {func(_ context.Context, s *loadScene) { s.Shared = true }, "target.shared"},
		"an age rule":       {func(_ context.Context, s *loadScene) { s.target.Aged = []string{"d"} }, "family d of table orders"},
		"unknown age rules": {func(_ context.Context, s *loadScene) { s.Families = struct{ sink.Families }{s.target} }, "cannot read the collection rules"},
		"another source": {func(ctx context.Context, s *loadScene) {
			_, err := s.Ledger.UpdateTable(ctx, "Others", func(state *checkpoint.TableState) error { state.Targets = []string{"orders"}; return nil })
			s.check(err)
		}, "table Others has the same target table"},
		"no fence": {func(ctx context.Context, s *loadScene) {
			_, err := s.Ledger.UpdateTarget(ctx, "orders", func(t *checkpoint.Target) error { t.Withheld = "no right"; return nil })
			s.check(err)
		}, "has no fence"},
	} {
		fastLoads(t, func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx).Add(-time.Hour) })
			c.prepare(ctx, s)
			s.Reset()
			for n := 0; n < 5 && s.state(ctx).Stage() == checkpoint.StageAsked; n++ {
				s.check(s.step(ctx))
				_ = task.Sleep(ctx, 10*time.Second)
			}
			l := s.state(ctx).Load
			if l.Parts == 0 || l.Fast || (c.why == "") != (l.Guarded == "") || !strings.Contains(l.Guarded, c.why) {
				t.Errorf("%s: %d parts, fast %t, %q", name, l.Parts, l.Fast, l.Guarded)
			}
		})
	}
}

// H142: the time of the cells is in the target's record before the fence is raised, and lower
// numbers are dropped before the load is sealed. So no other writer can miss the time. An attempt
// that was cut off keeps its time.
func TestH142_EveryWriterKnowsTheTime(t *testing.T) {
	fastLoads(t, func(ctx context.Context, s *loadScene) {
		earlier := task.Now(ctx).Add(-50 * time.Hour).Truncate(time.Millisecond).UTC()
		_, err := s.Ledger.UpdateTarget(ctx, "orders", func(t *checkpoint.Target) error { t.CopiedAt, t.Swept = earlier, true; return nil })
		s.check(err)
		var order []string
		s.store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			done := execute()
			target, _, err := s.Ledger.Target(ctx, "orders")
			s.check(err)
			switch state := s.state(ctx); {
			case strings.HasSuffix(key, "/target/orders"):
				order = append(order, map[bool]string{true: "swept", false: "marked"}[target.Swept])
			case strings.HasSuffix(key, "/table/Orders") && state.Load.Fast:
				order = append(order, "sealed under "+sink.FenceFamily("l", state.Load.Numbers["orders"])+" of "+strings.Join(s.target.Names, " "))
			}
			return done, nil
		}
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
		s.check(s.step(ctx))
		state := s.state(ctx)
		current := sink.FenceFamily("l", state.Load.Numbers["orders"])
		if !state.Load.Fast || !state.Load.CellTime.Equal(earlier) || len(order) < 3 || order[0] != "marked" || slices.Contains(order, "swept") ||
			order[len(order)-1] != "sealed under "+current+" of d _cdc _cdc_gone "+current {
			t.Errorf("%q, %+v", order, state.Load)
		}
	})
}

// H142: before the sweep, requests with the load's number must be refused. If a server still takes
// them, the load waits and says why, and tries again later. It goes on once they are refused.
func TestH142_TheFenceIsProbedBeforeTheSweep(t *testing.T) {
	fastLoads(t, func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
		s.check(s.step(ctx))
		s.finish(ctx, checkpoint.PartProgress{Items: 6})
		number := sink.FenceFamily("l", s.state(ctx).Load.Numbers["orders"])
		leaks := true
		c := s.conductor()
		c.writer = sink.NewWriter(sink.Options{Table: leaking{s.target.Memory, number, &leaks}, Parking: sink.NewParking(nil, "p")})
		run := func(d time.Duration) {
			drain, cancel := task.WithTimeout(ctx, d)
			defer cancel()
			s.check(c.Run(engine.Lifecycle{Drain: drain, Work: ctx}, s))
		}
		run(4 * time.Minute)
		if state := s.state(ctx); !strings.HasPrefix(state.Load.Paused, checkpoint.PausedForFence+"orders") || !state.Load.Sweep.BegunAt.IsZero() {
			t.Errorf("while a server takes them: %+v", state.Load)
		}
		leaks = false
		run(12 * time.Minute)
		if state := s.state(ctx); state.Load.Paused != "" || state.Load.Sweep.BegunAt.IsZero() {
			t.Errorf("once they are refused: %+v", state.Load)
		}
	})
}

// leaking is a table that still accepts a dropped number.
type leaking struct {
	sink.Table
	number string
	leaks  *bool
}

func (l leaking) ApplyAll(_ context.Context, _ string, entries []sink.Entry) []error {
	errs := make([]error, len(entries))
	for i, e := range entries {
		if e.Ops[0].Family != l.number || !*l.leaks {
			errs[i] = &sink.Error{Op: "MutateRows", Reason: sink.Unknown, Code: "Internal"}
		}
	}
	return errs
}

// H142: a fast load that may not end begins another generation, whose load is guarded: after its
// time, or once something speaks against it.
func TestH142_AFastLoadThatMayNotEnd(t *testing.T) {
	for name, prepare := range map[string]func(ctx context.Context, s *loadScene){
		"too late": func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(state *checkpoint.TableState) { state.AdoptedAt = task.Now(ctx).Add(-13 * 24 * time.Hour) })
			s.Writer = sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p"), Floor: s.Floors.Floor, MaxImageAge: 12 * 24 * time.Hour})
		},
		"dual writes": func(_ context.Context, s *loadScene) { s.Late = time.Second },
	} {
		fastLoads(t, func(ctx context.Context, s *loadScene) {
			s.LoadAgain = true
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
			s.check(s.step(ctx))
			s.finish(ctx, checkpoint.PartProgress{Items: 6})
			prepare(ctx, s)
			s.Reset()
			s.check(s.work(ctx, 30*time.Minute, true))
			if state := s.state(ctx); state.Generation <= 2 || state.Load.Fast || !state.Loaded() || state.GapCount != 1 || state.Gaps[0].Kind != checkpoint.KindAskedFor || !strings.Contains(state.Gaps[0].Reason, "ended early") {
				t.Errorf("%s: %+v, gaps %+v", name, state.Load, state.Gaps)
			}
		})
	}
}
