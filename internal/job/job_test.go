package job

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// pages is how many pages a part of a counting has. One page takes 400 ms.
const pages = 10

func TestPartsAreTakenUpToANumberAtOnce(t *testing.T) {
	play(t, 7, 3, func(ctx context.Context, c *counting) {
		began := task.Mono(ctx)
		c.check(c.run(ctx, time.Hour, 0, nil))
		if took := task.Mono(ctx) - began; c.most != 3 || !c.done(ctx, 7) || took > 30*time.Second {
			t.Errorf("%d at once, %+v, after %s", c.most, c.parts(ctx), took)
		}
		if did := strings.Join(c.did, ", "); did != "begin 1, end" || c.completed != 1 {
			t.Errorf("%s, %d times completed", did, c.completed)
		}
	})
}

func TestWorkersShareParts(t *testing.T) {
	play(t, 8, 8, func(ctx context.Context, w *counting) {
		v := worker(ctx, t, w.store, "v", 8, 2)
		w.loop.Workers = v.loop.Workers
		g := task.NewGroup(ctx, 0)
		g.Go("v", func(ctx context.Context) error { return v.run(ctx, time.Hour, 0, nil) })
		w.check(w.run(ctx, time.Hour, 0, nil))
		w.check(g.Wait())
		if w.most != 4 || v.most != 4 || !w.done(ctx, 8) {
			t.Errorf("%d and %d parts at once, %+v", w.most, v.most, w.parts(ctx))
		}
	})
}

// After a pause or a stop, parts are released between two pages, with their progress saved. The
// next holder continues there.
func TestPartsAreLeftAndGoneOnWith(t *testing.T) {
	pause := func(why string) func(*checkpoint.TableState) {
		return func(s *checkpoint.TableState) { s.Load.Paused = why }
	}
	for name, lasts := range map[string]time.Duration{"paused": time.Minute, "stopped": 2 * time.Second} {
		play(t, 2, 2, func(ctx context.Context, c *counting) {
			began := task.Mono(ctx)
			c.check(c.run(ctx, lasts, time.Second, func(ctx context.Context) {
				if name == "paused" {
					c.change(ctx, pause("an operator"))
				}
			}))
			if took := task.Mono(ctx) - began; took > lasts+time.Second {
				t.Errorf("%s: it ends after %s", name, took)
			}
			for _, p := range c.parts(ctx) {
				if p.Owner != "" || p.State != checkpoint.PartOpen || p.Items == 0 || p.Items > 8 {
					t.Errorf("%s: left as %+v", name, p)
				}
			}
			c.change(ctx, pause(""))
			c.check(c.run(ctx, time.Minute, 0, nil))
			if did := strings.Join(c.did, ", "); did != "begin 1, end, begin 1, end" || !c.done(ctx, 2) || len(c.told)+len(c.failed) > 0 {
				t.Errorf("%s: %s; told %q, failed %v", name, did, c.told, c.failed)
			}
		})
	}
}

// Another job replaces the one whose parts are held. A part of the old job that takes long does not
// keep the part with the same index of the new job from being leased.
func TestPartsOfAnotherJobReplaceThoseInHand(t *testing.T) {
	play(t, 2, 2, func(ctx context.Context, c *counting) {
		wedged := time.Duration(0)
		c.page = func(ctx context.Context, p checkpoint.Part) error {
			if p.Number == 1 && p.Index == 0 && wedged == 0 {
				wedged = task.Mono(ctx)
				return task.Sleep(ctx, time.Minute)
			}
			return nil
		}
		began := task.Mono(ctx)
		c.check(c.run(ctx, time.Hour, time.Second, func(ctx context.Context) {
			c.change(ctx, func(s *checkpoint.TableState) { s.Load.Number = 2 })
		}))
		if did := strings.Join(c.did, ", "); did != "begin 1, end, begin 2, end" || !c.done(ctx, 2) || c.completed != 1 {
			t.Errorf("%s, %+v", did, c.parts(ctx))
		}
		for _, p := range c.parts(ctx) {
			if p.Begun.Sub(enginetest.ListingsBegin) > began+10*time.Second {
				t.Errorf("part %d is begun at %s", p.Index, p.Begun)
			}
		}
	})
}

// The ledger does not answer for longer than a lease. This worker loses the part, its work ends,
// and the part is acquired again.
func TestALostLeaseEndsTheWork(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		var ended error
		c.page = func(ctx context.Context, p checkpoint.Part) error {
			if p.Epoch > 1 {
				return nil
			}
			c.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, errors.New("no answer") }
			_ = task.Sleep(ctx, time.Hour)
			ended = context.Cause(ctx)
			c.store.OnSwap = nil
			return ended
		}
		c.check(c.run(ctx, time.Hour, 0, nil))
		if !errors.Is(ended, checkpoint.ErrLeaseLost) || !c.done(ctx, 1) || c.parts(ctx)[0].Epoch != 2 || len(c.failed) > 0 {
			t.Errorf("the work ends with %v, %+v, failed %v", ended, c.parts(ctx), c.failed)
		}
	})
}

