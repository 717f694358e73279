package load

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// conduct runs only the conductor for a duration.
func (s *loadScene) conduct(ctx context.Context, d time.Duration) error {
	drain, cancel := task.WithTimeout(ctx, d)
	defer cancel()
	return s.conductor().Run(engine.Lifecycle{Drain: drain, Work: ctx}, s)
}

// A raise comes after a load has read everything. That ends the load but not the conductor, which
// conducts the next one: an error would end the worker.
func TestAConductorOutlivesARaise(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.LoadAgain = true
		s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs = true })
		s.sealed(ctx, 2)
		s.finish(ctx, checkpoint.PartProgress{Items: 6})
		s.shop.id = "second"
		s.check(s.work(ctx, 10*time.Minute, true))
		if state := s.state(ctx); state.Generation <= 2 || !state.Loaded() || state.Base != state.Generation || state.Load.TableID != "second" {
			t.Errorf("%+v", state)
		}
	})
}

// A dropped table has nothing to load. A table that the configuration names is kept and described
// from time to time. For a table of a pattern the conductor ends with an error.
func TestWhatADroppedTableMeans(t *testing.T) {
	for joined, ends := range map[bool]bool{false: false, true: true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Joined = joined
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
			asked := 0
			s.shop.describe = func() error {
				asked++
				return &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("no")}
			}
			if err := s.conduct(ctx, 10*time.Minute); cdc.Is(err, cdc.NotFound) != ends || (err != nil) != ends {
				t.Errorf("joined %v: it ends with %v", joined, err)
			}
			if asked < 1 || asked > 30 || !ends && asked < 10 {
				t.Errorf("joined %v: it was asked for %d times in ten minutes", joined, asked)
			}
		})
	}
}

// A stop does not hide a fatal error: the ledger was replaced, so the end is not clean.
func TestAStopHidesNoFatalErrorOfTheConductor(t *testing.T) {
	for err, want := range map[error]error{checkpoint.ErrLedgerExchanged: checkpoint.ErrLedgerExchanged, errors.New("no answer"): nil} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
			s.shop.describe = func() error { return errors.Join(task.Sleep(ctx, 2*time.Minute), err) }
			if got := s.conduct(ctx, time.Minute); !errors.Is(got, want) {
				t.Errorf("%v: it ends with %v", err, got)
			}
		})
	}
}

// An error that another read of the ledger fixes is not reported, and the load continues
// immediately.
func TestAStepThatCameTooLateIsNoTrouble(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.Events.Retry = func(_, step string, _ time.Duration, err error) { t.Errorf("told of %s: %v", step, err) }
		s.LoadAgain = true
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
		s.shop.describe = func() error {
			s.shop.describe = nil
			_, err := s.Ledger.Raise(ctx, "Orders", 2, checkpoint.DeclaredGap{Reason: "lost"}, nil)
			return err
		}
		s.check(s.conduct(ctx, time.Minute))
		if state := s.state(ctx); state.Stage() != checkpoint.StageCopying || state.Load.Generation <= 2 {
			t.Errorf("%+v", state.Load)
		}
	})
}

// A load without a stream does not begin, because no changes would follow its images.
func TestALoadIsNotBegunWithoutAStream(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt, state.StreamEnded = task.Now(ctx), true })
		s.check(s.conduct(ctx, time.Minute))
		if state := s.state(ctx); state.Stage() != checkpoint.StageAsked {
			t.Errorf("%+v", state.Load)
		}
	})
}

// If the source's answers have no time, no load begins, because its images would have none.
func TestALoadIsNotBegunWithoutATime(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
		told := 0
		s.Events.Retry = func(_, _ string, _ time.Duration, err error) {
			if told++; !errors.Is(err, engine.ErrTimeless) {
				t.Error(err)
			}
		}
		s.shop.timeless = true
		s.check(s.conduct(ctx, time.Minute))
		if s.state(ctx).Stage() != checkpoint.StageAsked || told == 0 {
			t.Errorf("told %d times, %+v", told, s.state(ctx).Load)
		}
		s.shop.timeless = false
		s.check(s.conduct(ctx, time.Minute))
		if l := s.state(ctx).Load; l.TableID != "first" || l.Estimate != 12 || l.StartedAt.IsZero() || l.Source != "scan" || l.Parts < 4 {
			t.Errorf("%+v", l)
		}
	})
}

