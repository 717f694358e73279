package sink_test

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// anyway is a predicate that no row meets.
var anyway = sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"}

// timestamped returns the first application of a change whose old image had the named columns.
func timestamped(m transform.RowMutation, second int64, named ...string) transform.RowMutation {
	m.Timestamped, m.Version, m.Second = true, m.Version.WithoutCount(), second
	for _, name := range named {
		m.Named = append(m.Named, transform.Cell{Family: "d", Qualifier: name})
	}
	return m
}

// H39, H51: a timestamped put deletes the columns that the old image names, up to and including the
// record's second, and nothing else. Later cells of the application stay, in any column. The exact
// put that follows deletes them.
func TestH39_H51_TimestampedPutLeavesNewerCells(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		set := func(column string, at int64) {
			r := sink.Request{Table: "t", Row: "r", Refuse: anyway, Ops: []sink.Op{{Kind: sink.SetCell, Family: "d", Qualifier: column, Timestamp: at, Value: []byte("app")}}}
			if _, err := table.Apply(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
		}
		columns := func() map[string]string {
			have := map[string]string{}
			for _, row := range readAll(t, table, "t") {
				for _, c := range row.Cells {
					if have[c.Qualifier] == "" {
						have[c.Qualifier] = string(c.Value)
					}
				}
			}
			return have
		}
		set("old", 1_000_000)     // in the record's own second
		set("younger", 1_001_000) // a millisecond later
		set("strange", 1_000_000) // in no image
		set("a", 1_002_000)
		m := put(7, "a=1")
		apply(t, table, timestamped(m, 1_000_000, "a", "old", "younger"))
		if have := columns(); len(have) != 3 || have["younger"] != "app" || have["strange"] != "app" || have["a"] != "app" {
			t.Errorf("after the timestamped put: %v", have)
		}
		if !apply(t, table, m) {
			t.Fatal("the exact put is refused")
		}
		if have := columns(); len(have) != 1 || have["a"] != "1" {
			t.Errorf("after the exact put: %v", have)
		}
		if apply(t, table, timestamped(put(7, "a=1"), 1_000_000)) {
			t.Error("a timestamped put is not refused by the exact one")
		}
	})
}

// H51: Bigtable treats an end of 0 as infinity, so it is never sent.
func TestH51_AnEndOfZeroIsNeverSent(t *testing.T) {
	e := startEmulator(t).create(t)
	defer func() {
		if recover() == nil {
			t.Error("a delete without an end was sent")
		}
	}()
	r := sink.Request{Table: "t", Row: "r", Refuse: anyway, Ops: []sink.Op{{Kind: sink.DeleteBefore, Family: "d", Qualifier: "a", Timestamp: 999}}}
	_, _ = e.Apply(t.Context(), &r)
}
