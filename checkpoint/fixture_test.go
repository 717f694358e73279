package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

var begin = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

const (
	lease  = 15 * time.Second
	source = "T"
	label  = "l1"
)

var errNoAnswer = errors.New("no answer")

// place is a ledger in memory, and the machines that use it in virtual time.
type place struct {
	*testing.T
	world *virtual.World
	store *checkpointtest.Memory
}

// virtually runs a script in its own world. It may take an hour of virtual time.
func virtually(t *testing.T, script func(ctx context.Context, p *place)) {
	t.Helper()
	p := &place{t, virtual.NewWorld(1, begin, true), &checkpointtest.Memory{}}
	if err := p.world.Run(48*time.Hour, func(ctx context.Context) { script(ctx, p) }); err != nil {
		t.Fatal(err)
	}
}

// worker opens the ledger on a new machine.
func (p *place) worker(name string) (*virtual.Process, *checkpoint.Ledger) {
	p.Helper()
	machine := p.world.NewProcess(name)
	return machine, openOn(p.T, machine.Context(), p.store, name, lease)
}

// since returns the virtual time that has passed.
func (p *place) since() time.Duration { return p.world.Now().Sub(begin) }

func (p *place) sleep(ctx context.Context, d time.Duration) {
	if err := task.Sleep(ctx, d); err != nil {
		p.Error(err)
	}
}

func openOn(t *testing.T, ctx context.Context, store checkpoint.Store, worker string, lease time.Duration) *checkpoint.Ledger {
	t.Helper()
	l, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: worker, ID: "ledger of " + worker, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	l.Heard(ctx, begin)
	return l
}

// shard returns a waiting shard of generation 1.
func shard(id, parent string) checkpoint.Shard {
	return checkpoint.Shard{Source: source, StreamARN: "arn/" + label, Label: label, ID: id, Parent: parent, State: checkpoint.Waiting, Hop: 500_000, Generation: 1}
}

// create begins generation 1 of the table unless it has begun, and adds shards.
func create(t *testing.T, ctx context.Context, l *checkpoint.Ledger, shards ...checkpoint.Shard) {
	t.Helper()
	_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
		if s.Generation == 0 {
			s.Generation, s.Adopted, s.Listed, s.Label, s.StreamARN = 1, 1, 1, label, "arn/"+label
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shards {
		if err := l.CreateShard(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
}

func table(t *testing.T, ctx context.Context, l *checkpoint.Ledger) checkpoint.TableState {
	t.Helper()
	s, found, err := l.Table(ctx, source)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	return s
}

// rows returns all shards by id.
func rows(t *testing.T, ctx context.Context, l *checkpoint.Ledger) map[string]checkpoint.Shard {
	t.Helper()
	shards, err := l.Shards(ctx, source)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]checkpoint.Shard{}
	for _, s := range shards {
		byID[s.ID] = s
	}
	return byID
}

func row(t *testing.T, ctx context.Context, l *checkpoint.Ledger, id string) checkpoint.Shard {
	t.Helper()
	s, found := rows(t, ctx, l)[id]
	if !found {
		t.Fatalf("no row of shard %s", id)
	}
	return s
}

// attempt leases a shard in its present state, whoever holds it.
func attempt(t *testing.T, ctx context.Context, l *checkpoint.Ledger, id string) (*checkpoint.Lease, error) {
	t.Helper()
	all := rows(t, ctx, l)
	s := all[id]
	if parent, found := all[s.Parent]; found {
		return l.Take(ctx, s, &parent)
	}
	return l.Take(ctx, s, nil)
}

func take(t *testing.T, ctx context.Context, l *checkpoint.Ledger, id string) *checkpoint.Lease {
	t.Helper()
	held, err := attempt(t, ctx, l, id)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// free returns the ids of shards that a watch would lease now.
func free(t *testing.T, ctx context.Context, l *checkpoint.Ledger, w *checkpoint.Watch) []string {
	t.Helper()
	shards, err := l.Shards(ctx, source)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	available, _ := w.Look(shards, following, task.Mono(ctx))
	for _, f := range available {
		ids = append(ids, f.Shard.ID)
	}
	return ids
}

// at returns the progress up to a sequence number.
func at(n int) checkpoint.Progress {
	return checkpoint.Progress{Position: cdc.Position{After: cdc.SequenceOf(uint64(n))}}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
