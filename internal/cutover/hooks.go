package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Probe calls every hook with the probe flag, with which a hook must do nothing. With a way back it
// also calls the hooks of a rollback.
func (d *Driver) Probe(ctx context.Context, c checkpoint.Cutover) error {
	for _, name := range HookNames {
		if slices.Contains(d.Missing, name) && c.Direction == checkpoint.Forward { // a rollback needs all
			continue
		}
		output, outcome := d.probe(ctx, c, name)
		if !outcome.Done() {
			return &HookError{Hook: name, Outcome: outcome, Output: Redact(output)}
		}
		d.mayBeQuiet = d.mayBeQuiet || outcome == HookQuiet && c.Direction == checkpoint.Forward
	}
	if !wantsWayBack(c.CutoverPlan) {
		return nil
	}
	back := checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{Direction: checkpoint.Back, Group: c.Group, Tables: c.Tables}}
	return d.Probe(ctx, back)
}

func (d *Driver) probe(ctx context.Context, c checkpoint.Cutover, name string) (output string, outcome Outcome) {
	limited, cancel := task.WithTimeout(ctx, d.Settings.orDefault().Hook)
	defer cancel()
	return d.Hooks.Call(limited, Call{Hook: name, Step: "probe", Direction: c.Direction.String(), Group: c.Group, Tables: c.Tables, Probe: true})
}

// MayBeQuiet reports whether the hook that freezes the application may promise that the
// application's own writes to the target have ended. The hook's probe shows this.
func (d *Driver) MayBeQuiet(ctx context.Context, c checkpoint.Cutover) bool {
	if slices.Contains(d.Missing, FreezeWrites) {
		return false
	}
	_, outcome := d.probe(ctx, c, FreezeWrites)
	return outcome == HookQuiet
}

// WithoutGroups returns the hooks whose probe does not print `groups` in its last line. A wrapper
// that keeps one token for all groups would refuse the calls for one of two groups. A hook that
// cannot be called from this process is left out.
func (d *Driver) WithoutGroups(ctx context.Context, c checkpoint.Cutover) (names []string) {
	for _, name := range HookNames {
		if slices.Contains(d.Missing, name) {
			continue
		}
		if output, outcome := d.probe(ctx, c, name); outcome.Done() && !slices.Contains(strings.Fields(output), "groups") {
			names = append(names, name)
		}
	}
	return names
}

// HookError is the error of a hook that did not succeed.
type HookError struct {
	Hook    string
	Outcome Outcome
	Output  string
}

func (e *HookError) Error() string {
	return fmt.Sprintf("hook %s: %s: %s", e.Hook, e.Outcome, e.Output)
}

// hook calls a hook of the step, and records the call.
func (v *drive) hook(ctx context.Context, c checkpoint.Cutover, name string) (Outcome, string, error) {
	if err := v.held.Renew(ctx); err != nil { // a driver that slept has lost its lease, and must not call hooks
		return "", "", err
	}
	if err := v.mayCall(ctx, name); err != nil {
		return "", "", err
	}
	c, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		if answered(*c) { // an operator answered first, so the hook is not called
			return checkpoint.ErrMoved
		}
		c.Calls++
		return nil
	})
	if err != nil {
		return "", "", err
	}
	began, _ := v.now(ctx, c, false)
	// The process may have slept after it recorded the call.
	if err := v.stillWanted(ctx, c); err != nil {
		return "", "", err
	}
	if name == FreezeWrites && c.Direction == checkpoint.Forward {
		if err := v.beforeFreeze(ctx, c); err != nil {
			return "", "", err
		}
	}
	if slices.Contains(v.Missing, name) && c.Direction == checkpoint.Forward {
		return HookDone, "", nil
	}
	call := Call{Hook: name, Token: c.Token(), Step: string(c.Step), Direction: c.Direction.String(), Group: c.Group, Tables: c.Tables, Deadline: c.Deadline, Left: max(c.Deadline.Sub(began), 0)}
	output, outcome := v.call(ctx, c, call, v.mayTake(c, began))
	ended, _ := v.now(ctx, c, false)
	_, err = v.Ledger.InAttempt(ctx, c, func(now *checkpoint.Cutover) error {
		now.Heard(checkpoint.CutoverHook{Name: name, Token: c.Token(), Began: began, Ended: ended, Outcome: string(outcome), Output: limit(output)})
		return nil
	})
	return outcome, limit(output), err
}

// stillWanted returns ErrMoved if the hook must no longer be called: another step has begun, or an
// operator has answered instead of the hook.
func (v *drive) stillWanted(ctx context.Context, c checkpoint.Cutover) error {
	now, err := v.Ledger.Attempt(ctx, c)
	if err == nil && (now.Attempt != c.Attempt || now.Step != c.Step || answered(now)) {
		err = checkpoint.ErrMoved
	}
	return err
}

// answered reports whether an operator has confirmed the outcome of the switch.
func answered(c checkpoint.Cutover) bool {
	return c.Step == checkpoint.CutoverSwitching && c.Answer != ""
}

// mayTake returns how long a call in this step may take. The step's deadline ends the call, and so
// does the end of the try.
func (v *drive) mayTake(c checkpoint.Cutover, now time.Time) time.Duration {
	limit := v.settings.Call
	if deadline, _ := c.Overdue(now); deadline > 0 {
		limit = min(limit, deadline-now.Sub(c.StepAt), deadline-(task.Mono(v.held.Context())-v.stepped))
	}
	if by := switchBy(c, v.draining.rest); !by.IsZero() {
		limit = min(limit, by.Sub(now))
	}
	return max(limit, v.settings.Pass)
}

