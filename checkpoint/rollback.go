package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Direction is where an attempt moves the application.
type Direction string

// The directions. Records of versions without rollbacks have none, which is Forward.
const (
	Forward Direction = ""
	Back    Direction = "back"
)

// String returns the direction as hooks and documents have it.
func (d Direction) String() string {
	if d == Back {
		return "back"
	}
	return "forward"
}

// HasFallback reports whether the source's items follow the rows of the target, so that a rollback
// may begin.
func (c *Cutover) HasFallback() bool {
	return c.WayBack && c.Step == CutoverWatching && c.FallbackEndedAt.IsZero()
}

// RollingBack reports whether a rollback needs a driver. That includes the time after its switch,
// until the tables are ready for a load.
func (c *Cutover) RollingBack() bool { return c.Rollback != nil && c.Rollback.Step.Active() }

// Current returns the attempt that needs a driver or an operator: the rollback if it is running,
// else the cutover itself.
func (c *Cutover) Current() Cutover {
	if c.RollingBack() {
		return c.Undo()
	}
	return *c
}

// Latest returns the attempt that has changed last: the rollback if it is running or has moved the
// application, else the cutover itself.
func (c *Cutover) Latest() Cutover {
	if c.Step == CutoverRolledBack && c.Rollback != nil {
		return c.Undo()
	}
	return c.Current()
}

// SafeToWrite reports whether the application may write the target.
func (c *Cutover) SafeToWrite() bool {
	frozen := c.RollingBack() && !c.Rollback.FreezeBegunAt.IsZero()
	return c.Step.Switched() && !frozen
}

// Undo returns the rollback with the name of the record; a zero value if there is none.
func (c *Cutover) Undo() Cutover {
	r := Cutover{}
	if c.Rollback != nil {
		r = *c.Rollback
	}
	r.Row = c.Row
	return r
}

// Steer applies an operator's change to the attempt that needs one.
func (c *Cutover) Steer(change func(*Cutover) error) error {
	if c.RollingBack() {
		return c.inRollback(change)
	}
	return change(c)
}

// lastAttempt returns the highest number of an attempt in the record.
func (c *Cutover) lastAttempt() uint32 {
	if c.Rollback != nil {
		return max(c.Attempt, c.Rollback.Attempt)
	}
	return c.Attempt
}

// StartRollback begins a rollback in step CutoverChecks. The plan holds what differs from the
// cutover: version, overrides and deadlines.
func (c *Cutover) StartRollback(plan CutoverPlan, now time.Time) error {
	refuse := func(why, cure string) error { return &CutoverError{"roll back", why, cure} }
	switch {
	case c.RollingBack():
		return refuse("a rollback is running", "see replicator cutover status")
	case c.Step != CutoverWatching:
		return c.refuse("roll back", "only a cutover whose application has switched can be rolled back")
	case !c.WayBack:
		return refuse("it was started without a way back", "nothing has followed the rows since the switch; the items of DynamoDB are those of the freeze")
	case !c.FallbackEndedAt.IsZero():
		return refuse("an operator ended the way back", "nothing has followed the rows since then")
	case len(c.Raised) > 0 && c.FencedAt.IsZero():
		return refuse("late writes of the cutover are not rejected yet", "wait a few minutes; replicator cutover status shows when they are")
	}
	plan.Direction, plan.Group, plan.Patterns, plan.Tables, plan.Targets = Back, c.Group, c.Patterns, c.Tables, c.Targets
	plan.Hash, plan.Approved, plan.Tries, plan.PolicyWait = c.Hash, true, 1, c.PolicyWait
	r := &Cutover{CutoverPlan: plan, Attempt: max(c.lastAttempt(), plan.After) + 1, BegunAt: now.UTC()}
	text := "requested"
	if plan.By != "" {
		text += " by " + plan.By
	}
	r.enter(CutoverRequested, now, text)
	r.enter(CutoverChecks, now, stepText[CutoverChecks])
	c.Rollback = r
	return nil
}

