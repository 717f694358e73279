package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A load into a target that replicator did not create is copied and counted, and waits for an
// operator. Then it is swept until a pass writes nothing.
func TestALoadFromItsBeginToItsEnd(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.inherited(ctx, "gone")
		s.check(s.work(ctx, 5*time.Minute, true))
		state := s.state(ctx)
		if sweep := state.Load.Sweep; !sweep.Waiting || sweep.Pass != 0 || sweep.Removed != 1 || state.Load.Items != 12 || state.Base != 0 || len(s.live(ctx)) != 13 {
			t.Errorf("before it is approved %+v, %d rows", state.Load, len(s.live(ctx)))
		}
		if told := strings.Join(s.told, ", "); told != "started at 0, done 12, left" && told != "started at 0, left, done 12" {
			t.Error(told)
		}
		if len(s.paces) == 0 || s.paces[0].At.IsZero() {
			t.Errorf("paces %+v", s.paces)
		}
		_, err := s.Ledger.ApproveSweep(ctx, "Orders")
		s.check(err)
		s.check(s.work(ctx, 5*time.Minute, true))
		state = s.state(ctx)
		if sweep := state.Load.Sweep; sweep.Pass != 2 || sweep.Removed != 1 || state.Base != 2 || !state.Loaded() || len(s.live(ctx)) != 12 {
			t.Errorf("in the end %+v, %d rows", state.Load, len(s.live(ctx)))
		}
		if rows, err := s.store.Read(ctx, "load/part/"); err != nil || len(rows) != 0 {
			t.Errorf("%d rows of parts are left, %v", len(rows), err)
		}
	})
}

// A first load into a table that replicator created has no sweep, and ends with one number of the
// fence, like a load with a sweep.
func TestAFirstLoadLeavesOneNumberOfTheFence(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) {
			state.MadeByUs, state.Base, state.GapCount, state.NeedsLoad, state.Load = true, 0, 0, false, checkpoint.Load{AskedAt: task.Now(ctx)}
		})
		before := len(s.target.Names)
		s.check(s.step(ctx))
		if len(s.target.Names) != before+1 || s.state(ctx).Stage() != checkpoint.StageCopying {
			t.Fatalf("families %q, %+v", s.target.Names, s.state(ctx).Load)
		}
		s.finish(ctx, checkpoint.PartProgress{})
		s.check(s.step(ctx))
		if state := s.state(ctx); len(s.target.Names) != before || state.Stage() != checkpoint.StageOver {
			t.Errorf("families %q, %+v", s.target.Names, state.Load)
		}
	})
}

// The first sweep begins only when no write of an earlier generation can still arrive. By then the
// fence was raised before the load, its former number is dropped, and a lease and the longest
// request have passed.
func TestASweepWaitsForWhatIsLate(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		before := len(s.target.Names)
		s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs = true })
		s.inherited(ctx, "gone")
		s.change(ctx, func(state *checkpoint.TableState) { state.NeedsLoad, state.Load.AskedAt = true, task.Now(ctx) })
		s.check(s.step(ctx))
		if len(s.target.Names) != before+1 || s.state(ctx).Stage() != checkpoint.StageCopying {
			t.Fatalf("families %q, %+v", s.target.Names, s.state(ctx).Load)
		}
		s.finish(ctx, checkpoint.PartProgress{})
		s.check(s.step(ctx))
		done, names := task.Mono(ctx), len(s.target.Names)
		s.check(s.step(ctx))
		if waited := task.Mono(ctx) - done; s.state(ctx).Load.Sweep.Pass != 1 || len(s.target.Names) != names-1 || waited < s.Ledger.Lease()+sink.DefaultTimeout {
			t.Errorf("after %s %q, %+v", waited, s.target.Names, s.state(ctx).Load.Sweep)
		}
		s.finish(ctx, checkpoint.PartProgress{Counts: checkpoint.Counts{Seen: 1, Removed: 1}})
		done = task.Mono(ctx)
		for range 2 { // ends the pass that wrote, and begins the next
			s.check(s.step(ctx))
		}
		if s.state(ctx).Load.Sweep.Pass != 2 || s.state(ctx).Base == 2 || task.Mono(ctx) != done {
			t.Errorf("%+v", s.state(ctx).Load.Sweep)
		}
	})
}