// The target's CPU load is read once a minute, from the first pass on, and each value applies until
// the next.
func TestTheTargetIsAskedOnceAMinute(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		cpu, asked, busy := 0.7, 0, "the target is busy"
		s.Limits.TargetCPU = &cpu
		s.Busy = func(context.Context, float64) string { asked++; return busy }
		s.sealed(ctx, 1)
		s.check(s.conduct(ctx, 59*time.Second))
		if asked != 1 || s.state(ctx).Load.Paused != busy {
			t.Errorf("asked %d times, paused for %q", asked, s.state(ctx).Load.Paused)
		}
		busy = ""
		s.check(s.conduct(ctx, 3*time.Minute))
		if asked < 3 || asked > 4 || s.state(ctx).Load.Paused != "" {
			t.Errorf("asked %d times, paused for %q", asked, s.state(ctx).Load.Paused)
		}
	})
}

// A step of a load immediately wakes the loops that wait for it, before their next regular pass.
func TestWhoIsWokenByAStep(t *testing.T) {
	asked := func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
	}
	copied := func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{Items: 6})
	}
	paused := func(why string, left time.Duration) func(ctx context.Context, s *loadScene) {
		return func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.Paused = why })
			s.Ledger.Heard(ctx, task.Now(ctx).Add(cdc.Retention-left))
		}
	}
	for name, c := range map[string]struct {
		prepare                     func(ctx context.Context, s *loadScene)
		conductor, loader, assigner bool
	}{
		"nothing":             {func(ctx context.Context, s *loadScene) { s.Copy = false }, false, false, false},
		"a load is asked for": {func(context.Context, *loadScene) {}, true, false, false},
		"it is sealed":        {asked, false, true, false},
		"it is paused":        {paused("", 17*time.Hour), true, true, false},
		"it goes on":          {paused(checkpoint.PausedForHeadroom, 20*time.Hour), true, true, false},
		"it is copied":        {copied, true, false, true},
		"a pass begins":       {func(ctx context.Context, s *loadScene) { copied(ctx, s); s.check(s.step(ctx)); s.drainWakes(ctx) }, false, true, false},
		"a pass ends": {func(ctx context.Context, s *loadScene) {
			copied(ctx, s)
			s.check(s.step(ctx))
			s.check(s.step(ctx))
			s.finish(ctx, checkpoint.PartProgress{})
			s.drainWakes(ctx)
		}, true, false, true},
		"an export is asked for": {func(ctx context.Context, s *loadScene) { s.wishes(ctx, &archive{}) }, true, false, false},
		"an export is refused": {func(ctx context.Context, s *loadScene) {
			s.named(ctx, func() error { return &source.Refused{Why: "no"} })
		}, true, false, true},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			c.prepare(ctx, s)
			s.check(s.step(ctx))
			wake := &s.Table().Wake
			for who, w := range map[string]struct {
				*task.Wakeup
				want bool
			}{"conductor": {&wake.Conductor, c.conductor}, "loader": {&wake.Loader, c.loader}, "assigner": {&wake.Assigner, c.assigner}} {
				began := task.Mono(ctx)
				s.check(w.Wait(ctx, time.Second))
				if woken := task.Mono(ctx) == began; woken != w.want {
					t.Errorf("%s: the %s is woken: %v", name, who, woken)
				}
			}
		})
	}
}

// drainWakes removes all pending wakeups, so that waits begin again.
func (s *loadScene) drainWakes(ctx context.Context) {
	for _, w := range []*task.Wakeup{&s.Table().Wake.Conductor, &s.Table().Wake.Loader, &s.Table().Wake.Assigner} {
		s.check(w.Wait(ctx, 0))
	}
}

// slowSchema is a target that accepts writes with a dropped family for some time.
type slowSchema struct {
	*enginetest.Schema
	delay time.Duration
}

func (s slowSchema) DropDelay() time.Duration { return s.delay }

// A sweep begins once no earlier write can still arrive: after a lease, and then the time until a
// drop applies everywhere. If families cannot be dropped, it is the longest request. A stop ends
// the wait, and no pass begins.
func TestHowLongASweepWaits(t *testing.T) {
	for name, c := range map[string]struct {
		families func(s *loadScene) sink.Families
		late     time.Duration
		stopped  bool
		withheld string // why there is no fence
	}{
		"a slow drop":    {func(s *loadScene) sink.Families { return slowSchema{s.target, 7 * time.Minute} }, 7 * time.Minute, false, ""},
		"a fast drop":    {func(s *loadScene) sink.Families { return slowSchema{s.target, time.Second} }, time.Second, false, ""},
		"nobody drops":   {func(s *loadScene) sink.Families { return nil }, sink.DefaultTimeout, false, ""},
		"it is stopped":  {func(s *loadScene) sink.Families { return slowSchema{s.target, 7 * time.Minute} }, 0, true, ""},
		"it is withheld": {func(s *loadScene) sink.Families { return slowSchema{s.target, time.Second} }, sink.DefaultTimeout, false, "protected"},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Families = c.families(s)
			_, err := s.Ledger.UpdateTarget(ctx, "orders", func(target *checkpoint.Target) error { target.Withheld = c.withheld; return nil })
			s.check(err)
			s.Reset()
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.DoneAt = task.Now(ctx) })
			began := task.Mono(ctx)
			if c.stopped {
				s.check(s.conduct(ctx, time.Minute))
				if waited := task.Mono(ctx) - began; waited > time.Minute+time.Second || s.state(ctx).Load.Sweep.Parts > 0 {
					t.Errorf("%s: after %s %+v", name, waited, s.state(ctx).Load.Sweep)
				}
				return
			}
			s.check(s.step(ctx))
			if waited, want := task.Mono(ctx)-began, s.Ledger.Lease()+c.late; waited < want || waited > want+time.Second || s.state(ctx).Load.Sweep.Parts == 0 {
				t.Errorf("%s: it begins after %s, want %s", name, waited, want)
			}
		})
	}
}

