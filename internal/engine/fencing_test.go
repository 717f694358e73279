package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// guarded runs a script with the table orders, generation 7 of Orders, and a lease of its shard s.
func guarded(t *testing.T, script func(ctx context.Context, k *enginetest.Rig, families *enginetest.Schema, lease *checkpoint.Lease)) {
	t.Helper()
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "ledger", Lease: time.Hour})
		if err != nil {
			t.Error(err)
			return
		}
		families := &enginetest.Schema{Memory: &sinktest.Memory{}, Names: []string{"d", "_cdc", "_cdc_gone"}}
		families.Create("orders", "d")
		k := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t)})
		k.Writer, k.Families = sink.NewWriter(sink.Options{Table: families.Memory}), families
		row := checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 7}
		_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Generation, s.Adopted, s.Listed, s.Label = 7, 7, 7, "L"
			return nil
		})
		err = errors.Join(err, ledger.CreateShard(ctx, row), k.Table().Fencing.OpenFence(ctx))
		shards, failed := ledger.Shards(ctx, "Orders")
		if err = errors.Join(err, failed); err != nil {
			t.Error(err)
			return
		}
		lease, err := ledger.Take(ctx, shards[0], nil)
		if err != nil {
			t.Error(err)
			return
		}
		script(ctx, k, families, lease)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// refence changes the fence like a new generation or a cutover: it publishes another number, and
// drops the earlier ones.
func refence(ctx context.Context, k *enginetest.Rig, families *enginetest.Schema) error {
	f := fence.Fence{Ledger: k.Ledger, Families: families}
	target, err := f.Raise(ctx, "orders")
	if err == nil {
		_, err = f.Drop(ctx, "orders", target.Fence)
	}
	return err
}

// H35: a writer whose number was dropped proves its right before it stamps again. If it still holds
// its lease, it writes the same batch again. If the generation rose or another worker acquired the
// lease, it drops the batch. A late writer that only took a new stamp would defeat the fence.
func TestH35_ASleeperProvesItsRightAgain(t *testing.T) {
	for name, c := range map[string]struct {
		while func(ctx context.Context, k *enginetest.Rig, lease *checkpoint.Lease) error
		want  error
	}{
		"nothing happened": {func(context.Context, *enginetest.Rig, *checkpoint.Lease) error { return nil }, nil},
		"the generation rose": {func(ctx context.Context, k *enginetest.Rig, _ *checkpoint.Lease) error {
			_, err := k.Ledger.Raise(ctx, "Orders", 7, checkpoint.DeclaredGap{Reason: "a gap"}, nil)
			return err
		}, checkpoint.ErrLeaseLost},
		"and is not adopted yet": {func(ctx context.Context, k *enginetest.Rig, _ *checkpoint.Lease) error {
			_, err := k.Ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Generation = 8; return nil })
			return err
		}, sink.ErrFenced},
		"the mapping is another": {func(ctx context.Context, k *enginetest.Rig, _ *checkpoint.Lease) error {
			_, err := k.Ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.MappingHash = "another"; return nil })
			return err
		}, checkpoint.ErrMappingChanged},
		"the lease was given up": {func(ctx context.Context, _ *enginetest.Rig, lease *checkpoint.Lease) error { return lease.Release(ctx) }, checkpoint.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			guarded(t, func(ctx context.Context, k *enginetest.Rig, families *enginetest.Schema, lease *checkpoint.Lease) {
				r := &engine.Right{Fencing: k.Table().Fencing, Renew: lease.Renew, Generation: 7}
				page := func(value string) *transform.Batch {
					row := transform.RowMutation{Item: "i", Table: "orders", Row: value, Version: transform.NewVersion(7, cdc.RootHop, cdc.SequenceOf(1), 1)}
					return &transform.Batch{Source: "Orders", Rows: []transform.RowMutation{row}}
				}
				if err := r.Write(ctx, k.Writer, page("before")); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(c.while(ctx, k, lease), refence(ctx, k, families)); err != nil {
					t.Fatal(err)
				}
				if err := r.Write(ctx, k.Writer, page("after")); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("%v, wanted %v", err, c.want)
				}
				rows := 0
				if err := families.ReadRows(ctx, "orders", sink.Single("after"), func(sink.Row) error { rows++; return nil }); err != nil {
					t.Fatal(err)
				}
				if (rows == 1) != (c.want == nil) {
					t.Errorf("%d rows are written", rows)
				}
			})
		})
	}
}

