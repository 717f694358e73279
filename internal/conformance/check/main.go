// Check holds the program against services of other projects: dynoxide, an independent DynamoDB with Streams, and Google's Bigtable
// emulator, each a process of its own. Workers of the built program follow a random workload between them and are killed again and
// again; then both stores are compared cell by cell. Make conformance builds what it needs and runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/dynamodb-bigtable/replicator/internal/processes"
)

func main() {
	if text := os.Getenv(processes.ServiceVariable); text != "" {
		if err := processes.Serve(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dynoxide := flag.String("dynoxide", "", "executable of dynoxide")
	emulator := flag.String("bigtable", "", "executable of Google's Bigtable emulator")
	kills := flag.Int("kills", 24, "how often workers are killed")
	seed := flag.Uint64("seed", 1, "what the application writes, and who is killed when")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := crash(ctx, *dynoxide, *emulator, *kills, *seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// crash kills workers of the built program between dynoxide and Google's emulator.
func crash(ctx context.Context, dynoxide, emulator string, kills int, seed uint64) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	// It outlives a failure, because of the logs.
	dir, err := os.MkdirTemp("", "replicator-conformance-")
	if err != nil {
		return err
	}
	program, err := processes.Build(ctx, dir)
	if err != nil {
		return err
	}
	o := processes.Options{
		Seed: seed, Program: program, Services: executable, Dir: dir, Log: os.Stdout,
		Dynamo: processes.Dynoxide(dynoxide), Bigtable: processes.BigtableEmulator(emulator),
	}
	if err := processes.Crash(ctx, o, kills); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
