package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/virtual"
)

// start is when every simulated run begins.
var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func item(pk, sk, value string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{
		{Name: "pk", Value: attribute.String(pk)}, {Name: "sk", Value: attribute.String(sk)}, {Name: "value", Value: attribute.String(value)},
	})
}

// runs lets a script run for at most so long, and expects that it comes to its end and that the checkers saw nothing.
func runs(t *testing.T, m *Migration, atMost time.Duration, script func(ctx context.Context)) {
	t.Helper()
	if err := m.World.Run(atMost, script); err != nil {
		t.Error(err)
	}
	for _, broken := range m.Broken() {
		t.Error(broken)
	}
}

// TestOneItem is the shortest way from PutItem to a cell, through the real loops.
func TestOneItem(t *testing.T) {
	w := virtual.NewWorld(1, start, true)
	m := NewMigration(w, 1)
	runs(t, m, time.Hour, func(ctx context.Context) {
		m.Source.Put(item("hats", "fedoras#brandA", "before"))
		worker := m.Start("a")
		_ = task.Sleep(ctx, 10*time.Second)
		m.Source.Put(item("hats", "fedoras#brandA", "after"))
		if err := m.Equal(ctx, time.Minute); err != nil {
			t.Error(err)
		}
		if !m.State().Loaded() {
			t.Error("not loaded")
		}
		if err := worker.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		t.Log(w.Trace())
	}
}

// twoWorkers is a workload under two workers, with a split, a roll and a crash, on a network that loses, delays and repeats.
func twoWorkers(t *testing.T, seed uint64) *Migration {
	w := virtual.NewWorld(seed, start, true)
	m := NewMigration(w, 2)
	m.Target.LoseReply, m.Target.Late, m.Target.Drop, m.Target.Twice = 0.02, 0.02, 0.02, 0.05
	runs(t, m, 3*time.Hour, func(ctx context.Context) {
		for i := range 20 {
			m.Source.Put(item("p"+fmt.Sprint(i)[:1], fmt.Sprint(i), "before"))
		}
		a := m.Start("a")
		b := m.Start("b")
		w.Go("application", func(ctx context.Context) { writeRandomly(ctx, m, 300, 30) })
		_ = task.Sleep(ctx, 20*time.Second)
		m.Source.Stream().Split(m.Source.Stream().Open()[0])
		_ = task.Sleep(ctx, 10*time.Second)
		a.Kill()
		m.Source.Stream().Roll(m.Source.Stream().Open()[0])
		_ = task.Sleep(ctx, 30*time.Second)
		if err := m.Equal(ctx, 20*time.Minute); err != nil {
			t.Error(err)
		}
		if len(m.Gaps) > 0 || !m.State().Loaded() {
			t.Errorf("gaps %v, loaded %v", m.Gaps, m.State().Loaded())
		}
		if err := b.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return m
}

// writeRandomly is an application: puts, changes and removes over a few keys, about five a second.
func writeRandomly(ctx context.Context, m *Migration, writes, keys int) {
	for n := range writes {
		key := fmt.Sprint(m.World.Rand().IntN(keys))
		if m.World.Rand().IntN(4) == 0 {
			m.Source.Delete(item("p"+key[:1], key, ""))
		} else {
			m.Source.Put(item("p"+key[:1], key, fmt.Sprint("value ", n)))
		}
		_ = task.Sleep(ctx, time.Duration(m.World.Rand().Int64N(int64(400*time.Millisecond))))
	}
}

// TestSeamRunsTwoWorkersRepeatably is the proof that the loops are ready for the simulation: two workers, a shard split and a
// crash under the seeded scheduler, twice, step by step the same.
func TestSeamRunsTwoWorkersRepeatably(t *testing.T) {
	for seed := range uint64(20 / fewer) {
		first := twoWorkers(t, seed).World.Trace()
		if second := twoWorkers(t, seed).World.Trace(); first != second {
			t.Fatalf("seed %d: the traces differ", seed)
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, first)
		}
	}
}
