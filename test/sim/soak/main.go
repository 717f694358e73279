// Soak plays many seeds of the simulation (test/sim) on all cores:
//
//	go run ./test/sim/soak -seeds 200000 -from 0
//	go run ./test/sim/soak -draw -seeds 150
//	go run ./test/sim/soak -kept test/sim/testdata/seeds.txt
//	go run ./test/sim/soak -explain 17
//
// It prints its progress, and at the end the virtual time and how often each fault took effect. It
// fails with the seeds that failed, and reduces and explains the first of them. After enough seeds
// it also fails with the faults that never took effect.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/sim"
)

func main() {
	seeds := flag.Uint64("seeds", 1000, "how many seeds")
	from := flag.Uint64("from", 0, "the first seed")
	explain := flag.String("explain", "", "play this seed alone, and make what fails smaller")
	mapping := flag.String("mapping", "", "play all seeds under this mapping: "+strings.Join(sim.MappingNames(), ", "))
	kept := flag.String("kept", "", "play the seeds of this file alone, which failed once, as they were played then")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "how many at once")
	enough := flag.Int("failures", 5, "stop after so many failing seeds")
	verifies := flag.Bool("verifies", false, "the table is verified, with rows that somebody hurt")
	dualWrites := flag.Bool("dual-writes", false, "an application writes both stores, in place of all else")
	cutovers := flag.Bool("cutovers", false, "cutovers, in place of all else")
	neighbours := flag.Bool("neighbours", false, "two pipelines on one target, in place of all else")
	fallback := flag.Bool("fallback", false, "the way back after a cutover, in place of all else")
	rollback := flag.Bool("rollback", false, "rollbacks and another cutover between them, in place of all else")
	mappings := flag.Bool("mappings", false, "mappings that are replaced, in place of all else")
	exports := flag.Bool("exports", false, "the table is loaded from exports, too")
	plain := flag.Bool("plain", false, "most seeds allow a fast load")
	fast := flag.Bool("fast", false, "the first load is a fast one, if that is allowed")
	failovers := flag.Bool("failovers", false, "the target's app profile is led to another cluster")
	dense := flag.Bool("dense", false, "twice as many kinds of faults in each run")
	relay := flag.Bool("relay", false, "changes are published to a topic as well")
	draw := flag.Bool("draw", false, "the seed says what is played, in place of the flags")
	quiet := flag.Bool("quiet", false, "print failures alone, one line for each")
	flag.Parse()
	if *explain != "" {
		os.Exit(explained(*explain, sim.SimOptions{Mapping: *mapping, Dense: *dense, Verifies: *verifies, Relay: *relay, DualWrites: *dualWrites, Cutovers: *cutovers, Exports: *exports, Failovers: *failovers, Fast: *fast, Plain: *plain, Mappings: *mappings, Neighbours: *neighbours, Fallback: *fallback, Rollback: *rollback}))
	}
	debug.SetGCPercent(1000) // worlds are small and short-lived
	t := total{injected: map[string]int{}, began: time.Now(), last: time.Now(), quiet: *quiet, options: sim.SimOptions{Mapping: *mapping, Dense: *dense, Verifies: *verifies, Relay: *relay, DualWrites: *dualWrites, Cutovers: *cutovers, Exports: *exports, Failovers: *failovers, Fast: *fast, Plain: *plain, Mappings: *mappings, Neighbours: *neighbours, Fallback: *fallback, Rollback: *rollback}}
	if *kept != "" {
		var err error
		if t.kept, err = readKept(*kept); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		*from, *seeds = 0, uint64(len(t.kept))
	}
	t.draw = *draw
	t.play(*from, *seeds, *parallel, *enough)
	os.Exit(t.summary())
}

func explained(text string, o sim.SimOptions) int {
	var seed uint64
	if _, err := fmt.Sscan(text, &seed); err != nil {
		fmt.Fprintln(os.Stderr, "not a seed:", text)
		return 2
	}
	why := sim.Explain(seed, o)
	if why == "" {
		r := sim.Simulate(seed, o)
		fmt.Printf("seed %d: nothing fails in %.1f virtual hours, %d steps\n", seed, r.Elapsed.Hours(), r.Steps)
		for _, name := range slices.Sorted(maps.Keys(r.Injected)) {
			fmt.Printf("%10d × %s\n", r.Injected[name], name)
		}
		return 0
	}
	fmt.Print(why)
	return 1
}

// total sums up all runs.
type total struct {
	mu       sync.Mutex
	next     uint64
	played   int
	gaps     int
	steps    int
	virtual  time.Duration
	exports  int // seeds with exports
	exported int // seeds whose load from an export ended, or cannot end
	injected map[string]int
	failed   []run
	began    time.Time
	last     time.Time
	quiet    bool
	options  sim.SimOptions
	draw     bool  // each seed chooses its features
	kept     []run // instead of consecutive seeds
}

// run is a seed and how it is played.
type run struct {
	seed    uint64
	options sim.SimOptions
}

