package cutover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// writer is a process that may write the targets, as an applier does: it holds no lease.
type writer struct {
	*virtual.Process
	register *fence.Register
	answer   error // of the target
}

// Apply is the target's answer.
func (w *writer) Apply(context.Context, *sink.Request) (bool, error) {
	return w.answer == nil, w.answer
}

// hire starts a writer, which heeds cutovers.
func (s *scene) hire(name string) *writer {
	w := &writer{Process: s.World.NewProcess(name), register: fence.NewRegister(s.Open(name))}
	w.Go("heed", func() { w.register.Heed(w.Context(), 2*time.Second, 250*time.Millisecond) })
	return w
}

// write makes one attempt to write a row, with a proof of its own.
func (w *writer) write(s *scene) error {
	right := func(ctx context.Context) error {
		if state, _, err := s.Ledger.Table(ctx, "Orders"); err != nil || state.Halted() {
			return sink.ErrFenced
		}
		return nil
	}
	stamps, err := w.register.Prove(s.Ctx, []string{"orders"}, right)
	if err != nil {
		return err
	}
	m := transform.RowMutation{Table: "orders", Row: "k", Version: "1"}
	_, err = sink.Execute(s.Ctx, stamps, w, nil, &m)
	return err
}

// inStep runs a function once, as the cutover is written in a step.
func (s *scene) inStep(step checkpoint.CutoverStep, f func()) {
	s.World.Go("in step "+string(step), func(ctx context.Context) {
		for s.Cutover().Step != step && task.Sleep(ctx, 100*time.Millisecond) == nil {
		}
		f()
	})
}

// D10: every process that may write says goodbye before the switch. Nothing waits for a drop while
// writes are frozen; late writes are rejected behind the switch, and the watch does not end before.
func TestH145_EveryWriterSaysGoodbye(t *testing.T) {
	playScene(t, func(s *scene) {
		w, late := s.hire("w"), time.Time{}
		s.inStep(checkpoint.CutoverDrain, func() { s.Must(w.write(s)) })
		s.answers(Switch, func(Call) (string, Outcome) {
			all, err := s.Ledger.Writers(s.Ctx)
			s.Must(err)
			if len(all) != 1 || all[0].Goodbye != 1 || w.write(s) == nil {
				t.Errorf("at the switch: %+v", all)
			}
			return "", HookDone
		})
		s.Target.Refuse = func(change string) error {
			if c := s.Cutover(); c.Step != checkpoint.CutoverChecks && strings.HasPrefix(change, "drop") {
				late = s.Now()
				if !c.Step.Switched() {
					t.Errorf("%s in step %s", change, c.Step)
				}
				if s.Now().Sub(c.SwitchedAt) < 10*time.Minute {
					return errAway
				}
			}
			return nil
		}
		p := plan()
		p.WatchFor = 5 * time.Minute
		c := s.play(p)
		s.expect(c, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
		began := c.StepAt
		for _, e := range c.Timeline {
			if e.Step == string(checkpoint.CutoverFence) {
				began = e.At
			}
		}
		if took := c.GoneAt.Sub(began); took > 4*time.Second {
			t.Errorf("the goodbyes took %s", took)
		}
		c = s.run(time.Hour, at(checkpoint.CutoverDone))
		if c.Step != checkpoint.CutoverDone || late.IsZero() || c.EndedAt.Before(late.Add(s.Target.DropDelay())) {
			t.Errorf("%s at %s, fenced at %s, the last drop was at %s", c.Step, c.EndedAt, c.FencedAt, late)
		}
	})
}

// D10: a process that does not answer may still write, and a request that was never answered may
// still be executed. Both end the attempt within seconds. The next one raises another number and drops
// this one, so that neither counts any more.
func TestH145_SilenceAndDoubtEndTheAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(w *writer)
		reason  string
	}{
		"a sleeper": {func(w *writer) { w.Pause(time.Hour) }, "process w may still write: it does not answer"},
		"killed":    {func(w *writer) { w.Kill() }, "process w may still write: it does not answer"},
		"in doubt":  {func(w *writer) { w.answer = &sink.Error{Reason: sink.Unknown} }, "a request of process w was never answered, so it may still be executed"},
	} {
		playScene(t, func(s *scene) {
			w := s.hire("w")
			s.inStep(checkpoint.CutoverDrain, func() {
				s.Must(w.write(s))
				c.happens(w)
				if w.answer != nil && !sink.Is(w.write(s), sink.Unknown) {
					t.Error("the request is answered")
				}
				w.answer = nil // the repetition is answered, which changes nothing
			})
			got := s.play(plan())
			s.expect(got, checkpoint.CutoverCancelled, c.reason, FreezeWrites, UnfreezeWrites)
			if frozen := got.UnfrozenAt.Sub(got.GoneAt); got.FencedAt.After(got.BegunAt) || len(got.Fences) > 0 || frozen < 0 || !s.tablesGoOn() {
				t.Errorf("%s: %+v", name, got.Fences)
			}
			n := got.Raised["orders"]
			s.calls = nil
			got = s.play(plan())
			s.expect(got, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
			if got.Raised["orders"] <= n {
				t.Errorf("%s: attempt 2 is written under %d, attempt 1 was under %d", name, got.Raised["orders"], n)
			}
		})
	}
}

