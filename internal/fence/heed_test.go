package fence_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// proved returns the register of a process that has proved its right to write the targets.
func proved(t *testing.T, ctx context.Context, f fence.Fence, targets ...string) (*fence.Register, sink.Stamps) {
	t.Helper()
	if err := f.Open(ctx, targets...); err != nil {
		t.Fatal(err)
	}
	r := fence.NewRegister(f.Ledger)
	stamps, err := r.Prove(ctx, targets, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return r, stamps
}

// heeds lets a process heed cutovers until `stop` is called.
func heeds(t *testing.T, ctx context.Context, r *fence.Register, idle, active time.Duration) (stop func()) {
	heeding, end := context.WithCancel(ctx)
	g := task.NewGroup(ctx, 0)
	g.Go("heed", func(context.Context) error { r.Heed(heeding, idle, active); return nil })
	return func() {
		t.Helper()
		end()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// slow is a target that answers when it is released.
type slow struct{ released task.Event }

func (s slow) Apply(ctx context.Context, _ *sink.Request) (bool, error) {
	return true, s.released.Wait(ctx)
}

// D10: a process that sees the halt sends nothing more, and says goodbye once each request has its
// answer. A cancel opens the gate again, and the next attempt needs another goodbye.
func TestH145_GoodbyeComesAfterTheLastAnswer(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, _ *families) {
		r, stamps := proved(t, ctx, f, "t")
		step := func(attempt uint32, step checkpoint.CutoverStep) {
			t.Helper()
			_, err := f.Ledger.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error {
				c.Attempt, c.Step, c.Targets = attempt, step, []string{"t"}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		wants := func(when string, goodbye uint32, doubt uint64, sends bool) {
			t.Helper()
			if err := task.Sleep(ctx, 3*time.Second); err != nil {
				t.Fatal(err)
			}
			all, err := f.Ledger.Writers(ctx)
			if err != nil || len(all) != 1 || all[0].Goodbye != goodbye || all[0].Targets["t"].Doubt != doubt {
				t.Errorf("%s: %+v, %v, want goodbye %d", when, all, err, goodbye)
			}
			done := task.NewEvent(ctx)
			done.Set()
			m := transform.RowMutation{Table: "t", Row: "k", Version: "1"}
			if _, err := sink.Execute(ctx, stamps, slow{done}, nil, &m); errors.Is(err, sink.ErrFenced) == sends {
				t.Errorf("%s: %v", when, err)
			}
		}
		stop := heeds(t, ctx, r, 2*time.Second, 250*time.Millisecond)
		step(1, checkpoint.CutoverDrain)
		wants("in the drain", 0, 0, true)
		released, g := task.NewEvent(ctx), task.NewGroup(ctx, 0)
		g.Go("write", func(ctx context.Context) error {
			m := transform.RowMutation{Table: "t", Row: "k", Version: "1"}
			_, err := sink.Execute(ctx, stamps, slow{released}, nil, &m)
			return err
		})
		if err := task.Sleep(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		step(1, checkpoint.CutoverFence)
		wants("with a request in flight", 0, 0, false)
		released.Set()
		wants("without one", 1, 0, false)
		step(1, checkpoint.CutoverCancelling)
		wants("after a cancel", 1, 0, true)
		_, _ = sink.Execute(ctx, stamps, unanswered{}, nil, &transform.RowMutation{Table: "t", Row: "k", Version: "1"})
		step(2, checkpoint.CutoverChecks)
		wants("in the next checks", 1, 1000, true)
		step(2, checkpoint.CutoverFence)
		wants("in the next attempt", 2, 1000, false)
		step(2, checkpoint.CutoverWatching)
		wants("after the switch", 2, 1000, false)
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A running process writes its record again every hour until it leaves, so that the record is not
// joined with those of ended processes.
func TestHeedKeepsTheRecordFresh(t *testing.T) {
	playOn(t, &checkpointtest.Memory{}, func(ctx context.Context, f fence.Fence, _ *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		r := fence.NewRegister(f.Ledger)
		stop := heeds(t, ctx, r, time.Minute, time.Second)
		if _, err := r.Prove(ctx, []string{"t"}, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		entered := task.Now(ctx)
		age := func() time.Duration {
			all, err := f.Ledger.Writers(ctx)
			if err != nil || len(all) > 1 {
				t.Fatalf("%+v, %v", all, err)
			}
			if len(all) == 0 {
				return -1
			}
			return all[0].At.Sub(entered)
		}
		for _, want := range []time.Duration{0, time.Hour, 2 * time.Hour} {
			if got := age(); got < want || got > want+3*time.Minute {
				t.Errorf("after %s the record is of %s", task.Now(ctx).Sub(entered), got)
			}
			if err := task.Sleep(ctx, time.Hour+2*time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Leave(ctx); err != nil {
			t.Fatal(err)
		}
		if err := task.Sleep(ctx, 3*time.Hour); err != nil {
			t.Fatal(err)
		}
		if age() >= 0 {
			t.Error("a process that left has a record again")
		}
		stop()
	})
}

// A process that writes several targets says goodbye once none has a request in flight, whichever comes
// first. Targets of the cutover that it does not write change nothing. The doubts of each are noted, and
// a cancel opens all gates again.
func TestH145_GoodbyeIsOfEveryTarget(t *testing.T) {
	targets := []string{"other", "first", "second"} // it does not write the one named other
	for _, busy := range targets[1:] {
		play(t, func(ctx context.Context, f fence.Fence, _ *families) {
			r, stamps := proved(t, ctx, f, targets[1:]...)
			write := func(ctx context.Context, target string, answers sink.Table) error {
				_, err := sink.Execute(ctx, stamps, answers, nil, &transform.RowMutation{Table: target, Row: "k", Version: "1"})
				return err
			}
			wants := func(step checkpoint.CutoverStep, when string, goodbye uint32, sends bool, doubted ...string) {
				t.Helper()
				_, err := f.Ledger.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error {
					c.Attempt, c.Step, c.Targets = 1, step, targets
					return nil
				})
				if err := errors.Join(err, task.Sleep(ctx, 3*time.Second)); err != nil {
					t.Fatal(err)
				}
				all, err := f.Ledger.Writers(ctx)
				if err != nil || len(all) != 1 || all[0].Goodbye != goodbye {
					t.Errorf("%s, in flight to %s: %+v, %v, want goodbye %d", when, busy, all, err, goodbye)
				}
				released := task.NewEvent(ctx)
				released.Set()
				for _, target := range targets[1:] {
					if all[0].Targets[target].Doubt > 0 != slices.Contains(doubted, target) {
						t.Errorf("%s: %+v, want doubts of %v", when, all[0].Targets, doubted)
					}
					if err := write(ctx, target, slow{released}); errors.Is(err, sink.ErrFenced) == sends {
						t.Errorf("%s, to %s: %v", when, target, err)
					}
				}
			}
			stop := heeds(t, ctx, r, 2*time.Second, 250*time.Millisecond)
			_ = write(ctx, busy, unanswered{})
			wants(checkpoint.CutoverChecks, "in the checks", 0, true, busy)
			released, g := task.NewEvent(ctx), task.NewGroup(ctx, 0)
			g.Go("write", func(ctx context.Context) error { return write(ctx, busy, slow{released}) })
			wants(checkpoint.CutoverFence, "with a request in flight", 0, false, busy)
			released.Set()
			wants(checkpoint.CutoverFence, "without one", 1, false, busy)
			wants(checkpoint.CutoverCancelling, "after a cancel", 1, true, busy)
			stop()
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
