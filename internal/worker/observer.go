package worker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/dashboard"
	"github.com/dynamodb-bigtable/replicator/internal/memory"
	"github.com/dynamodb-bigtable/replicator/internal/notify"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// observer turns the events of the pipeline and the writer into metrics, health, log lines and the
// progress line. It never gets item data.
type observer struct {
	metrics *admin.Metrics
	health  *admin.Health
	log     *slog.Logger
	lines   *backfill.Renderer
	feed    *admin.Feed
	board   *dashboard.Board
	notices *notify.Sender // nil if this process sends no notifications
	worker  string
	clock   func() time.Time
	began   time.Time
	waits   status.Coalesced
	outages outages
	stopped func() bool
	// span returns the recorded span of a context; nil if this process exports no traces.
	span func(ctx context.Context) admin.Exemplar

	mu     sync.Mutex
	copies map[string]*copyProgress // by source table
	// order has the tables in the order of the configuration, and then in the order in which they
	// joined.
	order []string
	// failing holds the time at which publishing last failed, by reason.
	failing map[failing]time.Duration
}

// copyProgress is the progress of the copy of one table, as far as this process knows it.
type copyProgress struct {
	meter         backfill.Meter
	running       bool
	items         int64
	estimate      int64
	start         time.Duration
	resumed       bool // another process, or an earlier task of this process, began the copy
	lag, headroom time.Duration
	throttled     string
	throttledAt   time.Duration
}

func newObserver(clock func() time.Time, worker string, metrics *admin.Metrics, health *admin.Health, log *slog.Logger, lines *backfill.Renderer, tables []string) *observer {
	o := &observer{worker: worker, metrics: metrics, health: health, log: log, lines: lines, feed: admin.NewFeed(clock), clock: clock, began: clock(), outages: outages{log: log, open: map[outage]*spell{}, reported: map[outage]time.Duration{}}, stopped: func() bool { return false }, copies: map[string]*copyProgress{}, order: tables, failing: map[failing]time.Duration{}}
	o.board = dashboard.New(build.This().Version, o.feed.Recent)
	for _, table := range tables {
		o.copies[table] = &copyProgress{lag: -1, headroom: -1}
	}
	return o
}

// mono returns the time since the observer began, independent of changes of the wall clock.
func (o *observer) mono() time.Duration { return o.clock().Sub(o.began) }

// handled counts rows for the garbage collector's settings.
func (o *observer) handled(rows int) { memory.Count(rows, o.mono()) }

