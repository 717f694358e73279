package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/demo"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/report"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// runFlags are what run can be told besides the configuration.
type runFlags struct {
	once, dryRun, noBackfill, acceptMapping, pprof bool

	allowed config.Allowed

	idle      time.Duration
	listen    string
	listenSet bool
}

func newRun(p *program) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:     "run [flags]",
		Short:   "Copy existing items and stream changes (the long-running process)",
		GroupID: groupMigrate,
		Long: `Copy the items of the tables, and apply every change of their streams, until it is stopped.

Any number of processes may run with one configuration: they share the work through leases in the state table, and take over from
one that is gone. A restart continues where the last process stopped. First every dependency is checked, and the results are shown.

The first SIGINT, SIGTERM or SIGHUP stops it cleanly: pages that were read are applied, positions saved and leases released. The second one
ends the process at once, which loses nothing either. Health, readiness, metrics and status are served on http.listen.`,
		Example: `  replicator run
  replicator run --once                  # copy, apply what the stream holds, and end
  replicator run --dry-run               # read and map everything, write nothing
  replicator run --listen 127.0.0.1:8081 # a second worker on the same machine`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			f.listenSet = c.Flags().Changed("listen")
			if err := f.check(c.Flags().Changed("idle")); err != nil {
				return err
			}
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return f.served(p.concluded(p.run(ctx, f)))
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.once, "once", false, "copy, drain the stream and end: when each open shard of all tables has given 10 empty pages in a row over --idle, the last of them just now")
	flags.DurationVar(&f.idle, "idle", 10*time.Second, "`DURATION` for which a shard must be empty before --once calls it drained. DynamoDB never signals the end of a stream. "+
		"Shards roll every four hours: with about 1,000 shards use a smaller value")
	flags.BoolVar(&f.dryRun, "dry-run", false, "read and map everything once; write nothing, not even the ledger")
	flags.BoolVar(&f.noBackfill, "no-backfill", false, "do not copy existing items, only follow the stream")
	flags.BoolVar(&f.acceptMapping, "accept-mapping-change", false, "begin a new generation under a changed mapping; the table then needs a load and a sweep")
	allowFlags(c, &f.allowed)
	flags.StringVar(&f.listen, "listen", "", "`ADDRESS` of health, metrics and status instead of http.listen; off for none")
	flags.BoolVar(&f.pprof, "pprof", false, "serve profiles of the process at /debug/pprof/ beside health and metrics, on the loopback alone; they show stacks, and no item data")
	return c
}

// served is the outcome of a service that a service manager asked to end, which it did: for systemd and its like only 0 is that. It need not
// have got going. A run that should have come to an end by itself was cut short.
func (f *runFlags) served(err error) error {
	var s terminal.Signalled
	if errors.As(err, &s) && s.Signal != os.Interrupt && !f.once && !f.dryRun && diag.ExitCode(err) == diag.ExitInterrupted {
		return nil
	}
	return err
}

// check refuses flags that say nothing together.
func (f *runFlags) check(idleSet bool) error {
	switch {
	case f.idle <= 0:
		return diag.BadUsage("--idle is not positive", "give a duration such as 10s")
	case idleSet && !f.once:
		return diag.BadUsage("--idle is for --once", "add --once, or leave --idle out")
	case f.pprof && (f.off() || f.dryRun):
		return diag.BadUsage("--pprof has nowhere to be served", "leave --listen off and --dry-run out")
	case !f.dryRun:
		return nil
	case f.once:
		return diag.BadUsage("--once and --dry-run exclude each other", "a dry run ends by itself")
	case f.noBackfill:
		return diag.BadUsage("--no-backfill and --dry-run exclude each other", "a dry run reads the items too, to see whether they can be mapped")
	case f.acceptMapping:
		return diag.BadUsage("--accept-mapping-change and --dry-run exclude each other", "a dry run does not look at the ledger, which holds the mapping")
	case f.listenSet && !f.off():
		return diag.BadUsage("--listen and --dry-run exclude each other", "a dry run serves nothing, and ends by itself")
	}
	return nil
}

