// Load measures the copy of a generated table on the embedded services, with real workers:
//
//	go run ./bench/load -items 1000000 -workers 4 -interruptions 20
//	go run ./bench/load -export -items 1000000 -workers 4 -interruptions 20
//	go run ./bench/load -ratio -former PROGRAM
//	go run ./bench/load -ratio -export
//	go run ./bench/load -ratio -modes
//
// The first kills, freezes and stops workers while they copy. It fails if more items are read than
// the table's and one page for each part that an interrupted worker held, if a worker used more
// than 512 MiB, or if a row differs. With -export the table is exported to files, from which it is
// copied, and not one item may be read by a scan. The third compares rates: the copy of one worker,
// of this program and of a former one, beside prepared conditional requests of the official client,
// in interleaved rounds of one run; the fourth, the copy by a scan and the copy of an export; the
// last, a guarded and a fast copy, with -export of an export.
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

func main() {
	if text := os.Getenv(embedded.RoleVariable); text != "" {
		exit(embedded.Serve(text, os.Stdin, os.Stdout, sendPrepared))
	}
	var o options
	flag.IntVar(&o.items, "items", 1_000_000, "how many items the table holds")
	flag.IntVar(&o.workers, "workers", 4, "how many workers share the copy")
	flag.IntVar(&o.interruptions, "interruptions", 20, "how often a worker is killed, frozen or stopped")
	flag.BoolVar(&o.export, "export", false, "copy an export of the table")
	flag.IntVar(&o.files, "files", 48, "with -export: how many data files it has")
	flag.BoolVar(&o.ratio, "ratio", false, "compare rates instead")
	flag.BoolVar(&o.modes, "modes", false, "with -ratio: compare a guarded and a fast copy")
	flag.StringVar(&o.former, "former", "", "with -ratio: a former version of the program")
	flag.IntVar(&o.rounds, "rounds", 3, "with -ratio: how many rounds")
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

// options are those of the command line.
type options struct {
	items, workers, interruptions int

	export bool
	files  int
	ratio  bool
	modes  bool
	former string
	rounds int
	out    string
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "replicator-load-")
	if err != nil {
		return err
	}
	program, err := embedded.Build(ctx, dir)
	if err != nil {
		return err
	}
	var kept strings.Builder
	log := io.MultiWriter(os.Stdout, &kept)
	arguments := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "-out") || a == o.out })
	_, _ = fmt.Fprintf(log, "# %s, %s, %d cores\n# go run ./bench/load %s\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(),
		runtime.NumCPU(), strings.Join(arguments, " "))
	if o.ratio {
		err = compareRates(ctx, o, dir, program, log)
	} else {
		err = copyInterrupted(ctx, o, dir, program, log)
	}
	if err != nil {
		return fmt.Errorf("%w; logs are in %s", err, dir)
	}
	if o.out != "" {
		err = os.WriteFile(o.out, []byte(kept.String()), 0o644)
	}
	return errors.Join(err, os.RemoveAll(dir))
}