// If a load does not reach the stream, the gap begins where its images may end.
func TestTheGapOfALoadThatDoesNotReachTheStream(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		images := s.sealed(ctx, 1).Load.StartedAt
		s.check(s.Ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "label", ID: "late", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 2,
			FirstRead: task.Now(ctx).Add(25 * time.Hour), EventTime: task.Now(ctx)}))
		s.finish(ctx, checkpoint.PartProgress{Items: 7})
		if err := s.step(ctx); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("it ends with %v", err)
		}
		state := s.state(ctx)
		if len(state.Gaps) != 1 || state.Kind != checkpoint.KindStream || !state.LostFrom.Equal(images.Add(-checkpoint.Slack)) || !strings.Contains(state.Reason, "late") {
			t.Errorf("%+v, %+v", state.Gaps, state.LostFrom)
		}
	})
}

// A copy is complete only after a root that was listed late has been read.
func TestACopyWaitsForARootThatIsNotRead(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{Items: 7})
		s.check(s.Ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "label", ID: "late", State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 2}))
		var hole *checkpoint.NotAdmissible
		if err := s.step(ctx); !errors.As(err, &hole) || !hole.Yet {
			t.Errorf("status does not show what it waits for: %v", err)
		}
		g := task.NewGroup(ctx, 0)
		g.Go("read", func(ctx context.Context) error {
			s.check(task.Sleep(ctx, time.Minute))
			if s.state(ctx).Stage() != checkpoint.StageCopying {
				t.Error("it is complete before the root is read")
			}
			shards, err := s.Ledger.Shards(ctx, "Orders")
			for _, shard := range shards {
				if shard.ID == "late" {
					lease, taken := s.Ledger.Take(ctx, shard, nil)
					s.check(taken)
					s.check(lease.Commit(ctx, checkpoint.Progress{FirstRead: task.Now(ctx)}))
				}
			}
			return err
		})
		s.check(s.conduct(ctx, 5*time.Minute))
		s.check(g.Wait())
		if state := s.state(ctx); state.Load.DoneAt.IsZero() || len(state.Gaps) > 0 {
			t.Errorf("%+v, %+v", state.Load, state.Gaps)
		}
	})
}

// The witness is checked before a pass that found nothing is recorded as the last. A pass that
// found rows is not the last.
func TestALostTargetEndsACopy(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.check(s.Table().Witnesses.Beat(engine.Until(ctx)))
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{Items: 7})
		s.Witness(s.Mapping.Tables()[0]).(*checkpointtest.Memory).Clear()
		if err := s.step(ctx); err == nil {
			t.Error("the copy is complete")
		}
		if state := s.state(ctx); state.Kind != checkpoint.KindTargetLost || !state.Load.DoneAt.IsZero() && state.Load.Generation == state.Generation {
			t.Errorf("%+v", state)
		}
	})
}

// The part rows of a completed load are removed once, and so are those of the next load.
func TestPartsAreRemovedOnce(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		for n := uint32(1); n < 3; n++ {
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.Number = n })
			s.finish(ctx, checkpoint.PartProgress{Items: 7})
			s.change(ctx, func(state *checkpoint.TableState) {
				state.Load.DoneAt, state.Load.SweptAt, state.Base = task.Now(ctx), task.Now(ctx), 2
			})
			reads := 0
			s.store.OnRead = func(_ context.Context, prefix string) error {
				if strings.HasPrefix(prefix, "load/part/") {
					reads++
				}
				return nil
			}
			for range 3 {
				s.check(s.step(ctx))
			}
			s.store.OnRead = nil
			if rows, err := s.store.Read(ctx, "load/part/"); err != nil || len(rows) != 0 || reads != 1 {
				t.Errorf("load %d: %d rows of parts are left after %d reads, %v", n, len(rows), reads, err)
			}
		}
	})
}

