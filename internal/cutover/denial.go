package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Freezer freezes source tables by their resource policies.
type Freezer interface {
	// Begin returns the freeze of an attempt. Its probes run as tasks of g. The function `proof`
	// returns a time of the source at which this process held the driver's lease.
	Begin(c checkpoint.Cutover, g *task.Group, proof func(ctx context.Context) (time.Time, error)) Denial
}

// Denial is the freeze of an attempt by the policies of all its tables. Another process may continue
// each call. The calls change the cutover's record, if it is still in the step of c.
type Denial interface {
	// Freeze returns when writes were denied for long enough in all tables. Its probes continue. It
	// fails with a FreezeError if no process can succeed, and so does Rehearse.
	Freeze(ctx context.Context, c checkpoint.Cutover) error
	// Rehearse freezes the tables for the probe's role alone, and ends that freeze.
	Rehearse(ctx context.Context, c checkpoint.Cutover) error
	// Probe names a table to which a write was let through, and one whose writes are not known to
	// be denied. With `fresh`, it probes all tables now.
	Probe(ctx context.Context, fresh bool) (through, unknown string)
	// Unfreeze takes the statements out of the policies, and returns when writes are let through.
	Unfreeze(ctx context.Context, c checkpoint.Cutover) error
	// Reopen takes the statements out, and returns when writes were let through for as long as a
	// freeze must be proved.
	Reopen(ctx context.Context, c checkpoint.Cutover) error
	// Lift takes statements out of the policies. The result `waits` is "" once no late request can
	// put one.
	Lift(ctx context.Context, c checkpoint.Cutover) (waits string, err error)
}

// FreezeError is the error of a table that cannot be frozen by its policy.
type FreezeError struct {
	Table string
	Err   error
}

func (e *FreezeError) Error() string { return "table " + e.Table + ": " + e.Err.Error() }

func (e *FreezeError) Unwrap() error { return e.Err }

// thawing is the longest wait for the end of a freeze by policies, before the hook that ends the
// freeze is called in any case.
const thawing = 2 * time.Minute

var errNoFreezer = errors.New("this process cannot change the policies of the tables: its configuration lacks cutover.freeze: table_policy")

// denial returns the freeze of the attempt. After a cancelled rollback, the statements of the cutover
// are those that the rollback has put.
func (v *drive) denial(c checkpoint.Cutover) Denial {
	c.Attempt = max(c.Attempt, c.Denial.Again)
	if v.denies == nil || v.deniesFor != c.Attempt {
		v.denies, v.deniesFor = v.Freezer.Begin(c, v.tasks, v.proof), c.Attempt
	}
	return v.denies
}

// proof returns a time of the source at which this process held the driver's lease. It is the time
// at which a renewal was sent.
func (v *drive) proof(ctx context.Context) (time.Time, error) {
	for {
		at := v.Ledger.ServiceTime(ctx)
		if at.IsZero() {
			return at, errors.New("the source's answer has no Date header")
		}
		err := v.held.Renew(ctx)
		if err == nil || errors.Is(err, checkpoint.ErrLeaseLost) || task.Sleep(ctx, v.settings.Ask) != nil {
			return at, err
		}
	}
}

// deny freezes the tables by their policies with f. It ends the attempt if that cannot succeed.
func (v *drive) deny(ctx context.Context, c checkpoint.Cutover, limit time.Duration, f func(context.Context, checkpoint.Cutover) error) (denied bool, err error) {
	v.whileWanted(ctx, c, "freeze the tables by their policies", limit, func(ctx context.Context) { err = f(ctx, c) })
	if refused := (*FreezeError)(nil); errors.As(err, &refused) {
		now, _ := v.now(ctx, c, false)
		return false, v.cancel(ctx, c, now, "writes cannot be frozen by the policy of %v", refused)
	}
	return err == nil, err
}

// leaks returns an ending if a table is no longer frozen by its policy. The result `unknown` names a
// table of which that is unknown.
func (v *drive) leaks(ctx context.Context, c checkpoint.Cutover, fresh bool) (ends ending, unknown string) {
	if !c.ByPolicy || c.FrozenAt.IsZero() {
		return ending{}, ""
	}
	through, unknown := v.denial(c).Probe(ctx, fresh)
	if through != "" {
		ends.why = "a write to table " + through + " was let through during the freeze, so its policy was changed"
	}
	return ends, unknown
}