// events returns the callbacks of the pipeline.
func (o *observer) events() engine.Events {
	return engine.Events{
		Tick: func() {
			o.health.Tick()
			o.handled(0)
		},
		CoordinatorTaken: func(table string, epoch uint64) {
			o.logStep("became coordinator of table", admin.KeyTable, table, admin.KeyEpoch, epoch)
			o.feed.Publish(admin.Event{Kind: admin.EventCoordinator, Table: table, Worker: o.worker, Epoch: epoch})
		},
		CoordinatorLeft: func(table string, err error) {
			o.left("stopped being coordinator of table", err, admin.KeyTable, table)
		},
		Waits: func(table string, of engine.Leases, leases int, wait time.Duration) {
			o.logStep("waiting as standby for leases of other workers",
				admin.KeyTable, table, admin.KeyReason, string(of), admin.KeyLeases, leases, admin.KeyWait, wait.String())
		},
		ShardTaken: func(table, shard string, epoch uint64) {
			o.health.ShardTaken(table)
			o.metrics.LeaseTaken()
			o.changes("acquired shard", nil, admin.KeyTable, table, admin.KeyShard, shard, admin.KeyEpoch, epoch)
			o.feed.Publish(admin.Event{Kind: admin.EventLeaseTaken, Table: table, Shard: shard, Worker: o.worker, Epoch: epoch})
		},
		ShardLeft: func(table, shard string, err error) {
			if errors.Is(err, engine.ErrYield) {
				o.health.ShardGivenUp(table)
			} else {
				o.health.ShardLeft(table)
			}
			o.metrics.LeaseLeft()
			o.changes("released shard", err, admin.KeyTable, table, admin.KeyShard, shard)
			o.feed.Publish(admin.Event{Kind: admin.EventLeaseLeft, Table: table, Shard: shard, Worker: o.worker, Reason: leftBecause(err)})
		},
		ShardDone: func(table, shard string) { o.logStep("finished shard", admin.KeyTable, table, admin.KeyShard, shard) },
		Ledger:    o.ledger,
		PageRead: func(table string, n engine.Tally) {
			o.handled(n.Changes())
			o.metrics.Read(table, counts(n))
		},
		PageDone: o.health.Polled,
		Applied: func(table string, n engine.Tally, _ int) {
			o.handled(n.Changes())
			o.metrics.Applied(table, counts(n))
		},
		Compared: func(table string, rows int64) {
			o.handled(int(rows))
			o.metrics.Compared(table, rows)
		},
		Diverged:   o.metrics.Diverged,
		Published:  o.published,
		Lag:        o.lag,
		NotReading: o.notReading,
		Ignored:    o.metrics.Ignored,
		Joined:     o.joined,
		Discovered: func(err error) {
			o.health.Sought(err == nil)
			o.metrics.Sought(err == nil)
		},
		Suspended: func(table, reason string) {
			o.log.Warn("suspended table; other tables continue", admin.KeyTable, table, admin.KeyReason, reason)
		},
		Gap: func(table, shard, reason string) {
			o.log.Error("declared gap: changes are lost, and the table needs a load", admin.KeyTable, table, admin.KeyShard, shard, admin.KeyReason, reason)
		},
		Refused: func(table, reason string, messages int) {
			o.log.Warn("published refused messages to the dead-letter topic; list them with `replicator relay dead-letter list`",
				admin.KeyTable, table, admin.KeyReason, reason, "messages", messages)
		},
		Raised: func(table string, generation uint32, reason string) {
			o.log.Warn("began new generation", admin.KeyTable, table, admin.KeyGeneration, generation, admin.KeyReason, reason)
		},
		Retry:       o.retry,
		CopyStarted: o.copyStarted,
		Copied:      o.copied,
		CopyDone:    o.copyDone,
		CopyLeft:    o.copyLeft,
		Exporting:   o.exporting,
		Throttled:   o.throttled,
	}
}

// exporting reports the state of a requested export.
func (o *observer) exporting(table, arn, failed string) {
	if failed != "" {
		o.log.Error("waiting for an export: the requested one failed; request another export or a scan with `replicator backfill start`", admin.KeyTable, table, admin.KeyCause, failed)
		return
	}
	o.log.Info("waiting for the requested export (ExportTableToPointInTime)", admin.KeyTable, table, "export", arn)
}

// failing is a reason why publishing the changes of a table fails.
type failing struct{ table, cause string }

// calm is how long publishing must succeed before a failure counts as ended. Attempts are made more
// often than that.
const calm = 2 * time.Minute

// published counts messages. If a failure had blocked ordering keys, it reports their number and
// the reason, without item data. While a failure lasts, it reports each reason only once.
func (o *observer) published(table string, done relay.Published) {
	o.metrics.Published(table, done.Messages, done.Blocked)
	if done.Blocked == 0 || done.Failed == nil {
		return
	}
	why, now := failing{table, done.Failed.Error()}, o.mono()
	o.mu.Lock()
	maps.DeleteFunc(o.failing, func(_ failing, last time.Duration) bool { return now-last > calm })
	_, told := o.failing[why]
	o.failing[why] = now
	o.mu.Unlock()
	if !told {
		o.log.Warn("retrying Publish: a failed publish blocked ordering keys",
			admin.KeyTable, table, admin.KeyItems, done.Blocked, admin.KeyCause, why.cause)
	}
}

