// Idle measures what a worker takes that follows many shards without changes, on the embedded
// services, each in a process of its own:
//
//	go run ./bench/idle -shards 1000 -lasts 5m
//
// CPU is that of the worker's process, as the system counts it, once it reads all shards. Beside it
// stands that of a process which polls the same shards as often with the SDK's client and does
// nothing else: cores differ, and what a poll costs is most of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
)

// The goals: shares of a core, and bytes.
const (
	cpuGoal    = 0.12
	memoryGoal = 200 << 20
	// Those of 100 tables with one shard each.
	tablesCPUGoal    = 0.06
	tablesMemoryGoal = 160 << 20
)

var errGoal = errors.New("a goal is missed")

func main() {
	if text := os.Getenv(embedded.RoleVariable); text != "" {
		exit(embedded.Serve(text, os.Stdin, os.Stdout, ask))
	}
	shards := flag.Int("shards", 1000, "how many shards the stream of each table has")
	tables := flag.Int("tables", 1, "how many tables there are")
	profiles := flag.String("profiles", "", "folder for the CPU and heap profiles of the worker")
	lasts := flag.Duration("lasts", 5*time.Minute, "how long is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, *tables, *shards, *lasts, *profiles))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, tables, shards int, lasts time.Duration, profiles string) error {
	dir, err := os.MkdirTemp("", "replicator-idle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := embedded.Build(ctx, dir)
	if err != nil {
		return err
	}
	text := "version: 1\ntarget: {project: bench, instance: bench}\ntables:\n" // what else there is, as it is by default
	for n := range tables {
		text += fmt.Sprintf("  - from: %s\n", embedded.TableName(n))
	}
	stand, err := embedded.NewStand(dir, program, text, embedded.Role{Items: 1, Shards: shards, Tables: tables}, "--pprof")
	if err != nil {
		return err
	}
	defer stand.Stop()
	w, source := stand.Worker, stand.Source
	const settled = 200 * time.Second // polls of idle shards grow apart
	if err := rest(ctx, w, settled); err != nil {
		return err
	}
	for _, name := range []string{"goroutine", "heap", "heap?debug=1", "profile?seconds=20"} {
		if err := keep(w, profiles, name); err != nil {
			return err
		}
	}
	share, rate, err := measure(ctx, w, w.Process.Pid, source, lasts)
	if err != nil {
		return err
	}
	memory := embedded.Peak(w.Process.Pid)
	w.Kill()
	if tables > 1 {
		fmt.Printf("# %s, %s, %d cores\n# go run ./bench/idle -tables %d -shards %d -lasts %s\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), tables, shards, lasts)
		fmt.Printf("%d idle tables of %d shards, one worker: %.1f %% of a core (goal %.0f), %d MiB at the most (goal %d), %.1f polls a second\n", tables, shards, 100*share, 100*tablesCPUGoal,
			memory>>20, tablesMemoryGoal>>20, rate)
		if share > tablesCPUGoal || memory > tablesMemoryGoal {
			return errGoal
		}
		return nil
	}
	least, leastRate, err := baseline(ctx, source, lasts)
	if err != nil {
		return err
	}
	fmt.Printf("# %s, %s, %d cores\n# go run ./bench/idle -shards %d -lasts %s\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), shards, lasts)
	fmt.Printf("%d idle shards, one worker: %.1f %% of a core (goal %.0f), %d MiB at the most (goal %d), %.1f polls a second\n", shards, 100*share, 100*cpuGoal, memory>>20,
		memoryGoal>>20, rate)
	fmt.Printf("the SDK's client alone:    %.1f %% of a core, %.1f polls a second; a poll by a worker costs %.2f of its\n", 100*least, leastRate, (share/rate)/(least/leastRate))
	if share > cpuGoal || memory > memoryGoal {
		return errGoal
	}
	return nil
}

// baseline measures the process that does nothing but poll.
func baseline(ctx context.Context, source *embedded.Service, lasts time.Duration) (share, rate float64, err error) {
	s, err := embedded.Start(embedded.Role{Own: asker, SourceAddress: source.Line})
	if err != nil {
		return 0, 0, err
	}
	defer s.Stop()
	return measure(ctx, nil, s.Pid(), source, lasts)
}

// measure is the share of a core that a process takes, and how often a second the stream is read.
func measure(ctx context.Context, w *embedded.Worker, pid int, source *embedded.Service, lasts time.Duration) (share, rate float64, err error) {
	used, polls, err := taken(pid, source)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := rest(ctx, w, lasts); err != nil {
		return 0, 0, err
	}
	usedThen, pollsThen, err := taken(pid, source)
	took := time.Since(began).Seconds()
	return (usedThen - used).Seconds() / took, float64(pollsThen-polls) / took, err
}

// rest lets the worker run for a while.
func rest(ctx context.Context, w *embedded.Worker, d time.Duration) error {
	var exited chan struct{} // of no worker: never
	if w != nil {
		exited = w.Exited
	}
	select {
	case <-time.After(d):
		return nil
	case <-exited:
		return fmt.Errorf("the worker has ended; its log is in %s", w.Dir)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keep writes a profile of the worker into a folder, if one is given.
func keep(w *embedded.Worker, folder, name string) error {
	if folder == "" {
		return nil
	}
	response, err := http.Get("http://" + w.Address() + "/debug/pprof/" + name)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	file, _, _ := strings.Cut(strings.ReplaceAll(name, "?debug=1", ".txt"), "?")
	return errors.Join(err, os.WriteFile(filepath.Join(folder, "idle-"+file+".pprof"), text, 0o644))
}

// taken is the CPU time that a process has used, and how often the stream was read.
func taken(pid int, source *embedded.Service) (cpu time.Duration, polls int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// Behind the name in parentheses; the 12th and 13th of these are ticks, of which Linux has 100 a second.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	polls, err = source.Polls()
	return cpu, polls, err
}
