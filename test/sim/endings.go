package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// ending describes the end of some runs, when everything is applied and compared.
type ending struct {
	once  bool // the workers are stopped, except one that ends by itself when everything is drained
	retry bool // all parked items are retried
}

func drawEnding(seed uint64) ending {
	rng := stream(seed, "ending")
	return ending{once: rng.IntN(6) == 0, retry: rng.IntN(2) == 0}
}

// finish plays the ending.
func (s *simulation) finish() {
	if s.Source.Stream().Ended || s.bad() {
		return
	}
	if s.plan.ending.retry {
		s.retryAll()
	}
	if s.plan.ending.once && !s.bad() {
		s.drain()
	}
}

// drain stops all workers, changes some items, and lets one worker continue until it ends by
// itself. Then everything must be applied (H18).
func (s *simulation) drain() {
	if quiet := 12 * s.plan.poll; time.Duration(len(s.Source.Stream().Open()))*quiet > s.plan.shardLife {
		return // one of the shards is always too young to have been quiet for that long
	}
	for _, m := range s.crew {
		s.ask(m)
	}
	limit := s.World.Elapsed() + s.patience()
	gone := func() bool {
		return !slices.ContainsFunc(s.crew, func(m *member) bool { return m.works() })
	}
	for !gone() && s.World.Elapsed() < limit {
		s.pass()
	}
	if !gone() {
		s.fail("I10", "a worker does not end when it is asked to")
		return
	}
	for range 1 + s.World.Rand().IntN(8) {
		s.write()
	}
	if open := s.Source.Stream().Open(); s.World.Rand().IntN(2) == 0 {
		s.Source.Stream().Roll(open[s.World.Rand().IntN(len(open))])
		s.write()
	}
	s.World.Tracef("one worker goes on until all is drained")
	m := &member{}
	s.crew = []*member{m}
	once := func(o *engine.Options) { o.Once = true }
	s.hire(m, once)
	s.disturb(m)
	for limit = s.World.Elapsed() + s.patience() + 24*time.Hour + 20*s.plan.poll; !m.worker.Over && s.World.Elapsed() < limit; {
		s.pass()
		if m.worker.Over && m.worker.Err != nil && s.excused(m.worker.Err) {
			s.hire(m, once) // under another policy
		}
	}
	// A shard that is rolled just now does not matter: it was empty for some time, and its child is
	// still empty.
	missing := strings.Join(s.rec.unequal(s.since(s.State())), "\n")
	s.tooLate = s.disturbed > 0 && s.World.Elapsed()-s.disturbed < s.plan.poll+s.plan.pass+3*time.Minute
	if s.tooLate {
		missing = "" // it may have arrived after the last page
	}
	switch {
	case !m.worker.Over:
		s.fail("I10", "what is to end when everything is drained goes on")
	case m.worker.Err != nil:
		s.fail("I10", "what is to end when everything is drained ended with: %v", m.worker.Err)
	case missing != "":
		s.fail("I3", "a worker ended as if everything were drained: %s", missing)
	default:
		s.World.Inject("drained to the end")
	}
}

// disturb lets the application continue for some time. Then it freezes the draining worker, or
// makes a shard, all shards, or the target with its ledger unreadable, while items change. An
// earlier quiet time must not count then.
func (s *simulation) disturb(m *member) {
	rng := stream(s.plan.seed, "drained")
	how := rng.IntN(4)
	if how == 0 {
		return
	}
	polls := func(least, most int) time.Duration { return time.Duration(least+rng.IntN(most-least)) * s.plan.poll }
	s.World.Go("disturbance", func(ctx context.Context) {
		write := func() bool {
			if m.worker.Over {
				return false
			}
			s.write()
			s.disturbed = s.World.Elapsed()
			return true
		}
		for range rng.IntN(6) {
			if task.Sleep(ctx, polls(1, 8)) != nil || !write() {
				return
			}
		}
		lasts := polls(1, 40)
		switch open := s.Source.Stream().Open(); how {
		case 1:
			m.worker.Pause(lasts)
		case 2:
			service := &s.sourceDown
			if rng.IntN(2) == 0 {
				service = &s.targetDown
			}
			s.down(service, cdc.Unavailable, lasts)
		default:
			s.unreadable = failingShard{open[rng.IntN(len(open))].ID, s.World.Elapsed() + lasts}
		}
		for range 1 + rng.IntN(4) {
			if task.Sleep(ctx, lasts/4) != nil || !write() {
				return
			}
			s.World.Inject("changed while nobody could read")
		}
	})
}
