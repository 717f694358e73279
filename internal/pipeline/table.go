package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// table is one table in this worker, with the loops that work on it.
type table struct {
	*shared
	admission *admission
	assigner  *assigner
	loader    *loader
	verifier  *verifier // nil: this worker compares nothing
	sampler   *sampler  // nil: nor what it has just applied
	keeper    *keeper
}

func newTable(w *worker, spec Table) *table {
	s := newShared(w.process, spec)
	t := &table{shared: s, admission: newAdmission(s)}
	var sample func(*transform.Batch) (durable func())
	if w.Rows != nil {
		t.verifier = newVerifier(s, w.Rows, s.workers, &w.sums)
		t.sampler = newSampler(t.verifier, spec)
	}
	if t.sampler != nil {
		sample = t.sampler.sample
	}
	t.assigner = newAssigner(s, newFollower(s, sample, w.room))
	reconciler := newReconciler(s, t.admission)
	var conductor *conductor
	t.loader, conductor = newLoads(s)
	t.keeper = newKeeper(s, reconciler, conductor)
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
			return t.ledger.CheckMode(ctx, t.source, t.mode, t.process.AcceptMode)
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
	if t.spec.AcceptMapping {
		if m.Strange, err = t.admission.admitChange(ctx); err != nil {
			return err
		}
	}
	state, raised, err := t.ledger.CheckMapping(ctx, t.source, m, t.spec.AcceptMapping)
	if raised {
		t.floors.raise(t.source, state.Generation)
		t.events.Raised(t.source, state.Generation, checkpoint.ChangedMapping)
	}
	return err
}