// staysDenied probes all tables directly before the switch. If a table is not certainly frozen, the
// switch must wait, or the try ends.
func (v *drive) staysDenied(ctx context.Context, c checkpoint.Cutover, now time.Time) (bool, error) {
	ends, unknown := v.leaks(ctx, c, true)
	switch {
	case ends.why != "":
		return false, v.end(ctx, c, now, ends)
	case unknown != "":
		return false, v.trouble(ctx, c, "it is unknown whether the policy of table %s still denies writes: the probe has no answer", unknown)
	}
	return true, nil
}

// undeny ends the freeze by policies. The result is the trouble if the end is not certain.
func (v *drive) undeny(ctx context.Context, c checkpoint.Cutover) (trouble string, err error) {
	if !c.Denial.Left || v.Freezer == nil {
		return "", nil
	}
	limited, cancel := task.WithTimeout(ctx, thawing)
	defer cancel()
	err = v.denial(c).Unfreeze(limited, c)
	if err == nil || ctx.Err() != nil || errors.Is(err, checkpoint.ErrMoved) {
		return "", err
	}
	return "the policies of the tables may still deny writes: " + err.Error(), nil
}

// reopen ends the freeze of the cutover `forward` before the rollback c moves the application back.
// The application must find tables that it can write. The result is "" once it does.
func (v *drive) reopen(ctx context.Context, c, forward checkpoint.Cutover) (waits string, err error) {
	switch {
	case !forward.Denial.Left || v.reopened == c.Attempt:
		return "", nil
	case v.Freezer == nil:
		return errNoFreezer.Error(), nil
	}
	// The record must say so before a statement is taken out, so that a cancel puts them again.
	c, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Denial.Opened = true; return nil })
	if err != nil {
		return "", err
	}
	v.whileWanted(ctx, c, "end the freeze by policies", v.mayTake(c, v.Ledger.Now(ctx)), func(ctx context.Context) { err = v.denial(forward).Reopen(ctx, forward) })
	if err != nil {
		return "the policies of the tables may still deny writes: " + err.Error(), nil
	}
	v.reopened = c.Attempt
	return "", nil
}

// denyingAgain is the longest time for which a cancelled rollback tries to deny writes again. The
// application is frozen meanwhile.
const denyingAgain = 4 * time.Minute

// denyAgain denies writes again after the cancelled rollback c has begun to end the freeze of its
// cutover. After an error, another pass must try. If writes cannot be denied again, the record says
// so, and the leaders find what late writers change.
func (v *drive) denyAgain(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if !c.Denial.Opened || c.Denial.Again == c.Attempt {
		return nil
	}
	err, left := errNoFreezer, denyingAgain-now.Sub(c.StepAt)
	if v.Freezer != nil && left > 0 {
		limited, cancel := task.WithTimeout(ctx, left)
		defer cancel()
		err = v.denial(c).Freeze(limited, c)
	} else if v.Freezer != nil {
		err = errors.New("it takes too long")
	}
	refused := (*FreezeError)(nil)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, checkpoint.ErrMoved)):
		return err
	case err != nil && left > 0 && v.Freezer != nil && !errors.As(err, &refused):
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "writes are not denied again: %v", err)))
	}
	_, failed := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		c.Denial.Again = c.Attempt
		if err != nil {
			c.Note(now, fmt.Sprintf("writes to the tables are not denied again: %v", err))
		}
		return nil
	})
	return failed
}

// openPolicies takes the statements out once the way back of the cutover has ended.
func (v *drive) openPolicies(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if c.FallbackEndedAt.IsZero() || !c.Denial.Left {
		return nil
	}
	waits, err := v.lift(ctx, c)
	if err != nil || waits != "" || v.Freezer == nil {
		return err
	}
	_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		c.Note(now, "the policies of the tables deny nothing any more")
		return nil
	})
	return err
}

// lift takes statements out of the policies. The result is "" once no late request can put one.
func (v *drive) lift(ctx context.Context, c checkpoint.Cutover) (waits string, err error) {
	if !c.Denial.Left || v.Freezer == nil {
		return "", nil
	}
	limited, cancel := task.WithTimeout(ctx, v.settings.Hook)
	defer cancel()
	return v.denial(c).Lift(limited, c)
}

// settle removes what an attempt that is over has left: canaries, statements of policies, and leaders
// that stand by for an attempt that was cancelled before its freeze.
func (v *drive) settle(ctx context.Context, c checkpoint.Cutover) (left bool, err error) {
	waits, err := v.lift(ctx, c)
	return waits != "" || err != nil, errors.Join(err, v.standDown(ctx, c), v.removeCanaries(ctx, c))
}
