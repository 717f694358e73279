package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/apply"

	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/telemetry"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Options are the settings of a worker, and the outputs to which it reports.
type Options struct {
	Config  *config.Config
	Console *terminal.Console
	Log     *slog.Logger
	Lines   *backfill.Renderer // draws the progress of copies
	// Records receives the answers of probes. If it is nil, they are written to stderr as lines.
	Records *slog.Logger
	Build   build.Info
	Hints   string // flags to append to commands in next steps

	Once bool // end when all open shards are drained
	// Idle, with Once, is how long a shard must have returned only empty pages.
	Idle time.Duration
	// NoCopy replicates only the streams and does not copy existing items.
	NoCopy        bool
	AcceptMapping bool // begin a new generation if the mapping has changed
	AdoptRows     bool // begin the first generation in a target that holds rows
	Publish       bool // publish changes to the configuration's topic, too
	NoWrite       bool // with Publish: do not write changes to the target
	Loads         bool // with Publish: also publish the items of loads
	// FromTopic applies the messages of the configuration's subscription instead of the stream.
	FromTopic  bool
	AcceptMode bool // accept a mode that differs from the ledger's
	// Serve serves health, metrics and status at http.listen of the configuration.
	Serve   bool
	Profile bool                           // also serve profiles of the process
	Reread  func() (*config.Config, error) // reads the configuration again
	// Rereads requests a Reread with each value; nil if there are no requests.
	Rereads <-chan struct{}
	// Stopping is called after the worker has logged that it stops; it may be nil.
	Stopping func()
}

// Worker is one process of a migration.
type Worker struct {
	Options
	id     string
	source *preflight.Source
	target *preflight.Target
	found  preflight.Found
	ledger *checkpoint.Ledger // nil before the ledger is open
	topic  *relay.PubSub      // nil if changes are not published
	// subscription is nil if this process does not apply a topic.
	subscription *relay.PubSubscription
	parkTopic    *relay.PubSub          // nil if parked items are not published
	deadLetter   *relay.PubSubscription // nil if the dead-letter topic is not watched
	// deadTopic is the topic for messages that appliers refuse; "" if there is none.
	deadTopic string
	retention time.Duration // retention of subscription
	limits    limits
	telemetry *telemetry.Telemetry // nil if nothing is exported to OpenTelemetry

	idling atomic.Bool // the tables are cut over
	shown  atomic.Bool // the ledger may have a row of this process

	mu     sync.Mutex
	joined map[string]preflight.Table // tables that matched patterns, by name
}

// New returns a worker with a new identity. It sends no request before Run or Rehearse.
func New(o Options) *Worker { return &Worker{Options: o, id: newID()} }

// Run replicates until ctx ends or, with Once, until all tables are drained. If the tables are cut
// over, it idles; with Once it fails with checkpoint.ErrCutOver instead.
func (w *Worker) Run(ctx context.Context) error {
	var err error
	w.telemetry, err = telemetry.Start(ctx, telemetry.Options{
		Env: w.Console.Env, Clock: task.Clock(ctx), Log: w.Log, Version: w.Build.Version, Instance: w.id, Pipeline: w.Config.Name,
	})
	if err != nil {
		return err
	}
	defer w.telemetry.Stop()
	for {
		err := w.life(ctx)
		if !errors.Is(err, errResumed) {
			return err
		}
		w.Log.Info("resuming: the tables are no longer cut over")
	}
}

// life runs a process from its start to its end. It also returns when an idle process must start
// again.
func (w *Worker) life(ctx context.Context) error {
	var listener net.Listener
	if w.Serve {
		var err error
		if listener, err = w.listen(); err != nil {
			return err
		}
		defer listener.Close()
	}
	if err := w.connect(ctx, false); err != nil {
		return err
	}
	defer w.close()
	return w.replicate(ctx, listener)
}

