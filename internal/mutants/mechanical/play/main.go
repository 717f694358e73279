//go:build unix

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
	"syscall"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/mutants/mechanical/planted"
	"github.com/dynamodb-bigtable/replicator/internal/sim"
)

// Played is what a seed gave.
type Played struct {
	Seed    uint64
	Steps   int  // of the run: what it cost
	Gap     bool // something was lost and declared: after that, less is promised and checked
	Failure string
	// Ran and Differ are numbers of points: executed, and such that their bug would have made a difference.
	Ran, Differ []int
}

const (
	// memoryLimit is far above what a world takes: a bug that has something grow without end is found by it.
	memoryLimit = 1 << 30
	// idle is how long nothing is done until a lock is taken to be held for ever. What waits in virtual time takes no time; but a machine that
	// is busy with other things may give a process nothing for seconds.
	idle = 20 * time.Second
)

func main() {
	points := flag.Int("watch", 0, "how many points there are; 0: they are not watched")
	flag.Parse()
	if *points > 0 {
		planted.Watch(*points)
	}
	debug.SetGCPercent(400) // worlds are small and short-lived
	go guard()
	for _, argument := range flag.Args() {
		seed, err := strconv.ParseUint(argument, 10, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		r := sim.Simulate(seed, sim.SimOptions{})
		p := Played{Seed: seed, Steps: r.Steps, Gap: r.Gap}
		if len(r.Failures) > 0 {
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

// guard ends the process if it grows without end, or stands still.
func guard() {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	var worked time.Duration
	since := time.Now()
	for range time.Tick(100 * time.Millisecond) {
		if metrics.Read(sample); sample[0].Value.Uint64() > memoryLimit {
			fmt.Fprintln(os.Stderr, "memory grows without end")
			os.Exit(3)
		}
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			return
		}
		if now := time.Duration(used.Utime.Nano() + used.Stime.Nano()); now-worked > 20*time.Millisecond {
			worked, since = now, time.Now()
		}
		if time.Since(since) > idle {
			fmt.Fprintln(os.Stderr, "everything waits")
			os.Exit(4)
		}
	}
}
