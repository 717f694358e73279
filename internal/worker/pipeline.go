package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/targetload"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// pipeline passes each key of the configuration to the component that applies it.
func (w *Worker) pipeline(ledger *checkpoint.Ledger, parking *sink.Parking, o *observer) engine.Options {
	cfg := w.Config
	floors := &engine.Floors{}
	policy := sink.Park
	if cfg.Errors.OnBadItem == config.BadItemStop {
		policy = sink.Stop
	}
	maxParked := cfg.Errors.StopAbove
	if maxParked == 0 {
		maxParked = -1 // allow no parked items; for the writer, 0 means no limit
	}
	out := engine.Options{
		Ledger: ledger, Floors: floors, Database: w.source.Tables, Events: o.events(), Tracer: w.telemetry.Tracer(), Once: w.Once,
		Writer: sink.NewWriter(sink.Options{
			Table: w.target.Data, Rows: w.target.Data, Parking: w.lot(parking), Floor: floors.Floor, OnBadItem: policy, MaxParked: maxParked,
			MaxImageAge: loads.ImageAge(cfg), Events: o.writes(),
		}),
		Folders:  w.openFolder,
		Exporter: w.source.Exporter,
		Open:     func(arn string) cdc.Source { return w.source.Stream(arn) },
		Witness:  w.target.WitnessStore, Families: w.target.Admin, Restore: config.RestoreMapping,
		Target: w.target.Data, Rows: w.target.Data,
		Busy: w.busy(), RampUp: w.rampUp(),
		Cluster: func(ctx context.Context) (string, error) {
			profile, err := w.target.Admin.Profile(ctx)
			return profile.Cluster, err
		},
		Timing: w.timing(), Mode: w.mode(), AcceptMode: w.AcceptMode, ParkedPublished: w.parkTopic != nil,
	}
	if w.topic != nil {
		out.Topic, out.PublishLoads, out.Keying = w.topic, w.Loads, relay.Keying(cfg.Relay.Buckets)
	}
	if cfg.Target.CreateMissing {
		out.Prepare = func(ctx context.Context, table string) (bool, error) {
			return preflight.PrepareTarget(ctx, w.target.Admin, cfg, table)
		}
	}
	var rows *backfill.Throttle
	if cfg.HasPatterns() {
		rows = w.limits.shared(cfg.Backfill)
		d := &discovery{w, ledger, rows}
		out.Discover, out.DiscoverEvery = d.find, discoverEvery(cfg)
	}
	for _, t := range w.found.Tables {
		if t.Config.Pattern() == "" { // tables that match patterns are discovered later, and join
			out.Tables = append(out.Tables, w.table(t, rows))
		}
	}
	return out
}

// table passes the configuration of a table to the components that apply it.
func (w *Worker) table(found preflight.Table, rows *backfill.Throttle) engine.Spec {
	t := found.Config
	limits := func() checkpoint.Limits {
		limits := w.limits.now(w.Config.Backfill)
		if limits.RowsPerSecond != nil && rows == nil {
			// The limit is for the whole process. Named tables share it equally. Tables that match
			// patterns use one common limiter, because their number is unknown.
			share := *limits.RowsPerSecond / float64(len(w.Config.Tables))
			limits.RowsPerSecond = &share
		}
		return limits
	}
	sample, _ := w.Config.Verify.Sample.Share()
	return engine.Spec{
		Late:   w.Config.Late(t),
		Sample: sample, SampleEvery: w.Config.Verify.Every,
		Settle:   w.Config.Verify.Settle,
		LagBound: w.Config.Cutover.ReadyWhen.LagBelow,
		Mapping:  found.Mapping, ARN: found.Description.ARN, Pattern: t.Pattern(), MappingHash: w.Config.Hash(t), AcceptMapping: w.AcceptMapping, AdoptRows: w.AdoptRows, FromNow: t.Start == config.StartNow,
		Copy: !w.NoCopy, LoadMode: checkpoint.LoadMode(w.Config.ModeOf(t)), From: w.named(t), LoadAgain: w.Config.Backfill.OnGap == "load", Segments: w.Config.Backfill.Segments,
		LiveLimits: limits, Rows: rows, SkipExpired: w.Config.Backfill.SkipExpired, Owned: t.Owned, Shared: w.Config.Target.Shared, Joined: t.Pattern() != "",
	}
}

