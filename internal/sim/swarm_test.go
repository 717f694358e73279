package sim

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/virtual"
)

// swarmSeeds is how many whole systems TestSwarm plays; the environment variable SIM_SEEDS sets another number.
const swarmSeeds = 200 / fewer

// swarmFaults are the faults that must have taken effect at least once over all seeds.
var swarmFaults = []string{
	"call throttled", "clean stop", "closed shard shown open", "iterator expired", "process killed", "process paused", "reply lost",
	"request dropped", "request executed late", "request executed twice", "sequence numbers restarted", "server clock wrong",
	"service unavailable", "shard listed late", "shard rolled", "shard split", "slow message", "time ran back",
}

// TestSwarm plays whole systems in which everything goes wrong that the models know, a random part of it in each. Whatever happens, once
// the faults stop both stores become equal, no gap is declared, and no checker saw an invariant broken on the way (I1 to I10).
func TestSwarm(t *testing.T) {
	t.Parallel()
	seeds := uint64(swarmSeeds)
	if text := os.Getenv("SIM_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	total := map[string]int{}
	for seed := range seeds {
		s := perform(seed, false, swarmBuild, swarm)
		if len(s.failures) > 0 {
			again := perform(seed, true, swarmBuild, swarm)
			t.Fatalf("seed %d:\n%s\n%s", seed, strings.Join(s.failures, "\n"), tail(again.World.Trace(), 400))
		}
		for name, n := range s.World.Injected() {
			total[name] += n
		}
	}
	for _, name := range swarmFaults {
		t.Logf("%8d × %s", total[name], name)
		if total[name] == 0 {
			t.Errorf("%s: never happened", name)
		}
	}
}

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

// swarm is one run: an application, two workers and up to five kinds of trouble beside each other for a minute and a half, and peace.
func swarm(s *scene) {
	for i := range s.World.Rand().IntN(30) {
		s.put(fmt.Sprint(i), "before")
	}
	workers := &crew{scene: s}
	workers.start()
	workers.start()
	over := s.World.Now().Add(90 * time.Second)
	s.beside("application", over, 400*time.Millisecond, func() {
		key := fmt.Sprint(s.World.Rand().IntN(20))
		switch s.World.Rand().IntN(5) {
		case 0:
			s.del(key)
		case 1:
			for i := range s.World.Rand().IntN(6) {
				s.put(key, fmt.Sprint("burst ", i))
			}
		default:
			s.put(key, fmt.Sprint("value ", s.World.Steps()))
		}
	})
	for _, trouble := range []struct {
		name string
		does func()
	}{
		{"shards", s.turnShards},
		{"crashes", workers.kill},
		{"pauses", workers.pause},
		{"stops", workers.stop},
		{"server clock", func() { s.Target.ServerSkew = time.Duration(s.World.Rand().IntN(7)-3) * time.Hour }},
	} {
		if s.World.Rand().IntN(2) == 0 {
			s.beside(trouble.name, over, 40*time.Second, trouble.does)
		}
	}
	s.sleep(91 * time.Second)
	s.peace()
	workers.start()
	s.inSync(10 * time.Minute)
	s.sleep(s.Target.LateBy) // what was sent in bad times arrives
	s.inSync(0)
	workers.end()
}

// peace ends the faults of the services; what they have done already still takes its course.
func (s *scene) peace() {
	s.Target.LoseReply, s.Target.Late, s.Target.Drop, s.Target.Twice, s.Source.Throttle, s.Source.Expire = 0, 0, 0, 0, 0, 0
	s.Source.Latency, s.Target.Latency, s.Source.PageSize = 20*time.Millisecond, 10*time.Millisecond, pageRecords
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
func (c *crew) stop()  { c.scene.stop(c.one(true)) }

// end stops all workers; none may have ended by itself.
func (c *crew) end() {
	for _, w := range c.workers {
		if w.Over {
			c.failf("%s ended with %v", w.Name(), w.Err)
		}
		c.scene.stop(w)
	}
}
