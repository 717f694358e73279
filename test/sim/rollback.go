package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// rollingBack is a run with rollbacks: the way back of simulateFallback, with drivers of the cutover,
// hooks, an operator, and an application that is moved there and back twice.
type rollingBack struct {
	*followBack
	drivers []*virtual.Process
	app     movedApp
	planned uint32 // the attempt of the last cutover
	moved   int    // how often a rollback has moved the application
}

// movedApp is the application. It writes one store at a time. Every write that succeeded must be in
// the store to which it is moved.
type movedApp struct {
	frozen   bool
	onSource bool
	token    [3]int            // the highest that a call had
	written  map[string]string // what it has written last, by key
	fail     float64           // share of calls that fail before or after they act
	refuse   float64
	hang     float64
}

// simulateRollback plays two rollbacks of one table, with a cutover between them.
func simulateRollback(seed uint64, trace bool) (r Report) {
	w := virtual.NewWorld(seed, simEpoch, trace)
	w.StepLimit = stepLimit
	rng := stream(seed, "rollback")
	part := func(most float64) float64 { return most * rng.Float64() }
	p := &rollingBack{followBack: &followBack{world: w, target: newFollowedTable(w), store: &checkpointtest.Memory{}, keys: []string{"c", "h", "t"}[:1+rng.IntN(3)]}}
	p.source = &followingItems{
		world: w, values: map[string]string{}, window: 5 * time.Minute, execution: 90 * time.Second,
		late: part(0.4), lose: part(0.15), refuse: part(0.3), twice: part(0.1),
	}
	p.app = movedApp{onSource: true, written: map[string]string{}, fail: part(0.5), refuse: part(0.2), hang: part(0.1)}
	defer func() {
		r = Report{Seed: seed, Failures: p.failures, Injected: w.Injected(), Elapsed: w.Elapsed(), Steps: w.Steps(), Trace: w.Trace()}
		if failed := recover(); failed != nil {
			r.Failures = append(r.Failures, fmt.Sprintf("panic: %v", failed))
		}
	}()
	if err := w.Run(30*24*time.Hour, p.play); err != nil {
		p.failf("I10", "%v", err)
	}
	return r
}

func (p *rollingBack) play(ctx context.Context) {
	p.ctx, p.ledger = ctx, p.open(ctx, "operator")
	p.ledger.Heard(ctx, p.source.clock())
	p.mayWrite = func(ctx context.Context, l *checkpoint.Ledger, attempt uint32) (bool, error) {
		c, err := l.Cutover(ctx, "")
		return c.Attempt == attempt && c.HasFallback(), err
	}
	p.must(p.ledger.UpdateTable(ctx, "S", func(s *checkpoint.TableState) error { s.Generation, s.Base = 1, 1; return nil }))
	p.hire()
	p.hire()
	p.drive()
	p.drive()
	for round := range 2 {
		p.cutOver()
		for range 12 {
			p.disturbAll()
		}
		if !p.rollBack(round) || len(p.failures) > 0 {
			return
		}
		p.writeSource()
	}
	p.checkEnd()
}

func (p *rollingBack) must(_ any, err error) {
	if err != nil {
		p.failf("I10", "write the ledger: %v", err)
	}
}

// cutOver moves the application to the target. Forward replication is not played: at the switch the
// rows equal the items, and its writes of the rows are in the change stream.
func (p *rollingBack) cutOver() {
	for key := range mergedMaps(p.source.values, p.target.rows) {
		if p.target.rows[key] != p.source.values[key] {
			p.target.set(key, p.source.values[key])
		}
	}
	c, err := p.ledger.Cutover(p.ctx, "")
	p.must(nil, err)
	p.planned = max(c.Attempt, c.Undo().Attempt) + 1
	p.must(p.ledger.UpdateFallback(p.ctx, "S", 0, func(f *checkpoint.Fallback) error {
		f.Attempt, f.State, f.From = p.planned, checkpoint.FallbackStandby, p.world.Now().Add(-time.Minute)
		f.Window, f.Wait = p.source.window, fallback.Timings{}.Wait(p.source.window)
		return nil
	}))
	if p.world.Chance(0.5) { // the freeze lasts, and the leaders read
		p.sleep(p.world.UpTo(5 * time.Minute))
	}
	now := p.world.Now().UTC()
	p.app.onSource = false
	p.app.written = maps.Clone(p.source.values)
	halt := func(h *checkpoint.Halt) { h.Attempt, h.On, h.Switched = p.planned, true, true }
	p.must(p.ledger.UpdateTable(p.ctx, "S", func(s *checkpoint.TableState) error {
		halt(&s.Halt)
		s.NeedsLoad, s.Kind, s.Base = false, "", s.Generation
		return nil
	}))
	p.must(p.ledger.UpdateTarget(p.ctx, "t", func(t *checkpoint.Target) error { halt(&t.Halt); return nil }))
	p.must(p.ledger.UpdateCutover(p.ctx, "", func(c *checkpoint.Cutover) error {
		if c.Step == "" || c.Step == checkpoint.CutoverRolledBack {
			if err := c.Start(checkpoint.CutoverPlan{Tables: []string{"S"}, Targets: []string{"t"}, KeepFallback: true, Approved: true, WatchFor: 24 * time.Hour}, now); err != nil {
				return err
			}
		}
		if c.Attempt != p.planned {
			return fmt.Errorf("the attempt is %d, not %d", c.Attempt, p.planned)
		}
		c.Step, c.SwitchedAt, c.FrozenAt, c.FencedAt, c.GoneAt, c.WayBack = checkpoint.CutoverWatching, now, now, now, now, true
		return nil
	}))
}

