package switchover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

const (
	// takeOverAfter is how long this process waits for a worker to drive the cutover. After that
	// time, this process drives the cutover itself.
	takeOverAfter = 15 * time.Second
	// tellEvery is the time between two lines about the condition for which the cutover waits.
	tellEvery = 10 * time.Second
	// interruptGrace is how long a driving process keeps running after an interrupt. In this time,
	// it cancels the cutover and lets the application write again.
	interruptGrace = 2 * time.Minute
)

// Start begins a cutover, and shows its progress until the application has switched, or until the
// cutover has ended.
func (o *Operator) Start(ctx context.Context, r Request) error {
	if err := r.check(); err != nil {
		return err
	}
	hooks, err := o.hooks(r.Rehearse)
	if err != nil {
		return err
	}
	if err := o.open(ctx, "cutover start"); err != nil {
		return err
	}
	defer o.Close()
	if err := unknown(ctx, o.Ledger, o.configs()); err != nil {
		return explain(ctx, "cannot read the ledger in table "+o.Cfg.State.Table, err)
	}
	now := o.Now(ctx)
	plan := planOf(o.Cfg, o.configs(), r, now)
	plan.Lossy, plan.Version, plan.By = lossy(wayBack(o.Tables)), o.Version, o.Ledger.Worker()
	before, err := o.Ledger.Cutover(ctx)
	if err == nil {
		err = (&before).Start(plan, now) // an impossible request is refused before any question
	}
	if err != nil {
		return explain(ctx, "cannot start the cutover of "+o.Cfg.Name, err)
	}
	d, err := o.document(ctx, &plan)
	if err != nil {
		return err
	}
	if !o.AsJSON() {
		if err := o.Console.Show(o.Stderr, func(w io.Writer) error { return d.render(w, false) }); err != nil {
			return err
		}
	}
	if open := d.verdict(o.With); open != nil && !r.WhenReady {
		return open
	}
	if !plan.Approved && !r.WhenReady {
		if o.Confirm == nil {
			return diag.BadUsage("switching the application needs confirmation, but there is no terminal", "add --yes, or add --when-ready and approve later")
		}
		if err := o.Confirm(ctx, "Stop the application's writes, and switch it to "+strings.Join(plan.Targets, ", ")+"?"); err != nil {
			return err
		}
		plan.Approved = true
	}
	start := func(c *checkpoint.Cutover) error { return c.Start(plan, o.Now(ctx)) }
	if _, err := o.Ledger.UpdateCutover(ctx, o.signed(start)); err != nil {
		return explain(ctx, "cannot start the cutover of "+o.Cfg.Name, err)
	}
	if !r.Wait {
		return o.shown(ctx)
	}
	return o.follow(ctx, hooks, true)
}

// hooks returns the hooks that this process would call; nil for a rehearsal without hooks.
func (o *Operator) hooks(rehearse bool) (cutover.Hooks, error) {
	if rehearse && !o.Cfg.Cutover.Hooks.Given() {
		return nil, nil
	}
	if o.parse != nil {
		return o.parse(o.Cfg)
	}
	hooks, err := Hooks(o.Cfg)
	if err != nil {
		return nil, err
	}
	hooks.Heard = func(call cutover.Call, output string) {
		for line := range strings.Lines(output) {
			_, _ = fmt.Fprintf(o.Stderr, "%s  %-10s  %s\n", call.Hook, call.Token, strings.TrimRight(line, "\n"))
		}
	}
	return hooks, nil
}

func (o *Operator) shown(ctx context.Context) error {
	d, err := o.document(ctx, nil)
	if err != nil {
		return err
	}
	return o.write(d, false)
}

// Step is an operator's action on a running attempt.
type Step struct {
	Name   string // approve, postpone, cancel or resolve
	For    time.Duration
	Reason string
	Answer bool
	Wait   bool
}

