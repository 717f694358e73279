package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/follow"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/stream"
	"github.com/dynamodb-bigtable/replicator/internal/verify"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// table is one source table in this worker, with the loops that work on it.
type table struct {
	*engine.Table
	admission   *stream.Admission
	assigner    *follow.Assigner
	loader      *load.Loader
	verifier    *verify.Verifier // nil if this worker runs no verifies
	sampler     *verify.Sampler  // nil if no samples are compared
	coordinator *coordinator
}

func newTable(w *worker, spec engine.Spec) *table {
	s := engine.NewTable(w.Worker, spec)
	t := &table{Table: s, admission: stream.NewAdmission(s)}
	var sample func(*transform.Batch) (durable func())
	if w.Rows != nil {
		t.verifier = verify.NewVerifier(s, w.Rows, s.Workers, &w.sums)
		t.sampler = verify.NewSampler(t.verifier, spec)
	}
	if t.sampler != nil {
		sample = t.sampler.Sample
	}
	var rechecks func() follow.Recheck
	if t.verifier != nil {
		rechecker := verify.NewRechecker(t.verifier)
		rechecks = func() follow.Recheck { return rechecker.Begin() }
	}
	t.assigner = follow.NewAssigner(s, follow.NewFollower(s, sample, w.room, rechecks))
	reconciler := stream.New(s, t.admission)
	var conductor *load.Conductor
	t.loader, conductor = load.New(s)
	t.coordinator = newCoordinator(s, reconciler, conductor)
	return t
}

// run works on the table until a drain begins. It replicates some of the table's shards. While this
// worker holds the coordinator lease, it also coordinates the table.
func (t *table) run(life engine.Lifecycle) error {
	err := t.Retry(life, "check the source", func(ctx context.Context) error {
		t.Events.Tick() // show that this process is alive, because a restart would not fix an outage
		defer t.Events.Tick()
		return t.SameSource(ctx)
	})
	if err != nil && (life.Draining() || life.Work.Err() != nil) {
		return nil
	}
	if err == nil {
		err = t.Retry(life.Finishing(), "check the mode", func(ctx context.Context) error {
			if err := t.Ledger.CheckMode(ctx, t.Source, t.Mode, t.Worker.AcceptMode); err != nil {
				return err
			}
			return t.Publisher.FirstKeys(ctx)
		})
	}
	if err == nil {
		err = t.Retry(life.Finishing(), "check the mapping", t.checkMapping)
	}
	if err != nil {
		return t.End(err)
	}
	drain, finish := context.WithCancelCause(life.Drain)
	defer finish(context.Canceled)
	g := task.NewGroup(life.Work, 0)
	part := func(work context.Context) engine.Lifecycle { return engine.Lifecycle{Drain: drain, Work: work} }
	g.Go("keeper", func(work context.Context) error { return t.coordinator.seek(part(work)) })
	g.Go("parts", func(work context.Context) error { return t.loader.Run(part(work)) })
	if t.verifier != nil {
		g.Go("verify", func(work context.Context) error { return t.verifier.Run(part(work), nil) })
	}
	if t.sampler != nil {
		g.Go("sample", func(work context.Context) error { return t.sampler.Run(part(work)) })
	}
	g.Go("shards", func(work context.Context) error {
		return t.assigner.Assign(part(work), func() { finish(context.Canceled) })
	})
	return g.Wait()
}

func (t *table) checkMapping(ctx context.Context) error {
	t.Events.Tick()
	defer t.Events.Tick()
	m, err := engine.MappingOf(t.Mapping, t.MappingHash), error(nil)
	if t.Spec.AcceptMapping {
		if m.Strange, err = t.admission.AdmitChange(ctx); err != nil {
			return err
		}
	}
	state, raised, err := t.Ledger.CheckMapping(ctx, t.Source, m, t.Spec.AcceptMapping)
	if raised {
		t.Floors.Raise(t.Source, state.Generation)
		t.Events.Raised(t.Source, state.Generation, checkpoint.ChangedMapping)
	}
	return err
}