// A failed part is reported, released immediately, and acquired again after a rest. A fenced part
// is not reported, because a new generation began.
func TestAPartThatFailsIsTakenAgain(t *testing.T) {
	for _, c := range []struct {
		err         error
		told, rests bool
	}{
		{errors.New("the table is not there"), true, true},
		{sink.ErrFenced, false, false},
	} {
		play(t, 1, 1, func(ctx context.Context, k *counting) {
			k.page = func(_ context.Context, p checkpoint.Part) error {
				if p.Epoch == 1 {
					return c.err
				}
				return nil
			}
			var between []checkpoint.Part
			k.check(k.run(ctx, time.Hour, 20*time.Second, func(ctx context.Context) { between = k.parts(ctx) }))
			if told := slices.Equal(k.told, []string{"count a part"}); told != c.told || (len(k.failed) == 1) != c.told || !k.done(ctx, 1) {
				t.Errorf("%v: told %q, failed %v, %+v", c.err, k.told, k.failed, k.parts(ctx))
			}
			if rests := between[0].Owner == "" && between[0].State == checkpoint.PartOpen; rests != c.rests {
				t.Errorf("%v: after 20 s %+v", c.err, between)
			}
		})
	}
}

// A fatal error ends the loop, wherever it comes from. If the error allows a clean stop, that
// begins; otherwise nothing more is written.
func TestAFatalErrorEndsTheLoop(t *testing.T) {
	bad, orderly := checkpoint.ErrLedgerExchanged, checkpoint.ErrMappingChanged
	for name, fail := range map[string]func(c *counting, err error){
		"working": func(c *counting, err error) {
			c.page = func(context.Context, checkpoint.Part) error { return err }
		},
		"taking":     func(c *counting, err error) { c.taking = func(checkpoint.Part) error { return err } },
		"beginning":  func(c *counting, err error) { c.begin = func() error { return err } },
		"completing": func(c *counting, err error) { c.complete = func() error { return err } },
	} {
		play(t, 1, 1, func(ctx context.Context, c *counting) {
			fail(c, bad)
			if err := c.run(ctx, time.Minute, 0, nil); !errors.Is(err, bad) || c.halted != nil || task.Mono(ctx) > 50*time.Second {
				t.Errorf("%s: it ends with %v after %s", name, err, task.Mono(ctx))
			}
		})
		play(t, 1, 1, func(ctx context.Context, c *counting) {
			fail(c, orderly)
			if err := c.run(ctx, time.Minute, 0, nil); err != nil || !errors.Is(c.halted, orderly) || name != "working" && task.Mono(ctx) > 50*time.Second {
				t.Errorf("%s: it ends with %v after %s, halted by %v", name, err, task.Mono(ctx), c.halted)
			}
		})
	}
}

// The release of a part finds that the ledger was replaced: that is not a clean stop.
func TestAReleaseHidesNoFatalError(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		c.page = func(_ context.Context, p checkpoint.Part) error {
			if p.Epoch > 1 {
				return nil
			}
			c.store.OnSwap = func(context.Context, string, func() bool) (bool, error) {
				c.store.OnSwap = nil
				return false, checkpoint.ErrLedgerExchanged
			}
			return backfill.ErrDrained
		}
		if err := c.run(ctx, time.Minute, 0, nil); !errors.Is(err, checkpoint.ErrLedgerExchanged) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A part that this worker cannot have now is skipped, and reported if there is trouble.
func TestAPartThatCannotBeTakenIsPassedOver(t *testing.T) {
	for _, c := range []struct {
		err  error
		told bool
	}{{checkpoint.ErrTaken, false}, {checkpoint.ErrHalted, false}, {sink.ErrNoFence, false}, {errors.New("no answer"), true}} {
		play(t, 3, 3, func(ctx context.Context, k *counting) {
			refused := 0
			k.taking = func(p checkpoint.Part) error {
				if p.Index == 1 && refused < 2 {
					refused++
					return c.err
				}
				return nil
			}
			k.check(k.run(ctx, time.Minute, 0, nil))
			if told := len(k.told) == 2 && k.told[0] == "acquire a part to count"; told != c.told || !c.told && len(k.told) > 0 || !k.done(ctx, 3) || refused != 2 {
				t.Errorf("%v: told %q, %+v", c.err, k.told, k.parts(ctx))
			}
		})
	}
}

// A phase that fails to begin is tried again. A step that the ledger refuses for now is not
// reported as trouble.
func TestALookIsRepeated(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		fails := 2
		c.begin = func() error {
			if fails--; fails >= 0 {
				return errors.New("no answer")
			}
			return nil
		}
		refused := 2
		c.complete = func() error {
			if refused--; refused >= 0 {
				return &checkpoint.LoadError{Yet: true}
			}
			return nil
		}
		c.check(c.run(ctx, time.Minute, 0, nil))
		if did := strings.Join(c.did, ", "); did != "begin 1, end" || len(c.told) != 2 || c.completed != 1 || refused >= 0 {
			t.Errorf("%s; told %q, completed %d times", did, c.told, c.completed)
		}
	})
}

