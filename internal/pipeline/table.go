package pipeline

import (
	"cmp"
	"context"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// table is one table in this worker: the parts that work on it, each with what it needs of the
// others.
type table struct {
	*common
	database      Database
	mapping       *transform.Mapping
	admission     *admission
	acceptMapping bool
	acceptMode    bool

	assigner       *assigner
	loader         *loader
	verifier       *verifier // nil: this worker compares nothing
	sampler        *sampler  // nil: nor what it has just applied
	keeper         *keeper
	tracker        shardTracker // what this worker knows of the shards it reads
	outages        outages      // and of the leases it gave up
	wakeAssigner   task.Wakeup  // the assigner's: a shard ended, or one was found
	wakeReconciler task.Wakeup  // the reconciler's
	wakeLoader     task.Wakeup
	wakeConductor  task.Wakeup
	wakeVerifier   task.Wakeup
}

func newTable(w *worker, spec Table) *table {
	c := w.common(&spec)
	canaries := canary.New(w.Ledger.ID(), c.source)
	database := stoppableDatabase{w.Database, w.calls, w.Ledger.Heard, canaries, keyNames(spec.Mapping)}
	open := w.openWithout(canaries)
	t := &table{common: c, database: database, mapping: spec.Mapping, admission: &admission{c, spec.Mapping, w.Target, spec.AdoptRows}, acceptMapping: spec.AcceptMapping, acceptMode: w.AcceptMode, tracker: newShardTracker()}
	workers := func() int { return w.shares.workers(c.source, w.Ledger.Worker()) }
	if w.Rows != nil {
		t.verifier = newVerifier(c, spec, database, w.Rows, workers, &t.wakeVerifier, &w.sums)
		t.sampler = newSampler(t.verifier, spec)
	}
	apply := applier{retrier: c.retrier, writer: w.Writer}
	followed := apply
	if t.sampler != nil {
		followed.sample = t.sampler.sample
	}
	former := &formers{source: c.source, ledger: w.Ledger, mapping: spec.Mapping, families: w.Families, restore: w.Restore}
	fencing := &fencing{common: c, Fence: fence.Fence{Ledger: w.Ledger, Families: w.Families}, mapping: spec.Mapping, prepare: w.Prepare, formers: former}
	witnesses := &witnesses{common: c, fencing: fencing, mapping: spec.Mapping, store: w.Witness}
	follower := &follower{
		common: c, applier: followed, publisher: publisher{c, w.Topic, w.PublishLoads}, fencing: fencing, mapping: spec.Mapping, open: open, database: database,
		slots: w.slots, calls: w.calls, tracker: &t.tracker, outages: &t.outages,
		late: spec.Late, room: w.room, lagBound: cmp.Or(spec.LagBound, defaultLagBound),
	}
	t.assigner = &assigner{
		common: c, open: open, follower: follower, fencing: fencing, shares: w.shares, tracker: &t.tracker, copies: spec.Copy, again: spec.Copy && spec.LoadAgain, once: w.once,
		wake: &t.wakeAssigner, wakeReconciler: &t.wakeReconciler,
	}
	reconciler := &reconciler{
		common: c, mapping: spec.Mapping, database: database, open: open, witnesses: witnesses, admission: t.admission, fencing: fencing, shares: w.shares,
		tracker: &t.tracker, outages: &t.outages, wake: &t.wakeReconciler, wakeAssigner: &t.wakeAssigner,
		late: spec.Late, joined: spec.Joined, young: spec.Young, copies: spec.Copy, fromNow: spec.FromNow,
	}
	settings := loadSettings{
		wanted: spec.Copy, again: spec.Copy && spec.LoadAgain, owned: spec.Owned, skipExpired: spec.SkipExpired,
		segments: max(spec.Segments, 1), limits: spec.limits(), live: spec.LiveLimits != nil && spec.Rows == nil, late: spec.Late, named: spec.Export,
	}
	if w.Writer != nil {
		settings.imageAge = w.Writer.MaxImageAge()
	}
	exports := &exportReader{open: w.Exports}
	t.loader = &loader{
		common: c, applier: apply, publisher: publisher{c, w.Topic, w.PublishLoads}, fencing: fencing, mapping: spec.Mapping, database: database, target: w.Target, shares: w.shares,
		settings: settings, exports: exports, limits: backfill.NewLimits(0, 0), rows: spec.throttle(), own: backfill.NewThrottle(0),
		wake: &t.wakeLoader, wakeConductor: &t.wakeConductor,
	}
	conductor := &conductor{
		common: c, mapping: spec.Mapping, database: database, target: w.Target, witnesses: witnesses, fencing: fencing, busy: w.Busy,
		settings: settings, exports: exports, exporter: w.Exporter, joined: spec.Joined, wake: &t.wakeConductor, wakeLoader: &t.wakeLoader, wakeAssigner: &t.wakeAssigner,
	}
	t.keeper = &keeper{
		common: c, reconciler: reconciler, conductor: conductor, database: database, joined: spec.Joined,
		tracker: &t.tracker, outages: &t.outages, wakeAssigner: &t.wakeAssigner, kept: cmp.Or(w.Kept, checkpoint.LongestKept),
	}
	return t
}

// run works on the table until a drain begins: as one of the workers that read its shards and,
// while it holds the keeper lease, as its keeper.
func (t *table) run(life lifecycle) error {
	err := t.retry(life, "check the source", func(ctx context.Context) error {
		t.events.Tick() // an outage is nothing that a restart of this process would mend
		defer t.events.Tick()
		return t.sameSource(ctx)
	})
	if err != nil && (life.draining() || life.work.Err() != nil) {
		return nil
	}
	if err == nil {
		err = t.retry(life.finishing(), "check the mode", func(ctx context.Context) error {
			return t.ledger.CheckMode(ctx, t.source, t.mode, t.acceptMode)
		})
	}
	if err == nil {
		err = t.retry(life.finishing(), "check the mapping", t.checkMapping)
	}
	if err != nil {
		return t.end(err)
	}
	drain, finish := context.WithCancelCause(life.drain)
	defer finish(context.Canceled)
	g := task.NewGroup(life.work, 0)
	part := func(work context.Context) lifecycle { return lifecycle{drain: drain, work: work} }
	g.Go("keeper", func(work context.Context) error { return t.keeper.seek(part(work)) })
	g.Go("parts", func(work context.Context) error { return t.loader.run(part(work)) })
	if t.verifier != nil {
		g.Go("verify", func(work context.Context) error { return t.verifier.run(part(work), nil) })
	}
	if t.sampler != nil {
		g.Go("sample", func(work context.Context) error { return t.sampler.run(part(work)) })
	}
	g.Go("shards", func(work context.Context) error {
		return t.assigner.assign(part(work), func() { finish(context.Canceled) })
	})
	return g.Wait()
}

func (t *table) checkMapping(ctx context.Context) error {
	t.events.Tick()
	defer t.events.Tick()
	m, err := mappingOf(t.mapping, t.mappingHash), error(nil)
	if t.acceptMapping {
		if m.Strange, err = t.admission.admitChange(ctx); err != nil {
			return err
		}
	}
	state, raised, err := t.ledger.CheckMapping(ctx, t.source, m, t.acceptMapping)
	if raised {
		t.floors.raise(t.source, state.Generation)
		t.events.Raised(t.source, state.Generation, checkpoint.ChangedMapping)
	}
	return err
}

// sameSource is CheckSource for what this worker finds under the table's name, before it touches
// anything: from the wrong region the stream that is followed would seem to be gone. A table that
// is not there is nobody else's; the keeper tells of it. What a former configuration was refused is
// forgotten.
func (t *table) sameSource(ctx context.Context) error {
	state, _, err := t.ledger.Table(ctx, t.source)
	if err == nil {
		err = t.forgetRefusal(ctx, state)
	}
	if err != nil || state.StreamARN == "" {
		return err
	}
	d, err := t.database.Describe(ctx, t.source)
	if cdc.Is(err, cdc.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return CheckSource(d, state.StreamARN)
}
