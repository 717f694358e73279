package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// crew is a set of processes of one kind. Those that end are replaced.
type crew struct {
	world  *virtual.World
	kind   string // prefix of their names
	start  func(name string) *Worker
	all    []*Worker
	hired  int
	asleep map[*Worker]time.Duration // until then
}

func newCrew(w *virtual.World, kind string, start func(name string) *Worker) *crew {
	return &crew{world: w, kind: kind, start: start, asleep: map[*Worker]time.Duration{}}
}

// hire starts n more.
func (c *crew) hire(n int) {
	for range n {
		c.hired++
		c.all = append(c.all, c.start(fmt.Sprint(c.kind, c.hired)))
	}
}

// one returns a random one.
func (c *crew) one() *Worker { return c.all[c.world.Rand().IntN(len(c.all))] }

// leave removes one and starts another in its place.
func (c *crew) leave(w *Worker) {
	c.all = slices.DeleteFunc(c.all, func(o *Worker) bool { return o == w })
	c.hire(1)
}

// kill ends one immediately.
func (c *crew) kill(w *Worker) {
	w.Kill()
	c.leave(w)
}

// stop asks one to end, without waiting.
func (c *crew) stop(w *Worker) {
	c.world.Go("stop", func(ctx context.Context) { _ = w.Stop(ctx) })
	c.leave(w)
}

// pause freezes one.
func (c *crew) pause(w *Worker, long time.Duration) {
	w.Pause(long)
	c.asleep[w] = c.world.Elapsed() + long
}

// awake reports whether at least one works.
func (c *crew) awake() bool {
	return slices.ContainsFunc(c.all, func(w *Worker) bool { return !w.Dead() && !w.Over && c.asleep[w] <= c.world.Elapsed() })
}

// gone ends all immediately, without replacement.
func (c *crew) gone() {
	for _, w := range c.all {
		w.Kill()
	}
	c.all = nil
}

// rested returns when all are awake.
func (c *crew) rested() time.Duration {
	at := c.world.Elapsed()
	for _, w := range c.all {
		at = max(at, c.asleep[w])
	}
	return at
}

// replace starts new processes for those that ended, except those that ended for good.
func (c *crew) replace(forGood func(w *Worker) bool) {
	for _, w := range slices.Clone(c.all) {
		if w.Dead() || w.Over && !forGood(w) {
			c.leave(w)
		}
	}
}

// disturb injects a fault into one process: it is killed, stopped, or paused for up to long. While
// one is paused, another is started, if there are fewer than most.
func (c *crew) disturb(long time.Duration, most int) {
	switch w := c.one(); c.world.Rand().IntN(3) {
	case 0:
		c.kill(w)
	case 1:
		c.stop(w)
	case 2:
		if c.pause(w, c.world.UpTo(long)); len(c.all) < most {
			c.hire(1)
		}
	}
}

// startProcess starts a process that ends with run's result.
func startProcess(world *virtual.World, name string, run func(stop, ctx context.Context) error) *Worker {
	w := &Worker{Process: world.NewProcess(name), done: world.NewEvent()}
	stop, cancel := context.WithCancelCause(w.Context())
	w.stop = cancel
	w.Go("main", func() {
		w.Err = run(stop, w.Context())
		w.Over = true
		world.Tracef("%s ends: %v", name, w.Err)
		w.done.Set()
	})
	return w
}
