package sink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// ReadMarks returns only replicator's cells of a row. On request it also returns rows without any,
// without their cells.
func TestReadMarks(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		foreign := sink.Request{Table: "t", Row: "a", Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"},
			Ops: []sink.Op{{Kind: sink.SetCell, Family: "e", Qualifier: "x", Value: []byte("large")}, {Kind: sink.SetCell, Family: "d", Qualifier: "x", Value: []byte("large")}}}
		if _, err := table.Apply(context.Background(), &foreign); err != nil {
			t.Fatal(err)
		}
		named, gone, shared := put(1, "a=1"), remove(2), folded("x", 3, "1")
		named.Row, named.Origin, gone.Row, shared.Row = "b", "S/x", "c", "d"
		for _, m := range []transform.RowMutation{named, gone, shared} {
			apply(t, table, m)
		}
		read := func(unmarked bool, limit int, r sink.Range) string {
			var rows []string
			err := table.ReadMarks(context.Background(), "t", r, unmarked, limit, func(row sink.Row) error {
				text := fmt.Sprintf("%s %d", row.Key, len(row.Own)+len(row.Cells))
				if row.Held() != "" {
					text += " " + row.Held().Sequence().String()
				}
				rows = append(rows, text)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(rows, ", ")
		}
		for _, c := range []struct {
			unmarked bool
			limit    int
			r        sink.Range
			want     string
		}{
			{false, 0, sink.Range{}, "b 1 1, c 0 2, d 1"},
			{true, 0, sink.Range{}, "a 0, b 1 1, c 0 2, d 1"},
			{true, 2, sink.Range{}, "a 0, b 1 1"},
			{false, 2, sink.Range{}, "b 1 1, c 0 2"},
			{true, 2, sink.Range{From: "b\x00", To: "d"}, "c 0 2"},
		} {
			if got := read(c.unmarked, c.limit, c.r); got != c.want {
				t.Errorf("%+v: %s", c, got)
			}
		}
		stop := fmt.Errorf("enough")
		if err := table.ReadMarks(context.Background(), "t", sink.Range{}, true, 0, func(sink.Row) error { return stop }); err != stop {
			t.Error(err)
		}
		if err := table.ReadMarks(context.Background(), "absent", sink.Range{}, true, 0, func(sink.Row) error { return nil }); !sink.Is(err, sink.Permanent) {
			t.Error(err)
		}
		for i := range 40 {
			m := put(1, "a=1")
			m.Row = fmt.Sprintf("row %02d", i)
			apply(t, table, m)
		}
		samples, err := table.SampleKeys(context.Background(), "t")
		for i, key := range samples {
			if key == "" || i > 0 && key <= samples[i-1] {
				t.Errorf("samples are %q", samples)
			}
		}
		if _, missing := table.SampleKeys(context.Background(), "absent"); err != nil || !sink.Is(missing, sink.Permanent) {
			t.Error(err, missing)
		}
	})
}
