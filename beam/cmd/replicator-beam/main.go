// Command replicator-beam copies parts of a running load in Beam jobs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/dynamodb-bigtable/replicator/beam/job"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

func main() {
	l := &job.Launch{Submit: submit}
	flag.StringVar(&l.Config, "config", "", "`PATH` of the configuration, the same as of the workers")
	flag.StringVar(&l.Job.Table, "table", "", "source `TABLE` whose load the job helps")
	flag.DurationVar(&l.Job.AtMost, "part_time", 15*time.Minute, "longest work on one part before it is released")
	flag.DurationVar(&l.Job.Patience, "patience", 10*time.Minute, "longest wait for a part that another worker holds")
	flag.BoolVar(&l.Job.AllowEmulator, "allow_emulator", false, "allow the Bigtable emulator, and AWS endpoints that are plain http or not Amazon's")
	flag.BoolVar(&l.Job.AllowInsecure, "allow_insecure_endpoint", false, "allow an AWS endpoint that is plain http on another host")
	flag.Parse()
	beam.Init() // on a worker of a runner, it does not return
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, l); err != nil {
		report(err)
		os.Exit(diag.ExitCode(err))
	}
}

func run(ctx context.Context, l *job.Launch) error {
	switch {
	case l.Job.Table == "" || flag.NArg() > 0:
		return diag.BadUsage("replicator-beam needs --table, and takes no arguments", "replicator-beam --config FILE --table TABLE [flags of the runner]")
	case l.Job.AtMost <= 0 || l.Job.Patience <= 0:
		return diag.BadUsage("--part_time and --patience must be positive", "leave them out, or give durations such as 15m")
	case *jobopts.Async:
		return diag.BadUsage("--async is not possible", "remove it: the launcher waits for the job, and submits it again while parts are left")
	}
	if l.Job.Name = *jobopts.JobName; l.Job.Name == "" {
		l.Job.Name = "replicator-" + strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(l.Job.Table)) + "-" + fmt.Sprint(time.Now().Unix())
	}
	return l.Run(ctx)
}

// submit runs a job on the runner that the flags name.
func submit(ctx context.Context, j job.Job) error {
	*jobopts.JobName = j.Name
	return beamx.Run(ctx, job.Pipeline(j))
}

func report(err error) {
	var known diag.List
	var one *diag.Error
	switch {
	case errors.As(err, &known):
	case errors.As(err, &one):
		known = diag.List{one}
	default:
		_, _ = fmt.Fprintln(os.Stderr, "error:", diag.Printable(err.Error()))
		return
	}
	_ = known.Render(os.Stderr)
}
