package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/memory"
	"github.com/dynamodb-bigtable/replicator/internal/report"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/worker"
)

type runFlags struct {
	once, dryRun, noBackfill, acceptMapping, acceptMode, adoptRows, pprof bool
	publish                                                               bool // set by relay
	noWrite                                                               bool // set by relay without --apply
	loads                                                                 bool // publish items of loads too
	from                                                                  string

	allowed environment.Allowed

	idle      time.Duration
	listen    string
	listenSet bool
}

func newRun(p *program) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:     "run [flags]",
		Short:   "Copy existing items and apply changes (the long-running process)",
		GroupID: groupMigrate, Annotations: map[string]string{service: "true"},
		Long: `Copy the existing items of the tables and apply every change of their streams, until stopped.

Any number of processes may run with one config. They share the work through leases in the state
table, and take over from a process that died. A restart resumes from the checkpoints.

The first SIGINT or SIGTERM stops it cleanly: it applies the pages it has read, saves checkpoints
and releases leases. A second signal ends it immediately. That loses nothing either.

SIGHUP reloads max_rows_per_second, max_read_capacity and pause_above_target_cpu of backfill from
the config. Other changes need a restart, and the log names them. On a terminal, with --once and
with --dry-run, SIGHUP stops the process.

http.listen serves the status page, health, readiness and metrics. Stderr has the log: text on a
terminal, else one JSON object a line. Go's memory limit is 90% of the container's, unless
GOMEMLIMIT is set.`,
		Example: `  replicator run

  # copy, apply what the stream holds, and end
  replicator run --once

  # write what relay publishes; any number of such processes
  replicator run --from pubsub

  # read and map everything, write nothing
  replicator run --dry-run

  # a second worker on the same machine
  replicator run --listen 127.0.0.1:8081`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			f.listenSet = c.Flags().Changed("listen")
			if err := f.check(c.Flags().Changed("idle")); err != nil {
				return err
			}
			memory.Fit()
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return f.served(p.concluded(p.run(ctx, f)))
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.bindOnce(flags)
	flags.StringVar(&f.from, "from", "", "apply what relay publishes instead of reading streams; `SOURCE` is pubsub")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read and map everything once; write nothing, not even the ledger")
	f.bind(c)
	return c
}

// bindOnce defines the flags of a run that ends when its work is done.
func (f *runFlags) bindOnce(flags *pflag.FlagSet) {
	flags.BoolVar(&f.once, "once", false, "copy, drain the stream and exit; a shard is drained after 10 empty pages over --idle")
	flags.DurationVar(&f.idle, "idle", 10*time.Second, "with --once: `DURATION` for which a drained shard must stay empty; shorter with 1,000 shards or more")
}

// bind defines the flags that every worker has.
func (f *runFlags) bind(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVar(&f.noBackfill, "no-backfill", false, "do not copy existing items, only follow the stream")
	flags.BoolVar(&f.acceptMapping, "accept-mapping-change", false, "begin a new generation under a changed mapping, with a load and a sweep")
	flags.BoolVar(&f.acceptMode, "accept-mode-change", false, "change the mode of the tables (run, relay, relay --apply); first stop all processes of the other mode")
	flags.BoolVar(&f.adoptRows, "adopt-rows", false, "overwrite rows of a target table that is not empty; needed once")
	allowFlags(c, &f.allowed)
	flags.StringVar(&f.listen, "listen", "", "`ADDRESS` of page, health and metrics, or off (default http.listen)")
	flags.BoolVar(&f.pprof, "pprof", false, "serve profiles at /debug/pprof/, only to this machine; they have no item data")
}

// served returns the error of a run that a signal ended. For a service that was stopped, it returns
// nil, even if the service had not started its work. Service managers such as systemd accept only
// status 0. It returns an error for an interrupted run that should have ended by itself.
func (f *runFlags) served(err error) error {
	var s terminal.Signalled
	if errors.As(err, &s) && s.Signal != os.Interrupt && !f.once && !f.dryRun && diag.ExitCode(err) == diag.ExitInterrupted {
		return nil
	}
	return err
}

