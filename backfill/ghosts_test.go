package backfill

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// H142: a sweep deletes the cells of a fast load from rows that guarded writes have changed. A pass
// that only counts counts these rows, so that a pass follows which deletes them.
func TestH142_ASweepDeletesGhosts(t *testing.T) {
	const at = 5_000_000
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	table := &sinktest.Memory{}
	table.Create("t", "d")
	w := sink.NewWriter(sink.Options{Table: table, Parking: sink.NewParking(nil, "p")})
	write := func(row transform.RowMutation) {
		t.Helper()
		b := transform.Batch{Source: "Orders", Rows: []transform.RowMutation{row}}
		if err := w.Write(t.Context(), sink.Unfenced(), &b); err != nil {
			t.Fatal(err)
		}
	}
	version := transform.NewVersion(7, 1, cdc.SequenceOf(1), transform.CountExact)
	write(transform.RowMutation{Table: "t", Row: "gone", Version: version, Remove: true, Families: []string{"d"}})
	late := transform.Batch{Source: "Orders"}
	for _, key := range []string{"copied", "gone"} {
		late.Rows = append(late.Rows, transform.RowMutation{Table: "t", Row: key, Version: version, Cells: []transform.Cell{{Family: "d", Qualifier: "x", Value: []byte("old")}}})
	}
	if err := w.Copy(t.Context(), sink.Unfenced(), sink.Marker{Generation: 7, Load: 1, At: at}, &late); err != nil {
		t.Fatal(err)
	}
	cells := func() map[string]int {
		found := map[string]int{}
		if err := table.ReadRows(t.Context(), "t", sink.Range{}, func(r sink.Row) error { found[r.Key] = len(r.Cells); return nil }); err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, counts := range []bool{true, false} {
		s := Sweep{
			Sweeping: sink.Sweeping{Mapping: m, Table: "t", Generation: 7}, Target: table, DryRun: counts, pageRows: 1,
			Now:  func(context.Context) time.Time { return time.Unix(9, 0) },
			Save: func(context.Context, SweepProgress) error { return nil },
			Clean: func(ctx context.Context, entries []sink.Entry) error {
				return w.Clean(ctx, sink.Unfenced(), "Orders", "t", entries)
			},
		}
		p, err := s.Run(t.Context(), SweepProgress{})
		if err != nil || (p.Sums.Suspects == 1) != counts || p.Sums.Wrote() {
			t.Errorf("only counts %t: %v, %+v", counts, err, p.Sums)
		}
		if found := cells(); found["copied"] != 1 || (found["gone"] == 1) != counts {
			t.Errorf("only counts %t: cells %v", counts, found)
		}
	}
}
