package sink_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// lived is the expected content of a row's columns, computed change by change.
type lived map[string]map[string][]transform.Cell // by row and column, from oldest to newest

func (l lived) put(row string, second int64, image map[string]string) {
	columns := l[row]
	if columns == nil {
		columns = map[string][]transform.Cell{}
		l[row] = columns
	}
	maps.DeleteFunc(columns, func(name string, _ []transform.Cell) bool { _, has := image[name]; return !has })
	for name, value := range image {
		cells := slices.DeleteFunc(slices.Clone(columns[name]), func(c transform.Cell) bool { return c.Timestamp >= second })
		if len(cells) == 0 || string(cells[len(cells)-1].Value) != value {
			cells = append(cells, transform.Cell{Timestamp: second, Value: []byte(value)})
		}
		columns[name] = cells
	}
}

func (l lived) String() string {
	var lines []string
	for _, row := range slices.Sorted(maps.Keys(l)) {
		var out []string
		for _, name := range slices.Sorted(maps.Keys(l[row])) {
			for _, c := range slices.Backward(l[row][name]) {
				out = append(out, fmt.Sprintf("%s=%s@%d", name, c.Value, c.Timestamp))
			}
		}
		lines = append(lines, row+" "+strings.Join(out, " "))
	}
	return strings.Join(lines, "\n")
}