// TestH106_WhatPausesALoad: a load is paused while it endangers the stream or the target, and then
// resumed. An operator's pause stays. A load that is not planned yet is not sealed meanwhile.
func TestH106_WhatPausesALoad(t *testing.T) {
	const headroom, busy, operator = checkpoint.PausedForHeadroom, "the target is busy", checkpoint.PausedByOperator
	for _, c := range []struct {
		name   string
		left   time.Duration
		busy   string
		paused string
		want   string
	}{
		{"nothing is in danger", 20 * time.Hour, "", "", ""},
		{"the stream is close to its end", 17 * time.Hour, "", "", headroom},
		{"it still is", 17 * time.Hour, busy, headroom, headroom},
		{"it is not any more", 19 * time.Hour, "", headroom, ""},
		{"the target is busy", 20 * time.Hour, busy, "", busy},
		{"it is busy instead", 20 * time.Hour, busy, headroom, busy},
		{"it is not any more", 20 * time.Hour, "", busy, ""},
		{"an operator paused it", 20 * time.Hour, "", operator, operator},
		{"an operator paused it, and the stream is close to its end", time.Hour, "", operator, operator},
	} {
		for _, asked := range []bool{false, true} {
			loads(t, func(ctx context.Context, s *loadScene) {
				cpu, above := 0.7, 0.0
				s.Limits.TargetCPU = &cpu
				s.Busy = func(_ context.Context, share float64) string { above = share; return c.busy }
				s.sealed(ctx, 1)
				s.change(ctx, func(state *checkpoint.TableState) {
					if asked {
						state.Load = checkpoint.Load{AskedAt: task.Now(ctx)}
					}
					state.Load.Paused = c.paused
				})
				s.Ledger.Heard(ctx, task.Now(ctx).Add(cdc.Retention-c.left))
				s.check(s.step(ctx))
				state := s.state(ctx)
				sealed := !asked || c.want == "" && c.paused == ""
				if state.Load.Paused != c.want || (state.Load.Generation > 0) != sealed || c.want == busy && above != cpu {
					t.Errorf("%s, asked %v: paused for %q, sealed %v, at %g", c.name, asked, state.Load.Paused, state.Load.Generation > 0, above)
				}
				if c.want == "" {
					s.check(s.step(ctx))
					if now := s.state(ctx); now.Stage() != checkpoint.StageCopying {
						t.Errorf("%s, asked %v: it does not go on", c.name, asked)
					}
				}
			})
		}
	}
}

// The first load begins automatically. After a gap a load does so only if configured, at most three
// times. A table that is suspended, or whose stream has ended, is not loaded.
func TestWhichLoadsBeginByThemselves(t *testing.T) {
	for name, c := range map[string]struct {
		copies, again bool
		change        func(*checkpoint.TableState)
		want          bool
	}{
		"the first":              {true, false, func(*checkpoint.TableState) {}, true},
		"not copied":             {false, false, func(*checkpoint.TableState) {}, false},
		"after a gap":            {true, false, func(s *checkpoint.TableState) { s.NeedsLoad = true }, false},
		"after a gap, again":     {true, true, func(s *checkpoint.TableState) { s.NeedsLoad = true }, true},
		"after the third try":    {true, true, func(s *checkpoint.TableState) { s.NeedsLoad, s.Tries = true, checkpoint.MaxTries }, false},
		"not copied, but again":  {false, true, func(s *checkpoint.TableState) { s.NeedsLoad = true }, false},
		"suspended":              {true, true, func(s *checkpoint.TableState) { s.Suspended.Reason = engine.GoneReason }, false},
		"its stream has ended":   {true, true, func(s *checkpoint.TableState) { s.StreamEnded = true }, false},
		"of another generation":  {true, false, func(s *checkpoint.TableState) { s.Load.Generation, s.Load.Number, s.Load.Parts = 1, 1, 1 }, true},
		"loaded, and in no need": {true, true, func(s *checkpoint.TableState) { s.Base = 2 }, false},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Copy, s.LoadAgain = c.copies, c.again
			s.change(ctx, c.change)
			waited := s.Spec.Loading(s.state(ctx)) // for runs with Once
			s.check(s.step(ctx))
			if got := s.state(ctx).Stage() == checkpoint.StageAsked; got != c.want || waited != c.want && name != "suspended" {
				t.Errorf("%s: asked for %v, waited for %v", name, got, waited)
			}
		})
	}
}

