package engine

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A shard that returned an empty page, and then a change, waits for a slot again, because its next
// page may be full.
func TestABusyShardTakesAPlaceAgain(t *testing.T) {
	h := NewPageSlot(task.NewLimit(1), &Reads{})
	for i, step := range []struct{ behind, takes bool }{{false, true}, {true, false}, {true, true}, {false, true}, {false, false}} {
		if err := h.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.Held != step.takes {
			t.Errorf("page %d: holds a place: %v", i, h.Held)
		}
		h.Drop(step.behind)
	}
}

// If no shard waits, a page keeps its slot, however long it cannot be written. To read it again
// would only cost calls, and hide how long it has failed.
func TestAPlaceThatNobodyWaitsForIsKept(t *testing.T) {
	h := NewPageSlot(task.NewLimit(1), &Reads{})
	if err := h.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.wanted(24 * time.Hour) {
		t.Error("the page is put back for nobody")
	}
}

// oneByOne is a target that accepts one new row every two seconds.
type oneByOne struct {
	sink.Table
	taken map[string]bool
	last  *time.Duration
}

func (o oneByOne) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if now := task.Mono(ctx); !o.taken[r.Row] {
		if now-*o.last < 2*time.Second {
			return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
		}
		o.taken[r.Row], *o.last = true, now
	}
	return true, nil
}

// A page that makes progress keeps its slot, however long the whole takes: otherwise it would be
// read again and start over.
func TestAPageThatGetsOnKeepsItsPlace(t *testing.T) {
	placesBegin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	mapping, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	world := virtual.NewWorld(1, placesBegin, false)
	err = world.Run(time.Hour, func(ctx context.Context) {
		last := time.Duration(0)
		writer := sink.NewWriter(sink.Options{Table: oneByOne{taken: map[string]bool{}, last: &last}, InFlight: 16})
		places, calls := task.NewLimit(1), &Reads{}
		a := Applier{Retrier: &Retrier{Events: Events{}.OrSilent()}, writer: writer}
		holder := NewPageSlot(places, calls)
		if err := holder.take(ctx); err != nil {
			t.Error(err)
		}
		g := task.NewGroup(ctx, 0)
		g.Go("wait", func(ctx context.Context) error { return NewPageSlot(places, calls).take(ctx) })
		var changes []cdc.Change
		for n := range uint64(20) {
			item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(strconv.FormatUint(n, 10))}})
			changes = append(changes, cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(n + 1), Time: placesBegin, Keys: item, New: item})
		}
		batch := transform.Fold(mapping, changes, transform.Stamp{Generation: 7, Hop: cdc.RootHop})
		if err := a.Write(Until(ctx), &Right{Fencing: &Fencing{}, Stamps: sink.Unfenced(), Proved: true}, &batch, changes, holder); err != nil {
			t.Error(err)
		}
		holder.Drop(true)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
