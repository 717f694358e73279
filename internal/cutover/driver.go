package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Run drives whenever there is a cutover to drive and no other process does, until ctx ends. With
// over, if not nil, it ends as soon as that says so of the record.
func (d *Driver) Run(ctx context.Context, over func(c checkpoint.Cutover) bool) error {
	settings := d.Settings.orDefault()
	watch := d.Ledger.NewWatch()
	probed := false
	for ctx.Err() == nil {
		c, err := d.Ledger.Cutover(ctx)
		if err == nil && over != nil && over(c) {
			return nil
		}
		rest := settings.Idle
		if err == nil && c.Step.Active() {
			rest = settings.Pass
			if d.Hooks == nil && !c.Rehearse {
				_ = task.Sleep(ctx, settings.Idle)
				continue // without hooks it can only be rehearsed here
			}
			if !probed && d.Hooks != nil {
				err = d.Probe(ctx, c.Tables)
				probed = err == nil
			}
			if err == nil {
				err = d.seek(ctx, watch, settings, over)
			}
		}
		if err != nil && ctx.Err() == nil {
			d.failed("drive the cutover", err)
		}
		_ = task.Sleep(ctx, rest)
	}
	return nil
}

// Probe calls every hook and asks it to do nothing.
func (d *Driver) Probe(ctx context.Context, tables []string) error {
	for _, name := range HookNames {
		limited, cancel := task.WithTimeout(ctx, d.Settings.orDefault().Hook)
		output, outcome := d.Hooks.Call(limited, Call{Hook: name, Step: "probe", Tables: tables, Probe: true})
		cancel()
		if outcome != HookDone {
			return &HookError{Hook: name, Outcome: outcome, Output: output}
		}
	}
	return nil
}

// HookError is a hook that did not do what it is there for.
type HookError struct {
	Hook    string
	Outcome Outcome
	Output  string
}

func (e *HookError) Error() string {
	return fmt.Sprintf("hook %s: %s: %s", e.Hook, e.Outcome, e.Output)
}

// seek takes the driver's seat if it is free, and drives.
func (d *Driver) seek(ctx context.Context, watch *checkpoint.Watch, settings Settings, over func(checkpoint.Cutover) bool) error {
	lease, err := d.Ledger.KeeperLease(ctx, checkpoint.CutoverSeat)
	if err != nil || !watch.KeeperLeaseFree(lease, task.Mono(ctx)) {
		return err
	}
	seat, err := d.Ledger.TakeKeeperLease(ctx, lease)
	if errors.Is(err, checkpoint.ErrTaken) {
		return nil
	} else if err != nil {
		return err
	}
	g := task.NewGroup(seat.Context(), 0)
	g.Go("renew the driver's lease", func(context.Context) error { return seat.Keep() })
	g.Go("drive", func(ctx context.Context) error {
		defer seat.Abandon()
		v := &drive{Driver: d, settings: settings, seat: seat}
		for ctx.Err() == nil {
			going, err := v.pass(ctx)
			if err != nil && ctx.Err() == nil {
				d.failed("drive the cutover", err)
			}
			if !going || over != nil && err == nil && over(v.last) {
				break
			}
			_ = task.Sleep(ctx, settings.Pass)
		}
		if ctx.Err() != nil {
			return nil
		}
		return seat.Release(ctx)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, checkpoint.ErrLeaseLost) {
		return err
	}
	return nil
}

func (d *Driver) failed(step string, err error) {
	if d.Failed != nil {
		d.Failed(step, err)
	}
}

// drive is one holding of the driver's seat.
type drive struct {
	*Driver
	settings Settings
	seat     *checkpoint.Keeper
	last     checkpoint.Cutover // as it was read last

	stepped time.Duration // when this holder first saw the step of last
	heard   time.Duration // when the source was last asked for its time
	draining
	watching
	sets    map[string]*canary.Set
	resumed uint32 // the attempt after which the tables were let go on
	removed uint32 // and that whose canaries were removed
}

// canaries are those of a table.
func (v *drive) canaries(source string) *canary.Set {
	if v.sets == nil {
		v.sets = map[string]*canary.Set{}
	}
	if v.sets[source] == nil {
		v.sets[source] = canary.New(v.Ledger.ID(), source)
	}
	return v.sets[source]
}

// now is the source's time. Known is false if no answer showed it.
func (v *drive) now(ctx context.Context, c checkpoint.Cutover, fresh bool) (now time.Time, known bool) {
	if fresh || v.heard == 0 || task.Mono(ctx)-v.heard > 20*time.Second {
		limited, cancel := task.WithTimeout(ctx, v.settings.Hook)
		defer cancel()
		if at, err := v.Source.Describe(limited, c.Tables[0]); err == nil && !at.At.IsZero() {
			v.Ledger.Heard(ctx, at.At)
			v.heard = task.Mono(ctx)
		} else if fresh {
			return time.Time{}, false
		}
	}
	now = v.Ledger.ServiceTime(ctx)
	return now, !now.IsZero()
}

// pass makes one look, and what it calls for. Going is false when there is nothing left to drive.
func (v *drive) pass(ctx context.Context) (going bool, err error) {
	c, err := v.Ledger.Cutover(ctx)
	if err != nil {
		return true, err
	}
	if c.Attempt != v.last.Attempt || c.Step != v.last.Step {
		v.stepped = task.Mono(ctx)
		if v.OnStep != nil {
			v.OnStep(c)
		}
	}
	v.last = c
	if !c.Step.Active() {
		return false, nil
	}
	now, known := v.now(ctx, c, false)
	if !known {
		now = task.Now(ctx) // of the process: good enough for people, and nothing is claimed by it
	}
	if limit, late := c.Overdue(now); limit > 0 && (known && late || task.Mono(ctx)-v.stepped > limit) {
		v.last, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
			return c.Cancel(fmt.Sprintf("%s took more than %s: %s", c.Step, spell(limit), orNothing(c.Trouble)), now)
		})
		return true, ignoreMoved(err)
	}
	if !known && c.Step != checkpoint.CutoverCancelling && c.Step != checkpoint.CutoverSwitching {
		return true, errors.New("the source's answer has no time")
	}
	return true, ignoreMoved(v.step(ctx, c, now))
}

