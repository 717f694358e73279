package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// many returns a ledger of n tables, each with one shard. The last table has a parked item.
func many(t *testing.T, n int) (*checkpointtest.Memory, *checkpoint.Ledger, *sink.Parking, []config.Table) {
	t.Helper()
	store, parking := &checkpointtest.Memory{}, sink.NewParking(&sinktest.Records{}, "many")
	ledger, err := checkpoint.Open(t.Context(), store, "many", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	var tables []config.Table
	for i := range n {
		source := fmt.Sprintf("Log_%04d", i)
		tables = append(tables, config.Table{From: source, To: "logs"})
		if _, err := ledger.UpdateTable(t.Context(), source, func(s *checkpoint.TableState) error { s.Label = "L"; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := ledger.CreateShard(t.Context(), checkpoint.Shard{Source: source, Label: "L", ID: "of-" + source, State: checkpoint.Waiting}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(tables) // the configuration's order, not the keys'
	change := cdc.Change{Event: cdc.Remove, Keys: attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String("k")}})}
	if err := parking.Park(t.Context(), transform.Parked{Source: tables[0].From, Key: "S:k", Reason: "no", Change: change}); err != nil {
		t.Fatal(err)
	}
	return store, ledger, parking, tables
}

// TestTablesAreReadSideBySide: exactly the given number of tables is read at a time, and the
// results are in the order of the tables. The store's clock stops while any task runs, so that all
// concurrent reads are seen at the same time.
func TestTablesAreReadSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ledger, parking, tables := many(t, 2000)
		var running, most, reads atomic.Int64
		store.OnRead = func(context.Context, string) error {
			now := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			reads.Add(1)
			time.Sleep(time.Millisecond)
			return nil
		}
		inputs, err := readTables(t.Context(), ledger, parking, tables)
		if err != nil {
			t.Fatal(err)
		}
		if most.Load() != tablesAtOnce || reads.Load() < int64(len(tables)) {
			t.Errorf("%d reads at a time, of %d", most.Load(), reads.Load())
		}
		if len(inputs) != len(tables) || inputs[0].Parked != 1 || inputs[1].Parked != 0 {
			t.Errorf("%d tables, of which the first has %d parked", len(inputs), inputs[0].Parked)
		}
		for i, in := range inputs {
			if source := tables[i].From; !in.Found || in.State.Source != source || len(in.Shards) != 1 || in.Shards[0].ID != "of-"+source {
				t.Fatalf("in the place of %s: %+v", source, in)
			}
		}
	})
}

// TestTheFirstFailureEndsTheReading: the first failure ends the reads in progress, and prevents
// later ones.
func TestTheFirstFailureEndsTheReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ledger, parking, tables := many(t, 200)
		boom := errors.New("boom")
		var reads atomic.Int64
		store.OnRead = func(ctx context.Context, _ string) error {
			if reads.Add(1) == tablesAtOnce {
				return boom
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		// A few may have just begun.
		if _, err := readTables(t.Context(), ledger, parking, tables); !errors.Is(err, boom) || reads.Load() >= 2*tablesAtOnce {
			t.Errorf("%v after %d reads", err, reads.Load())
		}
	})
}

// One parked item, in any table, is enough to trigger a survey.
func TestAnyParked(t *testing.T) {
	for _, c := range []struct {
		parked []int
		want   bool
	}{{nil, false}, {[]int{0, 0}, false}, {[]int{0, 1}, true}, {[]int{1, 0}, true}} {
		m := &Document{}
		for _, n := range c.parked {
			m.Tables = append(m.Tables, Table{Parked: n})
		}
		if got := m.AnyParked(); got != c.want {
			t.Errorf("%v: %v", c.parked, got)
		}
	}
}
