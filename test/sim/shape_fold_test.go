package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// writesOf is a random history of the items of a mapping, and what is left in the end.
func writesOf(w *workload, rng *rand.Rand, number int) (changes []cdc.Change, items map[string]attribute.Item) {
	items = map[string]attribute.Item{}
	for n := range number {
		key := w.keys[rng.IntN(len(w.keys))]
		id := w.mapping.ItemKey(key.Item)
		c := cdc.Change{Event: cdc.Modify, Keys: key.Item, Old: items[id], Sequence: cdc.SequenceOf(uint64(95 + n)), Time: simEpoch.Add(time.Duration(n) * time.Second)}
		switch {
		case rng.IntN(4) > 0:
			if c.New = w.item(rng, key, n); !c.Old.Exists() {
				c.Event = cdc.Insert
			}
			items[id] = c.New
		case c.Old.Exists():
			c.Event = cdc.Remove
			delete(items, id)
		default:
			continue
		}
		changes = append(changes, c)
	}
	return changes, items
}

// memory is a reference target of a mapping.
type memory struct {
	*testing.T
	*shape
	sinktest.Memory
}

func newMemory(t *testing.T, s *shape) *memory {
	m := &memory{T: t, shape: s}
	var families []string
	for _, family := range s.families {
		if name, _, aggregate := strings.Cut(family, ":"); aggregate {
			family = name + ":intsum" // as good as any: each column is emptied before
		}
		families = append(families, family)
	}
	for _, table := range s.mapping.Tables() {
		m.Create(table, families...)
	}
	return m
}

func (m *memory) execute(rows []transform.RowMutation) {
	m.Helper()
	for i := range rows {
		if _, err := sink.Execute(context.Background(), sink.Unfenced(), &m.Memory, &m.Memory, &rows[i]); err != nil {
			m.Fatal(err)
		}
	}
}

// held is what the target holds in each column.
func (m *memory) held() content {
	held := content{}
	for _, table := range m.mapping.Tables() {
		err := m.ReadRows(context.Background(), table, sink.Range{}, func(r sink.Row) error {
			for _, c := range r.Cells { // from the newest to the oldest of a column
				if at := fmt.Sprintf("%s %q %s:%s", table, r.Key, c.Family, c.Qualifier); held[at] == "" || !m.mapping.KeepsVersions() {
					held[at] += string(c.Value) + "\x00"
				}
			}
			return nil
		})
		if err != nil {
			m.Fatal(err)
		}
	}
	return held
}

// expected is the same by the layout of the mapping, item by item.
func (m *memory) expected(items map[string]attribute.Item) content {
	want := content{}
	for _, item := range items {
		for _, s := range m.layout.place(item).spots {
			if !s.held {
				continue
			}
			for column, values := range s.content {
				at := fmt.Sprintf("%s %q %s", s.table, s.row, column)
				if _, taken := want[at]; taken {
					m.Fatalf("two items have %s", at)
				}
				want[at] = values
			}
		}
	}
	return want
}

func (m *memory) compare(how string, want content) {
	m.Helper()
	held := m.held()
	all := maps.Clone(held)
	maps.Copy(all, want)
	for _, at := range slices.Sorted(maps.Keys(all)) {
		if held[at] != want[at] {
			m.Errorf("%s: %s holds %.80q, should hold %.80q", how, at, held[at], want[at])
		}
	}
}

// T2, T3, T6: for every mapping of the examples and of the simulation, pages that are cut anywhere, executed in any order and read again after
// a crash leave what changes one by one leave, and a copy: what each item becomes by itself.
func TestEveryMappingFoldsAsOneByOne(t *testing.T) {
	stamp := transform.Stamp{Generation: 3, Hop: 500_000}
	for _, name := range MappingNames() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(25 / fewer) {
				rng := stream(seed, name)
				w := newWorkload(shapeNamed(name), rng, 10, false)
				changes, items := writesOf(w, rng, 60)
				oneByOne, folded, copied := newMemory(t, w.shape), newMemory(t, w.shape), newMemory(t, w.shape)
				for i := range changes {
					oneByOne.execute(transform.Fold(w.mapping, changes[i:i+1], stamp).Rows)
				}
				for done := 0; done < len(changes); {
					end := done + 1 + rng.IntN(len(changes)-done)
					rows := transform.Fold(w.mapping, changes[done:end], stamp).Rows
					rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
					if rng.IntN(3) == 0 {
						rows, end = rows[:rng.IntN(len(rows)+1)], rng.IntN(done+1)
					}
					folded.execute(rows)
					done = end
				}
				copied.execute(transform.Load(w.mapping, slices.Collect(maps.Values(items)), 3, simEpoch).Rows)
				want := oneByOne.expected(items)
				oneByOne.compare("one by one", want)
				folded.compare("folded", want)
				copied.compare("copied", want)
			}
		})
	}
}