// joined adds a table that a pattern matched.
func (o *observer) joined(table string) {
	o.log.Info("joined table", admin.KeyTable, table)
	o.health.SourceReached(table)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.copies[table] == nil {
		o.copies[table] = &copyProgress{lag: -1, headroom: -1}
		o.order = append(o.order, table)
	}
}

// writes returns the callbacks of the writer.
func (o *observer) writes() sink.Events {
	return sink.Events{
		Applied:   o.written,
		Stale:     o.written,
		Failed:    func(_, code string) { o.metrics.WriteFailed(code) },
		Overtaken: o.metrics.Overtaken,
		Parked: func(table, reason string) {
			o.log.Warn("parked item", admin.KeyTable, table, admin.KeyReason, reason)
		},
	}
}

// written observes the duration of a write request, with the span that it belongs to, if there is
// one.
func (o *observer) written(ctx context.Context, _ string, took time.Duration) {
	var span admin.Exemplar
	if o.span != nil {
		span = o.span(ctx)
	}
	o.metrics.Written(took, span)
}

func counts(n engine.Tally) admin.EventCounts {
	return admin.EventCounts{Inserts: n.Inserts, Modifies: n.Modifies, Removes: n.Removes}
}

// left reports that a lease was released or lost. If Bigtable does not answer, hundreds of leases
// may be lost, so only the first loss is logged.
func (o *observer) left(message string, err error, attributes ...any) {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		o.logStep(message, attributes...)
		return
	case errors.Is(err, checkpoint.ErrLeaseLost) && !o.outages.first(o.mono(), outage{step: "leases are lost"}):
		o.log.Debug(message, append(attributes, admin.KeyError, err.Error())...)
		return
	}
	o.log.Warn(message, append(attributes, admin.KeyError, err.Error())...)
}

// changes reports that a lease was acquired, released or lost. While a service does not answer,
// workers repeatedly release and acquire shards. That is logged only once, as an outage.
func (o *observer) changes(message string, err error, attributes ...any) {
	if o.outages.lasts() && (err == nil || errors.Is(err, engine.ErrYield)) {
		o.log.Debug(message, attributes...)
		return
	}
	o.left(message, err, attributes...)
}

// logStep logs an ordinary step. During a stop it uses the level debug, because the operator
// expects that the worker releases its leases.
func (o *observer) logStep(message string, attributes ...any) {
	level := slog.LevelInfo
	if o.stopped() {
		level = slog.LevelDebug
	}
	o.log.Log(context.Background(), level, message, attributes...)
}

// leftBecause returns the reason why a lease ended, in fixed words.
func leftBecause(err error) string {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return "done or released"
	case errors.Is(err, checkpoint.ErrLeaseLost):
		return "lost: not renewed in time, acquired by another worker, or a new generation began"
	case errors.Is(err, engine.ErrYield):
		return "released: DynamoDB does not answer this worker"
	}
	return "failed; see the worker's log"
}

// quietWait is the longest wait after which a retried step is not reported. Short throttling and
// lost connections are normal.
const quietWait = 2 * time.Second

func (o *observer) retry(table, step string, wait time.Duration, err error) {
	o.outages.retry(o.mono(), table, step, wait, err)
}

func (o *observer) ledger(state checkpoint.TableState, shards map[checkpoint.State]int) {
	if shards == nil {
		o.health.Looked(state.Source, false)
		o.health.Childless(state.Source, time.Time{})
		return
	}
	states := make(map[string]int, len(shards))
	for s, n := range shards {
		states[string(s)] = n
	}
	o.health.Looked(state.Source, standing.WaitsForListing(state))
	o.metrics.Shards(state.Source, states)
	o.metrics.LoadNeeded(state.Source, standing.Lost(state))
	if rows, known := state.Mismatched(); known {
		o.metrics.Mismatched(state.Source, rows)
	}
}