// connect builds the clients, reports their endpoints, and probes source and target. A dry run
// probes less.
func (w *Worker) connect(ctx context.Context, dry bool) error {
	var err error
	if w.source, err = preflight.ConnectSource(ctx, w.Config); err != nil && (dry || w.Once || !w.isLeft(ctx)) {
		return err
	}
	out, region := w.Console.Stderr, ""
	if w.source != nil {
		region = w.source.Region
	}
	ends := preflight.BothEnds(w.Config, region, w.Console.Env)
	switch {
	case w.FromTopic:
		ends = preflight.SubscriptionEnd(w.Config, w.Console.Env)
	case w.Publish && w.NoWrite:
		ends += " through" + strings.TrimPrefix(preflight.TopicEnd(w.Config, w.Console.Env), " and")
	case w.Publish:
		ends += preflight.TopicEnd(w.Config, w.Console.Env)
	}
	_, _ = fmt.Fprintln(out, ends+preflight.ParkEnd(w.Config, w.Console.Env))
	probes := &preflight.Prober{Out: out, Colored: w.Console.Colored(out), Hints: w.Hints, Cfg: w.Config, Source: w.source, Unsourced: err, Worker: w.id,
		Dry: dry, Idles: !w.Once, AcceptMapping: w.AcceptMapping, AdoptRows: w.AdoptRows,
		Mode: w.mode(), AcceptMode: w.AcceptMode, Applies: w.FromTopic}
	if w.Records != nil {
		probes.Record = probed(w.Records)
	}
	w.found, err = probes.Run(ctx)
	w.target, w.topic, w.subscription, w.deadLetter, w.retention = probes.Target, probes.Topic, probes.Subscription, probes.DeadLetter, probes.Retention
	w.parkTopic, w.deadTopic = probes.ParkTopic, probes.DeadTopic
	if err != nil {
		err = errors.Join(err, w.close())
	}
	for _, family := range w.found.Ageing {
		e := preflight.ExplainAgeing(family)
		w.Log.Warn(e.What, admin.KeyCode, e.Code, admin.KeyTarget, family.Table, admin.KeyCause, e.Cause)
	}
	if e := w.found.Shared; e != nil {
		w.Log.Warn(e.What, admin.KeyCode, e.Code, admin.KeyReason, e.Cause, admin.KeyFix, e.Fix)
	}
	for _, t := range w.found.Tables {
		w.warnExpiry(t)
	}
	return err
}

// isLeft reports whether the application has left the source. In that case this process must not
// use the source, which may be switched off.
func (w *Worker) isLeft(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, preflight.ProbeTime)
	defer cancel()
	target, err := preflight.Reach(limited, w.Config)
	if target != nil {
		defer target.Close()
	}
	if err != nil {
		return false
	}
	left, err := preflight.LeftTables(ctx, preflight.LedgerStore(target, w.Config), w.Config)
	return err == nil && left.All() != nil
}

// mode returns whether this process writes changes, publishes them, or both.
func (w *Worker) mode() checkpoint.Mode {
	switch {
	case w.FromTopic, w.Publish && w.NoWrite:
		return checkpoint.Topic
	case w.Publish:
		return checkpoint.Both
	}
	return checkpoint.Direct
}

// close closes the clients.
func (w *Worker) close() (err error) {
	if w.topic != nil {
		err = w.topic.Close()
	}
	if w.subscription != nil {
		err = errors.Join(err, w.subscription.Close())
	}
	if w.deadLetter != nil {
		err = errors.Join(err, w.deadLetter.Close())
	}
	if w.parkTopic != nil {
		err = errors.Join(err, w.parkTopic.Close())
	}
	if w.target != nil {
		err = errors.Join(err, w.target.Close())
	}
	return err
}

// warnExpiry logs a warning if a table is configured to keep expired items, but other regions
// remove them.
func (w *Worker) warnExpiry(t preflight.Table) {
	if e := preflight.ExplainExpiry(t); e != nil {
		w.Log.Warn(e.What, admin.KeyCode, e.Code, admin.KeyTable, t.Config.From, admin.KeyCause, e.Cause)
	}
}

