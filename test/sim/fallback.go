package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// followBack is a run of the way back: an application that writes rows, and processes that may lead.
type followBack struct {
	world    *virtual.World
	ctx      context.Context
	target   *followedTable
	source   *followingItems
	store    *checkpointtest.Memory
	ledger   *checkpoint.Ledger
	keys     []string
	switched bool
	idle     bool // nothing changes for longer than DynamoDB's stream keeps a change
	hasty    bool // it is stopped once item and row are equal, although records may be left
	leaders  []*leadProcess
	failures []string
	// mayWrite, if not nil, is asked by leaders instead of `switched`.
	mayWrite func(ctx context.Context, ledger *checkpoint.Ledger, attempt uint32) (bool, error)
}

// leadProcess is a process that leads when it can.
type leadProcess struct {
	*virtual.Process
	leaving bool
}

// simulateFallback plays one way back: forward replication, the switch, writes of the application on
// Bigtable among faults, and a stop. Afterwards the application writes the items itself.
func simulateFallback(seed uint64, trace bool) (r Report) {
	w := virtual.NewWorld(seed, simEpoch, trace)
	w.StepLimit = 20_000_000
	rng := stream(seed, "way back")
	part := func(most float64) float64 { return most * rng.Float64() }
	p := &followBack{world: w, target: newFollowedTable(w), store: &checkpointtest.Memory{}, keys: []string{"c", "h", "t"}[:1+rng.IntN(3)]}
	p.source = &followingItems{
		world: w, values: map[string]string{}, window: 5 * time.Minute, execution: 90 * time.Second,
		late: part(0.8), lose: part(0.6), refuse: part(0.3), twice: part(0.1),
	}
	p.idle = rng.IntN(10) == 0
	if p.hasty = rng.IntN(2) == 0; p.hasty {
		p.source.twice = 0 // there is no minute of quiet
	}
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

func (p *followBack) failf(checker, format string, args ...any) {
	text := checker + ": " + fmt.Sprintf(format, args...)
	p.world.Tracef("VIOLATION %s", text)
	p.failures = append(p.failures, text)
}

func (p *followBack) open(ctx context.Context, name string) *checkpoint.Ledger {
	l, err := checkpoint.Open(ctx, p.store, "p", checkpoint.Options{Worker: name, ID: "ledger"})
	if err != nil {
		p.failf("I10", "open the ledger: %v", err)
	}
	return l
}

// hire starts a process that leads when it can.
func (p *followBack) hire() {
	m := &leadProcess{Process: p.world.NewProcess(fmt.Sprintf("leader%d", len(p.leaders)+1))}
	p.leaders = append(p.leaders, m)
	g := task.NewGroup(m.Context(), 0)
	g.Go("lead", func(ctx context.Context) error {
		ledger := p.open(ctx, m.Name())
		l := &fallback.Leader{
			Ledger: ledger, Source: "S", Table: "t", Form: followedForm{}, Rows: p.target, Items: p.source, Changes: p.target, Stream: p.source,
			MayWrite: func(ctx context.Context, attempt uint32) (bool, error) {
				if p.mayWrite != nil {
					return p.mayWrite(ctx, ledger, attempt)
				}
				return p.switched, nil
			},
			Hear:    func(ctx context.Context) error { ledger.Heard(ctx, p.source.clock()); return nil },
			Leaving: func() bool { return m.leaving },
			Failed:  func(step string, err error) { p.world.Tracef("%s: %v", step, err) },
		}
		watch := ledger.NewWatch()
		for !m.leaving && ctx.Err() == nil {
			if err := l.Lead(ctx, watch); err != nil {
				p.world.Tracef("stops leading: %v", err)
			}
			_ = task.Sleep(ctx, time.Second)
		}
		return nil
	})
}

// record changes the record of the way back.
func (p *followBack) record(change func(f *checkpoint.Fallback)) {
	_, err := p.ledger.UpdateFallback(p.ctx, "S", 0, func(f *checkpoint.Fallback) error { change(f); return nil })
	if err != nil {
		p.failf("I10", "write the record: %v", err)
	}
}

func (p *followBack) read() checkpoint.Fallback {
	f, _, err := p.ledger.Fallback(p.ctx, "S")
	if err != nil {
		p.failf("I10", "read the record: %v", err)
	}
	return f
}

func (p *followBack) sleep(d time.Duration) { _ = task.Sleep(p.ctx, d) }

// until waits until a condition holds.
func (p *followBack) until(checker, what string, is func() bool) bool {
	const limit = 3 * time.Hour
	for end := p.world.Elapsed() + limit; !is(); p.sleep(time.Second) {
		if p.world.Elapsed() > end {
			p.failf(checker, "not within %s: %s: %v", limit, what, p.differing())
			return false
		}
	}
	return true
}

// differing returns the rows whose items differ.
func (p *followBack) differing() (all []string) {
	for _, key := range p.keys {
		if p.target.rows[key] != p.source.values[key] {
			all = append(all, fmt.Sprintf("%s: row %q, item %q", key, p.target.rows[key], p.source.values[key]))
		}
	}
	return all
}

// pick returns a change of a row: its key and new value, "" for a removal. Values return, so an old
// one may look new.
func (p *followBack) pick() (key, to string) {
	rng := p.world.Rand()
	if key = p.keys[rng.IntN(len(p.keys))]; rng.IntN(4) > 0 {
		to = fmt.Sprint(rng.IntN(3))
	}
	return key, to
}

func (p *followBack) play(ctx context.Context) {
	p.ctx, p.ledger = ctx, p.open(ctx, "driver")
	p.ledger.Heard(ctx, p.source.clock())
	p.record(func(f *checkpoint.Fallback) {
		f.Attempt, f.State, f.From = 1, checkpoint.FallbackStandby, p.world.Now().Add(-time.Minute)
		f.Window, f.Wait = p.source.window, fallback.Timings{}.Wait(p.source.window)
	})
	p.hire()
	p.hire()
	if !p.forward() {
		return
	}
	p.switched = true
	p.record(func(f *checkpoint.Fallback) { f.State = checkpoint.FallbackFollowing })
	for range 40 {
		p.disturb()
	}
	if p.idle {
		p.idleDay()
	}
	p.killAtTheEnd()
	p.hire()
	if !p.until("F4", "item and row are equal", func() bool { return len(p.differing()) == 0 }) {
		return
	}
	if f := p.read(); f.State != checkpoint.FallbackFollowing || f.Parked > 0 {
		p.failf("F1", "the state is %s, with %d parked: %s", f.State, f.Parked, f.Reason)
	}
	if p.hasty {
		p.stop()
		return
	}
	quiet := p.world.Now().Add(time.Minute)
	if !p.until("F4", "the watermark passes a minute of quiet", func() bool { return p.read().Settled.After(quiet) }) {
		return
	}
	if all := p.differing(); len(all) > 0 {
		p.failf("F4", "everything is settled, and they differ: %v", all)
	}
	p.stop()
}

// stop ends the way back. Afterwards no request is in flight or in doubt.
func (p *followBack) stop() {
	p.record(func(f *checkpoint.Fallback) { f.State = checkpoint.FallbackStopping })
	if p.until("I10", "the leader is stopped", func() bool { return p.read().State == checkpoint.FallbackStopped }) {
		p.writeItems()
	}
}

// forward plays the time before the switch, in which rows follow items. A leader that wrote then
// would carry old rows over newer items (F5).
func (p *followBack) forward() bool {
	for range 20 {
		key, to := p.pick()
		p.source.set(key, to)
		want := maps.Clone(p.source.values)
		p.world.After(p.world.UpTo(10*time.Second), func() {
			if p.source.values[key] == to {
				p.target.set(key, to)
			}
		})
		p.sleep(p.world.UpTo(3 * time.Second))
		if !maps.Equal(want, p.source.values) {
			p.failf("F5", "items are written before the switch: %v, not %v", p.source.values, want)
			return false
		}
	}
	p.sleep(20 * time.Second)
	if all := p.differing(); len(all) > 0 {
		p.failf("F5", "they differ before the switch: %v", all)
	}
	return len(p.failures) == 0
}

// disturb lets the application write, and injects one fault.
func (p *followBack) disturb() {
	rng := p.world.Rand()
	for range rng.IntN(5) {
		p.target.set(p.pick())
		p.sleep(p.world.UpTo(20 * time.Second))
	}
	some := func() *leadProcess { return p.leaders[rng.IntN(len(p.leaders))] }
	switch rng.IntN(12) {
	case 0, 1, 2:
		p.target.reshape(string(rune('a' + rng.IntN(25))))
	case 3, 4:
		some().Kill()
		p.hire()
	case 5:
		some().Pause(p.world.UpTo(20 * time.Minute))
	case 6:
		p.leaders[len(p.leaders)-1].Pause(p.world.UpTo(time.Minute))
	case 7:
		p.world.Inject("leader leaves")
		some().leaving = true
		p.hire()
	case 8:
		p.world.Inject("item written by a straggler")
		p.source.set(p.pick())
	case 9:
		p.sleep(p.world.UpTo(15 * time.Minute))
	}
	p.sleep(p.world.UpTo(90 * time.Second))
}

// idleDay changes nothing until the last change of DynamoDB's stream is trimmed. A leader that then
// takes over has lost nothing.
func (p *followBack) idleDay() {
	p.world.Inject("way back idle for a day")
	p.sleep(cdc.Retention + time.Hour)
	for _, m := range p.leaders {
		m.Kill()
	}
	p.hire()
	p.sleep(20 * time.Minute)
}

// killAtTheEnd lets rows return to their earlier values while leaders are killed, so that a late
// request finds the item that it expects.
func (p *followBack) killAtTheEnd() {
	for range 3 {
		key, to := p.pick()
		before := p.target.rows[key]
		p.target.set(key, to)
		p.sleep(p.world.UpTo(25 * time.Second))
		for _, m := range p.leaders {
			if p.world.Chance(0.5) {
				m.Kill()
			}
		}
		p.hire()
		p.target.set(key, before)
		p.sleep(p.world.UpTo(3 * time.Minute))
		if p.world.Chance(0.3) {
			p.world.Inject("item written by a straggler")
			p.source.set(p.pick())
		}
	}
}

// writeItems lets the application write the items itself. No request of a leader may follow,
// although items may have the values that a late request expects.
func (p *followBack) writeItems() {
	want := maps.Clone(p.source.values)
	for range 6 {
		if key, to := p.pick(); to == "" {
			delete(want, key)
		} else {
			want[key] = to
		}
	}
	p.source.values = maps.Clone(want)
	p.sleep(time.Hour)
	if !maps.Equal(want, p.source.values) {
		p.failf("I1", "items are written after the stop: %v, not %v", p.source.values, want)
	}
	slices.Sort(p.failures)
}