// readKept reads lines with a seed and the reason why it is kept. Lines with dense were played with
// twice the faults, lines with relay, verifies, cutovers, exports or failovers with that feature.
func readKept(file string) (runs []run, err error) {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		line, dense := strings.CutPrefix(line, "dense ")
		line, relay := strings.CutPrefix(line, "relay ")
		line, verifies := strings.CutPrefix(line, "verifies ")
		line, cutovers := strings.CutPrefix(line, "cutovers ")
		line, exports := strings.CutPrefix(line, "exports ")
		line, failovers := strings.CutPrefix(line, "failovers ")
		line, fast := strings.CutPrefix(line, "fast ")
		r := run{options: sim.SimOptions{Dense: dense, Relay: relay, Verifies: verifies, Cutovers: cutovers, Exports: exports, Failovers: failovers, Fast: fast}}
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscan(line, &r.seed); err != nil {
			return nil, fmt.Errorf("%s: %q is not a seed and why it is kept", file, line)
		}
		runs = append(runs, r)
	}
	return runs, err
}

// complete is the number of seeds that together must have every fault.
const complete = 2000

// play runs worlds in parallel. They share nothing.
func (t *total) play(from, seeds uint64, parallel, enough int) {
	t.next = from
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for {
				t.mu.Lock()
				seed := t.next
				over := seed >= from+seeds || len(t.failed) >= enough
				t.next++
				t.mu.Unlock()
				if over {
					return
				}
				r := run{seed, t.options}
				if t.draw {
					r.options = drawn(seed)
				}
				if len(t.kept) > 0 {
					r = t.kept[seed]
				}
				t.add(r, r.simulate())
			}
		})
	}
	all.Wait()
}

// drawn returns how a seed is played. Of twenty consecutive seeds, three are plain and each of the
// others plays a single feature.
func drawn(seed uint64) (o sim.SimOptions) {
	switch seed % 20 {
	case 0, 1:
		o.Dense = true
	case 2, 3:
		o.DualWrites = true
	case 4, 5:
		o.Exports = true
	case 6, 7:
		o.Failovers = true
	case 8:
		o.Verifies = true
	case 9:
		o.Mappings = true
	case 10:
		o.Relay = true
	case 11:
		o.Neighbours = true
	case 12, 13:
		o.Fallback = true
	case 14, 15, 16:
		o.Rollback = true
	}
	o.Fast = seed%7 < 4 // so that a third of all seeds have a fast load
	o.Plain = o.Fast && seed%7 > 0
	return o
}

// endless is far longer than any seed takes. It detects loops that never wait, so that virtual time
// does not advance.
const endless = 5 * time.Minute

// simulate plays a seed. If the seed loops without end, it prints the seed and exits.
func (r run) simulate() sim.Report {
	alarm := time.AfterFunc(endless, func() {
		fmt.Printf("FAIL seed %d: it is not over after %s; something goes round without an end\n", r.seed, endless)
		os.Exit(1)
	})
	defer alarm.Stop()
	return sim.Simulate(r.seed, r.options)
}

func (t *total) add(as run, r sim.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.played++
	t.virtual += r.Elapsed
	t.steps += r.Steps
	if r.Gap {
		t.gaps++
	}
	if as.options.Exports {
		t.exports++
		if r.Exported > 0 || r.Moot || len(r.Failures) > 0 {
			t.exported++
		}
	}
	for name, n := range r.Injected {
		t.injected[name] += n
	}
	if len(r.Failures) > 0 {
		t.failed = append(t.failed, as)
		fmt.Printf("FAIL seed %d after %.1f virtual hours: %s\n", r.Seed, r.Elapsed.Hours(), r.Failures[0])
	}
	if now := time.Now(); !t.quiet && now.Sub(t.last) > 10*time.Second {
		t.last = now
		fmt.Printf("%d seeds, %.0f virtual hours, %.0f ms a seed, %d failed\n",
			t.played, t.virtual.Hours(), float64(now.Sub(t.began).Milliseconds())/float64(t.played), len(t.failed))
	}
}

func (t *total) summary() int {
	if t.quiet {
		fmt.Printf("%d seeds\n", t.played)
		return min(1, len(t.failed))
	}
	fmt.Printf("\n%d seeds in %s: %.0f virtual hours, %d steps, %d with a gap\n",
		t.played, time.Since(t.began).Round(time.Second), t.virtual.Hours(), t.steps, t.gaps)
	for _, name := range slices.Sorted(maps.Keys(t.injected)) {
		fmt.Printf("%10d × %s\n", t.injected[name], name)
	}
	missing := 0
	if t.exports > 0 {
		fmt.Printf("a load from an export ended, or the stream, in %d of %d seeds\n", t.exported, t.exports)
		missing += t.exports - t.exported
	}
	for _, name := range sim.Effects() {
		if t.options.Mapping == "" && !t.options.Cutovers && !t.options.Mappings && !t.options.Neighbours && !t.options.Fallback && !t.options.Rollback && t.played >= complete && t.injected[name] == 0 {
			missing++
			fmt.Printf("%s: never took effect\n", name)
		}
	}
	for i, r := range t.failed {
		if i == 0 {
			fmt.Printf("\n%s\n", sim.Explain(r.seed, r.options))
		}
		fmt.Printf("seed %d fails: make sim SEED=%d%s\n", r.seed, r.seed, r.options.Named())
	}
	if len(t.failed) > 0 || missing > 0 {
		return 1
	}
	return 0
}
