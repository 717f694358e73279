// Verify measures `replicator verify --full` on the embedded services, beside a plain read of both
// sides in the same run:
//
//	go run ./bench/verify -items 1000000
//
// It copies a generated table, and then reads and verifies it in turn, first while nobody writes,
// and then while an application changes items. It fails if a verify finds a difference, or uses
// more than 256 MiB.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
)

// memoryLimit is what a verify may use.
const memoryLimit = 256 << 20

func main() {
	if text := os.Getenv(embedded.RoleVariable); text != "" {
		exit(embedded.Serve(text, os.Stdin, os.Stdout, perform))
	}
	var o options
	flag.IntVar(&o.items, "items", 1_000_000, "how many items the table holds")
	flag.IntVar(&o.rounds, "rounds", 3, "how many rounds of a plain read and a verify")
	flag.IntVar(&o.rate, "rate", 500, "changes a second while it is not quiet")
	flag.StringVar(&o.out, "out", "", "keep what is printed in this file, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

type options struct {
	items, rounds, rate int
	out                 string
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "replicator-verify-")
	if err != nil {
		return err
	}
	program, err := embedded.Build(ctx, dir)
	if err != nil {
		return err
	}
	var kept strings.Builder
	log := io.MultiWriter(os.Stdout, &kept)
	_, _ = fmt.Fprintf(log, "# %s, %s, %d cores\n# go run ./bench/verify -items %d -rounds %d -rate %d\n", time.Now().UTC().Format(time.DateOnly),
		runtime.Version(), runtime.NumCPU(), o.items, o.rounds, o.rate)
	if err := measure(ctx, o, dir, program, log); err != nil {
		return fmt.Errorf("%w; logs are in %s", err, dir)
	}
	if o.out != "" {
		err = os.WriteFile(o.out, []byte(kept.String()), 0o644)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func measure(ctx context.Context, o options, dir, program string, log io.Writer) error {
	stand, err := embedded.NewStand(dir, program, "", embedded.Role{Items: o.items})
	if err != nil {
		return err
	}
	defer stand.Stop()
	w := stand.Worker
	for copied := (embedded.Copy{}); !copied.Done(); {
		select {
		case <-w.Exited:
			return errors.New("the worker has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
			copied, _ = w.Copied() // it may not listen yet
		}
	}
	if err := compareRounds(ctx, o, w, "quiet", log); err != nil || o.rate == 0 {
		return err
	}
	writer, err := embedded.Start(embedded.Role{Own: "write", SourceAddress: w.Source, Items: o.items, Rate: o.rate})
	if err != nil {
		return err
	}
	defer writer.Stop()
	return compareRounds(ctx, o, w, fmt.Sprintf("at %d changes/s", o.rate), log)
}

// compareRounds reads and verifies in turn.
func compareRounds(ctx context.Context, o options, w *embedded.Worker, name string, log io.Writer) error {
	var rates, costs []float64
	for round := range o.rounds {
		began, before := time.Now(), embedded.Used(w.Process.Pid)
		reader, err := embedded.Start(embedded.Role{Own: "read", SourceAddress: w.Source, TargetAddress: w.Target, Items: o.items})
		if err != nil {
			return err
		}
		reader.Stop()
		read, err := time.ParseDuration(reader.Line)
		if err != nil {
			return err
		}
		idle := (embedded.Used(w.Process.Pid) - before).Seconds() / time.Since(began).Seconds() // of the worker, each second
		took, used, peak, err := verify(ctx, w)
		if err != nil {
			return err
		}
		cpu := used.Seconds() - idle*took.Seconds()
		rates, costs = append(rates, read.Seconds()/took.Seconds()), append(costs, cpu/reader.CPU().Seconds())
		_, _ = fmt.Fprintf(log, "%s, round %d: plain read of both sides %.1f s, CPU %.2f s; verify --full %.1f s, %.2f of its rate, CPU %.2f s, %.2f times, %d MiB; the worker %d MiB\n", name, round+1,
			read.Seconds(), reader.CPU().Seconds(), took.Seconds(), rates[round], cpu, costs[round], peak>>20, embedded.Peak(w.Process.Pid)>>20)
		if peak > memoryLimit {
			return errors.New("verify used too much memory")
		}
	}
	slices.Sort(rates)
	slices.Sort(costs)
	_, _ = fmt.Fprintf(log, "%s: verify against a plain read: median %.2f of its rate, %.2f times its CPU\n", name, rates[len(rates)/2], costs[len(costs)/2])
	return nil
}

// verify runs the command to its end. The time that it used includes that of the worker, which
// takes parts of the work.
func verify(ctx context.Context, w *embedded.Worker) (took, used time.Duration, peak int64, err error) {
	cmd := w.Command(ctx, "verify", "--full", "--wait")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	began, before := time.Now(), embedded.Used(w.Process.Pid)
	if err := cmd.Start(); err != nil {
		return 0, 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("verify: %w\n%s", err, out.String())
			}
			return time.Since(began), embedded.CPU(cmd.ProcessState) + embedded.Used(w.Process.Pid) - before, peak, err
		case <-time.After(50 * time.Millisecond):
			peak = max(peak, embedded.Peak(cmd.Process.Pid))
		}
	}
}