// While its table is suspended, a requested load is not sealed, and its parts are released.
func TestASuspendedTableIsNotLoaded(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Load.AskedAt, state.Suspended.Reason = task.Now(ctx), engine.GoneReason
		})
		s.check(s.step(ctx))
		if s.state(ctx).Load.Generation != 0 {
			t.Error("it is sealed")
		}
		s.sealed(ctx, 2)
		s.check(s.work(ctx, time.Minute, true))
		if s.shop.reads > 0 || len(s.told) > 0 {
			t.Errorf("%d pages are read, %q", s.shop.reads, s.told)
		}
	})
}

// TestH25_H98_ATableCreatedAnewEndsItsCopy: the copied items of the deleted table are no copy of
// the new one with the same name.
func TestH25_H98_ATableCreatedAnewEndsItsCopy(t *testing.T) {
	for _, sweeping := range []bool{false, true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 2)
			s.finish(ctx, checkpoint.PartProgress{Items: 6})
			if sweeping {
				s.check(s.step(ctx))
				s.check(s.step(ctx))
				s.finish(ctx, checkpoint.PartProgress{})
			}
			s.shop.id = "second"
			if err := s.step(ctx); !errors.Is(err, sink.ErrFenced) {
				t.Errorf("it ends with %v", err)
			}
			if state := s.state(ctx); state.Generation <= 2 || state.Kind != checkpoint.KindCreatedAnew || !state.NeedsLoad || state.Base != 0 {
				t.Errorf("%+v", state)
			}
		})
	}
}

// The loss of a target ends its sweep, because swept rows are lost as well.
func TestATargetThatIsLostEndsItsSweep(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{})
		s.check(s.step(ctx))
		s.check(s.step(ctx))
		s.finish(ctx, checkpoint.PartProgress{})
		s.Witness(s.Mapping.Tables()[0]).(*checkpointtest.Memory).Clear()
		if err := s.step(ctx); err == nil {
			t.Error("the pass is complete")
		}
		if state := s.state(ctx); state.Kind != checkpoint.KindTargetLost || state.Base != 0 {
			t.Errorf("%+v", state)
		}
	})
}

// A sweep reads items no faster than the load may: 5 removed items, at one unit in 10 seconds.
func TestASweepIsPaced(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		for i := range 5 {
			s.inherited(ctx, fmt.Sprint("gone", i))
		}
		s.shop.items = 0
		s.Limits.Read = &checkpoint.ReadLimit{Units: 0.1}
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Load.AskedAt, state.Load.Sweep.Approved = task.Now(ctx), true
		})
		s.check(s.work(ctx, 10*time.Minute, true))
		if load := s.state(ctx).Load; load.SweptAt.Sub(load.Sweep.BegunAt) < 30*time.Second || load.Sweep.Removed != 5 {
			t.Errorf("%+v", load)
		}
	})
}

// A load that a raise has ended leaves no part rows, whether or not another one begins.
func TestAnOvertakenLoadLeavesNoParts(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 2)
		s.finish(ctx, checkpoint.PartProgress{Items: 6})
		_, err := s.Ledger.Raise(ctx, "Orders", 2, checkpoint.DeclaredGap{Reason: "lost"}, nil)
		s.check(err)
		s.check(s.step(ctx))
		if rows, err := s.store.Read(ctx, "load/part/"); err != nil || len(rows) != 0 || s.state(ctx).Stage() != checkpoint.StageNone {
			t.Errorf("%d rows of parts are left, %v", len(rows), err)
		}
	})
}

