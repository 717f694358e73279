package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// cutoverApp is the application behind the hooks, with the wrapper that refuses old tokens.
type cutoverApp struct {
	run                         *cutoverRun
	frozen, switched            bool
	top                         [3]int
	refuses, loses, late, hangs float64
	underWay                    int // calls that are still to arrive
}

// Call implements cutover.Hooks.
func (a *cutoverApp) Call(ctx context.Context, call cutover.Call) (string, cutover.Outcome) {
	w := a.run.World
	if call.Probe {
		return "", cutover.HookDone
	}
	a.underWay++ // also while whoever calls stands still
	defer func() { a.underWay-- }()
	if err := task.Sleep(ctx, w.UpTo(3*time.Second)); err != nil {
		return "killed", cutover.HookUnknown
	}
	refuses, loses, late, hangs := a.refuses, a.loses, a.late, a.hangs
	if o := a.run.o; o.Strike == "hook" && string(o.Step) == call.Step && a.run.struck < 4 {
		a.run.struck++
		refuses, loses, late, hangs = 0.25, 0.25, 0.25, 0.25
	}
	if a.run.peaceful {
		refuses, loses, late, hangs = 0, 0, 0, 0
	}
	switch p := w.Rand().Float64(); {
	case p < refuses:
		w.Inject("hook refused")
		if a.arrive(call, true) {
			return "done", cutover.HookDone
		}
		return "no", cutover.HookRefused
	case p < refuses+loses:
		w.Inject("hook's answer lost")
		a.arrive(call, false)
		return "timeout", cutover.HookUnknown
	case p < refuses+loses+late:
		w.Inject("hook late")
		a.underWay++
		w.After(w.UpTo(20*time.Minute), func() { a.underWay--; a.arrive(call, false) })
		return "timeout", cutover.HookUnknown
	case p < refuses+loses+late+hangs:
		w.Inject("hook hangs")
		_ = task.Sleep(ctx, time.Hour)
		return "timeout", cutover.HookUnknown
	}
	if !a.arrive(call, false) {
		return "old token", cutover.HookUnknown
	}
	if err := task.Sleep(ctx, w.UpTo(time.Second)); err != nil {
		return "killed", cutover.HookUnknown
	}
	return "done", cutover.HookDone
}

// arrive executes a call; false if its token is old.
func (a *cutoverApp) arrive(call cutover.Call, fails bool) bool {
	var token [3]int
	if _, err := fmt.Sscanf(call.Token, "%d.%d.%d", &token[0], &token[1], &token[2]); err != nil {
		panic(err)
	}
	if slices.Compare(token[:], a.top[:]) < 0 {
		a.run.World.Inject("old token refused")
		return false
	}
	a.top = token
	if fails && !(call.Hook == cutover.Switch && a.switched) { // a hook that has switched says so for ever
		return false
	}
	a.run.World.Tracef("HOOK %s %s", call.Hook, call.Token)
	switch call.Hook {
	case cutover.FreezeWrites:
		a.frozen = true
	case cutover.UnfreezeWrites:
		if a.switched {
			a.run.fail("H109: the application is told to go on with the source after it has switched")
		}
		a.frozen = false
	case cutover.Switch:
		a.check()
		a.switched = true
	}
	return true
}

// check looks at the world at the moment of the switch.
func (a *cutoverApp) check() {
	if a.switched {
		return
	}
	c := a.run.record()
	switch diff := a.run.unlike(c.Attempt); {
	case c.Step != checkpoint.CutoverSwitching:
		a.run.fail("H109: the application switches while the cutover stands at %s", c.Step)
	case !a.frozen:
		a.run.fail("H93: the application switches without having been frozen")
	case len(cutover.Open(c.Gates)) > 0 || len(c.Gates) == 0:
		a.run.fail("I9: the application switches with an open gate")
	case len(diff) > 0:
		a.run.fail("H59: the application switches while source and target differ: %s", diff[0])
	}
}

