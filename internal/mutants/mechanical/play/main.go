// Play plays the named seeds of the simulation, and prints for each what failed and which points its planted bugs noted, as a line of
// JSON. It ends after the first failure. It is built by internal/mutants/mechanical, with bugs in what it plays.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/mutants/mechanical/planted"
	"github.com/dynamodb-bigtable/replicator/internal/sim"
)

// Played is what a seed gave.
type Played struct {
	Seed    uint64
	Failure string
	// Ran and Differ are numbers of points: executed, and such that their bug would have made a difference.
	Ran, Differ []int
}

// memoryLimit is far above what a world takes: a bug that has something grow without end is found by it.
const memoryLimit = 1 << 30

func main() {
	points := flag.Int("watch", 0, "how many points there are; 0: they are not watched")
	flag.Parse()
	if *points > 0 {
		planted.Watch(*points)
	}
	debug.SetGCPercent(400) // worlds are small and short-lived
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
		for range time.Tick(100 * time.Millisecond) {
			if metrics.Read(sample); sample[0].Value.Uint64() > memoryLimit {
				fmt.Fprintln(os.Stderr, "memory grows without end")
				os.Exit(3)
			}
		}
	}()
	for _, argument := range flag.Args() {
		seed, err := strconv.ParseUint(argument, 10, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		p := Played{Seed: seed}
		if r := sim.Simulate(seed, sim.SimOptions{}); len(r.Failures) > 0 {
			p.Failure = r.Failures[0]
		}
		p.Ran, p.Differ = planted.Notes()
		if err := json.NewEncoder(os.Stdout).Encode(p); err != nil {
			os.Exit(2)
		}
		if p.Failure != "" {
			os.Exit(1)
		}
	}
}