// While a load is paused, no pass of its sweep begins. A pass that ends meanwhile is still
// recorded.
func TestAPausedLoadBeginsNoPass(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs, state.NeedsLoad = true, true })
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{})
		s.check(s.step(ctx))
		pause := func(why string) {
			s.change(ctx, func(state *checkpoint.TableState) { state.Load.Paused = why })
			s.check(s.step(ctx))
		}
		began := task.Mono(ctx)
		pause(checkpoint.PausedByOperator)
		if state := s.state(ctx); state.Stage() != checkpoint.StageSweeping || !state.Load.Sweep.BegunAt.IsZero() || task.Mono(ctx) != began {
			t.Errorf("paused before the sweep: %+v", state.Load)
		}
		pause("")
		if sweep := s.state(ctx).Load.Sweep; sweep.Pass != 1 || sweep.Parts == 0 {
			t.Errorf("it does not go on: %+v", sweep)
		}
		s.finish(ctx, checkpoint.PartProgress{Counts: checkpoint.Counts{Seen: 1, Removed: 1}})
		pause(checkpoint.PausedByOperator)
		s.check(s.step(ctx))
		if sweep := s.state(ctx).Load.Sweep; sweep.Pass != 1 || sweep.Parts != 0 || sweep.Removed != 1 {
			t.Errorf("paused between two passes: %+v", sweep)
		}
		pause("")
		if sweep := s.state(ctx).Load.Sweep; sweep.Pass != 2 || sweep.Parts == 0 {
			t.Errorf("the next pass does not begin: %+v", sweep)
		}
	})
}

// A load begins at the time in the source's description, which is rounded down to the second. That
// time must be admissible, not only the service's last known time.
func TestALoadIsAdmissibleAtTheTimeOfItsPlan(t *testing.T) {
	for behind, sealed := range map[time.Duration]bool{0: true, time.Second: false} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Spec.Late, s.shop.behind = time.Minute, behind
			s.change(ctx, func(state *checkpoint.TableState) {
				state.GapCount, state.AdoptedAt, state.Load.AskedAt = 1, task.Now(ctx).Add(-time.Minute), task.Now(ctx)
			})
			s.check(s.step(ctx))
			if state := s.state(ctx); (state.Stage() == checkpoint.StageCopying) != sealed {
				t.Errorf("%s behind: %s, %+v", behind, state.Stage(), state.Load)
			}
		})
	}
}

// TestH71_ALoadDoesNotBeginInAGenerationOfAGap: a gap is declared between the read that admitted
// the load and its plan, so the load may no longer be admissible.
func TestH71_ALoadDoesNotBeginInAGenerationOfAGap(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
		s.shop.describe = func() error {
			_, err := s.Ledger.Raise(ctx, "Orders", 2, checkpoint.DeclaredGap{Reason: "lost"}, nil)
			s.shop.describe = nil
			return err
		}
		var refused *checkpoint.LoadError
		if err := s.step(ctx); !errors.As(err, &refused) || !refused.Yet || s.state(ctx).Load.Generation != 0 {
			t.Errorf("%v, %+v", err, s.state(ctx).Load)
		}
	})
}