// call makes a call. It interrupts the call if the cutover is cancelled, or if an operator answers
// instead of the hook. An interrupted call has an unknown outcome.
func (v *drive) call(ctx context.Context, c checkpoint.Cutover, call Call, limit time.Duration) (output string, outcome Outcome) {
	v.whileWanted(ctx, c, "call hook "+call.Hook, limit, func(ctx context.Context) { output, outcome = v.Hooks.Call(ctx, call) })
	return output, outcome
}

// whileWanted calls f with a context that ends after the limit, and if f is no longer wanted.
func (v *drive) whileWanted(ctx context.Context, c checkpoint.Cutover, what string, limit time.Duration, f func(ctx context.Context)) {
	limited, cancel := task.WithTimeout(ctx, limit)
	defer cancel()
	g := task.NewGroup(limited, 0)
	g.Go(what, func(limited context.Context) error {
		defer cancel()
		f(limited)
		return nil
	})
	g.Go("check whether the call is still wanted", func(limited context.Context) error {
		for task.Sleep(limited, v.settings.Pass) == nil {
			if errors.Is(v.stillWanted(limited, c), checkpoint.ErrMoved) {
				cancel()
			}
		}
		return nil
	})
	_ = g.Wait() // the two tasks return no errors
}

// limit shortens a hook's output to the length that a record can store.
func limit(output string) string {
	const most = 1 << 10
	output = Redact(output)
	if len(output) > most {
		return strings.ToValidUTF8(output[:most], "") + "…"
	}
	return output
}

func (v *drive) freeze(ctx context.Context, c checkpoint.Cutover) error {
	if c.FrozenAt.IsZero() {
		outcome, output, err := v.hook(ctx, c, FreezeWrites)
		if err != nil {
			return err
		}
		// The hook comes first: the application can promise to be quiet, and sees few errors.
		if outcome.Done() && c.ByPolicy {
			if denied, err := v.deny(ctx, c, v.mayTake(c, v.Ledger.Now(ctx)), v.denial(c).Freeze); err != nil || !denied {
				return err
			}
		}
		// This time must be read after the hook's answer, so that it is later than all writes
		// before the answer.
		now, known := v.now(ctx, c, true)
		switch {
		case outcome == HookRefused:
			now, _ = v.now(ctx, c, false)
			return v.cancel(ctx, c, now, "hook %s refused: %s", FreezeWrites, output)
		case !outcome.Done() || !known:
			return v.trouble(ctx, c, "hook %s did not answer: %s", FreezeWrites, output)
		}
		if c, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Frozen(now) }); err != nil {
			return err
		}
	}
	if c.Quiet {
		if err := v.quieten(ctx, c, c.FrozenAt); err != nil {
			return err
		}
	}
	return v.advance(ctx, c, c.FrozenAt, nil)
}

// switchOver calls the switch hook until its outcome is known.
func (v *drive) switchOver(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if c.Answer != "" { // this driver has no call in flight
		_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Switch(c.Answer == "yes", "an operator", now) })
		return err
	}
	outcome, output, err := v.hook(ctx, c, Switch)
	if err != nil {
		return err
	}
	switch {
	case outcome.Done():
		_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Switch(true, "the hook", now) })
	case outcome == HookRefused:
		_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Switch(false, "the hook", now) })
	default:
		err = v.trouble(ctx, c, "hook %s did not answer, so it is unknown whether the application has switched: %s", Switch, output)
	}
	return err
}

// resumeWrites lets the application write the source again after a cancel, and resumes the tables.
func (v *drive) resumeWrites(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	var trouble string
	if c.UnfrozenAt.IsZero() && !c.FreezeBegunAt.IsZero() {
		if v.tooSoon(ctx, c) {
			return nil
		}
		denied, err := v.undeny(ctx, c) // first, so that the application sees few errors
		if err != nil {
			return err
		}
		now = later(now, v.Ledger.ServiceTime(ctx)) // the policies may have taken a while
		outcome, output, err := v.hook(ctx, c, UnfreezeWrites)
		switch {
		case err != nil:
			return err
		case !outcome.Done():
			trouble = fmt.Sprintf("hook %s: %s: the application may still be frozen: %s", UnfreezeWrites, outcome, output)
		case denied != "":
			trouble = denied
		default:
			if c, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Unfrozen(now) }); err != nil {
				return err
			}
		}
	}
	if err := v.resume(ctx, c); err != nil { // in any case, because the application may resume by itself
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "the tables cannot resume: %v", err)))
	}
	if trouble != "" {
		return v.trouble(ctx, c, "%s", trouble)
	}
	if c.NextTry {
		_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Again(now) })
		return err
	}
	if waits, err := v.lift(ctx, c); err != nil || waits != "" {
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "%s", waits)))
	}
	v.forgetCanaries(ctx, c) // if this fails, it is retried after the attempt
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Cancelled(now) })
	return err
}

// resume resumes the tables, with new numbers of the fence.
func (v *drive) resume(ctx context.Context, c checkpoint.Cutover) error {
	if v.resumed == c.Attempt {
		return nil
	}
	if err := v.updateTables(ctx, c, func(s *checkpoint.TableState) error { return s.Unhalt(c.Attempt) }); err != nil {
		return err
	}
	if err := v.updateTargets(ctx, c, func(t *checkpoint.Target) error { return t.Unhalt(c.Attempt) }); err != nil {
		return err
	}
	if err := v.standDown(ctx, c); err != nil {
		return err
	}
	if len(c.Fences) > 0 {
		if _, err := eachTarget(ctx, c, v.Fence.Raise); err != nil {
			return err
		}
	}
	v.resumed = c.Attempt
	return nil
}
