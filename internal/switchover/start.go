package switchover

import (
	"cmp"
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
	groups, err := o.toStart()
	if err != nil {
		return err
	}
	plans := make([]checkpoint.CutoverPlan, len(groups))
	var targets []string
	for i := range groups {
		if plans[i], err = o.propose(ctx, &groups[i], r); err != nil {
			return err
		}
		targets = append(targets, plans[i].Targets...)
	}
	if !plans[0].Approved && !r.WhenReady {
		if o.Confirm == nil {
			return diag.BadUsage("switching the application needs confirmation, but there is no terminal", "add --yes, or add --when-ready and approve later")
		}
		if err := o.Confirm(ctx, "Stop the application's writes, and switch it to "+strings.Join(targets, ", ")+"?"+limits(plans)); err != nil {
			return err
		}
	}
	for i, g := range groups {
		plans[i].Approved = plans[i].Approved || !r.WhenReady
		start := func(c *checkpoint.Cutover) error { return c.Start(plans[i], o.Now(ctx)) }
		if _, err := o.Ledger.UpdateCutover(ctx, g.Row, o.signed(start)); err != nil {
			return explain(ctx, "cannot start the cutover of "+o.of(g), err)
		}
	}
	if !r.Wait {
		return o.shown(ctx, groups)
	}
	return o.follow(ctx, groups, hooks, true, checkpoint.Forward)
}

