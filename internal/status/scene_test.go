package status

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// scene is a migration of one table in virtual time: a real ledger in memory, and workers that
// write it as the pipeline does.
type scene struct {
	*testing.T
	world   *virtual.World
	store   *checkpointtest.Memory
	workers map[string]*checkpoint.Ledger
	parked  int
}

// play runs a script in a world of its own, from noon.
func play(t *testing.T, script func(ctx context.Context, s *scene)) {
	t.Helper()
	s := &scene{T: t, world: virtual.NewWorld(1, noon, true), store: &checkpointtest.Memory{}, workers: map[string]*checkpoint.Ledger{}}
	if err := s.world.Run(100*time.Hour, func(ctx context.Context) { script(ctx, s) }); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// worker opens the ledger on a separate machine.
func (s *scene) worker(name string) *checkpoint.Ledger {
	s.Helper()
	machine := s.world.NewProcess(name)
	l, err := checkpoint.Open(machine.Context(), s.store, "test", checkpoint.Options{Worker: name, ID: "1", Lease: stateLease,
		About: checkpoint.About{Host: "host-of-" + name, Version: "1.2.3"}})
	s.check(err)
	l.Heard(machine.Context(), task.Now(machine.Context()))
	s.workers[name] = l
	return l
}

// begin starts the first generation with the given root shards, and the copy.
func (s *scene) begin(ctx context.Context, l *checkpoint.Ledger, roots ...string) {
	s.Helper()
	_, err := l.UpdateTable(ctx, "Orders", func(t *checkpoint.TableState) error {
		t.Generation, t.Adopted, t.Listed, t.Label, t.StreamARN = 7, 7, 7, "L", "arn/L"
		t.Load = checkpoint.Load{Generation: 7, Number: 1, Parts: 1, StartedAt: task.Now(ctx), Estimate: 1000}
		return nil
	})
	s.check(err)
	for _, id := range roots {
		s.create(ctx, l, id, "")
	}
}

func (s *scene) create(ctx context.Context, l *checkpoint.Ledger, id, parent string) {
	s.Helper()
	hop := uint32(cdc.RootHop)
	if parent != "" {
		hop = s.row(ctx, parent).Hop + 1
	}
	s.check(l.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", StreamARN: "arn/L", ID: id, Parent: parent, State: checkpoint.Waiting, Hop: hop, Generation: 7}))
}

func (s *scene) loaded(ctx context.Context, l *checkpoint.Ledger) {
	s.Helper()
	_, err := l.UpdateTable(ctx, "Orders", func(t *checkpoint.TableState) error {
		t.Load.Items, t.Load.DoneAt, t.Base = 1000, task.Now(ctx), t.Generation
		return nil
	})
	s.check(err)
}

func (s *scene) row(ctx context.Context, id string) checkpoint.Shard {
	s.Helper()
	for _, l := range s.workers {
		shards, err := l.Shards(ctx, "Orders")
		s.check(err)
		for _, shard := range shards {
			if shard.ID == id {
				return shard
			}
		}
		break
	}
	s.Fatalf("no shard %s", id)
	return checkpoint.Shard{}
}

// take leases a shard for a worker.
func (s *scene) take(ctx context.Context, worker, id string) *checkpoint.Lease {
	s.Helper()
	shard := s.row(ctx, id)
	var parent *checkpoint.Shard
	if shard.Parent != "" {
		p := s.row(ctx, shard.Parent)
		parent = &p
	}
	lease, err := s.workers[worker].Take(ctx, shard, parent)
	s.check(err)
	return lease
}

// copied leases the only part of the load and copies some of its items.
func (s *scene) copied(ctx context.Context, l *checkpoint.Ledger, items int64) *checkpoint.PartLease {
	s.Helper()
	part, err := l.TakePart(ctx, checkpoint.Part{Source: "Orders", Generation: 7, Number: 1, Phase: checkpoint.PhaseCopy, Total: 1})
	s.check(err)
	s.check(part.Commit(ctx, checkpoint.PartProgress{Items: items}))
	return part
}

// read returns the progress of a worker that has just read up to a number: a full page, or an empty
// one.
func (s *scene) read(ctx context.Context, lease *checkpoint.Lease, to uint64, event time.Time, rate float64) checkpoint.Progress {
	shard := lease.Shard()
	p := shard.Progress()
	if p.CaughtUp = event.IsZero(); p.CaughtUp {
		p.AppliedTo = task.Now(ctx)
	} else {
		p.Position.After, p.EventTime, p.Applied = cdc.SequenceOf(to), event, p.Applied+to
	}
	p.ReadAt, p.Rate = task.Now(ctx), rate
	if p.FirstRead.IsZero() {
		p.FirstRead = p.ReadAt
	}
	return p
}

func (s *scene) sleep(ctx context.Context, d time.Duration) { s.check(task.Sleep(ctx, d)) }
