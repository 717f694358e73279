package scope

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// mutant is a fault planted into what the requests are made of.
type mutant struct {
	name  string
	plant func(c *code)
	// harmless tells that the guard is right without it: the fault is caught only together with another one, and here it is
	// proven to survive. It must stay caught by that other row of the table.
	harmless bool
}

var mutants = []mutant{
	{name: "no hop", plant: stamped(func(s *transform.Stamp) { s.Hop = cdc.RootHop })},
	{name: "hop falls from parent to child", plant: stamped(func(s *transform.Stamp) { s.Hop = 2*cdc.RootHop - s.Hop })},
	{name: "generation not raised", plant: func(c *code) {
		stamped(func(s *transform.Stamp) { s.Generation = generation })(c)
		load := c.load
		c.load = func(m *transform.Mapping, items []attribute.Item, _ uint32, at time.Time) []transform.RowMutation {
			return load(m, items, generation, at)
		}
	}},
	{name: "generation raised for the load alone", plant: stamped(func(s *transform.Stamp) { s.Generation = generation })},
	{name: "load reads before the raise is adopted", plant: func(c *code) { c.loadsEarly = true }},
	{name: "load above the stream", plant: func(c *code) {
		load := c.load
		c.load = func(m *transform.Mapping, items []attribute.Item, g uint32, at time.Time) []transform.RowMutation {
			rows := load(m, items, g, at)
			for i := range rows {
				rows[i].Version = transform.NewVersion(g, transform.MaxHop, rows[i].Version.Sequence(), transform.CountExact)
			}
			return rows
		}
	}},
	{name: "load without the guard", plant: guarded(func(m transform.RowMutation, r *sink.Request) {
		if m.Version.Hop() == transform.LoadHop {
			r.Refuse.Families = nil
		}
	})},
	{name: "numbers as text", plant: folded(func(m *transform.RowMutation) {
		v := m.Version
		m.Version = transform.Version(fmt.Sprintf("%08d.%06d.%s.%04d", v.Generation(), v.Hop(), v.Sequence(), v.Count()))
	})},
	{name: "version from the time of the change", plant: folded(func(m *transform.RowMutation) {
		v := m.Version
		m.Version = transform.NewVersion(v.Generation(), v.Hop(), cdc.SequenceOf(uint64(m.At.Unix())), v.Count())
	})},
	{name: "fold keeps the newest address alone", plant: func(c *code) {
		fold := c.fold
		c.fold = func(m *transform.Mapping, changes []cdc.Change, s transform.Stamp) []transform.RowMutation {
			return fold(m, changes[len(changes)-1:], s)
		}
	}},
	{name: "fold keeps the first change of a page", plant: func(c *code) {
		fold := c.fold
		c.fold = func(m *transform.Mapping, changes []cdc.Change, s transform.Stamp) []transform.RowMutation {
			return fold(m, changes[:1], s)
		}
	}},
	{name: "fold loses removals", plant: func(c *code) {
		fold := c.fold
		c.fold = func(m *transform.Mapping, changes []cdc.Change, s transform.Stamp) []transform.RowMutation {
			return slices.DeleteFunc(fold(m, changes, s), func(r transform.RowMutation) bool { return r.Remove })
		}
	}},
	{name: "old images are not looked at", plant: func(c *code) {
		fold := c.fold
		c.fold = func(m *transform.Mapping, changes []cdc.Change, s transform.Stamp) []transform.RowMutation {
			changes = slices.Clone(changes)
			for i := range changes {
				if changes[i].Event == cdc.Modify {
					changes[i].Event, changes[i].Old = cdc.Insert, attribute.Item{}
				}
			}
			return fold(m, changes, s)
		}
	}},
	{name: "no predicate", plant: guarded(func(_ transform.RowMutation, r *sink.Request) { r.Refuse.Families = nil })},
	{name: "predicate does not see tombstones", plant: guarded(func(_ transform.RowMutation, r *sink.Request) { r.Refuse.Families = []string{sink.LiveFamily} })},
	{name: "predicate does not see live versions", plant: guarded(func(_ transform.RowMutation, r *sink.Request) { r.Refuse.Families = []string{sink.GoneFamily} })},
	{name: "tombstone dropped", plant: guarded(func(m transform.RowMutation, r *sink.Request) {
		without(r, func(op sink.Op) bool { return m.Remove && op.Kind == sink.SetCell })
	})},
	{name: "put does not delete what the item owns", plant: guarded(func(m transform.RowMutation, r *sink.Request) {
		without(r, func(op sink.Op) bool { return !m.Remove && op.Kind == sink.DeleteFamily })
	})},
	{name: "put does not set the version", plant: guarded(func(m transform.RowMutation, r *sink.Request) {
		without(r, func(op sink.Op) bool { return !m.Remove && op.Kind == sink.SetCell && op.Family == sink.LiveFamily })
	})},
	{name: "remove does not delete what the item owns", plant: guarded(func(m transform.RowMutation, r *sink.Request) {
		without(r, func(op sink.Op) bool { return m.Remove && op.Kind == sink.DeleteFamily })
	})},
	{name: "remove keeps the live version", plant: guarded(func(m transform.RowMutation, r *sink.Request) {
		without(r, func(op sink.Op) bool {
			return m.Remove && op.Kind == sink.DeleteColumn && op.Family == sink.LiveFamily
		})
	})},
	{name: "version cell at the worker's time, newest cell looked at", plant: func(c *code) {
		c.latestOnly = true
		guarded(func(m transform.RowMutation, r *sink.Request) {
			for i := range r.Ops {
				if op := &r.Ops[i]; op.Kind == sink.SetCell && op.Family == sink.LiveFamily {
					op.Timestamp = cellTime(m.At)
				}
			}
		})(c)
	}},
	{name: "delete and put in two requests", plant: func(c *code) {
		guard := c.guard
		c.guard = func(m transform.RowMutation) []sink.Request {
			r := guard(m)[0]
			if m.Remove {
				return []sink.Request{r}
			}
			wipe, set := r, r
			wipe.Ops, set.Ops = r.Ops[:1], r.Ops[1:]
			return []sink.Request{wipe, set}
		}
	}},
	{name: "plain timestamped cells", plant: func(c *code) {
		guarded(func(m transform.RowMutation, r *sink.Request) {
			r.Refuse.Families = nil
			without(r, func(op sink.Op) bool { return op.Kind == sink.DeleteFamily })
		})(c)
	}},
	// Either half alone is harmless, since a remove drops the older tombstone. The two lines of defence are worth keeping: together
	// they are H77.
	{name: "predicate looks at the newest cell", plant: newestCell, harmless: true},
	{name: "remove keeps the older tombstone", plant: olderTombstone, harmless: true},
	{name: "both, and the server's clock steps back", plant: func(c *code) { newestCell(c); olderTombstone(c) }},
}