// Steer carries out a step. With Wait, it then shows the progress of the cutover.
func (o *Operator) Steer(ctx context.Context, s Step) error {
	if err := o.open(ctx, "cutover "+s.Name); err != nil {
		return err
	}
	defer o.Close()
	now := o.Now(ctx)
	_, err := o.Ledger.UpdateCutover(ctx, o.signed(func(c *checkpoint.Cutover) error {
		switch s.Name {
		case "approve":
			return c.Approve(now)
		case "postpone":
			return c.Postpone(s.For, now)
		case "resolve":
			return c.Resolve(s.Answer, now)
		}
		if s.Reason == "" {
			s.Reason = "by an operator"
		}
		return c.Cancel(s.Reason, now)
	}))
	if err != nil {
		return explain(ctx, "cannot "+s.Name+" the cutover of "+o.Cfg.Name, err)
	}
	if !s.Wait {
		return o.shown(ctx)
	}
	hooks, err := o.hooks(true)
	if err != nil {
		return err
	}
	return o.follow(ctx, hooks, s.Name != "cancel")
}

// following is the state of a command that shows the progress of a cutover.
type following struct {
	*Operator
	hooks   cutover.Hooks
	watch   *checkpoint.Watch // watch of the driver's lease
	began   time.Duration
	lines   int           // number of lines of the timeline that were written
	told    time.Duration // when the last line about a wait was written
	drives  bool
	ended   task.Event    // set when the driver in this process has ended
	settled time.Duration // when the interrupt came; 0 if there was none
}