// openFolder opens a folder from which a load copies.
func (w *Worker) openFolder(ctx context.Context, address string) (store source.Store, name string, err error) {
	return w.source.OpenFolder(ctx, w.Console.Env, address)
}

// manifestTime is the time limit for reading the manifests of an export, which may name hundreds of
// thousands of files.
const manifestTime = 5 * time.Minute

// named returns the export that the configuration names for the table's first load, if any.
func (w *Worker) named(t config.Table) source.Named {
	address := w.Config.LoadsFrom(t)
	if address == "" {
		return source.Named{}
	}
	x := loads.OfConfiguration(w.Config, w.source, w.Console.Env)
	return source.Named{Address: address, Judge: func(ctx context.Context, table checkpoint.TableState, shards []checkpoint.Shard) (checkpoint.Export, error) {
		ctx, cancel := context.WithTimeout(ctx, manifestTime)
		defer cancel()
		e, err := x.Judge(ctx, t, table, shards)
		if why := loads.Refusal(err); why != "" {
			return checkpoint.Export{}, &source.Refused{Why: why}
		}
		return e, err
	}}
}

// busy returns a function that reports whether the target is busy. If the CPU load cannot be read,
// loads are not slowed down, and the worker logs that once.
func (w *Worker) busy() func(ctx context.Context, above float64) string {
	emulator, _ := w.Console.Env("BIGTABLE_EMULATOR_HOST")
	monitor := targetload.Monitor{Project: w.Config.Target.Project, Instance: w.Config.Target.Instance, Emulator: emulator}
	told := false
	return func(ctx context.Context, above float64) string {
		r := monitor.Read(ctx, task.Now(ctx))
		if !r.Known && !told {
			told = true
			w.Log.Warn("not limiting loads by the target's CPU: ReadMetrics failed", "cause", r.Why)
		}
		if !r.Above(above) {
			return ""
		}
		return fmt.Sprintf("target CPU %.0f%% > %.0f%%", r.CPU*100, above*100)
	}
}

// rampUp returns the function that bounds the beginning of a fast load; nil for an emulator. It reads
// the number of nodes once. Without the permission for that, the load begins as for one node.
func (w *Worker) rampUp() func(ctx context.Context, elapsed time.Duration) float64 {
	if emulator, _ := w.Console.Env("BIGTABLE_EMULATOR_HOST"); emulator != "" {
		return nil
	}
	var mu sync.Mutex
	var cluster sink.Cluster
	var asked bool
	return func(ctx context.Context, elapsed time.Duration) float64 {
		mu.Lock()
		defer mu.Unlock()
		if !asked {
			asked = true
			cluster, _ = preflight.AskTarget(ctx, w.target.Admin.Cluster)
		}
		return backfill.RampUp(elapsed, cluster.Nodes)
	}
}

// timing takes the poll intervals from source.poll and source.poll_active. With Once, both are at
// most a tenth of Idle: Once requires ten empty pages of a shard within Idle.
func (w *Worker) timing() engine.Timing {
	const pages = 10
	listed, poll, active := w.Config.Cutover.ListingBound, w.Config.Source.Poll, w.Config.Source.PollActive
	if !w.Once {
		return engine.Timing{Poll: poll, Soon: min(active, poll), Listed: listed}
	}
	poll = min(max(w.Idle/pages, 20*time.Millisecond), time.Second)
	return engine.Timing{
		Idle: w.Idle, IdlePages: pages, Listed: listed,
		Poll: poll, Soon: min(active, poll),
		Pass: min(max(w.Idle/pages, 100*time.Millisecond), time.Second),
	}
}