func newestCell(c *code) { c.latestOnly = true }

func olderTombstone(c *code) {
	guarded(func(m transform.RowMutation, r *sink.Request) {
		without(r, func(op sink.Op) bool {
			return m.Remove && op.Kind == sink.DeleteColumn && op.Family == sink.GoneFamily
		})
	})(c)
}

// stamped changes what a shard adds to its changes.
func stamped(change func(*transform.Stamp)) func(*code) {
	return func(c *code) {
		fold := c.fold
		c.fold = func(m *transform.Mapping, changes []cdc.Change, s transform.Stamp) []transform.RowMutation {
			change(&s)
			return fold(m, changes, s)
		}
	}
}

// folded changes the mutations that a page becomes.
func folded(change func(*transform.RowMutation)) func(*code) {
	return func(c *code) {
		fold := c.fold
		c.fold = func(m *transform.Mapping, changes []cdc.Change, s transform.Stamp) []transform.RowMutation {
			rows := fold(m, changes, s)
			for i := range rows {
				change(&rows[i])
			}
			return rows
		}
	}
}

// guarded changes the request that a mutation becomes.
func guarded(change func(transform.RowMutation, *sink.Request)) func(*code) {
	return func(c *code) {
		guard := c.guard
		c.guard = func(m transform.RowMutation) []sink.Request {
			requests := guard(m)
			for i := range requests {
				change(m, &requests[i])
			}
			return requests
		}
	}
}

func without(r *sink.Request, drop func(sink.Op) bool) { r.Ops = slices.DeleteFunc(r.Ops, drop) }

func cellTime(t time.Time) int64 { return t.UnixMilli() * 1000 }

// Every planted fault is caught: the search can fail.
func TestMutantsAreCaught(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-58s %9s %22s  %s", "mutant", "scenarios", "executions until caught", "what was seen")
	for _, m := range mutants {
		c := realCode()
		m.plant(&c)
		c.mayConflict = true
		e := newExplorer(c)
		all := scope()
		if m.harmless {
			all = fewerStreams()
		}
		caught := slices.ContainsFunc(all, func(s setting) bool { return !e.explore(s) })
		if caught == m.harmless {
			t.Errorf("%s: caught: %v, should be: %v\n%s", m.name, caught, !m.harmless, e.wrong)
		}
		until, seen := e.executions(), "survives, as it must"
		if caught {
			// In the scenario at fault the executions are run one by one up to the first that goes wrong.
			const patience = 1_000_000
			n, _ := plain(e.culprit, patience)
			until.Add(until, new(big.Int).SetUint64(max(n, 1)))
			lines := strings.Split(e.wrong, "\n")
			seen = lines[0]
		}
		fmt.Fprintf(&table, "\n%-58s %9d %22s  %s", m.name, e.scenarios+1, until, seen)
	}
	t.Log(table.String())
}