// follow writes the progress of the cutover until there is nothing left to wait for. If no worker
// drives the cutover, this process drives it. If `must` is true, a cancelled cutover is an error.
func (o *Operator) follow(ctx context.Context, hooks cutover.Hooks, must bool) error {
	f := &following{Operator: o, hooks: hooks, watch: o.Ledger.NewWatch(), began: task.Mono(ctx)}
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g := task.NewGroup(inner, 0)
	g.Go("follow the cutover", func(inner context.Context) error {
		defer stop()
		return f.loop(ctx, inner, g)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return explain(ctx, "cannot follow the cutover of "+o.Cfg.Name, err)
	}
	return o.conclude(context.WithoutCancel(ctx), ctx, must)
}

// conclude writes the state of the cutover, and returns the outcome.
func (o *Operator) conclude(ctx, outer context.Context, must bool) error {
	limited, cancel := task.WithTimeout(ctx, takeOverAfter)
	defer cancel()
	c, err := o.Ledger.Cutover(limited)
	if err != nil {
		return explain(ctx, "cannot read the ledger in table "+o.Cfg.State.Table, err)
	}
	if err := o.shown(limited); err != nil {
		return err
	}
	switch {
	case c.Step == checkpoint.CutoverCancelled && c.NoMoment && must:
		return &diag.Error{Code: diag.NoMoment, What: "the cutover of " + o.Cfg.Name + " found no moment for a short freeze", Cause: c.Reason,
			Fix: "start again with a longer --timeout, or raise cutover.freeze_at_most"}
	case c.Step == checkpoint.CutoverCancelled && must:
		return &diag.Error{Code: diag.CutoverCancelled, What: "the cutover of " + o.Cfg.Name + " was cancelled", Cause: c.Reason,
			Fix: "fix the cause, then start again; replicator cutover status shows what happened" + o.With}
	case outer.Err() != nil:
		return terminal.Ended(outer)
	}
	return nil
}

// loop reads the record regularly. The context `outer` ends with the command, and `inner` ends with
// the loop.
func (f *following) loop(outer, inner context.Context, g *task.Group) error {
	for inner.Err() == nil {
		c, err := f.Ledger.Cutover(inner)
		if err == nil {
			f.tell(inner, c)
			over := c.Step.Over() || c.Step == checkpoint.CutoverDone
			if over {
				f.letGo(inner)
			}
			if over || c.Step.Switched() && !f.drives {
				return nil
			}
			if err := f.takeOver(inner, c, g); err != nil {
				return err
			}
		}
		rest := time.Second
		if outer.Err() != nil {
			if f.interrupted(inner, c) {
				return nil
			}
			rest /= 10 // after an interrupt, react sooner
		}
		_ = task.Sleep(inner, rest)
	}
	return nil
}

// letGo waits until the driver in this process has released its lease. Otherwise the next attempt
// would have to wait until the lease expires.
func (f *following) letGo(ctx context.Context) {
	if !f.drives {
		return
	}
	limited, cancel := task.WithTimeout(ctx, takeOverAfter)
	defer cancel()
	_ = f.ended.Wait(limited)
}

// tell writes what is new about the cutover: new lines of the timeline, and from time to time the
// condition for which it waits.
func (f *following) tell(ctx context.Context, c checkpoint.Cutover) {
	for ; f.lines < len(c.Timeline); f.lines++ {
		e := c.Timeline[f.lines]
		_, _ = fmt.Fprintf(f.Stderr, "%s  %-10s  %s\n", e.At.Format(time.TimeOnly), e.Step, e.Text)
	}
	if c.Step.Over() || c.Trouble == "" && c.FreezeBegunAt.IsZero() || task.Mono(ctx)-f.told < tellEvery {
		return
	}
	f.told = task.Mono(ctx)
	text := c.Trouble
	if !c.FreezeBegunAt.IsZero() && c.UnfrozenAt.IsZero() && !c.Step.Switched() {
		text = strings.TrimSuffix("writes frozen for "+timespan.Format(c.FrozenFor(f.Now(ctx)).Round(time.Second))+"; "+text, "; ")
	}
	_, _ = fmt.Fprintf(f.Stderr, "%s  %-10s  %s\n", f.Now(ctx).Format(time.TimeOnly), c.Step, text)
}

// takeOver starts a driver in this process if no worker drives. The probe of all hooks must pass
// first.
func (f *following) takeOver(ctx context.Context, c checkpoint.Cutover, g *task.Group) error {
	if f.drives || c.Step == checkpoint.CutoverRequested && !c.Approved {
		return nil
	}
	lease, err := f.Ledger.CoordinatorLease(ctx, checkpoint.CutoverLease)
	if err != nil || !f.watch.CoordinatorLeaseFree(lease, task.Mono(ctx)) || task.Mono(ctx)-f.began < takeOverAfter {
		return nil // the next pass tries again
	}
	ask := f.Connect
	// A cancel must let the application write again, even if the source does not answer.
	if c.Step == checkpoint.CutoverCancelling {
		ask = f.Reach
	}
	if err := ask(ctx); err != nil {
		return explain(ctx, "cannot drive the cutover of "+f.Cfg.Name, err)
	}
	d := Driver(f.ends(), f.hooks)
	d.Failed = func(step string, err error) { _, _ = fmt.Fprintf(f.Stderr, "cannot %s: %v\n", step, err) }
	if f.hooks != nil {
		if err := d.Probe(ctx, c.Tables); err != nil {
			_, cancelled := f.Ledger.UpdateCutover(ctx, func(c *checkpoint.Cutover) error {
				return c.Cancel("neither a worker nor this command can call the hooks", f.Now(ctx))
			})
			return errors.Join(explain(ctx, "", err), cancelled)
		}
	}
	f.drives, f.ended = true, task.NewEvent(ctx)
	_, _ = fmt.Fprintln(f.Stderr, "no worker can drive the cutover, so this process does; it must run until the watch for late writers ends")
	g.Go("drive the cutover", func(ctx context.Context) error {
		defer f.ended.Set()
		return d.Run(ctx, func(c checkpoint.Cutover) bool { return c.Step.Over() || c.Step == checkpoint.CutoverDone })
	})
	return nil
}

// interrupted reports whether the command may end after an interrupt. If this process drives, it
// first cancels the cutover, so that the application can write again. It retries until the cancel
// is in the ledger.
func (f *following) interrupted(ctx context.Context, c checkpoint.Cutover) bool {
	if !f.drives {
		return true
	}
	now := task.Mono(ctx)
	if f.settled == 0 {
		f.settled = max(now, 1)
	}
	if c.Step.Cancellable() || c.NextTry {
		_, err := f.Ledger.UpdateCutover(ctx, func(c *checkpoint.Cutover) error { return c.Cancel("its driver was interrupted", f.Now(ctx)) })
		if err == nil {
			_, _ = fmt.Fprintln(f.Stderr, "interrupted: the cutover is cancelled, and the application resumes")
		}
	}
	return c.Step.Switched() || now-f.settled > interruptGrace
}