func orNothing(trouble string) string {
	if trouble == "" {
		return "it did not complete"
	}
	return trouble
}

// ignoreMoved forgives that the cutover has gone on meanwhile: it is read again.
func ignoreMoved(err error) error {
	if errors.Is(err, checkpoint.ErrMoved) {
		return nil
	}
	return err
}

func (v *drive) step(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	switch c.Step {
	case checkpoint.CutoverRequested:
		return v.request(ctx, c, now)
	case checkpoint.CutoverChecks:
		return v.checks(ctx, c, now)
	case checkpoint.CutoverFreeze:
		return v.freeze(ctx, c)
	case checkpoint.CutoverDrain:
		return v.drain(ctx, c, now)
	case checkpoint.CutoverVerify:
		return v.verify(ctx, c, now)
	case checkpoint.CutoverFence:
		return v.fence(ctx, c, now)
	case checkpoint.CutoverSwitching:
		return v.switchOver(ctx, c, now)
	case checkpoint.CutoverWatching:
		return v.watch(ctx, c, now)
	case checkpoint.CutoverCancelling:
		return v.resumeWrites(ctx, c, now)
	}
	return nil
}

// cancel ends the attempt from the step that c is in.
func (v *drive) cancel(ctx context.Context, c checkpoint.Cutover, now time.Time, format string, args ...any) error {
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Cancel(fmt.Sprintf(format, args...), now) })
	return err
}

// trouble notes what a step waits for, or failed with.
func (v *drive) trouble(ctx context.Context, c checkpoint.Cutover, format string, args ...any) error {
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		c.Trouble = fmt.Sprintf(format, args...)
		return nil
	})
	return err
}

func (v *drive) advance(ctx context.Context, c checkpoint.Cutover, now time.Time, change func(c *checkpoint.Cutover)) error {
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		if change != nil {
			change(c)
		}
		return c.Advance(now)
	})
	return err
}

// request waits for approval, hours and gates.
func (v *drive) request(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if c.Expired(now) {
		return v.cancel(ctx, c, now, "it expired before it was approved and ready")
	}
	if !c.Due(now) {
		return nil
	}
	if c.WhenReady {
		gates, err := v.Gates(ctx, c.CutoverPlan, now)
		if err != nil {
			return err
		}
		if open := Open(gates); len(open) > 0 {
			return v.trouble(ctx, c, "waiting for gate %s of table %s: %s", open[0].Name, open[0].Table, "not ready")
		}
	}
	return v.advance(ctx, c, now, nil)
}

func (v *drive) checks(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	gates, err := v.Gates(ctx, c.CutoverPlan, now)
	if err != nil {
		return err
	}
	if open := Open(gates); len(open) > 0 {
		return v.cancel(ctx, c, now, "gate %s of table %s is not ready: %s", open[0].Name, open[0].Table, open[0].Figure)
	}
	full := map[string]checkpoint.VerifyResult{}
	for _, source := range c.Tables {
		s, _, err := v.Ledger.Table(ctx, source)
		if err != nil {
			return err
		}
		full[source] = s.Verify.Full
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Gates, c.Verified = gates, full })
}

// hook calls a hook of the step, and notes the call.
func (v *drive) hook(ctx context.Context, c checkpoint.Cutover, name string) (Outcome, string, error) {
	if err := v.seat.Renew(ctx); err != nil { // whoever slept calls nothing
		return "", "", err
	}
	c, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Calls++; return nil })
	if err != nil {
		return "", "", err
	}
	began, _ := v.now(ctx, c, false)
	limited, cancel := task.WithTimeout(ctx, v.settings.Hook)
	output, outcome := v.Hooks.Call(limited, Call{Hook: name, Token: c.Token(), Step: string(c.Step), Tables: c.Tables})
	cancel()
	ended, _ := v.now(ctx, c, false)
	_, err = v.Ledger.UpdateCutover(ctx, func(now *checkpoint.Cutover) error {
		if now.Attempt != c.Attempt {
			return checkpoint.ErrMoved
		}
		now.Heard(checkpoint.CutoverHook{Name: name, Token: c.Token(), Began: began, Ended: ended, Outcome: string(outcome), Output: limit(output)})
		return nil
	})
	return outcome, limit(output), err
}

