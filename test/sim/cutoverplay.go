package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// play is the script.
func (d *cutoverRun) play(ctx context.Context) {
	for range 5 + d.rng.IntN(10) {
		d.write()
	}
	d.workers.hire(1 + d.rng.IntN(2))
	d.drivers.hire(2)
	if d.topic != nil {
		d.appliers.hire(1 + d.rng.IntN(2))
	}
	for _, g := range d.groups {
		d.World.Go("application", g.use)
		d.World.Go("operator", g.operate)
	}
	d.World.Go("retention", d.forget)
	if !d.o.Calm {
		d.World.Go("faults", d.trouble)
	}
	for _, g := range d.groups {
		if g.forgets {
			d.World.Go("somebody forgotten", g.forgotten)
		}
	}
	length := time.Duration(60+d.rng.IntN(90)) * time.Minute
	for d.World.Elapsed() < length && len(d.failures) == 0 && !d.everyGroup((*cutoverRun).ended) {
		d.minute(ctx)
	}
	for _, g := range d.groups {
		g.peaceful = true
	}
	rest := 15 // minutes, for requests that are late
	if d.pattern {
		rest = 40
	}
	for range rest {
		d.minute(ctx)
	}
	err := d.settled()
	for end := max(d.workers.rested(), d.drivers.rested(), d.appliers.rested()) + 8*time.Hour; err != nil && d.World.Elapsed() < end && len(d.failures) == 0; err = d.settled() {
		d.minute(ctx)
	}
	if err != nil && len(d.failures) == 0 {
		d.fail("H92: %v", err)
	}
}

// minute lets a minute pass.
func (d *cutoverRun) minute(ctx context.Context) {
	_ = task.Sleep(ctx, time.Minute)
	for _, g := range d.groups {
		g.checks.attends()
	}
	d.stage()
	cutOver := func(w *Worker) bool { return errors.Is(w.Err, checkpoint.ErrCutOver) }
	for _, c := range []*crew{d.workers, d.appliers} {
		for _, w := range c.all {
			if w.Over && !w.Dead() && w.Err != nil && !cutOver(w) {
				d.fail("I10: %s ended by itself: %v", w.Name(), w.Err)
			}
		}
		c.replace(cutOver)
	}
	d.drivers.replace(cutOver)
	for _, g := range d.groups {
		g.spoils()
	}
}

// spoils has data lost, hurt, or not mappable, when it is time for that.
func (d *cutoverRun) spoils() {
	now := d.World.Elapsed()
	if d.lossAt > 0 && now > d.lossAt {
		d.lossAt = 0
		d.World.Go("loss", d.lose)
	}
	if d.early && now > 15*time.Minute && d.spoilEarly() {
		d.early = false
	}
	if d.hurtAt > 0 && now > d.hurtAt && d.hurt() {
		d.hurtAt = 0
	}
}

// use is the application, which writes all the time.
func (d *cutoverRun) use(ctx context.Context) {
	for task.Sleep(ctx, d.World.UpTo(2*d.every)) == nil {
		if d.Late == 0 || !d.peaceful { // else what it wrote last is settled before the last look
			d.write()
		}
	}
}