// When a part is done or released, the loop looks for the next one immediately and calls Left, so
// that no time is lost between two parts.
func TestTheEndOfAPartIsToldAtOnce(t *testing.T) {
	play(t, 3, 1, func(ctx context.Context, c *counting) {
		left := 0
		c.loop.Left = func() { left++ }
		c.loop.Timing.Pass = time.Hour
		began := task.Mono(ctx)
		c.check(c.run(ctx, 2*time.Hour, 0, nil))
		if took := task.Mono(ctx) - began; !c.done(ctx, 3) || took > 13*time.Second || left != 3 || c.ticks != 3 {
			t.Errorf("after %s, %d left, %d ticks, %+v", took, left, c.ticks, c.parts(ctx))
		}
	})
}

// The end of the work ends the loop even if no drain has begun. A loop without an over function
// runs until its drain.
func TestWhatEndsALoop(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		work, cancel := task.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_ = c.loop.Run(engine.Lifecycle{Drain: ctx, Work: work}, nil)
		if took := task.Mono(ctx); took > 5*time.Second || c.inHand > 0 {
			t.Errorf("its work is over, and it ends after %s", took)
		}
	})
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		drain, cancel := task.WithTimeout(ctx, time.Minute)
		defer cancel()
		c.check(c.loop.Run(engine.Lifecycle{Drain: drain, Work: ctx}, nil))
		if took := task.Mono(ctx); took < time.Minute || took > time.Minute+time.Second || !c.done(ctx, 1) {
			t.Errorf("it ends after %s, %+v", took, c.parts(ctx))
		}
	})
}

// An error that no retry fixes is reported and retried in the next pass, and so is a permanent
// refusal by the ledger. During a stop it is left to the next worker.
func TestALookThatFailsIsTold(t *testing.T) {
	gone := &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("no")}
	for name, err := range map[string]error{"gone": gone, "refused": &checkpoint.LoadError{Reason: "no"}} {
		play(t, 1, 1, func(ctx context.Context, c *counting) {
			fails := 3
			c.begin = func() error {
				if fails--; fails >= 0 {
					return err
				}
				return nil
			}
			c.check(c.run(ctx, time.Minute, 0, nil))
			if want := slices.Repeat([]string{"look for parts to count"}, 3); !slices.Equal(c.told, want) || !c.done(ctx, 1) {
				t.Errorf("%s: told %q", name, c.told)
			}
		})
	}
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		c.begin = func() error { return errors.Join(task.Sleep(ctx, 2*time.Second), gone) }
		c.check(c.run(ctx, time.Second, 0, nil))
		if len(c.told) > 0 {
			t.Errorf("during a stop it tells %q", c.told)
		}
	})
}

// An unreadable record does not mean that no work is left.
func TestALookThatFailsIsNotTheEnd(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		fails := 3
		c.looking = func() error {
			if fails--; fails >= 0 {
				return &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("no")}
			}
			return nil
		}
		drain, cancel := task.WithTimeout(ctx, time.Minute)
		defer cancel()
		c.check(c.loop.Run(engine.Lifecycle{Drain: drain, Work: ctx}, func(s checkpoint.TableState) bool { return s.Load.Parts == 0 || c.completed > 0 }))
		if !c.done(ctx, 1) {
			t.Errorf("%+v, told %q", c.parts(ctx), c.told)
		}
	})
}

// A part that fails during a stop is left to the next worker, and not reported.
func TestAFailureDuringAStopIsNoTrouble(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		c.page = func(ctx context.Context, p checkpoint.Part) error {
			return errors.Join(task.Sleep(ctx, 2*time.Second), errors.New("no answer"))
		}
		c.check(c.run(ctx, time.Second, 0, nil))
		if p := c.parts(ctx)[0]; len(c.told)+len(c.failed) > 0 || p.Owner != "" || p.State != checkpoint.PartOpen || task.Mono(ctx) > 5*time.Second {
			t.Errorf("told %q, failed %v, after %s: %+v", c.told, c.failed, task.Mono(ctx), p)
		}
	})
}

// A loop with Pick acquires only the chosen parts.
func TestChosenParts(t *testing.T) {
	play(t, 4, 4, func(ctx context.Context, c *counting) {
		c.loop.Pick = func(_, free []checkpoint.Part) []checkpoint.Part {
			return slices.DeleteFunc(free, func(p checkpoint.Part) bool { return p.Index%2 == 0 })
		}
		c.check(c.run(ctx, time.Minute, time.Minute, nil))
		for _, p := range c.parts(ctx) {
			if p.Index%2 == 0 {
				t.Errorf("part %d is %s", p.Index, p.State)
			}
		}
		if n := checkpoint.PartsDone(c.parts(ctx), 4).Done; n != 2 {
			t.Errorf("%d parts are done", n)
		}
	})
}