// limit keeps the end of a hook's output.
func limit(output string) string {
	const most = 4 << 10
	if len(output) > most {
		return "…" + output[len(output)-most:]
	}
	return output
}

func (v *drive) freeze(ctx context.Context, c checkpoint.Cutover) error {
	if c.FrozenAt.IsZero() {
		outcome, output, err := v.hook(ctx, c, FreezeWrites)
		if err != nil {
			return err
		}
		now, known := v.now(ctx, c, true) // after the hook's answer: writes before it are of before the freeze
		switch {
		case outcome == HookRefused:
			now, _ = v.now(ctx, c, false)
			return v.cancel(ctx, c, now, "hook %s refused: %s", FreezeWrites, output)
		case outcome != HookDone || !known:
			return v.trouble(ctx, c, "hook %s did not answer: %s", FreezeWrites, output)
		}
		if c, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Frozen(now) }); err != nil {
			return err
		}
	}
	return v.advance(ctx, c, c.FrozenAt, nil)
}

// fence halts all tables, and refuses whatever they have under way.
func (v *drive) fence(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if stray, err := v.stragglers(ctx, c); err != nil || stray != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", stray)
		}
		return err
	}
	if !c.Rehearse {
		for _, source := range c.Tables {
			if _, err := v.Ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { return s.HaltFor(c.Attempt) }); err != nil {
				return err
			}
		}
	}
	fences := map[string]uint64{}
	for _, target := range c.Targets {
		n := c.Fences[target]
		if n == 0 {
			t, err := v.Fence.Raise(ctx, target)
			if err != nil {
				return err
			}
			n = t.Fence
		}
		fences[target] = n
	}
	c, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Fences = fences; return nil })
	if err != nil {
		return err
	}
	for _, target := range c.Targets {
		withheld, err := v.Fence.Drop(ctx, target, c.Fences[target])
		if err != nil {
			return err
		}
		if withheld != "" && !overrides(c, GateFence) {
			return v.cancel(ctx, c, now, "late writes to %s cannot be rejected: %s", target, withheld)
		}
	}
	if c.Rehearse {
		v.removeCanaries(ctx, c)
	}
	if now, known := v.now(ctx, c, false); known {
		return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.FencedAt = now })
	}
	return errors.New("the source's answer has no time")
}

func overrides(c checkpoint.Cutover, gate string) bool {
	for _, o := range c.Overrides {
		if o.Gate == gate {
			return true
		}
	}
	return false
}

// switchOver calls the switch until it is known what became of it.
func (v *drive) switchOver(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if c.Answer != "" { // no call of this driver is under way
		_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Switch(c.Answer == "yes", "an operator", now) })
		return err
	}
	outcome, output, err := v.hook(ctx, c, Switch)
	if err != nil {
		return err
	}
	switch outcome {
	case HookDone:
		_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Switch(true, "the hook", now) })
	case HookRefused:
		_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Switch(false, "the hook", now) })
	default:
		err = v.trouble(ctx, c, "hook %s did not answer, so replicator does not know whether the application has switched: %s", Switch, output)
	}
	return err
}

// resumeWrites lets application and tables go on after a cancel.
func (v *drive) resumeWrites(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	var trouble string
	if c.UnfrozenAt.IsZero() {
		outcome, output, err := v.hook(ctx, c, UnfreezeWrites)
		switch {
		case err != nil:
			return err
		case outcome != HookDone:
			trouble = fmt.Sprintf("hook %s: %s: the application may still be frozen: %s", UnfreezeWrites, outcome, output)
		default:
			if c, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Unfrozen(now) }); err != nil {
				return err
			}
		}
	}
	if err := v.resume(ctx, c); err != nil { // in any case: an application that goes on by itself is followed
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "the tables cannot resume: %v", err)))
	}
	if trouble != "" {
		return v.trouble(ctx, c, "%s", trouble)
	}
	v.removeCanaries(ctx, c)
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Cancelled(now) })
	return err
}

// resume lets the tables go on, under a number of the fence of their own.
func (v *drive) resume(ctx context.Context, c checkpoint.Cutover) error {
	if v.resumed == c.Attempt {
		return nil
	}
	for _, source := range c.Tables {
		if _, err := v.Ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { return s.Unhalt(c.Attempt) }); err != nil {
			return err
		}
	}
	if len(c.Fences) > 0 {
		for _, target := range c.Targets {
			if _, err := v.Fence.Raise(ctx, target); err != nil {
				return err
			}
		}
	}
	v.resumed = c.Attempt
	return nil
}
