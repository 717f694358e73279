package fallback

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// play is one way back: an application that writes rows, and processes that may lead.
type play struct {
	world    *virtual.World
	ctx      context.Context
	target   *table
	source   *items
	store    *checkpointtest.Memory
	ledger   *checkpoint.Ledger
	switched bool
	leaders  []*process
	trouble  []string
}

type process struct {
	*virtual.Process
	leaving bool
	over    bool
}

func newPlay(seed uint64, trace bool) *play {
	w := virtual.NewWorld(seed, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), trace)
	w.StepLimit = 20_000_000
	p := &play{world: w, target: newTable(w), store: &checkpointtest.Memory{}}
	p.source = &items{world: w, values: map[string]string{}, window: 5 * time.Minute, execution: 90 * time.Second, late: 0.5, lose: 0.4, refuse: 0.15, twice: 0.05}
	return p
}

func (p *play) failf(format string, args ...any) {
	p.trouble = append(p.trouble, fmt.Sprintf(format, args...))
}

func (p *play) open(ctx context.Context, name string) *checkpoint.Ledger {
	l, err := checkpoint.Open(ctx, p.store, "p", checkpoint.Options{Worker: name, ID: "ledger", Lease: 15 * time.Second})
	if err != nil {
		p.failf("open: %v", err)
	}
	return l
}

// hire starts a process that leads when it can.
func (p *play) hire() {
	name := fmt.Sprintf("leader%d", len(p.leaders)+1)
	m := &process{Process: p.world.NewProcess(name)}
	p.leaders = append(p.leaders, m)
	g := task.NewGroup(m.Context(), 0)
	g.Go("lead", func(ctx context.Context) error {
		defer func() { m.over = true }()
		ledger := p.open(ctx, name)
		l := &Leader{
			Ledger: ledger, Source: "S", Table: "t", Form: plainForm{}, Rows: p.target, Items: p.source, Changes: p.target, Stream: p.source,
			MayWrite: func(context.Context, uint32) (bool, error) { return p.switched, nil },
			Hear:     func(ctx context.Context) error { ledger.Heard(ctx, p.source.clock()); return nil },
			Leaving:  func() bool { return m.leaving },
			Failed:   func(step string, err error) { p.world.Tracef("%s: %v", step, err) },
		}
		watch := ledger.NewWatch()
		for !m.leaving && ctx.Err() == nil {
			if err := l.Lead(ctx, watch); err != nil {
				p.world.Tracef("%s stops leading: %v", name, err)
			}
			_ = task.Sleep(ctx, time.Second)
		}
		return nil
	})
}

func (p *play) state(change func(f *checkpoint.Fallback)) {
	_, err := p.ledger.UpdateFallback(p.ctx, "S", 0, func(f *checkpoint.Fallback) error { change(f); return nil })
	if err != nil {
		p.failf("update: %v", err)
	}
}

func (p *play) sleep(d time.Duration) { _ = task.Sleep(p.ctx, d) }

// until waits until a condition holds.
func (p *play) until(limit time.Duration, what string, is func() bool) bool {
	for end := p.world.Elapsed() + limit; !is(); p.sleep(time.Second) {
		if p.world.Elapsed() > end {
			p.failf("not within %s: %s", limit, what)
			return false
		}
	}
	return true
}

// differing returns the keys whose item and row differ.
func (p *play) differing() (all []string) {
	for _, key := range rowKeys {
		if p.target.rows[key] != p.source.values[key] {
			all = append(all, fmt.Sprintf("%s: row %q, item %q", key, p.target.rows[key], p.source.values[key]))
		}
	}
	return all
}

var rowKeys = []string{"c", "h", "t"}