// play is the script.
func (d *cutoverRun) play(ctx context.Context) {
	for range 5 + d.rng.IntN(10) {
		d.write()
	}
	for range 1 + d.rng.IntN(2) {
		d.hire()
	}
	d.drive()
	d.drive()
	d.World.Go("application", func(ctx context.Context) {
		for task.Sleep(ctx, d.World.UpTo(2*d.every)) == nil {
			d.write()
		}
	})
	d.World.Go("operator", d.operate)
	if !d.o.Calm {
		d.World.Go("faults", d.trouble)
	}
	if d.forgets {
		d.World.Go("somebody forgotten", d.forgotten)
	}
	length := time.Duration(2+d.rng.IntN(4)) * time.Hour
	for d.World.Elapsed() < length && len(d.failures) == 0 {
		_ = task.Sleep(ctx, time.Minute)
		d.replace()
	}
	d.peaceful = true
	d.app.refuses, d.app.loses, d.app.late, d.app.hangs = 0, 0, 0, 0
	err := d.settled()
	for end := d.World.Elapsed() + 8*time.Hour; err != nil && d.World.Elapsed() < end && len(d.failures) == 0; err = d.settled() {
		_ = task.Sleep(ctx, time.Minute)
		d.replace()
	}
	if err != nil && len(d.failures) == 0 {
		d.fail("H92: %v", err)
	}
}

// replace starts processes in the place of those that are gone.
func (d *cutoverRun) replace() {
	for i, w := range d.workers {
		if w.Over && !w.Dead() && w.Err != nil {
			d.fail("I10: %s ended by itself: %v", w.Name(), w.Err)
		}
		if w.Dead() {
			d.workers = slices.Delete(d.workers, i, i+1)
			d.hire()
			return
		}
	}
	d.drivers = slices.DeleteFunc(d.drivers, (*virtual.Process).Dead)
	for len(d.drivers) < 2 {
		d.drive()
	}
}

// settled tells whether the application writes, and what it writes is where it should be.
func (d *cutoverRun) settled() error {
	c := d.record()
	switch {
	case c.Step.Active():
		return fmt.Errorf("the cutover stands at %s: %s", c.Step, c.Trouble)
	case c.Step == checkpoint.CutoverDone && !d.app.switched:
		return fmt.Errorf("the cutover is done, and the application has not switched")
	case c.Step == checkpoint.CutoverDone:
		return d.known(c)
	case d.app.frozen || d.app.switched:
		return fmt.Errorf("after %s the application is frozen, or has switched", c.Step)
	case d.began > 0 && len(d.Gaps) == 0 && d.State().Generation != d.began:
		return fmt.Errorf("the generation rose from %d to %d", d.began, d.State().Generation)
	}
	if diff := d.unlike(0); len(diff) > 0 {
		return fmt.Errorf("%s: %s", c.Step, diff[0])
	}
	return nil
}

// known tells whether every change after the freeze is known.
func (d *cutoverRun) known(c checkpoint.Cutover) error {
	for _, of := range d.strayed {
		if of == c.Attempt && c.Strays == 0 {
			return fmt.Errorf("H94: somebody wrote to the source after the switch, and nobody knows")
		}
	}
	return nil
}

// operate is the operator: he verifies, starts, and decides.
func (d *cutoverRun) operate(ctx context.Context) {
	rng := d.World.Rand()
	p := d.World.NewProcess("operator")
	p.Go("operate", func() {
		ctx := p.Context()
		var ledger *checkpoint.Ledger
		for task.Sleep(ctx, 20*time.Second) == nil {
			var err error
			if ledger == nil {
				ledger, err = checkpoint.Open(ctx, d.Store(), "default", checkpoint.Options{Worker: "operator", Lease: d.Lease, ReadOnly: true})
				if err != nil {
					ledger = nil
					continue
				}
			}
			if err = d.decide(ctx, ledger, rng.Float64()); err != nil {
				d.World.Tracef("operator: %v", err)
			}
		}
	})
}

