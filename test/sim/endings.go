package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// ending is what some runs do when everything is applied and compared.
type ending struct {
	once  bool // the workers are stopped, and one goes on that ends by itself when everything is drained
	retry bool // all that is parked is retried
	dry   bool // the table is read and mapped as by a dry run
}

func drawEnding(seed uint64) ending {
	rng := stream(seed, "ending")
	return ending{once: rng.IntN(6) == 0, dry: rng.IntN(6) == 0, retry: rng.IntN(2) == 0}
}

// finish does what the run ends with.
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
	if s.plan.ending.dry && !s.bad() {
		s.rehearse()
	}
}

// drain stops everybody, changes some items, and lets one worker go on until it ends by itself:
// then everything is applied (H18).
func (s *simulation) drain() {
	if quiet := 12 * s.plan.poll; time.Duration(s.openShards())*quiet > s.plan.shardLife {
		return // one of the shards always is too young to have been quiet for so long
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
	once := func(o *pipeline.Options) { o.Once = true }
	s.hire(m, once)
	s.disturb(m)
	for limit = s.World.Elapsed() + s.patience() + 24*time.Hour + 20*s.plan.poll; !m.worker.Over && s.World.Elapsed() < limit; {
		s.pass()
		if m.worker.Over && m.worker.Err != nil && s.excused(m.worker.Err) {
			s.hire(m, once) // under another policy
		}
	}
	// A shard that is rolled just now is no matter: it gave nothing for a while, and its child
	// holds nothing yet.
	missing := strings.Join(s.rec.unequal(s.since(s.State())), "\n")
	if s.disturbed > 0 && s.World.Elapsed()-s.disturbed < s.plan.poll+s.plan.pass+3*time.Minute {
		missing = "" // it may have come after the last page
	}
	switch {
	case !m.worker.Over:
		s.fail("I10", "what is to end when everything is drained goes on")
	case m.worker.Err != nil:
		s.fail("I10", "what is to end when everything is drained ended with: %v", m.worker.Err)
	case missing != "":
		s.fail("I3", "a worker ended as if everything were drained: %s", missing)
	case s.neighbour != nil && s.neighbour.missing() != "":
		s.fail("I3", "a worker ended as if everything were drained of the neighbour: %s", s.neighbour.missing())
	default:
		s.World.Inject("drained to the end")
	}
}

// disturb lets the application go on for a while, and then the one that drains stand still, or one
// of the shards, or all, not be readable, or the target and with it the ledger, while items change:
// what was quiet before says nothing of that.
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

// openShards is how many shards take changes now.
func (s *simulation) openShards() int {
	n := len(s.Source.Stream().Open())
	if s.neighbour != nil {
		n += len(s.neighbour.Source.Stream().Open())
	}
	return n
}

// rehearse compares what a dry run finds with what there is: every item, and every change that the
// stream keeps. It has nothing to write to. It ends also while items change all the time.
func (s *simulation) rehearse() {
	s.Source.StaleUntil = time.Time{} // of the stream before, which a late description names, nothing is said here
	machine, done, over := s.World.NewProcess("rehearsal"), s.World.NewEvent(), false
	busy := stream(s.plan.seed, "rehearsed").IntN(2) == 0
	var found pipeline.Rehearsal
	var err error
	listed := slices.DeleteFunc(slices.Clone(s.Source.Stream().Shards), func(sh *model.Shard) bool { return sh.Hidden || s.World.Now().Before(sh.ListedFrom) })
	atMost := keptChanges(s.Source.Stream().Shards)
	machine.Go("dry run", func() {
		found, err = pipeline.DryRun(machine.Context(), pipeline.Options{Database: s.Source, Open: s.open, Timing: s.Timing},
			pipeline.Table{Mapping: s.Mapping, Segments: s.plan.segments})
		over = true
		done.Set()
	})
	if busy {
		s.World.Inject("dry run of a busy table")
		s.changeUntil(&over)
	}
	if done.Wait(s.ctx) != nil {
		return
	}
	rows := int64(0)
	for _, item := range s.Source.ByID {
		for _, spot := range s.rec.layout.place(item).spots {
			if spot.held || spot.rejected() {
				rows++
			}
		}
	}
	switch {
	case err != nil:
		s.fail("I10", "a dry run fails: %v", err)
	case busy: // how much it read of what changes meanwhile is not said
	case found.Items != int64(len(s.Source.ByID)), found.Rows != rows:
		s.fail("I9", "a dry run finds %d items for %d rows, and there are %d for %d", found.Items, found.Rows, len(s.Source.ByID), rows)
	case found.Changes > atMost || found.Changes < keptChanges(listed):
		s.fail("I9", "a dry run finds %d changes, and the stream keeps %d to %d", found.Changes, keptChanges(listed), atMost)
	}
	s.World.Inject("dry run")
}

// changeUntil changes items so often that no shard that is polled is empty, until the dry run is
// over. A call that fails now may fail for hours, and so may those of a shard that could not be
// read when the run before this one was drained.
func (s *simulation) changeUntil(over *bool) {
	s.World.Go("application", func(ctx context.Context) {
		for until := max(s.World.Elapsed(), s.healthy, s.unreadable.until) + time.Hour; !*over; s.write() {
			if s.World.Elapsed() > until {
				s.fail("I10", "a dry run goes on as long as items change")
				return
			}
			if task.Sleep(ctx, max(time.Second, s.plan.poll/8)) != nil {
				return
			}
		}
	})
}

// keptChanges is how many changes of the shards the stream can still give.
func keptChanges(shards []*model.Shard) int64 {
	n := 0
	for _, sh := range shards {
		if !sh.Gone {
			n += len(sh.Records) - sh.Trimmed
		}
	}
	return int64(n)
}

// rejected reports whether the target refuses to hold what the spot has.
func (s *spot) rejected() bool {
	for _, values := range s.content {
		if strings.Contains(values, rejectedValue) {
			return true
		}
	}
	return false
}