// off tells whether the HTTP endpoints were switched off.
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
	if err := config.CheckEnvironment(p.Env, f.allowed).Err(); err != nil {
		return err
	}
	if !f.dryRun {
		signal.Ignore(syscall.SIGPIPE) // who reads the log may go: that ends no service
	}
	lines := backfill.NewRenderer(p.Stderr, p.Width())
	log, err := p.logger(cfg, lines)
	if err != nil {
		return err
	}
	report.Clients(log)
	var listener net.Listener
	if !f.off() && !f.dryRun {
		if listener, err = listen(cfg); err != nil {
			return err
		}
		defer listener.Close()
		if f.pprof && !admin.OnLoopback(listener.Addr()) {
			return diag.BadUsage("--pprof is for the loopback, and "+listener.Addr().String()+" is more", "add --listen 127.0.0.1:0, or leave --pprof out")
		}
	}
	w := &worker{program: p, cfg: cfg, flags: f, log: log, lines: lines, id: workerID()}
	if err := w.connect(ctx); err != nil {
		return err
	}
	defer w.target.Close()
	if f.dryRun {
		return w.dryRun(ctx)
	}
	return w.run(ctx, listener)
}

// listen opens the HTTP address before anything else is done. A second worker on one machine finds the default address taken: it
// takes any free port of the loopback instead and says which. An address that somebody chose is a different matter: what scrapes it
// would look at the other worker.
func listen(cfg *config.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", cfg.HTTP.Listen)
	if err == nil {
		return l, nil
	}
	pos := cfg.Where("http.listen")
	taken := errors.Is(err, syscall.EADDRINUSE)
	if taken && pos == (diag.Position{}) {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	e := &diag.Error{Code: diag.CannotListen, Pos: pos, What: "cannot listen on " + cfg.HTTP.Listen, Err: err}
	if taken {
		e.Cause = "the address is taken, by another worker perhaps"
		e.Fix = "give each worker on a machine its own, for example --listen 127.0.0.1:0 for any free port, or --listen off"
	}
	return nil, e
}

// movedTo warns that the endpoints are not where they are looked for, because nobody chose an address and the default one was taken; "" if they are.
func movedTo(cfg *config.Config, address string) string {
	if cfg.Where("http.listen") != (diag.Position{}) || address == cfg.HTTP.Listen {
		return ""
	}
	return fmt.Sprintf("%s is taken, by another worker perhaps: health, metrics and status are at %s; choose an address with --listen or http.listen", cfg.HTTP.Listen, address)
}

// workerID is unique for every start of a process; leases carry it, so that an operator sees who holds what.
func workerID() string {
	host := hostname()
	if host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), random(3))
}

// hostname is this machine's name; "" says that it is not known.
func hostname() string {
	host, _ := os.Hostname()
	return host
}

// about is what leases tell of this process.
func about() checkpoint.About {
	return checkpoint.About{Host: hostname(), Version: thisBuild().Version}
}

// random is so many random bytes in hex.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // it never fails, says its documentation
	return hex.EncodeToString(b)
}

// worker is one process of the migration.
type worker struct {
	*program
	cfg    *config.Config
	flags  runFlags
	log    *slog.Logger
	lines  *backfill.Renderer
	id     string
	source *preflight.Source
	target *preflight.Target
	found  preflight.Found

	mu     sync.Mutex
	joined map[string]preflight.Table // tables of patterns, by name
}

// connect builds the clients, says where they lead, and asks both ends whether they are fit.
func (w *worker) connect(ctx context.Context) error {
	var err error
	if w.source, err = preflight.ConnectSource(ctx, w.cfg); err != nil {
		return err
	}
	if err = w.source.CheckEndpoints(w.Env, w.flags.allowed); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w.Stderr, preflight.BothEnds(w.cfg, w.source.Region, w.Env))
	probes := &preflight.Prober{Out: w.Stderr, Colored: w.Colored(w.Stderr), Hints: w.withConfig(), Cfg: w.cfg, Source: w.source, Worker: w.id,
		Dry: w.flags.dryRun, AcceptMapping: w.flags.acceptMapping}
	w.found, err = probes.Run(ctx)
	if w.target = probes.Target; err != nil && w.target != nil {
		err = errors.Join(err, w.target.Close())
	}
	for _, family := range w.found.Ageing {
		e := preflight.ExplainAgeing(family)
		w.log.Warn(e.What, admin.KeyCode, e.Code, admin.KeyTarget, family.Table, admin.KeyReason, e.Cause)
	}
	for _, t := range w.found.Tables {
		w.warnExpiry(t)
	}
	return err
}

