package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

func TestConformanceOfMemory(t *testing.T) {
	checkpointtest.Conformance(t, func(*testing.T) checkpoint.Store { return &checkpointtest.Memory{} })
}

func TestConformanceOfBigtable(t *testing.T) {
	e := startEmulator(t)
	checkpointtest.Conformance(t, func(t *testing.T) checkpoint.Store {
		return checkpoint.Bigtable(e.create(t, "ledger", "parked"), "ledger")
	})
}

// The witness of a target is one row among rows of items, which have cells in the same family.
func TestConformanceOfBigtableAmongOtherRows(t *testing.T) {
	e := startEmulator(t)
	checkpointtest.Conformance(t, func(t *testing.T) checkpoint.Store {
		table := e.create(t, "_cdc", "d")
		for _, key := range []string{"p", "p/", "p/a#item", "p/shard/a/1#item", "p/b", "\xff\xff\xff"} {
			item := bigtable.NewMutation()
			item.Set("_cdc", "v", 0, []byte("00000001.500000.1.0001"))
			item.Set("d", "value", 1000, []byte("x"))
			apply(t, table, key, item)
		}
		return checkpoint.Bigtable(table, "_cdc")
	})
}

func TestBigtableStoreLeavesOtherFamiliesAlone(t *testing.T) {
	table := startEmulator(t).create(t, "ledger", "parked")
	other := bigtable.NewMutation()
	other.Set("parked", "c", 0, []byte("not a counter"))
	apply(t, table, "p/a", other)
	store := checkpoint.Bigtable(table, "ledger")
	for was, data := range [][]byte{[]byte("one"), []byte("two"), nil} {
		if done, err := store.Swap(t.Context(), "p/a", uint64(was), uint64(was)+1, data); err != nil || !done {
			t.Fatal(was, done, err)
		}
	}
	row, err := table.ReadRow(t.Context(), "p/a")
	if err != nil || len(row) != 1 || len(row["parked"]) != 1 {
		t.Fatalf("%v, %v", row, err)
	}
}

func TestBigtableStoreRefusesWhatIsNotALedger(t *testing.T) {
	for name, cells := range map[string]map[string]string{
		"a counter alone":      {"c": "1"},
		"a record alone":       {"r": "{}"},
		"a counter of text":    {"c": "one", "r": "{}"},
		"a counter below zero": {"c": "-1", "r": "{}"},
		"a counter of zero":    {"c": "0", "r": "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			table := startEmulator(t).create(t, "ledger")
			m := bigtable.NewMutation()
			for column, value := range cells {
				m.Set("ledger", column, 0, []byte(value))
			}
			apply(t, table, "p/a", m)
			if rows, err := checkpoint.Bigtable(table, "ledger").Read(t.Context(), "p/"); err == nil {
				t.Fatalf("read as %v", rows)
			}
		})
	}
}

// impatient is a runtime in which every timeout ends immediately.
type impatient struct {
	task.Runtime
	limits []time.Duration
}

func (i *impatient) WithTimeout(ctx context.Context, d time.Duration, _ error) (context.Context, context.CancelFunc) {
	i.limits = append(i.limits, d)
	return context.WithDeadline(ctx, time.Unix(0, 0))
}

// A call ends by its own timeout, with an error that says so. The client retries a read of an
// unresponsive instance until its context ends.
func TestBigtableStoreIsNotHeldByACall(t *testing.T) {
	store := checkpoint.Bigtable(startEmulator(t).create(t, "ledger"), "ledger")
	runtime := &impatient{Runtime: virtual.NewWorld(1, begin, false).NewProcess("w")}
	ctx := task.With(t.Context(), runtime)
	if _, err := store.Read(ctx, "p/"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read: %v", err)
	}
	if _, err := store.Swap(ctx, "p/a", 0, 1, []byte("one")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a swap: %v", err)
	}
	// A worker whose loop has not turned for a minute asks for a restart, and may wait 45 s between
	// two calls.
	if len(runtime.limits) != 2 || runtime.limits[0] > 20*time.Second || runtime.limits[1] > 20*time.Second {
		t.Errorf("calls may take %v", runtime.limits)
	}
}

// A worker whose clock is ten hours ahead writes a row. Later writes with the right time are
// visible to all, because no cell carries a worker's time.
func TestH43_FastClockHidesNothing(t *testing.T) {
	table := startEmulator(t).create(t, "ledger")
	store := checkpoint.Bigtable(table, "ledger")
	world := virtual.NewWorld(1, begin, false)
	var last checkpoint.Shard
	for n, skew := range []time.Duration{10 * time.Hour, 0, -10 * time.Hour} {
		p := world.NewProcess(fmt.Sprint("w", n))
		p.Skew(skew)
		ctx := p.Context()
		l := openOn(t, ctx, store, p.Name(), lease)
		if n == 0 {
			create(t, ctx, l, shard("s", ""))
		}
		held := take(t, ctx, l, "s")
		if err := held.Commit(ctx, at(100+n)); err != nil {
			t.Fatal(err)
		}
		if err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		last = row(t, ctx, l, "s")
		if last.Position != at(100+n).Position.After || last.Counter != uint64(1+3*(n+1)) {
			t.Fatalf("after worker %d: position %s, counter %d", n, last.Position, last.Counter)
		}
	}
	raw, err := table.ReadRow(t.Context(), "p/shard/T/l1/s")
	if err != nil || len(raw["ledger"]) != 2 {
		t.Fatalf("%d cells, %v", len(raw["ledger"]), err)
	}
	for _, cell := range raw["ledger"] {
		if cell.Timestamp != 0 {
			t.Errorf("%s has the timestamp %d", cell.Column, cell.Timestamp)
		}
	}
}

type emulator struct {
	dial   func() option.ClientOption
	tables int
}

func startEmulator(t *testing.T) *emulator {
	t.Helper()
	server, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &emulator{dial: func() option.ClientOption {
		conn, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return option.WithGRPCConn(conn)
	}}
}

// create creates another table, whose families keep one version of a cell.
func (e *emulator) create(t *testing.T, families ...string) *bigtable.Table {
	t.Helper()
	ctx := context.Background()
	e.tables++
	name := fmt.Sprint("t", e.tables)
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", e.dial())
	if err != nil {
		t.Fatal(err)
	}
	config := &bigtable.TableConf{TableID: name, Families: map[string]bigtable.GCPolicy{}}
	for _, f := range families {
		config.Families[f] = bigtable.MaxVersionsPolicy(1)
	}
	if err := admin.CreateTableFromConf(ctx, config); err != nil {
		t.Fatal(err)
	}
	client, err := bigtable.NewClientWithConfig(ctx, "p", "i", bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}}, e.dial())
	if err != nil {
		t.Fatal(err)
	}
	return client.Open(name)
}

func apply(t *testing.T, table *bigtable.Table, key string, m *bigtable.Mutation) {
	t.Helper()
	if err := table.Apply(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
}