// inRollback changes the rollback in the record. Once the rollback has switched the application, the
// cutover is over in the same write: no process ever finds the application on both sides.
func (c *Cutover) inRollback(change func(*Cutover) error) error {
	if c.Rollback == nil {
		return ErrMoved
	}
	r := *c.Rollback
	if err := change(&r); err != nil {
		return err
	}
	ended := r.Step == CutoverCancelled && c.Rollback.Step != CutoverCancelled
	c.Rollback = &r
	if r.Step.Switched() && c.Step == CutoverWatching {
		c.enter(CutoverRolledBack, r.SwitchedAt, fmt.Sprintf("rolled back by attempt %d", r.Attempt))
		c.EndedAt = r.SwitchedAt
	}
	if ended {
		if r.Denial.Left { // the policies deny writes again
			c.Denial.Again = r.Attempt
		}
		c.Note(r.EndedAt, fmt.Sprintf("rollback attempt %d was cancelled: %s", r.Attempt, r.Reason))
	}
	return nil
}

// Returned ends a rollback whose tables are ready for a load.
func (c *Cutover) Returned(now time.Time) error {
	if c.Direction != Back || c.Step != CutoverWatching {
		return c.refuse("complete", "see replicator cutover status")
	}
	c.enter(CutoverDone, now, "the tables need a load before another cutover")
	c.EndedAt = now.UTC()
	return nil
}

// EndFallback records that the way back has ended at an operator's request. The leaders have
// stopped.
func (c *Cutover) EndFallback(now time.Time) error {
	switch {
	case !c.FallbackEndedAt.IsZero():
		return nil
	case !c.HasFallback():
		return c.refuse("end the way back of", "there is no way back")
	case c.RollingBack():
		return &CutoverError{"end the way back of", "a rollback is running", "cancel it: replicator cutover cancel"}
	}
	c.FallbackEndedAt = now.UTC()
	c.Note(now, "the way back has ended: DynamoDB no longer follows")
	return nil
}

// StraysFrom returns the time after which a change of the source is a straggler. The leaders of a way
// back write the source until it ends.
func (c *Cutover) StraysFrom() time.Time { return later(c.FrozenAt, c.FallbackEndedAt) }

// StopFor asks the leaders of the cutover with the given number to stop for a rollback. A delayed
// driver of a rollback after which they follow again changes nothing.
func (f *Fallback) StopFor(cutover, rollback uint32) {
	if f.obeys(cutover, rollback) && f.State == FallbackFollowing {
		f.State = FallbackStopping
	}
}

// FollowAfter lets the leaders follow again after a cancelled rollback. It does so once. Otherwise a
// delayed driver of that rollback could let them write during the switch of the next one.
func (f *Fallback) FollowAfter(cutover, rollback uint32) {
	if !f.obeys(cutover, rollback) {
		return
	}
	f.ResumedAfter = rollback
	if f.State == FallbackStopping || f.State == FallbackStopped {
		f.State = FallbackFollowing
	}
}

func (f *Fallback) obeys(cutover, rollback uint32) bool {
	return f.Attempt == cutover && rollback > f.ResumedAfter
}

// resume ends the halt of a table or target after the rollback with the given number. A delayed
// driver of an earlier attempt can no longer halt it.
func (h *Halt) resume(attempt uint32) {
	h.On, h.Switched, h.Done = false, false, false
	h.Attempt, h.Over, h.Near = max(h.Attempt, attempt), max(h.Over, attempt), 0
}

// Return lets replicator write the target table again after a rollback.
func (t *Target) Return(attempt uint32) { t.Halt.resume(attempt) }

// RolledBackGap is the loss of a table whose application the rollback with the given number has moved
// back.
func RolledBackGap(attempt uint32) DeclaredGap {
	return DeclaredGap{Kind: KindRolledBack, Reason: fmt.Sprintf("the application was moved back to DynamoDB by attempt %d", attempt)}
}

// Return begins a new generation of a table after the rollback with the given number, in which the
// table replicates again. The table needs a load, because the application wrote its rows. The load's
// sweep treats each row as the table's own: a way back is offered only if every row is the row of an
// item. It does nothing if the rollback has returned the table before.
func (l *Ledger) Return(ctx context.Context, source string, attempt uint32) error {
	state, _, err := l.Table(ctx, source)
	if err != nil || state.Returned(attempt) {
		return err
	}
	_, err = l.Raise(ctx, source, state.Generation, RolledBackGap(attempt), func(s *TableState) {
		if !s.Returned(attempt) {
			s.Halt.resume(attempt)
			s.MadeByUs = true
		}
	})
	if errors.Is(err, ErrRaised) { // another process has raised the generation meanwhile
		return ErrConflict
	}
	return err
}

// Returned reports whether the table replicates again since the rollback with the given number.
func (s *TableState) Returned(attempt uint32) bool { return s.Halt.Over >= attempt && !s.Halt.Switched }