// warnExpiry tells of expired items that do not stay as they should.
func (w *worker) warnExpiry(t preflight.Table) {
	if e := preflight.ExplainExpiry(t); e != nil {
		w.log.Warn(e.What, admin.KeyCode, e.Code, admin.KeyTable, t.Config.From, admin.KeyReason, e.Cause)
	}
}

// run replicates until ctx ends or, with --once, until everything is drained.
func (w *worker) run(ctx context.Context, listener net.Listener) error {
	opened, cancel := context.WithTimeout(ctx, preflight.ProbeTime)
	ledger, err := checkpoint.Open(opened, preflight.LedgerStore(w.target, w.cfg), w.cfg.Name, checkpoint.Options{Worker: w.id, ID: random(16), Lease: w.cfg.State.Lease, About: about()})
	if err == nil {
		err = ledger.CheckCluster(opened, w.found.Cluster) // before anything is written to another one (H46)
	}
	for _, table := range w.found.Made {
		if err == nil {
			_, err = ledger.UpdateTarget(opened, table, func(t *checkpoint.Target) error { t.MadeByUs = true; return nil })
		}
	}
	cancel()
	if err != nil {
		return preflight.ExplainLedger("cannot open the ledger in table "+w.cfg.State.Table, err)
	}
	var names []string
	for _, t := range w.found.Tables {
		names = append(names, t.Config.From)
	}
	b := thisBuild()
	metrics := admin.NewMetrics(admin.Build{Version: b.Version, Revision: b.Revision, GoVersion: b.Go})
	health := admin.NewHealth(time.Now, names...)
	health.TargetReached()
	for _, name := range names {
		health.SourceReached(name)
	}
	o := newObserver(w.id, metrics, health, w.log, w.lines, names)
	parking := sink.NewParking(w.target.Data.Records(w.cfg.State.Table), w.cfg.Name)
	w.log.Info("started", admin.KeyWorker, w.id, admin.KeyVersion, b.Version)

	// What runs beside the pipeline ends after it, so that a slow stop can still be watched.
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	var side errgroup.Group // without a context of its own: surveys go on where the endpoints have failed
	side.Go(func() error { o.draw(beside); return nil })
	side.Go(func() error { w.survey(beside, o, parking); return nil })
	if listener != nil {
		w.log.Info(demo.ListeningMessage, demo.AddressKey, listener.Addr().String())
		if moved := movedTo(w.cfg, listener.Addr().String()); moved != "" {
			w.log.Warn(moved)
		}
		handler := admin.Handler(admin.Options{Clock: time.Now, Health: health, Metrics: metrics, Events: o.feed, Profile: w.flags.pprof,
			Host: admin.Hosts(w.cfg.HTTP.Listen, listener.Addr(), hostname()),
			Status: func(ctx context.Context) (any, error) {
				return status.Gather(ctx, w.cfg, w.target, w.Env, "", time.Now())
			}})
		side.Go(func() error {
			err := admin.Serve(beside, listener, handler, w.log)
			if err != nil {
				w.log.Error("the HTTP endpoints failed: the migration goes on, and nobody can see it there until a restart", admin.KeyError, err)
			}
			return err
		})
	}
	told := make(chan struct{})
	unstopped := context.AfterFunc(ctx, func() {
		defer close(told)
		health.Stopping()
		w.log.Info("stopping", admin.KeyReason, context.Cause(ctx).Error())
		w.quiet = w.log.Enabled(ctx, slog.LevelInfo)
	})
	o.stopped = func() bool { return ctx.Err() != nil }
	err = preflight.Explain("the migration cannot go on", pipeline.Run(ctx, w.options(ledger, parking, o)))
	if !unstopped() {
		<-told
	}
	o.feed.Close()
	end()
	if sideErr := side.Wait(); err == nil && sideErr != nil {
		err = &diag.Error{Code: diag.CannotListen, What: "the HTTP endpoints failed", Err: sideErr, Exit: diag.ExitFailed}
	}
	if err != nil {
		return err
	}
	return w.outcome(ctx, parking)
}