func movingKept(t testing.TB) *transform.Mapping {
	rowKey, err := transform.ParseTemplate("{place}#{pk}")
	if err != nil {
		t.Fatal(err)
	}
	m, err := transform.New(transform.Spec{
		Source: "S", Table: "t", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, Families: []transform.Family{{Name: "k"}},
		Rules: []transform.Rule{{Writes: []transform.Write{{RowKey: rowKey, Columns: []transform.ColumnRule{{Attribute: "*", To: "k"}}}}}}, KeepVersions: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// whole is the history of one item: its changes, and its rows after each of them.
type whole struct {
	changes []cdc.Change
	after   []string
	images  []map[string]string
}

// drawLife generates an item's history. If it is loaded, the history begins with an image that a
// load read at second 99.
func drawLife(t *rapid.T, loaded bool) whole {
	rows, now, before := lived{}, int64(100), map[string]string(nil)
	image := func() map[string]string {
		item := map[string]string{"pk": "p"}
		for _, name := range []string{"a", "b"} {
			if v := rapid.IntRange(0, 2).Draw(t, name); v > 0 {
				item[name] = fmt.Sprint(v)
			}
		}
		if place := rapid.IntRange(0, 8).Draw(t, "place"); place > 0 { // place 0 cannot be mapped
			item["place"] = []string{"x", "y"}[place%8/7]
		}
		return item
	}
	item := func(attributes map[string]string) attribute.Item {
		var list []attribute.Attribute
		for name, value := range attributes {
			list = append(list, attribute.Attribute{Name: name, Value: attribute.String(value)})
		}
		return attribute.NewItem(list)
	}
	put := func(now map[string]string, second int64) {
		if now["place"] == "" {
			clear(rows)
			return
		}
		maps.DeleteFunc(rows, func(row string, _ map[string][]transform.Cell) bool { return row != now["place"]+"#p" })
		rows.put(now["place"]+"#p", second, now)
	}
	w := whole{}
	if loaded {
		before = image()
		put(before, 99)
	}
	w.after, w.images = append(w.after, rows.String()), append(w.images, before)
	for i := range rapid.IntRange(1, 12).Draw(t, "changes") {
		now += int64(rapid.IntRange(0, 1).Draw(t, "seconds"))
		c := cdc.Change{Sequence: cdc.SequenceOf(uint64(i + 1)), Time: time.Unix(now, 0), Keys: item(map[string]string{"pk": "p"}), Event: cdc.Modify}
		if before != nil {
			c.Old = item(before)
		} else {
			c.Event = cdc.Insert
		}
		if before != nil && rapid.IntRange(0, 5).Draw(t, "removed") == 0 {
			c.Event, before = cdc.Remove, nil
			clear(rows)
		} else {
			before = image()
			c.New = item(before)
			put(before, now)
		}
		w.changes, w.after, w.images = append(w.changes, c), append(w.after, rows.String()), append(w.images, before)
	}
	return w
}

// The changes of an item may come in any pages, which may be read again from anywhere, and a load
// with any of its images may arrive at any time. After each page the rows equal those of single
// changes, older cells included.
func TestKeptPagesEqualChangesOneByOne(t *testing.T) {
	m := movingKept(t)
	rapid.Check(t, func(rt *rapid.T) {
		loaded := rapid.Bool().Draw(rt, "loaded")
		life := drawLife(rt, loaded)
		table := &sinktest.Memory{}
		table.Create("t", "k")
		write := func(b transform.Batch) {
			for _, i := range rapid.Permutation(indexes(2*len(b.Rows))).Draw(rt, "order") {
				row := b.Rows[i/2]
				if _, err := sink.Execute(context.Background(), sink.Unfenced(), table, table, &row); err != nil {
					rt.Fatal(err)
				}
			}
		}
		load := func(n int, second int64) {
			if image := life.images[n]; image != nil {
				var list []attribute.Attribute
				for name, value := range image {
					list = append(list, attribute.Attribute{Name: name, Value: attribute.String(value)})
				}
				write(transform.Load(m, []attribute.Item{attribute.NewItem(list)}, 1, time.Unix(second, 0)))
			}
		}
		if loaded {
			load(0, 99)
		}
		// A load that is ahead may have found the item in a row that no read change names.
		done, ahead := 0, 0
		for done < len(life.changes) {
			if n := rapid.IntRange(0, len(life.changes)).Draw(rt, "load"); n > done || n > 0 && !loaded {
				ahead = max(ahead, n)
				late := 0
				if !loaded {
					late = -2 // a load's time is before its read, on a clock that may be behind
				}
				load(n, life.changes[n-1].Time.Unix()+int64(rapid.IntRange(late, 2).Draw(rt, "read later")))
			}
			from, to := rapid.IntRange(0, done).Draw(rt, "from"), rapid.IntRange(done+1, len(life.changes)).Draw(rt, "to")
			write(transform.Fold(m, life.changes[from:to], transform.Stamp{Generation: 1, Hop: 500_000}))
			done = to
			if got, want := keptRows(rt, table), life.after[done]; done >= ahead && got != want {
				rt.Fatalf("after changes %d to %d:\n got %s\nwant %s", from+1, to, got, want)
			}
		}
	})
}

func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func keptRows(t *rapid.T, table sink.Reader) string {
	var lines []string
	err := table.ReadRows(context.Background(), "t", sink.Range{}, func(r sink.Row) error {
		var out []string
		for _, c := range r.Cells {
			out = append(out, fmt.Sprintf("%s=%s@%d", c.Qualifier, c.Value, c.Timestamp/1_000_000))
		}
		if r.Version != "" {
			lines = append(lines, r.Key+" "+strings.Join(out, " "))
		} else if len(out) > 0 {
			return errors.New("a removed row has cells")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// lookAt records how far back a read reaches, and fails.
type lookAt struct{ before int64 }

var errLook = errors.New("no look")

func (l *lookAt) Look(_ context.Context, _ *transform.RowMutation, before int64) (sink.Row, error) {
	l.before = before
	return sink.Row{}, errLook
}

// The read reaches back before the first image of a page, even if a repair has put a newer cell
// between the images.
func TestLookReachesBackBeforeThePage(t *testing.T) {
	cells := func(second int64) []transform.Cell {
		return []transform.Cell{{Family: "k", Qualifier: "v", Timestamp: second * 1e6, Value: []byte{byte(second)}}}
	}
	m := transform.RowMutation{
		Table: "t", Row: "r", Version: version(3), Keep: true, Families: []string{"k"}, Past: [][]transform.Cell{cells(1), nil, cells(2)}, Cells: cells(3),
	}
	look := &lookAt{}
	if _, err := sink.Execute(context.Background(), sink.Unfenced(), &sinktest.Memory{}, look, &m); !errors.Is(err, errLook) || look.before != 1e6 {
		t.Errorf("what was there before %d µs is looked for: %v", look.before, err)
	}
}
