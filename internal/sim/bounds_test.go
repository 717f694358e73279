package sim

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// The bounds in time of the checkers count from when what they wait for can happen. What is shown here is a run without faults of its own.

// calmPlan is a plan without faults, with bounds that are as short as a seed can draw them.
func calmPlan(seed uint64) plan {
	p := newPlan(seed, SimOptions{})
	p.events, p.rates, p.mapping, p.neighbour, p.policy, p.ending, p.unloaded, p.clustered = nil, map[string]float64{}, "", alone, policy{}, ending{}, false, false
	p.shards, p.workers, p.lease, p.pass, p.list, p.poll, p.shardLife = 1, 1, 4*time.Minute, time.Minute, 6*time.Minute, 7*time.Minute, 6*time.Hour
	p.length = 12 * time.Hour
	p.writes = slices.DeleteFunc(p.writes, func(e event) bool { return e.at > p.length })
	return p
}

// played are the failures of a plan, with something that goes on beside it, after what is done before all.
func played(p plan, beside func(s *simulation, ctx context.Context), first ...func(s *simulation)) []string {
	s := newSimulation(p, SimOptions{sabotage: func(s *simulation) {
		for _, f := range first {
			f(s)
		}
		s.World.Go("beside", func(ctx context.Context) { beside(s, ctx) })
	}})
	if err := s.World.Run(300*time.Hour, s.play); err != nil {
		s.fail("I10", "%v", err)
	}
	return s.report().Failures
}

// TestSpellsOfEmptyPages: nobody is stuck while the service gives empty pages, however many spells of them follow each other (H18).
func TestSpellsOfEmptyPages(t *testing.T) {
	failed := played(calmPlan(1), func(s *simulation, ctx context.Context) {
		for s.World.Elapsed() < 8*time.Hour && task.Sleep(ctx, time.Hour) == nil {
			for _, sh := range s.Source.Stream().Shards {
				sh.EmptyPages = 19
			}
		}
	})
	if len(failed) > 0 {
		t.Errorf("%q", failed)
	}
}

// TestDryRunOfAShardThatCannotBeRead: a dry run of a busy table ends soon after its calls are answered again, those of a single shard among them.
func TestDryRunOfAShardThatCannotBeRead(t *testing.T) {
	busy := uint64(0)
	for stream(busy, "rehearsed").IntN(2) != 0 {
		busy++
	}
	s := newSimulation(calmPlan(busy), SimOptions{})
	err := s.World.Run(300*time.Hour, func(ctx context.Context) {
		s.ctx = ctx
		s.fill()
		s.unreadable = failingShard{s.Source.Stream().Shards[0].ID, s.World.Elapsed() + 3*time.Hour}
		s.rehearse()
	})
	if failed := s.report().Failures; err != nil || len(failed) > 0 || s.World.Injected()["dry run of a busy table"] == 0 {
		t.Errorf("%v, %q, %v", err, failed, s.World.Injected())
	}
}

// TestQuietRootAfterLongOutage: of a root that gave nothing but empty pages its first read alone says what may be missing, however often it was read
// since. A worker with a fast clock comes to it after an outage of less than a day, and may declare a gap (H23, H75).
func TestQuietRootAfterLongOutage(t *testing.T) {
	p := calmPlan(1)
	p.writes, p.length = nil, 24*time.Hour
	var gaps []string
	failed := played(p, func(s *simulation, ctx context.Context) {
		if task.Sleep(ctx, 5*time.Hour+30*time.Minute) != nil {
			return
		}
		s.allDown(event{}, 17*time.Hour)
		gone := s.crew[0].worker
		for s.crew[0].worker == gone && task.Sleep(ctx, 50*time.Millisecond) == nil {
		}
		s.crew[0].worker.Skew(110 * time.Minute)
		_ = task.Sleep(ctx, time.Hour)
		gaps = s.Gaps
	}, func(s *simulation) {
		for _, sh := range s.Source.Stream().Shards {
			sh.records = nil
		}
	})
	if len(failed) > 0 || len(gaps) == 0 {
		t.Errorf("%q, gaps %q", failed, gaps)
	}
}

