package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// Run drives the cutovers of one group that no other process drives, until ctx ends. If `over` is not
// nil, Run also ends when `over` returns true for the group's record.
func (d *Driver) Run(ctx context.Context, over func(c checkpoint.Cutover) bool) error {
	settings := d.Settings.orDefault()
	watch := d.Ledger.NewWatch()
	probed := false
	for ctx.Err() == nil {
		c, err := d.Ledger.Cutover(ctx, d.Row)
		if err == nil && over != nil && over(c) {
			return nil
		}
		rest := settings.Idle
		if err == nil && d.needed(c) {
			c = c.Current()
			if c.Step.Active() {
				rest = settings.Pass
			}
			err = d.mayDrive(c)
			if d.Hooks == nil && calls(c) {
				_ = task.Sleep(ctx, settings.Idle)
				continue // without hooks, this process can only rehearse or watch
			}
			if err == nil && !probed && d.Hooks != nil && calls(c) {
				err = d.Probe(ctx, c)
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

// needed reports whether a driver has work: an attempt is running, or a former attempt may have
// left canaries or statements of policies.
func (d *Driver) needed(c checkpoint.Cutover) bool {
	return c.Step.Active() || c.RollingBack() || (c.Canaries || c.Denial.Left && d.Freezer != nil) && c.Step.Over()
}

// calls reports whether the remaining steps of the attempt call hooks.
func calls(c checkpoint.Cutover) bool {
	return c.Step.Active() && !c.Rehearse && c.Step != checkpoint.CutoverWatching
}

// seek acquires the driver's lease if it is free, and then drives.
func (d *Driver) seek(ctx context.Context, watch *checkpoint.Watch, settings Settings, over func(checkpoint.Cutover) bool) error {
	lease, err := d.Ledger.CoordinatorLease(ctx, checkpoint.CutoverLease(d.Row))
	if err != nil || !watch.CoordinatorLeaseFree(lease, task.Mono(ctx)) {
		return err
	}
	held, err := d.Ledger.TakeCoordinatorLease(ctx, lease)
	if errors.Is(err, checkpoint.ErrTaken) {
		return nil
	} else if err != nil {
		return err
	}
	g := task.NewGroup(held.Context(), 0)
	g.Go("renew the driver's lease", func(context.Context) error { return held.Keep() })
	g.Go("drive", func(ctx context.Context) error {
		defer held.Abandon()
		v := &drive{Driver: d, settings: settings, held: held, tasks: g}
		for ctx.Err() == nil {
			going, err := v.pass(ctx)
			if err != nil && ctx.Err() == nil {
				d.failed("drive the cutover", err)
			}
			if !going || over != nil && err == nil && over(v.last) {
				break
			}
			_ = task.Sleep(ctx, v.rest(err))
		}
		if ctx.Err() != nil {
			return nil
		}
		return held.Release(ctx)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, checkpoint.ErrLeaseLost) {
		return err
	}
	return nil
}

// rest returns the time to wait before the next pass, after a pass that ended with err. During the
// freeze, the wait is short.
func (v *drive) rest(err error) time.Duration {
	switch {
	case err != nil:
	case v.advanced, slices.Contains([]checkpoint.CutoverStep{checkpoint.CutoverDrain, checkpoint.CutoverVerify, checkpoint.CutoverFence}, v.last.Step):
		return min(v.settings.Brisk, v.settings.Pass)
	}
	return v.settings.Pass
}

func (d *Driver) failed(step string, err error) {
	if d.Failed != nil {
		d.Failed(step, err)
	}
}

// drive is the state of a driver while it holds the driver's lease.
type drive struct {
	*Driver
	settings Settings
	held     *checkpoint.Coordinator
	tasks    *task.Group        // tasks that end with the lease
	dropping atomic.Bool        // whether a task is dropping numbers of the fence
	last     checkpoint.Cutover // last read record of the cutover

	advanced bool // whether the last pass has completed a step

	stepped time.Duration // when this driver first saw the step that `last` has
	heard   time.Duration // when the source was last asked for its time
	covering
	draining
	watching
	finals
	sets      map[string]*canary.Set
	resumed   uint32 // the attempt after which the tables were resumed
	follows   uint32 // the attempt whose leaders follow
	denies    Denial // of the attempt deniesFor
	deniesFor uint32
	reopened  uint32 // the rollback before which the policies were seen to let writes through
	// quietTo is how far the application's promise was last extended (quieten).
	quietTo time.Time
}

// canaries returns the canaries of a source table.
func (v *drive) canaries(source string) *canary.Set {
	if v.sets == nil {
		v.sets = map[string]*canary.Set{}
	}
	if v.sets[source] == nil {
		v.sets[source] = canary.New(v.Ledger.ID(), source)
	}
	return v.sets[source]
}

// now returns the source's time. The result `known` is false if no answer of the source has shown
// its time.
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

// pass reads the cutover's record once and carries out what its step needs. The result `going` is
// false if there is nothing left to drive.
func (v *drive) pass(ctx context.Context) (going bool, err error) {
	v.advanced = false
	c, err := v.Ledger.Cutover(ctx, v.Row)
	if err != nil {
		return true, err
	}
	c = c.Current()
	if c.Attempt != v.last.Attempt || c.Step != v.last.Step {
		v.stepped = task.Mono(ctx)
		if v.OnStep != nil {
			v.OnStep(c)
		}
	}
	v.last = c
	if !c.Step.Active() {
		return v.settle(ctx, c)
	}
	if err := v.mayDrive(c); err != nil {
		return false, err
	}
	now, known := v.now(ctx, c, false)
	if !known {
		// This process's own clock is precise enough for a message. No decision relies on it.
		now = task.Now(ctx)
	}
	if limit, late := c.Overdue(now); limit > 0 && (known && late || task.Mono(ctx)-v.stepped > limit) {
		why := fmt.Sprintf("%s took more than %s: %s", c.Step, timespan.Spell(limit), orNothing(c.Trouble))
		if !c.FrozenAt.IsZero() {
			why = fmt.Sprintf("the deadline of the freeze has passed in step %s: %s", c.Step, orNothing(c.Trouble))
		}
		return true, ignoreMoved(v.end(ctx, c, now, ending{why: why, again: !c.FrozenAt.IsZero()}))
	}
	if !known && c.Step != checkpoint.CutoverCancelling && c.Step != checkpoint.CutoverSwitching {
		return true, errors.New("the source's answer has no Date header")
	}
	return true, ignoreMoved(v.step(ctx, c, now))
}

// errVersion is returned if the version of this process did not begin the attempt. In another
// version, steps may have another meaning.
var errVersion = errors.New("another version of replicator began this cutover; finish or cancel it with the version that began it")

// mayDrive refuses an attempt that another version began. It allows the two last steps: the cancel,
// and the watch for late writers.
func (d *Driver) mayDrive(c checkpoint.Cutover) error {
	switch {
	case c.ByPolicy && d.Freezer == nil && c.Step.Active() && c.Step != checkpoint.CutoverWatching:
		return errNoFreezer
	case c.Version == "" || d.Version == "" || c.Version == d.Version:
	case c.Step == checkpoint.CutoverCancelling || c.Step == checkpoint.CutoverWatching:
	default:
		return fmt.Errorf("%w: %s, and this one is %s", errVersion, c.Version, d.Version)
	}
	return nil
}

func orNothing(trouble string) string {
	if trouble == "" {
		return "it did not complete"
	}
	return trouble
}

// ignoreMoved drops checkpoint.ErrMoved: another process has changed the cutover's record. The next
// pass reads the record again.
func ignoreMoved(err error) error {
	if errors.Is(err, checkpoint.ErrMoved) {
		return nil
	}
	return err
}

func (v *drive) step(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if c.Direction == checkpoint.Back {
		return v.stepBack(ctx, c, now)
	}
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

// cancel cancels the attempt, unless the attempt has left the step that c has.
func (v *drive) cancel(ctx context.Context, c checkpoint.Cutover, now time.Time, format string, args ...any) error {
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Cancel(fmt.Sprintf(format, args...), now) })
	return err
}

// trouble records the condition for which a step waits, or its error.
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
	v.advanced = err == nil
	return err
}