// options hands every key of the configuration to what obeys it.
func (w *worker) options(ledger *checkpoint.Ledger, parking *sink.Parking, o *observer) pipeline.Options {
	cfg := w.cfg
	floors := &pipeline.Floors{}
	policy := sink.Park
	if cfg.Errors.OnBadItem == config.BadItemStop {
		policy = sink.Stop
	}
	maxParked := cfg.Errors.StopAbove
	if maxParked == 0 {
		maxParked = -1 // none at all; the writer's zero means no limit
	}
	out := pipeline.Options{
		Ledger: ledger, Floors: floors, Database: w.source.Tables, Events: o.events(), Once: w.flags.once,
		Writer: sink.NewWriter(sink.Options{
			Table: w.target.Data, Rows: w.target.Data, Parking: parking, Floor: floors.Floor, OnBadItem: policy, MaxParked: maxParked,
			MaxImageAge: cfg.State.TombstoneAge - imageMargin, Events: o.writes(),
		}),
		Open:    func(arn string) cdc.Source { return w.source.Stream(arn) },
		Witness: w.target.WitnessStore, Families: w.target.Admin,
		Cluster: func(ctx context.Context) (string, error) {
			profile, err := w.target.Admin.Profile(ctx)
			return profile.Cluster, err
		},
		Timing: w.flags.timing(),
	}
	if cfg.Target.CreateMissing {
		out.Prepare = func(ctx context.Context, table string) (bool, error) {
			return preflight.PrepareTarget(ctx, w.target.Admin, cfg, table)
		}
	}
	var rows *backfill.Throttle
	if cfg.HasPatterns() {
		rows = backfill.NewThrottle(float64(cfg.Backfill.MaxRowsPerSecond))
		d := &discovery{w, ledger, rows}
		out.Discover, out.DiscoverEvery = d.find, discoverEvery(cfg)
	}
	for _, t := range w.found.Tables {
		if t.Config.Pattern() == "" { // the others are found anew, and join
			out.Tables = append(out.Tables, w.replicated(t.Config, t.Mapping, rows))
		}
	}
	return out
}

// imageMargin is how much younger than a tombstone's age an image must be to be put: a clock may be behind, and a request may be
// executed long after it was made. The least age of the configuration leaves twice the stream's day, so that nothing that is read in time is
// taken for too old, by a clock that is ahead or after hours of throttles.
const imageMargin = 48 * time.Hour

// timing lets --idle decide how often an empty shard is asked: ten times within it, as its promise is ten empty pages.
func (f *runFlags) timing() pipeline.Timing {
	if !f.once {
		return pipeline.Timing{}
	}
	const pages = 10
	return pipeline.Timing{
		Idle: f.idle, IdlePages: pages,
		Poll: min(max(f.idle/pages, 20*time.Millisecond), time.Second),
		Pass: min(max(f.idle/pages, 100*time.Millisecond), time.Second),
	}
}

// outcome is the exit of a run that the pipeline ended in order.
func (w *worker) outcome(ctx context.Context, parking *sink.Parking) error {
	if ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	if !w.flags.once {
		return nil
	}
	w.resolve(ctx, parking)
	s, err := status.Gather(ctx, w.cfg, w.target, w.Env, "", time.Now())
	if err != nil {
		return err
	}
	return s.Verdict()
}

// resolve forgets parked items that are healed. That it fails is told and no harm: they stay listed until the next time.
func (w *worker) resolve(ctx context.Context, parking *sink.Parking) {
	for source, m := range w.mappings() {
		n, _, err := parking.Resolve(ctx, m, w.target.Data)
		if err != nil && ctx.Err() == nil {
			w.log.Warn("cannot look after parked items", admin.KeyTable, source, admin.KeyError, err.Error())
		}
		if n > 0 {
			w.log.Info("parked items are resolved by later changes", admin.KeyTable, source, admin.KeyItems, n)
		}
	}
}