// history plays one random history: forward replication, the switch, writes of the application on
// Bigtable among faults, and a stop. Afterwards the application writes the items itself.
func (p *play) history() error {
	return p.world.Run(30*24*time.Hour, func(ctx context.Context) {
		rng := p.world.Rand()
		p.ctx, p.ledger = ctx, p.open(ctx, "driver")
		p.ledger.Heard(ctx, p.source.clock())
		pick := func() (key, to string) {
			key = rowKeys[rng.IntN(len(rowKeys))]
			if rng.IntN(4) == 0 {
				return key, ""
			}
			return key, fmt.Sprint(rng.IntN(3)) // values return, so an old one may look new
		}
		// Before the switch, rows follow items.
		p.state(func(f *checkpoint.Fallback) {
			f.Attempt, f.State, f.From = 1, checkpoint.FallbackStandby, p.world.Now().Add(-time.Minute)
			f.Window, f.Wait = p.source.window, Timings{}.Wait(p.source.window)
		})
		p.hire()
		p.hire()
		for range 20 {
			key, to := pick()
			p.source.set(key, to)
			p.world.After(p.world.UpTo(10*time.Second), func() {
				if p.source.values[key] == to {
					p.target.set(key, to)
				}
			})
			p.sleep(p.world.UpTo(3 * time.Second))
		}
		p.sleep(20 * time.Second)
		if all := p.differing(); len(all) > 0 {
			p.failf("before the switch: %v", all)
			return
		}
		p.switched = true
		p.state(func(f *checkpoint.Fallback) { f.State = checkpoint.FallbackFollowing })
		for range 60 {
			for range rng.IntN(5) {
				p.target.set(pick())
				p.sleep(p.world.UpTo(20 * time.Second))
			}
			switch rng.IntN(12) {
			case 0, 1, 2:
				p.target.reshape(string(rune('a' + rng.IntN(25))))
			case 3, 7, 8:
				p.leaders[rng.IntN(len(p.leaders))].Kill()
				p.hire()
			case 4:
				p.leaders[rng.IntN(len(p.leaders))].Pause(p.world.UpTo(20 * time.Minute))
			case 9:
				p.leaders[len(p.leaders)-1].Pause(p.world.UpTo(time.Minute))
			case 5:
				p.leaders[rng.IntN(len(p.leaders))].leaving = true
				p.hire()
			case 10: // an instance of the application that was not switched
				p.source.set(pick())
			case 6:
				p.sleep(p.world.UpTo(15 * time.Minute))
			}
			p.sleep(p.world.UpTo(90 * time.Second))
		}
		// Shortly before the end, rows return to their earlier values while leaders are killed.
		for range 4 {
			key, to := pick()
			before := p.target.rows[key]
			p.target.set(key, to)
			p.sleep(p.world.UpTo(25 * time.Second))
			for _, m := range p.leaders {
				if rng.IntN(2) == 0 {
					m.Kill()
				}
			}
			p.hire()
			p.target.set(key, before)
			p.sleep(p.world.UpTo(10 * time.Minute))
		}
		p.hire()
		if !p.until(2*time.Hour, "item and row are equal", func() bool { return len(p.differing()) == 0 }) {
			p.failf("%v", p.differing())
			return
		}
		frozen := p.world.Now()
		p.until(2*time.Hour, "the watermark passes the freeze", func() bool {
			f, _, _ := p.ledger.Fallback(p.ctx, "S")
			return f.Settled.After(frozen)
		})
		if all := p.differing(); len(all) > 0 {
			p.failf("after the watermark: %v", all)
		}
		if f, _, _ := p.ledger.Fallback(p.ctx, "S"); f.State != checkpoint.FallbackFollowing {
			p.failf("the state is %s: %s", f.State, f.Reason)
		}
		p.state(func(f *checkpoint.Fallback) { f.State = checkpoint.FallbackStopping })
		p.until(2*time.Hour, "the leader is stopped", func() bool {
			f, _, _ := p.ledger.Fallback(p.ctx, "S")
			return f.State == checkpoint.FallbackStopped
		})
		// The application writes the items itself now. No request of a leader may follow, although
		// items may have the values that a late request expects.
		want := maps.Clone(p.source.values)
		for range 6 {
			if key, to := pick(); to == "" {
				delete(want, key)
			} else {
				want[key] = to
			}
		}
		p.source.values = maps.Clone(want)
		p.sleep(time.Hour)
		if !maps.Equal(want, p.source.values) {
			p.failf("items are written after the stop: %v, not %v", p.source.values, want)
		}
	})
}

// histories is how many random histories the tests play.
const histories = 12

// DynamoDB follows Bigtable through kills, sleeps, takeovers, late requests, lost replies, splits
// and merges. No write is lost, and none lands after the stop (F1 to F5).
func TestH143_RandomHistories(t *testing.T) {
	for seed := range uint64(histories) {
		p := newPlay(seed, false)
		if err := p.history(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(p.trouble) > 0 {
			t.Fatalf("seed %d: %v", seed, p.trouble)
		}
	}
}