func mergedMaps(a, b map[string]string) map[string]bool {
	keys := map[string]bool{}
	for _, m := range []map[string]string{a, b} {
		for key := range m {
			keys[key] = true
		}
	}
	return keys
}

// drive starts a process that drives the cutover.
func (p *rollingBack) drive() {
	m := p.world.NewProcess(fmt.Sprintf("driver%d", len(p.drivers)+1))
	p.drivers = append(p.drivers, m)
	g := task.NewGroup(m.Context(), 0)
	g.Go("drive", func(ctx context.Context) error {
		ledger := p.open(ctx, m.Name())
		d := &cutover.Driver{
			Ledger: ledger, Fence: fence.Fence{Ledger: ledger}, Hooks: movedHooks{p}, Source: movedSource{p, ledger}, Verifier: movedVerifier{p: p},
			Settings: cutover.Settings{Ready: readiness.Limits{LagBelow: time.Minute, Lease: ledger.Lease()}, Look: time.Minute},
			Failed:   func(step string, err error) { p.world.Tracef("%s: cannot %s: %v", m.Name(), step, err) },
		}
		return d.Run(ctx, nil)
	})
}

// disturbAll lets the application write, and injects one fault.
func (p *rollingBack) disturbAll() {
	rng := p.world.Rand()
	for range rng.IntN(4) {
		p.write()
		p.sleep(p.world.UpTo(20 * time.Second))
	}
	some := func() *leadProcess { return p.leaders[rng.IntN(len(p.leaders))] }
	switch rng.IntN(10) {
	case 0, 1:
		p.target.reshape(string(rune('a' + rng.IntN(25))))
	case 2, 3:
		some().Kill()
		p.hire()
	case 4:
		some().Pause(p.world.UpTo(20 * time.Minute))
	case 5:
		p.world.Inject("leader leaves")
		some().leaving = true
		p.hire()
	case 6:
		p.strikeDriver()
	}
	p.sleep(p.world.UpTo(time.Minute))
}

// strikeDriver kills or pauses a driver, or all of them.
func (p *rollingBack) strikeDriver() {
	for _, m := range p.drivers[max(0, len(p.drivers)-2):] {
		switch p.world.Rand().IntN(3) {
		case 0:
			m.Kill()
			p.drive()
		case 1:
			m.Pause(p.world.UpTo(10 * time.Minute))
		}
	}
}

// write lets the application write once, unless it is frozen.
func (p *rollingBack) write() {
	if p.app.frozen {
		return
	}
	key, to := p.pick()
	if p.app.written[key] = to; to == "" {
		delete(p.app.written, key)
	}
	if p.app.onSource {
		p.source.set(key, to)
	} else {
		p.target.set(key, to)
	}
}

// rollBack requests a rollback until the application was moved. In every step it strikes leaders and
// drivers, or an operator cancels.
func (p *rollingBack) rollBack(round int) bool {
	rng := p.world.Rand()
	struck := map[string]bool{}
	for tries := 0; p.moved == round; {
		if tries++; tries > 4000 {
			p.failf("I10", "the application was not moved: %+v", p.current())
			return false
		}
		c := p.current()
		if c.Direction == checkpoint.Forward {
			p.start()
		}
		at := fmt.Sprint(c.Attempt, c.Step)
		if len(struck) > 40 { // by now the rollback must succeed
			p.app.fail, p.app.refuse, p.app.hang = 0, 0, 0
		} else if c.Direction == checkpoint.Back && !struck[at] {
			struck[at] = true
			p.strikeIn(c)
		}
		if c.Step == checkpoint.CutoverSwitching && rng.IntN(60) == 0 {
			p.resolve(c)
		}
		// Each request without an answer delays its key by minutes, so hot keys close the gates.
		if tries%500 < 250 && rng.IntN(8) == 0 {
			p.write()
		}
		p.sleep(p.world.UpTo(5 * time.Second))
		if strings.Contains(c.Reason, "differ from their rows") {
			p.failf("F4", "the drain was proved, and items differ: %s", c.Reason)
			return false
		}
	}
	return p.until("I10", "the tables are returned", func() bool {
		c, err := p.ledger.Cutover(p.ctx, "")
		return err == nil && c.Step == checkpoint.CutoverRolledBack && c.Undo().Step == checkpoint.CutoverDone
	}) && p.returned()
}

