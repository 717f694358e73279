package sink_test

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A list is compared cell by cell; of other columns the newest cell counts.
func TestCompareLists(t *testing.T) {
	cell := func(column string, ms int64, value string) transform.Cell {
		return transform.Cell{Family: "d", Qualifier: column, Timestamp: ms * 1000, Value: []byte(value)}
	}
	want := transform.RowMutation{Families: []string{"d"}, Cells: []transform.Cell{cell("l", 1, "a"), cell("l", 2, "b"), cell("x", 9, "1")}}
	for name, c := range map[string]struct {
		seen []transform.Cell // from newest to oldest within a column
		want int
	}{
		"equal":                  {[]transform.Cell{cell("l", 2, "b"), cell("l", 1, "a"), cell("x", 9, "1")}, 0},
		"an older cell":          {[]transform.Cell{cell("l", 2, "b"), cell("l", 1, "a"), cell("x", 9, "1"), cell("x", 8, "0")}, 0},
		"one element less":       {[]transform.Cell{cell("l", 2, "b"), cell("x", 9, "1")}, 1},
		"one element more":       {[]transform.Cell{cell("l", 3, "c"), cell("l", 2, "b"), cell("l", 1, "a"), cell("x", 9, "1")}, 1},
		"another first element":  {[]transform.Cell{cell("l", 2, "b"), cell("l", 1, "z"), cell("x", 9, "1")}, 1},
		"no list, another value": {[]transform.Cell{cell("x", 9, "2")}, 2},
		"a column too many":      {[]transform.Cell{cell("l", 2, "b"), cell("l", 1, "a"), cell("x", 9, "1"), cell("y", 1, "")}, 1},
	} {
		if found := sink.Compare(sink.Row{Cells: c.seen}, want); len(found) != c.want {
			t.Errorf("%s: %v", name, found)
		}
	}
}
