// Command goals measures the goals of performance as ratios: a baseline beside ours, in interleaved rounds of one run, so that a
// slow or busy machine slows both. The servers are processes of their own; CPU is that of the client's process (getrusage, with
// garbage collection), and so are allocations.
//
//	go run ./bench/goals               the table of goals
//	go run ./bench/goals -rounds 1 -scale 0.05   a look whether everything works
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/memory"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

func main() {
	serve := flag.Bool("serve", false, "be the server of Bigtable")
	tables := flag.Bool("tables", false, "be the server of DynamoDB")
	queue := flag.Bool("queue", false, "be the server of Pub/Sub")
	held := flag.Int("hold", 0, "follow so many shards and print the most memory that was resident, in MB")
	latency := flag.Duration("latency", 0, "how long the server takes to answer a write")
	rounds := flag.Int("rounds", 5, "rounds, of which medians are printed")
	scale := flag.Float64("scale", 1, "how much work a round is")
	only := flag.String("only", "", "regular expression: rows of the table")
	profile := flag.String("profile", "", "file for the CPU profile of ours, of the last thing that is measured")
	flag.Parse()
	var err error
	if *serve {
		err = serveBigtable(*latency)
	} else if *tables {
		err = serveDynamoDB(*latency)
	} else if *queue {
		err = servePubSub()
	} else if fit(); *held > 0 {
		err = hold(context.Background(), *held)
	} else {
		err = run(context.Background(), bench{rounds: *rounds, scale: *scale, only: regexp.MustCompile(*only), profile: *profile, out: os.Stdout})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "goals:", err)
		os.Exit(1)
	}
}

// fit sets the collector as in a busy replicator run.
func fit() {
	memory.Fit()
	memory.Count(1000, 0)
}

func run(ctx context.Context, b bench) error {
	ctx, end := task.WithCrew(ctx) // as in replicator run
	defer end()
	fmt.Fprintf(b.out, "# %s, %s, %d cores%s\n# go run ./bench/goals %s\n", time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.Version(), runtime.NumCPU(), machine(),
		strings.Join(os.Args[1:], " "))
	fmt.Fprint(b.out, "# The garbage collector is set as in replicator run, for the baselines too. Each ratio is the median of the rounds' ratios of replicator to the baseline, so it may differ from the ratio of the medians beside it.\n"+
		"# CPU is in microseconds of the client's process for each record or row; rows/s are of wall time on this machine.\n\n")
	fmt.Fprintf(b.out, "%-44s %-9s %9s %9s %9s  %s\n", "", "", "ours", "baseline", "ratio", "goal")
	for _, part := range []func(context.Context, *bench) error{decoding, encoding, writing, following, copying, loading, exporting, waiting, folding, creating, publishing, applying, remembering} {
		if err := part(ctx, &b); err != nil {
			return err
		}
	}
	return nil
}

// machine is the model of the processor, where that is known.
func machine() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, model, found := strings.Cut(line, ":"); found && strings.HasPrefix(name, "model name") {
			return ", " + strings.TrimSpace(model)
		}
	}
	return ""
}