// TestNewStreamAfterAnEndedOne: who keeps a table whose stream ended lists nothing, and has a listing's time from when a new one begins.
func TestNewStreamAfterAnEndedOne(t *testing.T) {
	p := calmPlan(1)
	p.length = 40 * time.Hour
	for name, at := range map[string]time.Duration{"stream ends": time.Hour, "new stream": 31 * time.Hour} {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		p.events = append(p.events, event{kind: &kinds[i], at: at})
	}
	slices.SortFunc(p.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	if failed := played(p, func(*simulation, context.Context) {}); len(failed) > 0 {
		t.Errorf("%q", failed)
	}
}

// TestNewStreamJustBeforeTheStart: a table that is followed from now on owes a few minutes before that, and nothing from before its stream (H24).
func TestNewStreamJustBeforeTheStart(t *testing.T) {
	p := calmPlan(1)
	p.unloaded, p.writes = true, nil
	failed := played(p, func(s *simulation, ctx context.Context) {
		if task.Sleep(ctx, time.Hour) != nil {
			return
		}
		for range p.keys {
			s.write()
		}
		_ = task.Sleep(ctx, time.Minute)
		s.Source.EnableStream(1)
	}, func(s *simulation) {
		s.World.Inject("stream disabled")
		s.Source.DisableStream()
	})
	if len(failed) > 0 {
		t.Errorf("%q", failed)
	}
}

// TestSeveralWhoCannotReachTheSource: what a worker leaves that cannot reach the source another such worker may take before one that can, again and again. What
// nobody leaves is seen, where one alone cannot reach it (I10).
func TestSeveralWhoCannotReachTheSource(t *testing.T) {
	for name, c := range map[string]struct {
		cut    int           // how many workers, of eight
		bound  bool          // as if there were one
		leaves time.Duration // after so long
		want   string
	}{
		"several":               {7, false, 0, ""},
		"several, bounded":      {7, true, 0, "I10: nobody"},
		"one":                   {1, false, 0, ""},
		"one that never leaves": {1, false, 100 * time.Hour, "I10: nobody"},
	} {
		var failures []string
		for seed := uint64(1); seed <= 6; seed++ {
			p := calmPlan(seed)
			p.workers, p.length = 8, 20*time.Hour
			failures = append(failures, played(p, func(s *simulation, ctx context.Context) {
				if task.Sleep(ctx, 2*time.Hour) != nil {
					return
				}
				keeper := recordOf[seatRecord](s.Target.Row(stateTable, "default/keeper/"+s.Source.Name)).Owner
				first := slices.IndexFunc(s.crew, func(m *member) bool { return m.worker.Name() == keeper })
				for i := range c.cut {
					s.cutOff(event{long: 1, pick: uint64((first + i) % len(s.crew))}, true, false)
				}
				if c.bound {
					s.contended = 0
				}
			}, func(s *simulation) { s.Timing.Yield = c.leaves })...)
		}
		t.Run(name, func(t *testing.T) { expect(t, failures, c.want) })
	}
}

// TestALeaseThatIsTriedAgainAndAgain: a lease is tried once in a pass, and where calls are refused and lost many tries in a row may come to nothing. What nobody
// ever takes is seen, and so is what is taken so late where calls do not fail (I10).
func TestALeaseThatIsTriedAgainAndAgain(t *testing.T) {
	for name, c := range map[string]struct {
		rates bool // calls are refused and lost, as often as a seed may have it
		tries int  // of the first child's lease are in vain
		want  string
	}{
		"while calls fail":   {true, 16, ""},
		"for ever":           {true, 1000, "I10: nobody holds shard"},
		"while all are well": {false, 16, "I10: nobody holds shard"},
	} {
		var failures []string
		for seed := uint64(1); seed <= 2; seed++ {
			p := calmPlan(seed)
			p.lease, p.pass, p.length, p.shardLife = 14*time.Minute, 14*time.Minute, 16*time.Hour, 3*time.Hour+30*time.Minute
			if c.rates {
				p.rates = map[string]float64{"target throttled": 0.2, "requests dropped": 0.1}
			}
			tried, child := 0, ""
			failures = append(failures, played(p, func(*simulation, context.Context) {}, func(s *simulation) {
				s.Target.Fault = func(op, table, row string) error {
					is := &shardRecord{}
					if op == "Swap" && strings.HasPrefix(row, "default/shard/") && (child == "" || child == row) && tried < c.tries {
						is = recordOf[shardRecord](s.Target.Row(table, row))
					}
					if is.State == checkpoint.Waiting && is.Parent != "" {
						tried, child = tried+1, row
						return &sink.Error{Op: op, Reason: sink.Throttled, Code: "ResourceExhausted"}
					}
					return s.targetFault(op, table, row)
				}
			})...)
		}
		t.Run(name, func(t *testing.T) { expect(t, failures, c.want) })
	}
}