func (p *rollingBack) current() checkpoint.Cutover {
	c, err := p.ledger.Cutover(p.ctx, "")
	p.must(nil, err)
	return c.Current()
}

// start requests a rollback, if its gates are ready.
func (p *rollingBack) start() {
	d := &cutover.Driver{Ledger: p.ledger, Settings: cutover.Settings{Ready: readiness.Limits{LagBelow: time.Minute, Lease: p.ledger.Lease()}}}
	p.ledger.Heard(p.ctx, p.source.clock())
	c, err := p.ledger.Cutover(p.ctx, "")
	if err != nil || !c.HasFallback() {
		return
	}
	gates, err := d.RollbackGatesOf(p.ctx, c, checkpoint.CutoverPlan{}, p.ledger.ServiceTime(p.ctx))
	if open := readiness.Open(gates); err != nil || len(open) > 0 {
		p.world.Tracef("no rollback: %v, %v", open, err)
		return
	}
	now := p.ledger.ServiceTime(p.ctx)
	_, err = p.ledger.UpdateCutover(p.ctx, "", func(c *checkpoint.Cutover) error {
		return c.StartRollback(checkpoint.CutoverPlan{FreezeDeadline: 15 * time.Minute, FreezeWithin: 5 * time.Minute}, now)
	})
	p.world.Tracef("rollback requested: %v", err)
}

