package sim

import (
	"context"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// simSeeds is the number of days that TestSimulate plays. SIM_SEEDS sets another number, SIM_FROM
// the first seed.
const simSeeds = 8

// TestSimulate plays some seeds, each for a virtual day or longer with all checkers (I1 to I10).
// Loads and sweeps repair gaps (H71, H86, H98).
func TestSimulate(t *testing.T) {
	t.Parallel()
	from := fromEnvironment(t, "SIM_FROM", 0)
	for seed := range seedsOf(t, simSeeds) {
		if r := Simulate(from+seed, SimOptions{}); len(r.Failures) > 0 {
			t.Fatal(Explain(from+seed, SimOptions{}))
		} else if r.Elapsed.Hours() < 24 {
			t.Errorf("seed %d: only %s", from+seed, r.Elapsed)
		}
	}
}

// TestSimulationIsRepeatable: the same seed gives the same trace, byte for byte, with any number of
// processors.
func TestSimulationIsRepeatable(t *testing.T) {
	for _, seed := range partOf([]uint64{1, 4}) {
		first := Simulate(seed, SimOptions{Trace: true})
		if first.Trace == "" {
			t.Fatalf("seed %d has no trace", seed)
		}
		for _, processors := range []int{1, 2} {
			before := runtime.GOMAXPROCS(processors)
			again := Simulate(seed, SimOptions{Trace: true})
			runtime.GOMAXPROCS(before)
			if again.Trace != first.Trace || again.Steps != first.Steps {
				t.Errorf("seed %d on %d processors: another trace", seed, processors)
			}
		}
		// Without a trace the run is the same.
		if untraced := Simulate(seed, SimOptions{}); untraced.Steps != first.Steps || !maps.Equal(untraced.Injected, first.Injected) {
			t.Errorf("seed %d without a trace: %d steps instead of %d", seed, untraced.Steps, first.Steps)
		}
	}
}

// exampleSeeds is how many days each mapping is played, each with its own seeds, so that no two
// have the same faults.
const exampleSeeds = 1

// H72, H73, H74, H83: every worked example and every mapping of the simulation is played for its
// own days. Items move, share rows, are removed and recreated, and cannot be mapped, beside copies,
// crashes and all other faults. A brief run plays some of them.
func TestH72_H73_H74_H83_EveryMappingIsPlayed(t *testing.T) {
	t.Parallel()
	from, seeds := fromEnvironment(t, "SIM_FROM", 1000), seedsOf(t, exampleSeeds)
	for i, name := range partOf(MappingNames()) {
		t.Run(name, func(t *testing.T) {
			for n := range seeds {
				seed := from + uint64(i)*seeds + n
				if r := Simulate(seed, SimOptions{Mapping: name}); len(r.Failures) > 0 {
					t.Fatalf("make sim SEED=%d MAPPING=%s: %s", seed, name, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
				}
			}
		})
	}
}

// twiceAfterKill is a bug that shows only after a worker was killed: an existing row is written
// again unchanged. A run without an early occurrence ends, so that the test does not play a day for
// each required fault.
func twiceAfterKill(s *simulation) {
	s.World.Go("bug", func(ctx context.Context) {
		for task.Sleep(ctx, 10*time.Minute) == nil {
			if s.World.Elapsed() > 3*time.Hour {
				s.fail("none", "no bug has shown")
				return
			}
			if s.World.Injected()["process killed"] == 0 || !s.State().Loaded() {
				continue
			}
			for _, key := range s.Target.Rows(s.Mapping.Table) {
				if v, live := s.Target.Row(s.Mapping.Table, key).Value(sink.LiveFamily, sink.VersionColumn); live && strings.HasPrefix(key, "k") {
					_, _ = s.Target.Execute("bug", s.Mapping.Table, key, nil, []model.Mutation{{Kind: model.SetCell, Family: sink.LiveFamily, Qualifier: sink.VersionColumn, Value: v}})
					return
				}
			}
		}
	})
}

// TestExplain: a failing run is reduced as far as possible, and its history names the cause.
func TestExplain(t *testing.T) {
	// This kills workers without a separate fault.
	o := SimOptions{sabotage: twiceAfterKill, Without: []string{"workers gone after ledger writes"}}
	seed := uint64(0)
	for ; Simulate(seed, o).Checker() != "I7"; seed++ {
		if seed > 50 {
			t.Fatal("no seed has a worker killed")
		}
	}
	text := Explain(seed, o)
	head, story, found := strings.Cut(text, "What happened to it")
	if !found || len(strings.Split(story, "\n")) > shownLines+5 {
		t.Fatalf("seed %d: the story is missing or too long:\n%s", seed, text)
	}
	for _, needed := range []string{"make sim SEED=", "I7: row \"k", "and 0 bursts"} {
		if !strings.Contains(head, needed) {
			t.Errorf("%q is not in\n%s", needed, head)
		}
	}
	if n := strings.Count(head, " #"); n != 1 {
		t.Errorf("%d faults are left:\n%s", n, head)
	}
	if !strings.Contains(story, "kills worker") || !strings.Contains(story, "VIOLATION I7") {
		t.Errorf("the story is\n%s", story)
	}
}
