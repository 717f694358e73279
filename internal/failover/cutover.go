package failover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Answer is the operator's answer to the question whether the application has switched.
type Answer string

// The answers.
const (
	NotAsked Answer = ""
	Yes      Answer = "yes"
	No       Answer = "no"
)

// ending describes how a cutover continues or ends when its ledger moves to another cluster.
type ending struct {
	record checkpoint.Cutover
	step   checkpoint.CutoverStep            // the step after the change; "" if there is no cutover
	change func(c *checkpoint.Cutover) error // nil if the cutover does not change
}

// carryOut changes the record of the cutover. After the switch it also writes the halt into each
// table's record, because the halt may be missing in a ledger that was copied incompletely.
func (e ending) carryOut(ctx context.Context, ledger *checkpoint.Ledger) error {
	if e.change != nil {
		_, err := ask(ctx, func(ctx context.Context) (checkpoint.Cutover, error) {
			return ledger.UpdateCutover(ctx, e.record.Row, e.change)
		})
		if err != nil {
			return err
		}
	}
	if !e.step.Switched() {
		return nil
	}
	for _, source := range e.record.Tables {
		_, err := ask(ctx, func(ctx context.Context) (checkpoint.TableState, error) {
			return ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
				s.Halt.Attempt, s.Halt.Switched = e.record.Attempt, true
				s.Halt.Done = s.Halt.Done || e.step == checkpoint.CutoverDone
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// endingsOf decides how the cutovers of all groups continue or end. The operator's answer is about those
// of which nothing else shows whether the application has switched.
func endingsOf(all checkpoint.Cutovers, r Result, answer Answer, now time.Time) (endings []ending, err error) {
	reason := fmt.Sprintf("the migration moved from cluster %s to cluster %s", r.From, r.To)
	if len(all) == 0 {
		all = checkpoint.Cutovers{{}}
	}
	asked := slices.ContainsFunc(all, func(c checkpoint.Cutover) bool { return unknown(c, r) })
	for _, c := range all {
		about := answer
		if asked && !unknown(c, r) {
			about = NotAsked
		}
		e, err := endingOf(c, r, about, reason, now)
		if err != nil {
			return nil, err
		}
		endings = append(endings, e)
	}
	return endings, nil
}

// settled reports whether the ledger shows if the application has switched.
func settled(c checkpoint.Cutover) bool {
	return c.Step.Over() || c.Step.Switched() || c.Step == checkpoint.CutoverCancelling
}

// unknown reports whether only an operator knows whether the application has switched.
func unknown(c checkpoint.Cutover, r Result) bool {
	return !settled(c) && !c.Rehearse && (r.Gone || c.Step == checkpoint.CutoverSwitching)
}

// endingOf decides how a cutover continues or ends. Before the switch it is cancelled, because the
// checks, the drain and the comparison of the former cluster prove nothing about the new one. After
// the switch it continues. During the switch, only the operator knows whether the application has
// switched. The operator's answer is also needed if the former cluster was deleted, because the
// ledger's copy may lack steps. A cancel after a switch would let replicator overwrite the
// application's rows.
func endingOf(c checkpoint.Cutover, r Result, answer Answer, reason string, now time.Time) (ending, error) {
	if answer == NotAsked && c.Step == checkpoint.CutoverSwitching {
		answer = Answer(c.Answer)
	}
	unknown := unknown(c, r)
	switch {
	case unknown && answer == NotAsked:
		return ending{}, unanswered(c, r)
	case !unknown && answer == Yes && !c.Step.Switched(), !unknown && answer == No && c.Step.Switched():
		return ending{}, contradicted(c, answer)
	case c.Step.Over():
		return ending{}, nil
	case settled(c):
		return ending{record: c, step: c.Step}, nil
	}
	change := func(c *checkpoint.Cutover) error {
		if unknown {
			return c.Settle(answer == Yes, reason, now)
		}
		return c.Cancel(reason, now)
	}
	return ending{record: c, step: after(c, change), change: change}, nil
}

// after returns the step of the cutover after a change.
func after(c checkpoint.Cutover, change func(c *checkpoint.Cutover) error) checkpoint.CutoverStep {
	if err := change(&c); err != nil {
		return c.Step // UpdateCutover makes the same change again and returns its error
	}
	return c.Step
}

func unanswered(c checkpoint.Cutover, r Result) error {
	cause := "a cutover is running, at step " + string(c.Step) + ": the ledger does not show whether the application has switched"
	if c.Step != checkpoint.CutoverSwitching {
		cause = "a cutover is running, at step " + string(c.Step) + ", and cluster " + r.From +
			" was deleted: its last steps may not have been copied, so nothing shows whether the application has switched"
	}
	return &RefusedError{cause, "find out whether the application already uses the target, then add --switched yes or --switched no"}
}

func contradicted(c checkpoint.Cutover, answer Answer) error {
	step := string(c.Step)
	if step == "" {
		step = "none"
	}
	return &RefusedError{"--switched is " + string(answer) + ", but the ledger contradicts this: the cutover is at step " + step, "remove --switched"}
}