// openLedger opens the ledger, or creates it.
func (w *Worker) openLedger(ctx context.Context) (*checkpoint.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, preflight.ProbeTime)
	defer cancel()
	o := checkpoint.Options{Worker: w.id, ID: random(16), Lease: w.Config.State.Lease, About: checkpoint.About{Host: hostname(), Version: w.Build.Version}}
	ledger, err := preflight.AskTarget(ctx, func(ctx context.Context) (*checkpoint.Ledger, error) {
		ledger, err := checkpoint.Open(ctx, preflight.LedgerStore(w.target, w.Config), w.Config.Name, o)
		if err == nil {
			err = ledger.CheckCluster(ctx, w.found.Cluster) // before any write to another cluster (H46)
		}
		for _, table := range w.found.Made {
			if err == nil {
				_, err = ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error { t.MadeByUs = true; return nil })
			}
		}
		return ledger, err
	})
	if err != nil {
		return nil, preflight.ExplainLedger("cannot open the ledger in table "+w.Config.State.Table, err)
	}
	return ledger, nil
}

// observe creates the observer, to which the loops of the pipeline report.
func (w *Worker) observe(clock func() time.Time) *observer {
	var names []string
	for _, t := range w.found.Tables {
		names = append(names, t.Config.From)
	}
	metrics := admin.NewMetrics(w.Config.Name, admin.Build{Version: w.Build.Version, Revision: w.Build.Revision, GoVersion: w.Build.Go})
	w.telemetry.Gather(metrics.Gatherer())
	o := newObserver(clock, w.id, metrics, admin.NewHealth(clock, names...), w.Log, w.Lines, names)
	if w.telemetry.Tracer() != nil {
		metrics.ShowExemplars()
		o.span = func(ctx context.Context) (e admin.Exemplar) {
			e.Trace, e.Span = telemetry.Recorded(ctx)
			return e
		}
	}
	return o
}

// replicate runs the pipeline between source and target. Concurrently it runs the observer, the
// survey and the HTTP endpoints.
func (w *Worker) replicate(ctx context.Context, listener net.Listener) error {
	ledger, err := w.openLedger(ctx)
	if err != nil {
		return err
	}
	o := w.observe(task.Clock(ctx))
	w.ledger = ledger
	w.idling.Store(w.found.Left)
	o.health.TargetReached()
	for _, t := range w.found.Tables {
		o.health.SourceReached(t.Config.From)
	}
	parking := sink.NewParking(w.target.Data.Records(w.Config.State.Table), w.Config.Name)
	w.Log.Info("started", admin.KeyWorker, w.id, admin.KeyVersion, w.Build.Version)

	// The other tasks end after the pipeline, so that an operator can watch a slow stop.
	beside, end := context.WithCancel(context.WithoutCancel(ctx))
	// This group has no context of its own, so that surveys continue if the endpoints fail.
	var side errgroup.Group
	side.Go(func() error { o.draw(beside); return nil })
	o.notices = w.notices(ledger, o)
	side.Go(func() error { w.survey(beside, o, parking); return nil })
	side.Go(func() error { w.rereadOnRequest(beside); return nil })
	if listener != nil {
		w.announce(listener.Addr())
		side.Go(func() error { return w.serve(beside, listener, o) })
	}
	drive, undriven := context.WithCancel(ctx)
	driven := task.NewEvent(ctx)
	side.Go(func() error {
		defer driven.Set()
		return w.drive(drive, ledger, func(step string, err error) { o.retry("", step, engine.SurveyEvery, err) })
	})
	leaders, unled := context.WithCancel(beside)
	staying, leave := context.WithCancel(ctx)
	side.Go(func() error { o.notices.Run(staying); return nil })
	led := task.NewEvent(beside)
	side.Go(func() error {
		defer led.Set()
		return w.lead(leaders, staying, ledger, o)
	})
	told := make(chan struct{})
	unstopped := context.AfterFunc(ctx, func() {
		defer close(told)
		o.health.Stopping()
		w.Log.Info("stopping", admin.KeyReason, context.Cause(ctx).Error())
		if w.Stopping != nil {
			w.Stopping()
		}
	})
	o.stopped = func() bool { return ctx.Err() != nil }
	err = w.work(ctx, ledger, parking, o)
	// The pipeline may end before the driver of the cutover has written the last records.
	if errors.Is(err, checkpoint.ErrCutOver) {
		limited, cancel := task.WithTimeout(beside, endOfCutover)
		_ = driven.Wait(limited) // the driver's error is reported elsewhere
		cancel()
	}
	undriven()
	leave()
	limited, cancel := task.WithTimeout(beside, endOfLead)
	_ = led.Wait(limited) // a leader that does not end in time leaves its doubts to the next one
	cancel()
	unled()
	if !errors.Is(err, errResumed) {
		err = preflight.Explain("the migration has stopped", err)
	}
	if !unstopped() {
		<-told
	}
	o.feed.Close()
	o.board.Close()
	end()
	if sideErr := side.Wait(); err == nil && sideErr != nil {
		err = &diag.Error{Code: diag.CannotListen, What: "the HTTP server failed", Err: sideErr, Exit: diag.ExitFailed}
	}
	if err != nil {
		return err
	}
	return w.outcome(ctx, parking)
}