func (o *observer) lag(table string, lag, headroom time.Duration) {
	o.metrics.Lag(table, lag)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.copies[table]; c != nil {
		c.lag, c.headroom = lag, headroom
	}
}

// notReading removes the reported lag of a table. Only a worker that reads the table's shards knows
// the lag.
func (o *observer) notReading(table string) {
	o.metrics.NotReading(table)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.copies[table]; c != nil {
		c.lag, c.headroom = -1, -1
	}
}

func (o *observer) copyStarted(table string, estimate, done int64) {
	o.metrics.Estimated(table, estimate)
	o.logStep("started copy", admin.KeyTable, table, admin.KeyEstimate, estimate, admin.KeyItems, done)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.copies[table]; c != nil {
		*c = copyProgress{running: true, items: done, estimate: estimate, start: o.mono(), resumed: done > 0, lag: c.lag, headroom: c.headroom}
		c.meter.Add(c.start, done)
	}
}

func (o *observer) copied(table string, items int64) {
	o.handled(int(items))
	o.metrics.Copied(table, items)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.copies[table]; c != nil {
		c.items += items
		c.meter.Add(o.mono(), c.items)
	}
}

func (o *observer) copyDone(table string, items int64) {
	o.log.Info("finished copy", admin.KeyTable, table, admin.KeyItems, items)
	o.mu.Lock()
	c := o.copies[table]
	var report backfill.Report
	if c != nil {
		c.running, c.items = false, items
		report = c.report(table, o.mono())
		report.Done = true
		// If the copy was resumed, this process does not know its start; status shows the duration.
		if !c.resumed {
			report.Took = o.mono() - c.start
		}
	}
	o.mu.Unlock()
	if c != nil {
		_ = o.lines.Finish([]backfill.Report{report}) // fails only if stderr is closed
	}
}

// copyLeft removes the line of an unfinished copy that this process has left. Another process may
// continue the copy, or a gap has made it useless.
func (o *observer) copyLeft(table string) {
	o.mu.Lock()
	c := o.copies[table]
	running := c != nil && c.running
	if running {
		c.running = false
	}
	o.mu.Unlock()
	if running {
		_ = o.lines.Finish(nil) // fails only if stderr is closed
	}
}

func (o *observer) throttled(table, reason string, waited time.Duration) {
	o.metrics.Throttled(reason, waited)
	if sum, tell := o.waits.Add(table, reason, waited, o.mono()); tell {
		o.feed.Publish(admin.Event{Kind: admin.EventThrottled, Table: table, Worker: o.worker, Reason: reason, Seconds: sum.Seconds()})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.copies[table]; c != nil {
		c.throttled, c.throttledAt = reason, o.mono()
	}
}

// report returns the progress line of a table. The rate is measured up to now. Otherwise a stalled
// copy would show its last rate forever.
func (c *copyProgress) report(table string, now time.Duration) backfill.Report {
	c.meter.Add(now, c.items)
	r := backfill.Report{Table: table, Items: c.items, Estimate: c.estimate, Rate: c.meter.Rate(), ETA: c.meter.ETA(c.estimate), Lag: c.lag, Headroom: c.headroom}
	const recent = 5 * time.Second
	if c.throttled != "" && now-c.throttledAt < recent {
		r.Throttled = c.throttled
	}
	return r
}

// draw shows the progress of the running copies once a second, until ctx ends.
func (o *observer) draw(ctx context.Context) {
	for task.Sleep(ctx, time.Second) == nil {
		o.mu.Lock()
		now := o.mono()
		var reports []backfill.Report
		for _, table := range o.order {
			if c := o.copies[table]; c.running {
				reports = append(reports, c.report(table, now))
			}
		}
		o.mu.Unlock()
		if len(reports) > 0 {
			_ = o.lines.Show(now, reports) // fails only if stderr is closed
		}
	}
}
