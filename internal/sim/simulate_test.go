package sim

import (
	"bufio"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// simSeeds is how many whole days TestSimulate plays; SIM_SEEDS sets another number, SIM_FROM the first of them.
const simSeeds = 8

func fromEnvironment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// keptSeed is one that failed once, as it was played.
type keptSeed struct {
	number uint64
	SimOptions
}

func keptSeeds(t *testing.T) []keptSeed {
	t.Helper()
	f, err := os.Open("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var seeds []keptSeed
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, dense := strings.CutPrefix(lines.Text(), "dense ")
		number, why, _ := strings.Cut(line, " ")
		if number == "#" || number == "" {
			continue
		}
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil || why == "" {
			t.Fatalf("seeds.txt: %q is not a seed and why it is kept", lines.Text())
		}
		seeds = append(seeds, keptSeed{seed, SimOptions{Dense: dense}})
	}
	return seeds
}

// TestSimulate plays the kept seeds and some more, each a virtual day or longer with every checker at work (I1 to I10).
func TestSimulate(t *testing.T) {
	t.Parallel()
	seeds := keptSeeds(t)
	from := fromEnvironment(t, "SIM_FROM", 0)
	for seed := range fromEnvironment(t, "SIM_SEEDS", simSeeds) {
		seeds = append(seeds, keptSeed{number: from + seed})
	}
	for _, seed := range seeds[:max(2, len(seeds)/fewer)] {
		if r := Simulate(seed.number, seed.SimOptions); len(r.Failures) > 0 {
			t.Fatal(Explain(seed.number, seed.SimOptions))
		} else if r.Elapsed.Hours() < 24 {
			t.Errorf("seed %d: only %s", seed.number, r.Elapsed)
		}
	}
}

// TestSimulationIsRepeatable: the same seed gives the same trace byte for byte, whatever the number of processors.
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
		// Without a trace the same things happen.
		if untraced := Simulate(seed, SimOptions{}); untraced.Steps != first.Steps || !maps.Equal(untraced.Injected, first.Injected) {
			t.Errorf("seed %d without a trace: %d steps instead of %d", seed, untraced.Steps, first.Steps)
		}
	}
}