// fromPubSub is the only value of --from.
const fromPubSub = "pubsub"

// check rejects combinations of flags that make no sense.
func (f *runFlags) check(idleSet bool) error {
	switch {
	case f.idle <= 0:
		return diag.BadUsage("--idle is not positive", "give a duration such as 10s")
	case idleSet && !f.once:
		return diag.BadUsage("--idle needs --once", "add --once, or remove --idle")
	case f.from != "" && f.from != fromPubSub:
		return diag.BadUsage("--from "+f.from+" is not a source of changes", "write --from pubsub, or remove it")
	case f.from != "" && (f.once || f.dryRun || f.noBackfill || f.acceptMapping || f.acceptMode || f.adoptRows):
		return diag.BadUsage("--from pubsub excludes --once, --dry-run, --no-backfill, --accept-mapping-change, --accept-mode-change and --adopt-rows", "use them with relay, which reads the stream and copies")
	case f.pprof && (f.off() || f.dryRun):
		return diag.BadUsage("--pprof needs the HTTP server", "remove --listen off and --dry-run")
	case !f.dryRun:
		return nil
	case f.once:
		return diag.BadUsage("--once and --dry-run exclude each other", "a dry run always ends on its own")
	case f.noBackfill:
		return diag.BadUsage("--no-backfill and --dry-run exclude each other", "a dry run also reads the items, to check whether they can be mapped")
	case f.acceptMode:
		return diag.BadUsage("--accept-mode-change and --dry-run exclude each other", "a dry run does not read the ledger, which holds the mode")
	case f.acceptMapping:
		return diag.BadUsage("--accept-mapping-change and --dry-run exclude each other", "a dry run does not read the ledger, which holds the mapping")
	case f.listenSet && !f.off():
		return diag.BadUsage("--listen and --dry-run exclude each other", "a dry run has no HTTP server")
	}
	return nil
}

// off reports whether the HTTP endpoints are turned off.
func (f *runFlags) off() bool { return f.listenSet && (f.listen == "" || f.listen == "off") }

func (p *program) run(ctx context.Context, f runFlags) error {
	var overrides []config.Flag
	if f.listenSet && !f.off() {
		overrides = append(overrides, config.Flag{Name: "--listen", Key: "http.listen", Value: f.listen})
	}
	cfg, err := p.load(overrides...)
	if err != nil {
		return err
	}
	if err := environment.Check(p.Env, f.allowed).Err(); err != nil {
		return err
	}
	if !f.dryRun {
		signal.Ignore(syscall.SIGPIPE) // a service continues if the reader of its log ends
	}
	lines := backfill.NewRenderer(p.Stderr, p.Width())
	if p.said != nil {
		lines = backfill.NewRecorder(worker.Progress(p.said))
	}
	log, err := p.logger(cfg, lines)
	if err != nil {
		return err
	}
	report.Clients(log)
	rereads := make(chan struct{}, 1)
	if !f.once && !f.dryRun && !p.onTerminal() {
		p.rereads.Store(&rereads)
	}
	w := worker.New(worker.Options{
		Config: cfg, Console: &p.Console, Log: log, Lines: lines, Records: p.said, Build: build.This(), Hints: p.withConfig(),
		Once: f.once, Idle: f.idle, NoCopy: f.noBackfill, AcceptMapping: f.acceptMapping, AdoptRows: f.adoptRows,
		Publish: f.publish, NoWrite: f.noWrite, Loads: f.loads, FromTopic: f.from == fromPubSub, AcceptMode: f.acceptMode,
		Serve: !f.off(), Profile: f.pprof, Rereads: rereads,
		Reread:   func() (*config.Config, error) { return p.read(overrides...) },
		Stopping: func() { p.quiet = log.Enabled(ctx, slog.LevelInfo) },
	})
	if f.dryRun {
		return w.Rehearse(ctx)
	}
	return w.Run(ctx)
}