// strikeIn disturbs a step of a rollback once.
func (p *rollingBack) strikeIn(c checkpoint.Cutover) {
	rng := p.world.Rand()
	switch rng.IntN(8) {
	case 0, 1:
		p.world.Inject("driver struck in step " + string(c.Step))
		p.strikeDriver()
	case 2:
		p.world.Inject("leader struck in step " + string(c.Step))
		p.leaders[rng.IntN(len(p.leaders))].Kill()
		p.hire()
	case 3:
		for _, m := range p.leaders {
			m.Pause(p.world.UpTo(2 * time.Minute))
		}
	case 4:
		p.world.Inject("rollback cancelled in step " + string(c.Step))
		now := p.ledger.ServiceTime(p.ctx)
		_, err := p.ledger.InStep(p.ctx, c, func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", now) })
		p.world.Tracef("cancel: %v", err)
	}
}

// resolve answers for the hook. No call of it may be under way, so the drivers are killed first.
func (p *rollingBack) resolve(c checkpoint.Cutover) {
	p.world.Inject("rollback resolved by an operator")
	for _, m := range p.drivers {
		m.Kill()
	}
	p.sleep(3 * time.Minute) // calls are over
	now := p.ledger.ServiceTime(p.ctx)
	_, err := p.ledger.InStep(p.ctx, c, func(c *checkpoint.Cutover) error { return c.Resolve(p.app.onSource, now) })
	p.world.Tracef("resolved: %v", err)
	p.drive()
	p.drive()
}

// returned checks the records after a rollback: the tables need a load, whatever happened.
func (p *rollingBack) returned() bool {
	s, _, err := p.ledger.Table(p.ctx, "S")
	if err != nil || !s.NeedsLoad || s.Kind != checkpoint.KindRolledBack || s.Halted() || !s.MadeByUs {
		p.failf("B15", "after the rollback the table is not returned: %+v, %v", s.Halt, err)
	}
	if asks, _ := s.AsksItself(true, false); !asks {
		p.failf("B15", "after the rollback the table asks for no load")
	}
	t, _, err := p.ledger.Target(p.ctx, "t")
	if err != nil || t.Halted() {
		p.failf("B15", "after the rollback the target is halted: %v", err)
	}
	if f := p.read(); f.State != checkpoint.FallbackStopped {
		p.failf("B14", "after the rollback the way back is %s", f.State)
	}
	return len(p.failures) == 0
}

// writeSource lets the application write items after a rollback. No request of a leader may follow,
// although items may have the values that a late request expects.
func (p *rollingBack) writeSource() {
	for range 8 {
		p.write()
		p.sleep(p.world.UpTo(3 * time.Minute))
		if !maps.Equal(p.app.written, p.source.values) {
			p.failf("I1", "the application wrote %v, and the items are %v", p.app.written, p.source.values)
			return
		}
	}
}

// checkEnd waits until every request would be over.
func (p *rollingBack) checkEnd() {
	p.sleep(time.Hour)
	if !maps.Equal(p.app.written, p.source.values) {
		p.failf("I1", "the application wrote %v, and the items are %v", p.app.written, p.source.values)
	}
	slices.Sort(p.failures)
}

// movedHooks are the hooks of the application.
type movedHooks struct{ p *rollingBack }

// Call implements cutover.Hooks.
func (h movedHooks) Call(ctx context.Context, call cutover.Call) (string, cutover.Outcome) {
	p, w, a := h.p, h.p.world, &h.p.app
	if call.Probe {
		return "", cutover.HookDone
	}
	if call.Direction != cutover.Back {
		p.failf("B14", "hook %s is called in direction %q", call.Hook, call.Direction)
	}
	if task.Sleep(ctx, w.UpTo(5*time.Second)) != nil {
		return "", cutover.HookUnknown
	}
	// A refused switch promises that no earlier call has moved the application either.
	if !a.onSource && w.Chance(a.refuse) {
		return "not now", cutover.HookRefused
	}
	if w.Chance(a.fail / 2) {
		return "down", cutover.HookUnknown
	}
	if a.outdated(call.Token) {
		w.Inject("outdated call of a hook")
		return "outdated", cutover.HookUnknown
	}
	p.act(call)
	if w.Chance(a.hang) {
		_ = task.Sleep(ctx, time.Hour)
	}
	if w.Chance(a.fail) {
		w.Inject("hook acted and failed")
		return "down", cutover.HookUnknown
	}
	return "", cutover.HookDone
}

// outdated reports whether a call is earlier than one that the wrapper of the hooks has seen. It
// refuses such a call.
func (a *movedApp) outdated(token string) bool {
	var t [3]int
	_, _ = fmt.Sscanf(token, "%d.%d.%d", &t[0], &t[1], &t[2])
	if slices.Compare(t[:], a.token[:]) < 0 {
		return true
	}
	a.token = t
	return false
}

// act carries out a call of a hook.
func (p *rollingBack) act(call cutover.Call) {
	a := &p.app
	p.world.Tracef("hook %s %s", call.Hook, call.Token)
	switch call.Hook {
	case cutover.FreezeWrites:
		a.frozen = true
	case cutover.UnfreezeWrites:
		if !a.onSource {
			a.frozen = false
			if f := p.read(); f.State != checkpoint.FallbackFollowing && f.State != checkpoint.FallbackGap {
				p.failf("B14", "the application writes rows again, and the way back is %s", f.State)
			}
		}
	case cutover.Switch:
		if a.onSource {
			return
		}
		if !a.frozen {
			p.failf("I13", "the application is moved, and it was not frozen")
		}
		if !maps.Equal(a.written, p.source.values) {
			p.failf("F4", "the application wrote %v, and is moved to items %v", a.written, p.source.values)
		}
		a.onSource, a.frozen = true, false
		p.moved++
	}
}

// movedSource is the source as a driver sees it.
type movedSource struct {
	p      *rollingBack
	ledger *checkpoint.Ledger
}

// Describe implements cutover.Source.
func (s movedSource) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	_ = task.Sleep(ctx, s.p.world.UpTo(100*time.Millisecond))
	return backfill.Description{At: s.p.source.clock()}, ctx.Err()
}

// Put implements cutover.Source. There are no canaries here.
func (s movedSource) Put(context.Context, string, attribute.Item) error { return nil }

// Delete implements cutover.Source.
func (s movedSource) Delete(context.Context, string, attribute.Item) error { return nil }

// movedVerifier compares rows with items. The comparisons of a cutover are not used.
type movedVerifier struct {
	cutover.Verifier
	p *rollingBack
}

// Reverse implements cutover.Verifier.
func (v movedVerifier) Reverse(ctx context.Context, _ string) (checkpoint.ReverseResult, error) {
	began := v.p.world.Now()
	if err := task.Sleep(ctx, v.p.world.UpTo(20*time.Second)); err != nil {
		return checkpoint.ReverseResult{}, err
	}
	return checkpoint.ReverseResult{BeganAt: began, EndedAt: v.p.world.Now(), Different: int64(len(v.p.differing()))}, ctx.Err()
}
