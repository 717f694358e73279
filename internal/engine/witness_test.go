package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// TestH68_RaisedAboveTheWitness: another ledger may have written the target in any generation, near
// the clock's or far above it. The new generation is above both; in the same one, the other
// ledger's rows would win over new writes.
func TestH68_RaisedAboveTheWitness(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	for _, ahead := range []uint32{0, 1, 1000} {
		enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
			target := &checkpointtest.Memory{}
			k.Mapping, k.Witness = mapping, func(string) checkpoint.Store { return target }
			at := k.Table().Witnesses.Places()[0]
			generation := checkpoint.NextGeneration(0, task.Now(ctx)) + ahead
			lost, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "lost", checkpoint.Options{Worker: "w", ID: "lost"})
			if err == nil {
				_, err = lost.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Generation = generation; return nil })
			}
			if err == nil {
				_, _, err = lost.Beat(ctx, "Orders", at)
			}
			if err == nil {
				err = k.Table().Witnesses.BeatAt(engine.Until(ctx), at)
			}
			if heir, _, err := k.Ledger.Target(ctx, mapping.Tables()[0]); err != nil || heir.CopiedAt.IsZero() || !heir.Swept {
				t.Errorf("the lost ledger's copies are not inherited: %+v, %v", heir, err)
			}
			now, _, errTable := k.Ledger.Table(ctx, "Orders")
			if err != nil || errTable != nil || now.Generation <= generation || !now.NeedsLoad || !strings.Contains(now.Reason, "another ledger") {
				t.Errorf("generation %d after %d, needs a load %v; %v, %v", now.Generation, generation, now.NeedsLoad, err, errTable)
			}
			if verdict, _, err := k.Ledger.Beat(ctx, "Orders", at); verdict != checkpoint.Fine || err != nil {
				t.Errorf("the witness is not claimed: verdict %d, %v", verdict, err)
			}
		})
	}
}

// The reason names what was found: after "recreated" an operator looks for a restored table, not
// for a second pipeline.
func TestWhatTheWitnessTold(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		target := &checkpointtest.Memory{}
		k.Mapping, k.Witness = mapping, func(string) checkpoint.Store { return target }
		reason := func(want string) {
			err := k.Table().Witnesses.Beat(engine.Until(ctx))
			state, _, errTable := k.Ledger.Table(ctx, "Orders")
			if err != nil || errTable != nil || !strings.Contains(state.Reason, want) || state.WitnessBeat == 0 || state.WitnessBeats != nil {
				t.Errorf("%q, %d beats of the first target, and of further ones %v; %v, %v", state.Reason, state.WitnessBeat, state.WitnessBeats, err, errTable)
			}
		}
		reason("")
		target.Clear()
		reason("recreated or restored")
	})
}

// Which witnesses count as another migration's. Those of this ledger do not, whatever its tables
// are now. Witnesses of tables that the ledger or this process has do not either; they may come
// from a lost ledger.
func TestWhoIsAStranger(t *testing.T) {
	mapping := enginetest.OrdersMapping(t)
	for name, c := range map[string]struct {
		ledger, source  string
		shared, started bool
		stranger        bool
	}{
		"another migration":                          {ledger: "other", source: "Returns", stranger: true},
		"the same, in a shared target":               {ledger: "other", source: "Returns", shared: true},
		"a dropped table of ours":                    {ledger: "l", source: "Returns"},
		"a table of ours under a lost ledger":        {ledger: "other", source: "Orders"},
		"the same, before the ledger has its record": {ledger: "other", source: "Returns", started: true},
	} {
		enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
			target := &checkpointtest.Memory{}
			k.Mapping, k.Witness, k.Spec.Shared = mapping, func(string) checkpoint.Store { return target }, c.shared
			if c.started {
				returns := *mapping
				returns.Source = "Returns"
				k.Tables = []engine.Spec{{Mapping: &returns}}
			}
			id := c.ledger
			if id == "l" {
				id = k.Ledger.ID()
			}
			writer, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "two", checkpoint.Options{Worker: "w", ID: id})
			if err == nil {
				_, _, err = writer.Beat(ctx, c.source, checkpoint.Place{Store: target, Key: transform.WitnessKeyOf(c.source)})
			}
			if err != nil {
				t.Error(err)
			}
			var found *engine.StrangerError
			err = k.Table().Witnesses.Stranger(ctx, "orders")
			if errors.As(err, &found) != c.stranger || (err != nil) != c.stranger {
				t.Errorf("%s: %v", name, err)
			}
			if c.stranger && found.Other != (checkpoint.Stranger{Target: "orders", Source: "Returns", Pipeline: "two"}) {
				t.Errorf("%s: %+v", name, found)
			}
		})
	}
}