// D10: the tables are halted before the records are listed. A process that proves its right in between
// reads the halt.
func TestH145_TablesAreHaltedBeforeTheRecordsAreListed(t *testing.T) {
	playScene(t, func(s *scene) {
		listed := 0
		s.Store.OnRead = func(_ context.Context, prefix string) error {
			if prefix == "p/writer/" && s.Cutover().Step == checkpoint.CutoverFence {
				listed++
				for _, source := range plan().Tables {
					if state := s.Table(source); !state.Halted() {
						t.Errorf("the records are listed while table %s may be written", source)
					}
				}
			}
			return nil
		}
		s.expect(s.play(plan()), checkpoint.CutoverWatching, "", FreezeWrites, Switch)
		if listed == 0 {
			t.Error("the records are not listed")
		}
	})
}

// D10: a process may have found another source table of a target before the cutover began. The
// cutover does not know that table. A process that begins to write after the writers were listed is
// refused, until the attempt is cancelled.
func TestH145_ATableThatTheCutoverDoesNotKnowWritesNothing(t *testing.T) {
	for _, outcome := range []Outcome{HookDone, HookRefused} {
		playScene(t, func(s *scene) {
			r := fence.NewRegister(s.Open("slept"))
			prove := func() error {
				_, err := r.Prove(s.Ctx, []string{"orders"}, func(context.Context) error { return nil })
				return err
			}
			s.answers(Switch, func(Call) (string, Outcome) {
				if err := prove(); !errors.Is(err, checkpoint.ErrHalted) {
					t.Errorf("at the switch: %v", err)
				}
				return "", outcome
			})
			c := s.play(plan())
			if err := prove(); c.Step.Switched() != (outcome == HookDone) || errors.Is(err, checkpoint.ErrHalted) != c.Step.Switched() {
				t.Errorf("%s: %s: %v", outcome, c.Step, err)
			}
		})
	}
}

// Only numbers that are not dropped count, an answer to another attempt is none, and where the fence
// is withheld a record that is older than a day counts no more.
func TestH145_WhoCanStillWrite(t *testing.T) {
	c := checkpoint.Cutover{Attempt: 3, CutoverPlan: checkpoint.CutoverPlan{Targets: []string{"t", "bare"}}, Raised: map[string]uint64{"t": 7, "bare": 0}}
	now := time.Unix(1e9, 0)
	for i, w := range []struct {
		at       string
		is       checkpoint.Writing
		goodbye  uint32
		age      time.Duration
		silent   bool
		doubtful bool
	}{
		{"t", checkpoint.Writing{Number: 6, Doubt: 6}, 0, 0, false, false}, // dropped
		{"t", checkpoint.Writing{Number: 7}, 0, 0, true, false},
		{"t", checkpoint.Writing{Number: 7}, 0, 30 * 24 * time.Hour, true, false}, // whatever its age
		{"t", checkpoint.Writing{Number: 8}, 2, 0, true, false},                   // to the attempt before
		{"t", checkpoint.Writing{Number: 8, Doubt: 6}, 3, 0, false, false},
		{"t", checkpoint.Writing{Number: 8, Doubt: 7}, 3, 0, false, true},
		{"other", checkpoint.Writing{Number: 8, Doubt: 7}, 0, 0, false, false},
		{"bare", checkpoint.Writing{Unfenced: true}, 0, time.Hour, true, false},
		{"bare", checkpoint.Writing{Unfenced: true}, 0, 25 * time.Hour, false, false},
		{"bare", checkpoint.Writing{Unfenced: true}, 3, 0, false, false},
	} {
		row := checkpoint.Writer{Worker: "w", Goodbye: w.goodbye, At: now.Add(-w.age), Targets: map[string]checkpoint.Writing{w.at: w.is}}
		silent, doubtful := judgeWriters(c, []checkpoint.Writer{row}, now)
		if (silent != "") != w.silent || (doubtful != "") != w.doubtful {
			t.Errorf("%d: silent %q, in doubt %q", i, silent, doubtful)
		}
	}
}

// The last look lists no stream whose shards are open: ten calls a second would not do for many tables.
func TestTheLastLookListsNoOpenStream(t *testing.T) {
	playScene(t, func(s *scene) {
		listed := 0
		s.Source.Fail = func(call string) error {
			if call == "ListPage" && !s.Cutover().Step.Switched() {
				listed++
			}
			return nil
		}
		if c := s.play(plan()); c.Step != checkpoint.CutoverWatching || listed > 0 {
			t.Errorf("at %s after %d listings", c.Step, listed)
		}
	})
}