// work replicates the tables, and idles when they are cut over.
func (w *Worker) work(ctx context.Context, ledger *checkpoint.Ledger, parking *sink.Parking, o *observer) error {
	if !w.found.Left {
		err := untilLeft(ctx, w.Config, ledger, func(ctx context.Context) error { return w.follow(ctx, ledger, parking, o) })
		if w.Once || !errors.Is(err, checkpoint.ErrCutOver) {
			return err
		}
	}
	return w.idle(ctx, o)
}

// follow runs the loops of a worker that reads streams or that applies a topic.
func (w *Worker) follow(ctx context.Context, ledger *checkpoint.Ledger, parking *sink.Parking, o *observer) error {
	all := w.pipeline(ledger, parking, o)
	if !w.FromTopic {
		return pipeline.Run(ctx, all)
	}
	tables := all.Tables
	for _, t := range w.found.Tables {
		if t.Config.Pattern() != "" { // tables that match a pattern now
			tables = append(tables, w.table(t, nil))
		}
	}
	options := apply.Options{Ledger: ledger, Writer: all.Writer, Subscription: w.subscription, Tables: tables, Events: all.Events, Tracer: all.Tracer, Timing: all.Timing,
		Cluster: all.Cluster, Families: all.Families, Restore: all.Restore, ParkedPublished: all.ParkedPublished}
	if w.deadLetter != nil { // an interface that holds a nil pointer would not be nil
		options.DeadLetter = w.deadLetter
	}
	if w.deadTopic != "" {
		topic, err := preflight.OpenDeadTopic(ctx, w.deadTopic)
		if err != nil {
			return err
		}
		defer topic.Close()
		options.DeadTopic = topic
	}
	if w.Config.HasPatterns() {
		options.Find = (&discovery{worker: w, ledger: ledger}).findOne
	}
	return apply.Run(ctx, options)
}

// outcome returns the result of a run after the pipeline has ended cleanly: nil, or an error with
// an exit status.
func (w *Worker) outcome(ctx context.Context, parking *sink.Parking) error {
	if ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	if !w.Once {
		return nil
	}
	w.resolve(ctx, parking, func(string) bool { return true })
	s, err := w.status(ctx)
	if err != nil {
		return err
	}
	return s.Verdict()
}

// status returns the status of the whole migration. Its next steps name this worker's
// configuration.
func (w *Worker) status(ctx context.Context) (*status.Document, error) {
	l, err := status.Read(ctx, w.Config, w.target, "")
	if err != nil {
		return nil, err
	}
	return l.Judge(w.Console.Env, w.Hints, w.now(ctx)), nil
}

// now returns the current time, by which ages are judged. It is the time of the ledger, or of this
// process before the ledger is open.
func (w *Worker) now(ctx context.Context) time.Time {
	if w.ledger == nil {
		return task.Now(ctx)
	}
	return w.ledger.Now(ctx)
}

// resolve removes the records of parked items that have healed. A failure is logged. The records
// then stay until the next attempt.
func (w *Worker) resolve(ctx context.Context, parking *sink.Parking, stays func(source string) bool) {
	for source, m := range w.mappings() {
		if !stays(source) {
			continue // the application has moved to the target
		}
		n, _, err := parking.Resolve(ctx, m, w.target.Data)
		if err != nil && ctx.Err() == nil {
			w.Log.Warn("failed to resolve parked items", admin.KeyTable, source, admin.KeyError, err.Error())
		}
		if n > 0 {
			w.Log.Info("resolved parked items: later changes were applied", admin.KeyTable, source, admin.KeyItems, n)
		}
	}
}
