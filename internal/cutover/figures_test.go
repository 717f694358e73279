package cutover

import (
	"context"
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// ready is a table whose gates are all ready.
func ready() readiness.Figures {
	s, shard := kit.Copied()
	return readiness.Figures{Found: true, State: s, Shards: []checkpoint.Shard{shard}, Targets: []checkpoint.Target{{Table: "orders", Fence: 7}}}
}

// What gates are judged by is read, or there is no judgement: items that cannot be counted are not
// none, and neither is what any read of the ledger did not bring. Else writes would be frozen, or a
// cutover begun, on figures that nobody has.
func TestAFigureThatCannotBeReadIsNoFigure(t *testing.T) {
	store := &checkpointtest.Memory{}
	ledger, err := checkpoint.Open(t.Context(), store, "gates", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
		s.Generation, s.Label, s.Apply = 5, "l", checkpoint.Topic
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	away := errors.New("away")
	counts := func(err error, parked ...string) func(context.Context, string) ([]string, error) {
		return func(_ context.Context, table string) ([]string, error) {
			if table != "Orders" {
				t.Errorf("counts %s", table)
			}
			return parked, err
		}
	}
	plan := checkpoint.CutoverPlan{Tables: []string{"Orders"}, Targets: []string{"orders"}}
	gatesOf := func(d *Driver) (map[string]string, error) {
		gates, err := d.Gates(t.Context(), plan, kit.Noon)
		figures := map[string]string{}
		for _, g := range gates {
			figures[g.Name] = g.Figure
		}
		return figures, err
	}
	if figures, err := gatesOf(&Driver{Ledger: ledger, Parked: counts(nil, "a", "b", "c")}); err != nil || figures[readiness.GateParked] != "3" || len(figures) != len(readiness.GateNames) {
		t.Errorf("counted: %v, %v", figures, err)
	}
	if figures, err := gatesOf(&Driver{Ledger: ledger, Parked: counts(away)}); !errors.Is(err, away) || len(figures) > 0 {
		t.Errorf("not counted: %v, %v", figures, err)
	}
	for n := 1; ; n++ {
		reads := 0
		store.OnRead = func(context.Context, string) error {
			if reads++; reads == n {
				return away
			}
			return nil
		}
		figures, err := gatesOf(&Driver{Ledger: ledger, Parked: counts(nil)})
		if reads < n {
			if n < 5 || err != nil {
				t.Errorf("of %d reads none failed: %v", reads, err)
			}
			return
		}
		if !errors.Is(err, away) || len(figures) > 0 {
			t.Errorf("read %d failed: %v, %v", n, figures, err)
		}
	}
}
