// Soak runs real processes under continuous load, with shard rolls, splits and replaced workers, on the embedded services:
//
//	go run ./test/processes/soak -duration 1h
//
// It prints the workers' resources, and a complete comparison at the end. It fails if the stores
// differ, or if a worker's memory, goroutines or descriptors grow.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/processes"
)

func main() {
	if text := os.Getenv(processes.ServiceVariable); text != "" {
		exit(processes.Serve(text, os.Stdin, os.Stdout))
	}
	duration := flag.Duration("duration", time.Hour, "how long the application writes")
	seed := flag.Uint64("seed", 1, "what the application writes, and what is injected when")
	out := flag.String("out", "", "keep what is printed in this file, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, *duration, *seed, *out))
}

// exit ends the process.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, duration time.Duration, seed uint64, out string) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	// The directory is kept after a failure, because of the logs.
	dir, err := os.MkdirTemp("", "replicator-soak-")
	if err != nil {
		return err
	}
	program, err := processes.Build(ctx, dir)
	if err != nil {
		return err
	}
	var log strings.Builder
	o := processes.Options{Seed: seed, Program: program, Services: executable, Dir: dir, Log: io.MultiWriter(os.Stdout, &log)}
	_, _ = fmt.Fprintf(o.Log, "# %s, %s %s/%s, %d cores\n# soak -duration %s -seed %d\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), duration, seed)
	if err := processes.Soak(ctx, o, duration); err != nil {
		return err
	}
	if out != "" {
		if err := os.WriteFile(out, []byte(log.String()), 0o644); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}
