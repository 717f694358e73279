package stream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A first generation goes into a target that is empty, or ours, without a question; into the rows of
// somebody else only after an answer, which the ledger keeps for all sources of that target.
func TestFirstGenerationsAreAdmitted(t *testing.T) {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	const foreign = "\xff\xff foreign" // behind the witnesses
	other := transform.WitnessKeyOf("Returns")
	for name, c := range map[string]struct {
		rows                  string // separated by commas
		absent, unasked       bool
		generation            uint32
		target                checkpoint.Target
		state, adopt          bool // answered before, or now
		refused               bool
		ours, answered        bool // of the table's record
		targetOurs, targetHas bool // of the target's
	}{
		"empty":                         {ours: true, targetOurs: true},
		"not there":                     {absent: true, ours: true, targetOurs: true},
		"a witness of another source":   {rows: other, ours: true, targetOurs: true},
		"rows":                          {rows: "a", refused: true},
		"rows behind the witnesses":     {rows: other + "," + foreign, refused: true},
		"rows, answered now":            {rows: "a", adopt: true, answered: true, targetHas: true},
		"rows, answered before":         {rows: "a", state: true, answered: true, targetHas: true},
		"answered for another source":   {rows: "a", target: checkpoint.Target{AdoptRows: true}, answered: true, targetHas: true},
		"rows of another source":        {rows: "a," + other, target: checkpoint.Target{MadeByUs: true}, ours: true, targetOurs: true},
		"empty, and an answer":          {adopt: true, ours: true, targetOurs: true},
		"a ledger that was lost":        {rows: "a," + m.WitnessKey()},
		"a generation that has begun":   {rows: "a", generation: 7},
		"nobody can look at the target": {rows: "a", unasked: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			memory := &sinktest.Memory{}
			if !c.absent {
				memory.Create("orders", "d")
			}
			for _, row := range strings.FieldsFunc(c.rows, func(r rune) bool { return r == ',' }) {
				_, err := memory.Apply(ctx, &sink.Request{Table: "orders", Row: row, Ops: []sink.Op{{Kind: sink.SetCell, Family: "d", Qualifier: "q"}}})
				if err != nil {
					t.Fatal(err)
				}
			}
			store := &checkpointtest.Memory{}
			ledger, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: "w", ID: "l"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
				s.Generation, s.AdoptRows = c.generation, c.state
				return nil
			})
			_, noted := ledger.UpdateTarget(ctx, "orders", func(s *checkpoint.Target) error {
				s.MadeByUs, s.AdoptRows = c.target.MadeByUs, c.target.AdoptRows
				return nil
			})
			if err = errors.Join(err, noted); err != nil {
				t.Fatal(err)
			}
			a := &Admission{Common: &engine.Common{Retrier: &engine.Retrier{Source: "Orders"}, Ledger: ledger}, mapping: m, target: memory, adopt: c.adopt,
				stranger: func(context.Context, ...string) error { return nil }}
			if c.unasked {
				a.target = nil
			}
			checkAdmission(t, a, c.refused)
			state, _, err := ledger.Table(ctx, "Orders")
			target, _, failed := ledger.Target(ctx, "orders")
			if err = errors.Join(err, failed); err != nil || state.MadeByUs != c.ours || state.AdoptRows != c.answered ||
				target.MadeByUs != c.targetOurs || target.AdoptRows != c.targetHas {
				t.Errorf("the record %+v, of the target %+v: %v", state, target, err)
			}
		})
	}
}

// checkAdmission asks twice: an answer is needed once, and a refusal stays one.
func checkAdmission(t *testing.T, a *Admission, refused bool) {
	t.Helper()
	for range 2 {
		err := a.admit(context.Background())
		var rows *engine.RowsError
		if errors.As(err, &rows) != refused || (err != nil) != refused || refused && (!engine.Orderly(err) || *rows != engine.RowsError{Table: "Orders", Target: "orders"}) {
			t.Errorf("refused: %v", err)
		}
		a.adopt = false
	}
}

// A refused pass has created no family and written no record.
func TestARefusedFirstGenerationLeavesNothing(t *testing.T) {
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		store, did := &checkpointtest.Memory{}, []string{}
		ledger, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: "w", ID: "l"})
		families := &enginetest.Schema{Memory: &sinktest.Memory{}, Names: []string{"d", "_cdc", "_cdc_gone"}, Did: &did}
		families.Create("orders", "d")
		_, failed := families.Apply(ctx, &sink.Request{Table: "orders", Row: "a", Ops: []sink.Op{{Kind: sink.SetCell, Family: "d", Qualifier: "q"}}})
		k := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t)})
		k.Target, k.Families = families.Memory, families
		k.Witness = func(string) checkpoint.Store { return &checkpointtest.Memory{} }
		before, _ := store.Read(ctx, "")
		var rows *engine.RowsError
		if got := reconcilerOf(k).fullPass(engine.Until(ctx)); err != nil || failed != nil || !errors.As(got, &rows) {
			t.Error(err, failed, got)
		}
		if after, err := store.Read(ctx, ""); err != nil || len(after) != len(before) || len(did) > 0 {
			t.Errorf("%d records, %d before; %q: %v", len(after), len(before), did, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Another migration writes the target table: neither a first generation nor another mapping begins to
// write there, whatever the operator answered for its rows.
func TestAnotherMigrationIsNotJoined(t *testing.T) {
	ctx := t.Context()
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	a := &Admission{Common: &engine.Common{Retrier: &engine.Retrier{Source: "Orders"}, Ledger: ledger, MappingHash: "new"}, mapping: enginetest.OrdersMapping(t), target: &sinktest.Memory{}, adopt: true,
		stranger: func(context.Context, ...string) error { return &engine.StrangerError{Table: "Orders"} }}
	var stranger *engine.StrangerError
	if err := a.admit(ctx); !errors.As(err, &stranger) || !engine.Orderly(err) {
		t.Errorf("a first generation: %v", err)
	}
	_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
		s.Generation, s.MappingHash, s.Targets = 7, "old", []string{"elsewhere"}
		return nil
	})
	if err == nil {
		_, err = a.AdmitChange(ctx)
	}
	if !errors.As(err, &stranger) {
		t.Errorf("another mapping: %v", err)
	}
}
