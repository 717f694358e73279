package follow

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// In a large fleet, two passes are a lease apart. The time until the next two passes keeps the
// worker within its rate. A pass that something wakes does not end a pair early.
func TestPassesOfALargeFleetComeInPairs(t *testing.T) {
	const lease, between = 15 * time.Second, time.Minute
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, _ *enginetest.Rig, _ checkpoint.TableState) {
		var l looks
		made := func(between time.Duration) time.Duration {
			l.made(ctx, between, lease)
			return l.due - task.Mono(ctx)
		}
		pass := func(d time.Duration) {
			if err := task.Sleep(ctx, d); err != nil {
				t.Error(err)
			}
		}
		if made(lease); l.large {
			t.Error("a small fleet makes pairs")
		}
		var sum time.Duration
		const pairs = 200
		for n := range pairs {
			if d := made(between); d != lease || !l.large {
				t.Errorf("the second pass follows after %s", d)
			}
			if n%2 == 0 {
				pass(5 * time.Second)
				if d := made(between); d != lease-5*time.Second {
					t.Errorf("after a signal, the second pass follows after %s", d)
				}
				pass(lease - 5*time.Second)
			} else {
				pass(lease)
			}
			d := made(between)
			if d < between-lease/2 || d > 3*between-lease*3/2 {
				t.Errorf("the next pair follows after %s", d)
			}
			sum += lease + d
			pass(d)
		}
		if mean := sum / (2 * pairs); mean < between*9/10 || mean > between*11/10 {
			t.Errorf("%s between two passes", mean)
		}
	})
}

// Between two passes of a large fleet, a worker reads the record of the table once per lease. A
// signal and a change of the record end the wait.
func TestAPauseEndsIfTheRecordChanges(t *testing.T) {
	const lease = 15 * time.Second
	raise := func(s *scene) { s.change(func(state *checkpoint.TableState) { state.Generation++ }) }
	signal := func(s *scene) { s.table.Wake.Assigner.Signal() }
	for name, c := range map[string]struct {
		workers  int
		happens  func(s *scene) // after a minute
		from, to time.Duration
		glances  bool
	}{
		"a small fleet": {2, nil, lease / 2, lease, false},
		"no change":     {300, nil, 2 * time.Minute, time.Hour, true},
		"a signal":      {300, signal, time.Minute, time.Minute, true},
		"a raise":       {300, raise, time.Minute, time.Minute + lease, true},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				s.shard("s", "")
				looked, longest := task.Mono(s.ctx), time.Duration(0)
				s.Events.Ledger = func(_ checkpoint.TableState, states map[checkpoint.State]int) {
					if looked, longest = task.Mono(s.ctx), max(longest, task.Mono(s.ctx)-looked); states[checkpoint.Reading] != 3 {
						t.Errorf("it reports %v", states)
					}
				}
				s.prepares()
				held := map[string]int{}
				for n := range c.workers {
					held[fmt.Sprint("worker ", n)] = 1
				}
				s.parts.shares.See("Orders", held)
				v := engine.View{State: s.state(), Shards: make([]checkpoint.Shard, 12_000)}
				s.parts.looks = looks{states: map[checkpoint.State]int{checkpoint.Reading: 3}, open: true, first: task.Mono(s.ctx) - lease} // the pair ends now
				if c.happens != nil {
					s.after(time.Minute, func() { c.happens(s) })
				}
				began := task.Mono(s.ctx)
				s.parts.pause(engine.Until(s.ctx), v)
				if d := task.Mono(s.ctx) - began; d < c.from || d > c.to+time.Second {
					t.Errorf("it ends after %s", d)
				}
				if s.ticked > 0 != c.glances || longest > 0 != c.glances || longest > lease+time.Second {
					t.Errorf("%d signs of life, and the ledger is not read for %s", s.ticked, longest)
				}
			})
		})
	}
}