// settled returns what a group still waits for, or what is wrong with it.
func (d *cutoverRun) settled() error {
	for _, g := range d.groups {
		if err := g.checks.settled(); err != nil {
			return err
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
		for task.Sleep(ctx, time.Minute) == nil {
			var err error
			if ledger == nil {
				if ledger, err = d.ledger(ctx, "operator"); err != nil {
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
	c, err := ledger.Cutover(ctx, d.row)
	if err != nil {
		return err
	}
	update := func(change func(c *checkpoint.Cutover) error) error {
		_, err := ledger.UpdateCutover(ctx, d.row, change)
		return err
	}
	for _, t := range d.tables {
		if t.State().Load.Sweep.Waiting { // of few items it would remove many
			d.World.Inject("sweep approved")
			_, err := ledger.ApproveSweep(ctx, t.Source.Name)
			return err
		}
	}
	switch {
	case c.Step == checkpoint.CutoverRequested && p < 0.1 && !d.peaceful:
		d.World.Inject("cutover postponed")
		return update(func(c *checkpoint.Cutover) error { return c.Postpone(3*time.Minute, now) })
	case c.Step == checkpoint.CutoverRequested && !c.Approved:
		d.World.Inject("cutover approved")
		return update(func(c *checkpoint.Cutover) error { return c.Approve(now) })
	case c.Step.Cancellable() && p < 0.06 && !d.peaceful && !d.o.Calm:
		d.World.Inject("cutover cancelled")
		return update(func(c *checkpoint.Cutover) error { return c.Cancel("an operator", now) })
	case c.Step == checkpoint.CutoverSwitching && c.Answer == "" && now.Sub(c.StepAt) > 10*time.Minute && (d.app.switched || d.app.underWay == 0):
		d.World.Inject("cutover resolved: " + map[bool]string{true: "yes", false: "no"}[d.app.switched])
		return update(func(c *checkpoint.Cutover) error { return c.Resolve(d.app.switched, now) })
	case !c.Step.Over() || d.peaceful:
		return nil
	}
	return d.begin(ctx, ledger, p, now)
}

// begin starts a cutover, or verifies first.
func (d *cutoverRun) begin(ctx context.Context, ledger *checkpoint.Ledger, p float64, now time.Time) error {
	for _, t := range d.tables {
		if state := t.State(); t.there() && (!state.Loaded() || state.Verify.Running()) {
			return nil
		}
	}
	if d.follows && !d.main.record().Step.Over() {
		return nil
	}
	driver, plan := d.driver(ledger), d.plan(p)
	all, err := ledger.Cutovers(ctx)
	if err != nil {
		return err
	}
	plan.After = all.Last()
	gates, err := driver.Gates(ctx, plan, now)
	if err != nil {
		return err
	}
	if open := readiness.Open(gates); len(open) > 0 {
		g := open[0]
		if g.Name == readiness.GateVerify || g.Name == readiness.GateFull {
			_, err := driver.Verifier.Begin(ctx, d.tables.named(g.Table).State())
			return err
		}
		d.World.Tracef("gate %s of %s: %s", g.Name, g.Table, g.Figure)
		return nil
	}
	d.began = d.State().Generation
	_, err = ledger.UpdateCutover(ctx, d.row, func(c *checkpoint.Cutover) error { return c.Start(plan, now) })
	return err
}

// verifyWithin is the deadline of the final verify.
const verifyWithin = 15 * time.Minute

func (d *cutoverRun) plan(p float64) checkpoint.CutoverPlan {
	plan := checkpoint.CutoverPlan{
		Group: d.row, FenceFirst: int(p*10000)%4 == 0,
		Hash: "h1", Rehearse: p > 0.9 && !d.o.Calm, WhenReady: p < 0.5, Approved: p < 0.3, WatchFor: d.watchFor,
		FreezeWithin: 3 * time.Minute, FreezeDeadline: verifyWithin + 10*time.Minute + 2*d.Late,
		Expires: d.World.Now().Add(time.Hour),
		// The world is slower than the services: pages are a quarter of a minute apart.
		FreezeAtMost: 90*time.Second + d.Late, UnlessQuiet: d.Late, FenceUnlessQuiet: int(p*1e6)%2 == 0, ListingBound: listedWithin, MomentWithin: 30 * time.Minute, Tries: cmp.Or(d.tries, 1+int(p*1e5)%3),
	}
	if d.pattern {
		plan.Patterns = []string{d.patternOf()}
	}
	for _, t := range d.tables {
		if t.there() {
			plan.Tables, plan.Targets = append(plan.Tables, t.Source.Name), append(plan.Targets, t.Mapping.Table)
		}
	}
	if (int(p*1000)%3 == 0 || d.plays("differs")) && !d.o.Calm {
		for _, gate := range []string{readiness.GateVerify, readiness.GateParked} {
			plan.Overrides = append(plan.Overrides, checkpoint.CutoverOverride{Gate: gate, Reason: fmt.Sprint("at ", p)})
		}
	}
	return plan
}
