package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// swarmBuild makes a system with a random part of the faults.
func swarmBuild(w *virtual.World) *Migration {
	some := func() bool { return w.Rand().IntN(2) == 0 }
	chance := func(most float64) float64 {
		if some() {
			return 0
		}
		return most * w.Rand().Float64()
	}
	var rowKey []string
	if w.Rand().IntN(3) == 0 {
		rowKey = []string{"value", "pk", "sk"} // every change moves the item
	}
	m := NewMigration(w, 1+w.Rand().IntN(3), rowKey...)
	m.Target.LoseReply, m.Target.Late, m.Target.Drop, m.Target.Twice = chance(0.1), chance(0.1), chance(0.1), chance(0.3)
	m.Source.Throttle, m.Source.Expire = chance(0.2), chance(0.1)
	m.Source.ListLate, m.Source.ShowOpen = chance(1), chance(1)
	m.Source.TimeRunsBack, m.Source.RestartSequence = some(), some()
	if some() {
		m.Source.PageSize = 1 + w.Rand().IntN(10)
	}
	if some() {
		m.Source.Latency = w.UpTo(2 * time.Second)
	}
	if some() {
		m.Target.Latency = w.UpTo(2 * time.Second)
	}
	if rowKey == nil && some() {
		m.Source.View = "NEW_IMAGE"
	}
	return m
}

// peace ends the faults of the services; what they have done already still takes its course.
func (s *scene) peace() {
	s.Target.LoseReply, s.Target.Late, s.Target.Drop, s.Target.Twice, s.Source.Throttle, s.Source.Expire = 0, 0, 0, 0, 0, 0
	s.Source.Latency, s.Target.Latency, s.Source.PageSize = 20*time.Millisecond, 10*time.Millisecond, model.PageRecords
}

// beside does something again and again until the time is over.
func (s *scene) beside(name string, over time.Time, pause time.Duration, does func()) {
	s.World.Go(name, func(ctx context.Context) {
		for {
			if task.Sleep(ctx, s.upTo(pause)) != nil || !s.World.Now().Before(over) {
				return
			}
			does()
		}
	})
}

// turnShards splits or rolls an open shard.
func (s *scene) turnShards() {
	open := s.Source.Stream().Open()
	shard := open[s.World.Rand().IntN(len(open))]
	if s.World.Rand().IntN(2) == 0 && len(open) < 5 {
		s.Source.Stream().Split(shard)
	} else {
		s.Source.Stream().Roll(shard)
	}
}

// crew is the workers of a swarm.
type crew struct {
	*scene
	hired   int
	workers []*Worker
}

func (c *crew) start() {
	c.hired++
	c.workers = append(c.workers, c.Start(fmt.Sprint("worker", c.hired)))
}

// one takes a random worker; if it is to leave, another follows soon.
func (c *crew) one(leaves bool) *Worker {
	i := c.World.Rand().IntN(len(c.workers))
	w := c.workers[i]
	if leaves {
		c.workers = append(c.workers[:i:i], c.workers[i+1:]...)
		c.start()
	}
	return w
}

func (c *crew) kill()  { c.one(true).Kill() }
func (c *crew) pause() { c.one(false).Pause(c.Lease + c.upTo(30*time.Second)) }

// end stops all workers; none may have ended by itself.
func (c *crew) end() {
	for _, w := range c.workers {
		if w.Over {
			c.failf("%s ended with %v", w.Name(), w.Err)
		}
		c.scene.stop(w)
	}
}
