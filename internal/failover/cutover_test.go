package failover_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// at brings a cutover of Orders to a step.
func (w *world) at(step checkpoint.CutoverStep) {
	w.Helper()
	frozen := task.Now(w.ctx)
	_, err := w.ledger.UpdateCutover(w.ctx, "", func(c *checkpoint.Cutover) error {
		c.Attempt, c.Step, c.Tables, c.StepAt = 1, step, []string{"Orders"}, frozen
		switch step {
		case checkpoint.CutoverRequested, checkpoint.CutoverChecks:
		case checkpoint.CutoverWatching, checkpoint.CutoverDone:
			c.SwitchedAt = frozen
			fallthrough
		default:
			c.FreezeBegunAt, c.FrozenAt = frozen, frozen
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) record() checkpoint.Cutover {
	w.Helper()
	c, err := w.ledger.Cutover(w.ctx, "")
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// A failover ends or continues a cutover, whether or not the former cluster was deleted. Before the
// switch it cancels the cutover; after the switch the cutover continues. If nothing shows whether
// the application has switched, an operator must answer. Nothing is loaded once the application has
// switched.
func TestACutoverMovesOrEnds(t *testing.T) {
	const refused = "refused"
	const (
		requested = checkpoint.CutoverRequested
		checks    = checkpoint.CutoverChecks
		freeze    = checkpoint.CutoverFreeze
		drain     = checkpoint.CutoverDrain
		fence     = checkpoint.CutoverFence
		switching = checkpoint.CutoverSwitching
		watching  = checkpoint.CutoverWatching
		done      = checkpoint.CutoverDone
		unfreeze  = checkpoint.CutoverCancelling
		cancelled = checkpoint.CutoverCancelled
		rehearsed = checkpoint.CutoverRehearsed
	)
	for _, c := range []struct {
		step     checkpoint.CutoverStep
		gone     bool
		switched failover.Answer
		want     checkpoint.CutoverStep
	}{
		{requested, false, "", cancelled},
		{checks, false, "", cancelled},
		{freeze, false, "", unfreeze},
		{drain, false, "", unfreeze},
		{fence, false, "", unfreeze},
		{drain, false, failover.No, unfreeze},
		{drain, false, failover.Yes, refused}, // the ledger is copied and has the step

		{switching, false, "", refused},
		{switching, false, failover.Yes, watching},
		{switching, false, failover.No, unfreeze},
		{switching, true, "", refused},
		{switching, true, failover.Yes, watching},
		{switching, true, failover.No, unfreeze},

		{requested, true, "", refused}, // later steps may not have been copied
		{drain, true, "", refused},
		{checks, true, failover.No, unfreeze}, // of an unknown freeze
		{drain, true, failover.No, unfreeze},
		{checks, true, failover.Yes, watching},
		{fence, true, failover.Yes, watching},

		{unfreeze, false, "", unfreeze},
		{unfreeze, true, "", unfreeze},
		{unfreeze, false, failover.Yes, refused},
		{watching, false, "", watching},
		{watching, true, "", watching},
		{watching, false, failover.Yes, watching},
		{watching, false, failover.No, refused},
		{done, false, "", done},
		{done, true, "", done},
		{cancelled, false, "", ""},
		{rehearsed, true, "", ""},
		{cancelled, false, failover.Yes, refused},
	} {
		in(t, func(w *world) {
			w.at(c.step)
			if c.gone {
				w.instance.clusters = []string{"two"}
			}
			before := w.record()
			if _, err := w.run(failover.Plan{Rehearsal: true, Switched: c.switched}); (err == nil) != (c.want != refused) || w.record().Step != c.step || w.cluster() != "one" {
				t.Errorf("%s, gone %t, switched %q: a rehearsal: %v, step %s", c.step, c.gone, c.switched, err, w.record().Step)
			}
			began := task.Now(w.ctx)
			r, err := w.run(failover.Plan{Switched: c.switched})
			after := w.record()
			if c.want == refused {
				var refusal *failover.RefusedError
				if !errors.As(err, &refusal) || strings.Contains(refusal.Cure, "cluster one") || !strings.Contains(refusal.Cure, "--switched") || w.cluster() != "one" || after.Step != c.step || task.Now(w.ctx) != began {
					t.Errorf("%s, gone %t, switched %q: %+v, %v after %s", c.step, c.gone, c.switched, r, err, task.Now(w.ctx).Sub(began))
				}
				return
			}
			loads := !c.want.Switched()
			if err != nil || r.Cutover != c.want || w.cluster() != "two" || r.Gone != c.gone || w.table().NeedsLoad != loads || (r.Outcome == failover.Loads) != loads {
				t.Errorf("%s, gone %t, switched %q: %+v, %v", c.step, c.gone, c.switched, r, err)
			}
			if want := c.want; want != "" && after.Step != want || want == "" && after.Step != c.step {
				t.Errorf("%s, gone %t, switched %q: the record is at %s", c.step, c.gone, c.switched, after.Step)
			}
			if halt := w.table().Halt; halt.Switched != c.want.Switched() || halt.Done != (c.want == done) {
				t.Errorf("%s, gone %t, switched %q: halted %+v", c.step, c.gone, c.switched, halt)
			}
			if c.want == watching && (after.FrozenAt.IsZero() || after.FrozenAt.After(before.StepAt) || after.SwitchedAt.IsZero()) {
				t.Errorf("%s, gone %t: the watch begins with changes after %s", c.step, c.gone, after.FrozenAt)
			}
			if again, err := w.run(failover.Plan{Switched: c.switched}); err != nil || again.Outcome != failover.Nothing {
				t.Errorf("%s, gone %t, once more: %+v, %v", c.step, c.gone, again, err)
			}
		})
	}
}

// An answer that the operator gave in the former cluster counts. A rehearsal of a cutover switches
// nothing, so it needs no answer.
func TestAFailoverNeedsNoAnswerTwice(t *testing.T) {
	for answer, want := range map[string]checkpoint.CutoverStep{"yes": checkpoint.CutoverWatching, "no": checkpoint.CutoverCancelling} {
		in(t, func(w *world) {
			w.at(checkpoint.CutoverSwitching)
			if _, err := w.ledger.UpdateCutover(w.ctx, "", func(c *checkpoint.Cutover) error { return c.Resolve(answer == "yes", task.Now(w.ctx)) }); err != nil {
				t.Fatal(err)
			}
			if r, err := w.run(failover.Plan{}); err != nil || r.Cutover != want {
				t.Errorf("answered %s: %+v, %v", answer, r, err)
			}
		})
	}
	in(t, func(w *world) {
		w.at(checkpoint.CutoverDrain)
		w.instance.clusters = []string{"two"}
		if _, err := w.ledger.UpdateCutover(w.ctx, "", func(c *checkpoint.Cutover) error { c.Rehearse, c.FreezeBegunAt = true, time.Time{}; return nil }); err != nil {
			t.Fatal(err)
		}
		if r, err := w.run(failover.Plan{}); err != nil || r.Cutover != checkpoint.CutoverCancelled {
			t.Errorf("a rehearsal: %+v, %v", r, err)
		}
	})
}

// A table that is done stays done, even if its cutover never recorded the end of the watch.
func TestATableThatIsDoneStaysDone(t *testing.T) {
	in(t, func(w *world) {
		w.at(checkpoint.CutoverWatching)
		_, err := w.ledger.UpdateTable(w.ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Halt = checkpoint.Halt{Attempt: 1, Switched: true, Done: true}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := w.run(failover.Plan{}); err != nil || r.Cutover != checkpoint.CutoverWatching || !w.table().Halt.Done {
			t.Errorf("%+v, %v: %+v", r, err, w.table().Halt)
		}
	})
}

// A change that arrives with the copy of the ledger counts, such as a switch that was made
// meanwhile.
func TestACutoverThatArrivesWithTheCopy(t *testing.T) {
	in(t, func(w *world) {
		w.at(checkpoint.CutoverFence)
		w.instance.during = func() { w.at(checkpoint.CutoverWatching) }
		r, err := w.run(failover.Plan{})
		if err != nil || r.Cutover != checkpoint.CutoverWatching || r.Outcome != failover.CutOver || w.table().NeedsLoad {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A failover that failed after it had ended the cutover continues when it is repeated.
func TestACutoverIsEndedOnce(t *testing.T) {
	for _, switched := range []failover.Answer{failover.Yes, failover.No} {
		in(t, func(w *world) {
			w.at(checkpoint.CutoverSwitching)
			lost := errors.New("lost")
			w.store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
				if key == "default/pipeline" {
					return false, lost
				}
				return execute(), nil
			}
			if _, err := w.run(failover.Plan{Switched: switched}); !errors.Is(err, lost) || w.cluster() != "one" {
				t.Fatalf("cluster %s: %v", w.cluster(), err)
			}
			w.store.OnSwap = nil
			before := w.record()
			if _, err := w.run(failover.Plan{Switched: switched}); err != nil || w.cluster() != "two" || w.record().Step != before.Step || len(w.record().Timeline) != len(before.Timeline) {
				t.Errorf("%v, %+v", err, w.record())
			}
		})
	}
}
