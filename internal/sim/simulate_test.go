package sim

import (
	"bufio"
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

func keptSeeds(t *testing.T) []uint64 {
	t.Helper()
	f, err := os.Open("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var seeds []uint64
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		number, why, _ := strings.Cut(lines.Text(), " ")
		if number == "#" || number == "" {
			continue
		}
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil || why == "" {
			t.Fatalf("seeds.txt: %q is not a seed and why it is kept", lines.Text())
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

// TestSimulate plays the kept seeds and some more, each a virtual day or longer with every checker at work (I1 to I10).
func TestSimulate(t *testing.T) {
	seeds := keptSeeds(t)
	from := fromEnvironment(t, "SIM_FROM", 0)
	for seed := range fromEnvironment(t, "SIM_SEEDS", simSeeds) {
		seeds = append(seeds, from+seed)
	}
	for _, seed := range seeds[:max(2, len(seeds)/fewer)] {
		if r := Simulate(seed, SimOptions{}); len(r.Failures) > 0 {
			t.Fatal(Explain(seed))
		} else if r.Elapsed.Hours() < 24 {
			t.Errorf("seed %d: only %s", seed, r.Elapsed)
		}
	}
}

// TestSimulationIsRepeatable: the same seed gives the same trace byte for byte, whatever the number of processors.
func TestSimulationIsRepeatable(t *testing.T) {
	for _, seed := range []uint64{1, 4}[:max(1, 2/fewer)] {
		first := Simulate(seed, SimOptions{Trace: true}).Trace
		before := runtime.GOMAXPROCS(1)
		second := Simulate(seed, SimOptions{Trace: true}).Trace
		runtime.GOMAXPROCS(before)
		if first == "" || first != second {
			t.Errorf("seed %d: two runs, two traces", seed)
		}
	}
}