// propose returns the plan of the cutover of a group, and shows its gates. It refuses an impossible
// request before it asks the operator.
func (o *Operator) propose(ctx context.Context, g *group, r Request) (plan checkpoint.CutoverPlan, err error) {
	now := o.Now(ctx)
	plan = planOf(o.Cfg, g.Group, r, now)
	plan.Version, plan.By = o.Version, o.Ledger.Worker()
	plan.After = o.Cutovers().Last()
	what := "cannot start the cutover of " + o.of(*g)
	if c := g.record; c.Row != g.Row && !c.Step.Over() { // of a configuration with other groups
		err = (&c).Start(plan, now)
	}
	g.record = checkpoint.Cutover{Row: g.Row}
	before, failed := o.asOfNow(ctx, *g)
	if err = errors.Join(err, failed); err == nil {
		err = (&before).Start(plan, now)
	}
	for _, other := range o.Cutovers() {
		if err == nil && other.Row != g.Row && other.Step.Active() && other.Clashes(plan) {
			err = &checkpoint.CutoverError{Step: "start", Reason: "a cutover of group " + other.Group + ", which has some of these tables, is running", Cure: "wait for its end: replicator cutover status" + o.With}
		}
	}
	if err != nil {
		return plan, explain(ctx, what, err)
	}
	back, err := o.wayBack(ctx, *g, plan.KeepFallback)
	if err != nil {
		return plan, err
	}
	d, err := o.document(ctx, *g, &plan, back)
	if err != nil {
		return plan, err
	}
	plan.Lossy = lossy(d.WayBack)
	if !o.AsJSON() {
		if err := o.Console.Show(o.Stderr, func(w io.Writer) error { return d.render(w, false) }); err != nil {
			return plan, err
		}
	}
	if plan.KeepFallback {
		if err := o.keepFallback(*g, back, &plan); err != nil {
			return plan, err
		}
	}
	if err := o.freezable(ctx, *g); err != nil {
		return plan, err
	}
	if open := d.verdict(o.with(*g)); open != nil && !r.WhenReady {
		return plan, open
	}
	return plan, nil
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

func (o *Operator) shown(ctx context.Context, groups []group) error {
	for _, g := range groups {
		d, err := o.document(ctx, g, nil, nil)
		if err == nil {
			err = o.write(d, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	groups, err := o.toSteer(s.Name, func(c *checkpoint.Cutover) bool { // a copy is asked
		probe := c.Current()
		return probe.Step.Active() && s.on(&probe, now) == nil
	})
	if err != nil {
		return err
	}
	for _, g := range groups {
		on := o.signed(func(c *checkpoint.Cutover) error { return s.on(c, now) })
		if _, err := o.Ledger.UpdateCutover(ctx, g.record.Row, func(c *checkpoint.Cutover) error { return c.Steer(on) }); err != nil {
			return explain(ctx, "cannot "+s.Name+" the cutover of "+o.of(g), err)
		}
	}
	if !s.Wait {
		return o.shown(ctx, groups)
	}
	hooks, err := o.hooks(true)
	if err != nil {
		return err
	}
	current := groups[0].record.Current()
	return o.follow(ctx, groups, hooks, s.Name != "cancel", current.Direction)
}

// on carries out the action on the record of a cutover.
func (s Step) on(c *checkpoint.Cutover, now time.Time) error {
	switch s.Name {
	case "approve":
		return c.Approve(now)
	case "postpone":
		return c.Postpone(s.For, now)
	case "resolve":
		return c.Resolve(s.Answer, now)
	}
	return c.Cancel(cmp.Or(s.Reason, "by an operator"), now)
}

// following is the state of a command that shows the progress of a cutover.
type following struct {
	*Operator
	group   group
	row     string // of the cutover's record
	hooks   cutover.Hooks
	watch   *checkpoint.Watch // watch of the driver's lease
	back    bool              // whether the rollback is followed
	began   time.Duration
	lines   int           // number of lines of the timeline that were written
	told    time.Duration // when the last line about a wait was written
	drives  bool
	ended   task.Event    // set when the driver in this process has ended
	settled time.Duration // when the interrupt came; 0 if there was none
}

// follow writes the progress of the cutovers of groups, side by side, until there is nothing left to wait
// for. If no worker drives a cutover, this process drives it. If `must` is true, a cancelled cutover
// is an error. With the direction Back, it follows the rollbacks.
func (o *Operator) follow(ctx context.Context, groups []group, hooks cutover.Hooks, must bool, to checkpoint.Direction) error {
	all := task.NewGroup(context.WithoutCancel(ctx), 0)
	failed := make([]error, len(groups))
	for i, g := range groups {
		row := g.Row
		if g.record.Attempt > 0 {
			row = g.record.Row
		}
		groups[i].record.Row = row
		all.Go("follow group "+g.Name, func(context.Context) error {
			failed[i] = o.followOne(ctx, g, row, hooks, to == checkpoint.Back)
			return nil // the others are still followed
		})
	}
	_ = all.Wait()
	for i, g := range groups {
		if failed[i] == nil {
			failed[i] = o.conclude(context.WithoutCancel(ctx), ctx, g, must, to == checkpoint.Back)
		}
	}
	return errors.Join(failed...)
}

// followOne follows the cutover of one group.
func (o *Operator) followOne(ctx context.Context, of group, row string, hooks cutover.Hooks, back bool) error {
	f := &following{Operator: o, back: back, group: of, row: row, hooks: hooks, watch: o.Ledger.NewWatch(), began: task.Mono(ctx)}
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g := task.NewGroup(inner, 0)
	g.Go("follow the cutover", func(inner context.Context) error {
		defer stop()
		return f.loop(ctx, inner, g)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return explain(ctx, "cannot follow the cutover of "+o.of(of), err)
	}
	return nil
}

// conclude writes the state of the cutover, and returns the outcome.
func (o *Operator) conclude(ctx, outer context.Context, g group, must, back bool) error {
	limited, cancel := task.WithTimeout(ctx, takeOverAfter)
	defer cancel()
	c, err := o.asOfNow(limited, g)
	if err != nil {
		return err
	}
	if err := o.shown(limited, []group{g}); err != nil {
		return err
	}
	if back {
		c = c.Undo()
	}
	switch {
	case back && c.Step == checkpoint.CutoverCancelled && must:
		return &diag.Error{Code: diag.CutoverCancelled, What: "the rollback of " + o.of(g) + " was cancelled", Cause: c.Reason,
			Fix: "the application still uses Bigtable, and DynamoDB follows; fix the cause, then: replicator cutover rollback" + o.with(g)}
	case c.Step == checkpoint.CutoverCancelled && c.NoMoment && must:
		return &diag.Error{Code: diag.NoMoment, What: "the cutover of " + o.of(g) + " found no suitable moment for a short freeze", Cause: c.Reason,
			Fix: "start again with a longer --timeout, or raise cutover.freeze_at_most"}
	case c.Step == checkpoint.CutoverCancelled && must:
		return &diag.Error{Code: diag.CutoverCancelled, What: "the cutover of " + o.of(g) + " was cancelled", Cause: c.Reason,
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
		c, err := f.Ledger.Cutover(inner, f.row)
		if f.back {
			c = c.Undo()
		}
		if err == nil {
			f.tell(inner, c)
			over := c.Step.Over() || c.Step == checkpoint.CutoverDone
			if over {
				f.letGo(inner)
			}
			if over || c.Step.Switched() && !f.drives && !f.back {
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
		f.line(e.At.Format(time.TimeOnly), e.Step, e.Text)
	}
	if c.Step.Over() || c.Trouble == "" && c.FreezeBegunAt.IsZero() || task.Mono(ctx)-f.told < tellEvery {
		return
	}
	f.told = task.Mono(ctx)
	text := c.Trouble
	if !c.FreezeBegunAt.IsZero() && c.UnfrozenAt.IsZero() && !c.Step.Switched() {
		text = strings.TrimSuffix("writes frozen for "+timespan.Format(c.FrozenFor(f.Now(ctx)).Round(time.Second))+"; "+text, "; ")
	}
	f.line(f.Now(ctx).Format(time.TimeOnly), c.Step, text)
}

// line writes a line about the cutover. It names the group if there are several.
func (f *following) line(at string, step any, text string) {
	of := ""
	if !f.group.alone {
		of = f.group.Name + "  "
	}
	_, _ = fmt.Fprintf(f.Stderr, "%s  %s%-10s  %s\n", at, of, step, text)
}

// takeOver starts a driver in this process if no worker drives. The probe of all hooks must pass
// first.
func (f *following) takeOver(ctx context.Context, c checkpoint.Cutover, g *task.Group) error {
	if f.drives || c.Step == checkpoint.CutoverRequested && !c.Approved {
		return nil
	}
	lease, err := f.Ledger.CoordinatorLease(ctx, checkpoint.CutoverLease(f.row))
	if err != nil || !f.watch.CoordinatorLeaseFree(lease, task.Mono(ctx)) || task.Mono(ctx)-f.began < takeOverAfter {
		return nil // the next pass tries again
	}
	ask := f.Connect
	// A cancel must let the application write again, even if the source does not answer.
	if c.Step == checkpoint.CutoverCancelling || f.back {
		ask = f.Reach
	}
	f.reaching.Lock() // the followers of other groups use the same clients
	err = ask(ctx)
	f.reaching.Unlock()
	if err != nil {
		return explain(ctx, "cannot drive the cutover of "+f.of(f.group), err)
	}
	d := Driver(f.ends(), f.hooks)
	d.Row = f.row
	d.Failed = func(step string, err error) { _, _ = fmt.Fprintf(f.Stderr, "cannot %s: %v\n", step, err) }
	if f.hooks != nil {
		if err := d.Probe(ctx, c); err != nil {
			_, cancelled := f.Ledger.InAttempt(ctx, c, func(c *checkpoint.Cutover) error {
				return c.Cancel("neither a worker nor this command can call the hooks", f.Now(ctx))
			})
			return errors.Join(explain(ctx, "", err), cancelled)
		}
	}
	f.drives, f.ended = true, task.NewEvent(ctx)
	_, _ = fmt.Fprintln(f.Stderr, "no worker can drive the cutover, so this process does; it must run until the watch for late writers ends")
	driven, leave := context.WithCancel(ctx)
	if f.Source != nil {
		leaders := &Leaders{Ends: f.ends(), Failed: func(step, table string, err error) { d.Failed(step+" of "+table, err) }}
		g.Go("lead the ways back", func(ctx context.Context) error { return leaders.Run(ctx, driven) })
	}
	g.Go("drive the cutover", func(ctx context.Context) error {
		defer f.ended.Set()
		defer leave()
		return d.Run(ctx, func(c checkpoint.Cutover) bool {
			if f.back {
				return !c.RollingBack()
			}
			return c.Step.Over() || c.Step == checkpoint.CutoverDone
		})
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
		_, err := f.Ledger.UpdateCutover(ctx, f.row, func(c *checkpoint.Cutover) error {
			return c.Steer(func(c *checkpoint.Cutover) error { return c.Cancel("its driver was interrupted", f.Now(ctx)) })
		})
		if err == nil {
			_, _ = fmt.Fprintln(f.Stderr, "interrupted: the cutover is cancelled, and the application resumes")
		}
	}
	return c.Step.Switched() || now-f.settled > interruptGrace
}