// decide does the next thing.
func (d *cutoverRun) decide(ctx context.Context, ledger *checkpoint.Ledger, p float64) error {
	now := d.World.Now()
	c, err := ledger.Cutover(ctx)
	if err != nil {
		return err
	}
	update := func(change func(c *checkpoint.Cutover) error) error {
		_, err := ledger.UpdateCutover(ctx, change)
		return err
	}
	switch {
	case c.Step == checkpoint.CutoverRequested && p < 0.1 && !d.peaceful:
		d.World.Inject("cutover postponed")
		return update(func(c *checkpoint.Cutover) error { return c.Postpone(3*time.Minute, now) })
	case c.Step == checkpoint.CutoverRequested && !c.Approved:
		d.World.Inject("cutover approved")
		return update(func(c *checkpoint.Cutover) error { return c.Approve(now) })
	case c.Step.Cancellable() && p < 0.04 && !d.peaceful && !d.o.Calm:
		d.World.Inject("cutover cancelled")
		return update(func(c *checkpoint.Cutover) error { return c.Cancel("an operator", now) })
	case c.Step == checkpoint.CutoverSwitching && now.Sub(c.StepAt) > 10*time.Minute && (d.app.switched || d.app.underWay == 0):
		d.World.Inject("cutover resolved")
		return update(func(c *checkpoint.Cutover) error { return c.Resolve(d.app.switched, now) })
	case !c.Step.Over() || d.peaceful:
		return nil
	}
	state, _, err := ledger.Table(ctx, d.Source.Name)
	if err != nil || !state.Loaded() || state.Verify.Running() {
		return err
	}
	driver := d.driver(ledger)
	plan := d.plan(p)
	gates, err := driver.Gates(ctx, plan, now)
	if err != nil {
		return err
	}
	switch open := cutover.Open(gates); {
	case len(open) > 0 && (open[0].Name == cutover.GateVerify || open[0].Name == cutover.GateFull):
		_, err := driver.Verifier.Begin(ctx, state)
		return err
	case len(open) > 0:
		d.World.Tracef("gate %s: %s", open[0].Name, open[0].Figure)
		return nil
	}
	d.began = state.Generation
	return update(func(c *checkpoint.Cutover) error { return c.Start(plan, now) })
}

func (d *cutoverRun) plan(p float64) checkpoint.CutoverPlan {
	return checkpoint.CutoverPlan{
		Tables: []string{d.Source.Name}, Targets: d.Mapping.Tables(), Hash: "h1", Rehearse: p > 0.9 && !d.o.Calm, WhenReady: p < 0.5, Approved: p < 0.3, WatchFor: d.watchFor,
		Deadlines: checkpoint.CutoverDeadlines{Freeze: 3 * time.Minute, Drain: 12 * time.Minute, Verify: 15 * time.Minute, Fence: 6 * time.Minute},
		Expires:   d.World.Now().Add(time.Hour),
	}
}

// trouble does to workers, drivers and shards what happens to them.
func (d *cutoverRun) trouble(ctx context.Context) {
	rng := d.World.Rand()
	for !d.peaceful && task.Sleep(ctx, d.World.UpTo(15*time.Minute)) == nil && !d.peaceful {
		switch kind := rng.IntN(7); kind {
		case 0, 1, 2:
			i := rng.IntN(len(d.workers))
			w := d.workers[i]
			switch kind {
			case 0:
				w.Kill()
			case 1:
				w.Pause(d.World.UpTo(3 * time.Hour))
			case 2:
				d.World.Go("stop", func(ctx context.Context) { _ = w.Stop(ctx) })
			}
			if kind != 1 {
				d.workers = slices.Delete(d.workers, i, i+1)
			}
			d.hire()
		case 3:
			d.World.Inject("shard rolled")
			open := d.Source.Stream().Open()
			d.Source.Stream().Roll(open[rng.IntN(len(open))])
		case 4:
			if open := d.Source.Stream().Open(); len(open) < 6 {
				d.World.Inject("shard split")
				d.Source.Stream().Split(open[rng.IntN(len(open))])
			}
		case 5:
			d.drivers[rng.IntN(len(d.drivers))].Pause(d.World.UpTo(2 * time.Hour))
		case 6:
			d.drivers[rng.IntN(len(d.drivers))].Kill()
		}
	}
}

// forgotten writes to the source although everybody else has stopped.
func (d *cutoverRun) forgotten(ctx context.Context) {
	for !d.peaceful && task.Sleep(ctx, d.World.UpTo(3*time.Minute)) == nil {
		if !d.app.frozen && !d.app.switched || d.World.Rand().IntN(3) > 0 {
			continue
		}
		key := fmt.Sprintf("forgotten%d", d.World.Rand().IntN(3))
		d.World.Inject("write after the freeze")
		switch c := d.record(); {
		case c.Step == checkpoint.CutoverWatching && !c.SwitchedAt.Add(c.WatchFor-time.Minute).After(d.World.Now()), c.Step == checkpoint.CutoverDone:
			continue
		case c.Step == checkpoint.CutoverVerify, c.Step == checkpoint.CutoverFence, c.Step == checkpoint.CutoverSwitching, c.Step == checkpoint.CutoverWatching:
			d.World.Inject("write too late to cancel")
			d.strayed[key] = c.Attempt
		}
		d.written++
		d.put(key, false)
	}
}