// A worker learns a new number when it reads the ledger, and proves its right before the previous
// number is dropped.
func TestNewNumbersAreTakenUpBeforeTheDrop(t *testing.T) {
	guarded(t, func(ctx context.Context, k *enginetest.Rig, _ *enginetest.Schema, lease *checkpoint.Lease) {
		f, renewals := k.Table().Fencing, 0
		r := &engine.Right{Fencing: f, Renew: func(ctx context.Context) error { renewals++; return lease.Renew(ctx) }, Generation: 7}
		for i, want := range []int{1, 1, 2, 2} {
			if i == 2 {
				if _, err := f.Fence.Raise(ctx, "orders"); err != nil {
					t.Fatal(err)
				}
			}
			_, err := r.Current(ctx)
			if i == 2 && renewals != 1 {
				t.Error("a number is known before it was looked for")
			}
			if err = errors.Join(err, f.Read(ctx)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Current(ctx); err != nil || renewals != want {
				t.Errorf("%d: %d proofs, wanted %d: %v", i, renewals, want, err)
			}
		}
	})
}

// H108: only the coordinator recreates a target that was written and is gone, as a whole or without
// replicator's families. The order is: raise the generation, create the table, publish a number
// that was never used, claim the witness.
func TestH108_OnlyTheCoordinatorMakesALostTargetAnew(t *testing.T) {
	for name, whole := range map[string]bool{"the table": true, "its witness": false} {
		t.Run(name, func(t *testing.T) {
			guarded(t, func(ctx context.Context, k *enginetest.Rig, families *enginetest.Schema, _ *checkpoint.Lease) {
				var did []string
				witness := &checkpointtest.Memory{}
				gone := errors.New("no such table")
				witness.OnRead = func(context.Context, string) error {
					if families.Names == nil {
						return gone
					}
					return nil
				}
				witness.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
					did = append(did, "claim")
					return execute(), nil
				}
				k.Witness = func(string) checkpoint.Store { return witness }
				k.Prepare = func(context.Context, string) (bool, error) {
					state, _, err := k.Ledger.Table(ctx, "Orders")
					if state.Generation == 7 {
						t.Error("the table is made before the generation rose")
					}
					did, families.Names = append(did, "make"), []string{"d", "_cdc", "_cdc_gone"}
					return whole, err
				}
				families.Did = &did
				k.Reset()
				_, err := k.Ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.WitnessBeat = 9; return nil })
				if err != nil {
					t.Fatal(err)
				}
				if whole {
					families.Names = nil
				}
				was, _, err := k.Ledger.Target(ctx, "orders")
				if err = errors.Join(err, k.Table().Witnesses.Beat(engine.Until(ctx))); err != nil {
					t.Fatal(err)
				}
				now, _, err := k.Ledger.Target(ctx, "orders")
				if err != nil || now.Fence <= was.Fence || now.MadeByUs != whole || !slices.Equal(did, []string{"make", "raise", "claim"}) {
					t.Errorf("%v, %+v after %+v, %v", did, now, was, err)
				}
				// Later under the same lease, a missing table may be restored by the operator who
				// removed it.
				if err := k.Table().Fencing.Keep(ctx); err != nil {
					t.Error(err)
				}
				families.Names = nil
				if err := k.Table().Witnesses.Beat(engine.Until(ctx)); !errors.Is(err, gone) {
					t.Errorf("a table that was taken away while it was kept: %v", err)
				}
			})
		})
	}
}

// H142: a right with a marker copies without conditions. A sweep's entries are executed under the
// present number, after the right is proved again.
func TestH142_RightsOfAFastLoad(t *testing.T) {
	guarded(t, func(ctx context.Context, k *enginetest.Rig, families *enginetest.Schema, lease *checkpoint.Lease) {
		at := time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC)
		_, err := k.Ledger.UpdateTarget(ctx, "orders", func(t *checkpoint.Target) error { t.CopiedAt = at; return nil })
		must(t, err)
		r := &engine.Right{Fencing: k.Table().Fencing, Renew: lease.Renew, Generation: 7, Marker: sink.Marker{Generation: 7, Load: 1, At: at.UnixMicro()}}
		batch := transform.Load(k.Mapping, []attribute.Item{enginetest.Keyed("a")}, 7, at.Add(time.Hour))
		must(t, r.Write(ctx, k.Writer, &batch))
		row := func() (found sink.Row) {
			must(t, families.ReadRows(ctx, "orders", sink.Range{}, func(r sink.Row) error { found = r; return nil }))
			return found
		}
		if !row().CopiedOnly() || row().Marker != r.Marker {
			t.Errorf("copied as %+v", row())
		}
		mark, err := fence.Marks(k.Ledger)(ctx, "orders")
		if must(t, err); mark.Copied != at.UnixMicro() || mark.Swept {
			t.Errorf("%+v", mark)
		}
		must(t, refence(ctx, k, families))
		entry := sink.Entry{Row: "a", Ops: []sink.Op{{Kind: sink.DeleteAt, Family: sink.LiveFamily, Qualifier: sink.MarkerColumn, Timestamp: at.UnixMicro()}}}
		must(t, r.Clean(ctx, k.Writer, "orders", []sink.Entry{entry}))
		if row().CopiedOnly() {
			t.Errorf("still %+v", row())
		}
		_, err = k.Ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Generation = 8; return nil })
		must(t, err)
		must(t, refence(ctx, k, families))
		if err := r.Clean(ctx, k.Writer, "orders", []sink.Entry{entry}); !errors.Is(err, sink.ErrFenced) {
			t.Errorf("in another generation: %v", err)
		}
	})
}