// A change between the two reads of a step is left to the next step. If the table was suspended
// meanwhile, or another coordinator has sealed the load, this one begins nothing.
func TestAStepActsOnWhatItSawTwice(t *testing.T) {
	for name, edit := range map[string]func(state *checkpoint.TableState){
		"nothing":   nil,
		"suspended": func(state *checkpoint.TableState) { state.Suspended.Reason = engine.GoneReason },
		"sealed by another coordinator": func(state *checkpoint.TableState) {
			state.Load.Generation, state.Load.Number, state.Load.Parts = 2, 1, 1
		},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
			reads, described := 0, 0
			s.shop.describe = func() error { described++; return nil }
			s.store.OnRead = func(ctx context.Context, prefix string) error {
				if strings.Contains(prefix, "/table/") {
					reads++
				}
				if reads == 2 && edit != nil {
					s.store.OnRead = nil
					s.change(ctx, edit)
				}
				return nil
			}
			s.check(s.step(ctx))
			if (described > 0) != (edit == nil) {
				t.Errorf("%s: described %d times, %+v", name, described, s.state(ctx).Load)
			}
		})
	}
}

// A load is paused for the stream only if the headroom is known. Without a shard that is read there
// is no headroom to lose. Exactly at the bound it is not paused yet.
func TestWhatIsKnownOfTheHeadroom(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(ctx context.Context, s *loadScene)
		paused  bool
	}{
		"no shard is known": {func(ctx context.Context, s *loadScene) {
			s.change(ctx, func(t *checkpoint.TableState) { t.Label = "other" })
		}, false},
		"at the bound": {func(ctx context.Context, s *loadScene) {
			s.Ledger.Heard(ctx, task.Now(ctx).Add(cdc.Retention-safeHeadroom))
		}, false},
		"below it": {func(ctx context.Context, s *loadScene) {
			s.Ledger.Heard(ctx, task.Now(ctx).Add(cdc.Retention-safeHeadroom+1))
		}, true},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 1)
			c.prepare(ctx, s)
			s.check(s.step(ctx))
			if paused := s.state(ctx).Load.Paused != ""; paused != c.paused {
				t.Errorf("%s: %+v", name, s.state(ctx).Load)
			}
		})
	}
}

// Without a bound, the target's CPU load is not read, and a bound without a reader has no effect.
// An operator's bound overrides the configured one.
func TestWhoWatchesTheTarget(t *testing.T) {
	cpu := 0.7
	none := 0.0
	for name, c := range map[string]struct {
		watched              bool
		configured, operator *float64
		asked                float64
	}{
		"no bound":              {watched: true},
		"nobody watches":        {configured: &cpu},
		"configured":            {watched: true, configured: &cpu, asked: cpu},
		"an operator's":         {watched: true, operator: &cpu, asked: cpu},
		"an operator's is none": {watched: true, configured: &cpu, operator: &none},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			asked := 0.0
			if c.watched {
				s.Busy = func(_ context.Context, above float64) string { asked = above; return "busy" }
			}
			s.Limits.TargetCPU = c.configured
			s.Reset()
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) { state.Limits.TargetCPU = c.operator })
			s.check(s.step(ctx))
			if asked != c.asked || (s.state(ctx).Load.Paused != "") != (c.asked > 0) {
				t.Errorf("%s: asked for %g, %+v", name, asked, s.state(ctx).Load)
			}
		})
	}
}

// A load that has to wait costs nothing meanwhile: the source is described only once the load may
// begin.
func TestALoadThatWaitsAsksNothing(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		described := 0
		s.shop.describe = func() error { described++; return nil }
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt, state.Listed = task.Now(ctx), 0 })
		s.check(s.conduct(ctx, time.Minute))
		if described != 0 {
			t.Errorf("described %d times", described)
		}
		s.shop.bytes = 300 << 20
		s.change(ctx, func(state *checkpoint.TableState) { state.Listed = 2 })
		s.check(s.conduct(ctx, time.Minute))
		if l := s.state(ctx).Load; described == 0 || l.Parts != 8 || l.EstimateBytes != 300<<20 {
			t.Errorf("%+v", l)
		}
	})
}

// A pace is saved every five seconds, however long the load runs.
func TestHowOftenAPaceIsSaved(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.check(task.Sleep(ctx, time.Hour))
		s.sealed(ctx, 1)
		for second := range 11 {
			s.check(s.conductor().pace(ctx, s.state(ctx), checkpoint.Sums{Items: int64(second)}, s))
			s.check(task.Sleep(ctx, time.Second))
		}
		if len(s.paces) != 3 {
			t.Errorf("%d paces in eleven seconds", len(s.paces))
		}
	})
}