// TestH71_ALoadDoesNotCompleteTheNext: between a load's last read and the record of its completion,
// a gap is declared, and the load that repairs it begins. The completion does not apply to that
// one.
func TestH71_ALoadDoesNotCompleteTheNext(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{Items: 7})
		looks := 0
		s.store.OnRead = func(ctx context.Context, prefix string) error {
			if strings.Contains(prefix, "/shard/") {
				looks++
			}
			if looks < 2 || strings.Contains(prefix, "/shard/") {
				return nil
			}
			s.store.OnRead = nil
			now, err := s.Ledger.Raise(ctx, "Orders", 2, checkpoint.DeclaredGap{Reason: "lost"}, nil)
			s.change(ctx, func(state *checkpoint.TableState) {
				state.Load = checkpoint.Load{Generation: now.Generation, Number: 2, Parts: 1, StartedAt: task.Now(ctx)}
			})
			return err
		}
		var refused *checkpoint.LoadError
		if err := s.step(ctx); !errors.As(err, &refused) || !refused.Yet {
			t.Error(err)
		}
		if now := s.state(ctx); s.store.OnRead != nil || now.Stage() != checkpoint.StageCopying || now.Load.Items != 0 {
			t.Errorf("%+v", now)
		}
	})
}

// TestH34_ALoadThatDoesNotReachTheStream: a root that was first read more than a day after the load
// began may have lost changes that the images lack. Then the load is not complete, and a gap is
// declared, even if the root's reader saw none. A fatal error is not hidden by that.
func TestH34_ALoadThatDoesNotReachTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		read     time.Duration
		export   time.Duration // age of the export that the load copies; 0: it scans
		complete bool
		fails    bool
	}{"at once": {time.Minute, 0, true, false}, "after a day": {25 * time.Hour, 0, false, false}, "and the ledger was exchanged": {25 * time.Hour, 0, false, true},
		"a day after its export": {time.Minute, 25 * time.Hour, false, false}, "soon after its export": {time.Minute, time.Hour, true, false}} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 1)
			if c.export > 0 {
				s.change(ctx, func(state *checkpoint.TableState) {
					state.Load.Export = checkpoint.Export{Address: "/exports/1", At: task.Now(ctx).Add(-c.export)}
				})
			}
			s.check(s.Ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "label", ID: "late", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 2,
				FirstRead: task.Now(ctx).Add(c.read), EventTime: task.Now(ctx)}))
			s.finish(ctx, checkpoint.PartProgress{Items: 7})
			looks := 0
			s.store.OnRead = func(_ context.Context, prefix string) error {
				if c.fails && looks == 2 {
					return checkpoint.ErrLedgerExchanged
				}
				if strings.Contains(prefix, "/shard/") {
					looks++
				}
				return nil
			}
			err := s.step(ctx)
			s.store.OnRead = nil
			state := s.state(ctx)
			if c.fails != errors.Is(err, checkpoint.ErrLedgerExchanged) || !c.fails && (state.Load.DoneAt.IsZero() == c.complete || (len(state.Gaps) == 0) != c.complete) {
				t.Errorf("%s: %+v, gaps %v, %v", name, state.Load, state.Gaps, err)
			}
		})
	}
}

// A wait for a limit is recorded with its time. The pace of a load counts its durable items. It is
// missing while unknown, and never that of an earlier load.
func TestWaitsAndPacesAreDated(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		pace := func(items int64) checkpoint.Pace {
			s.check(s.conductor().pace(ctx, s.state(ctx), checkpoint.Sums{Items: items}, s))
			return s.paces[len(s.paces)-1]
		}
		s.sealed(ctx, 1)
		first := pace(100)
		if first.Rate != 0 || len(first.Throttled) != 0 || !first.At.Equal(task.Now(ctx)) {
			t.Errorf("at first %+v", first)
		}
		s.Table().Throttled(ctx, engine.LimitSource, 10*time.Second)
		s.Table().Waited(ctx, engine.LimitRows, 20*time.Second)
		if pace(110); len(s.paces) != 1 {
			t.Error("saved at once again")
		}
		s.check(task.Sleep(ctx, 10*time.Second))
		if now := pace(150); len(now.Throttled) != 2 || now.Throttled[0].Seconds != 10 || now.Throttled[1].Seconds != 20 || now.Rate != 5 {
			t.Errorf("ten seconds later %+v", now)
		}
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.Number++ })
		if now := pace(5000); now.Rate != 0 {
			t.Errorf("of the next load %+v", now)
		}
	})
}
