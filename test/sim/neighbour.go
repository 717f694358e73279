package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// neighbour is another source table of the pipeline, in some runs: its name begins with the first one's, its stream and its shards are called as the
// first one's, and its rows may be in the same target table. It has none of the faults that lose changes. Whatever happens to the table beside
// it, it is copied and followed, and what it claims is its own.
type neighbour struct {
	*Migration
	rng *rand.Rand
}

const neighbourFamily = "next"

// beside is where a neighbour's rows are.
type beside int

const (
	alone beside = iota // there is none
	ownTarget
	sameTarget
)

func drawNeighbour(seed uint64) beside {
	switch stream(seed, "neighbour").IntN(12) {
	case 0:
		return ownTarget
	case 1:
		return sameTarget
	}
	return alone
}

// moveIn makes the neighbour.
func (s *simulation) moveIn() {
	const name, prefix = "Orders2", "neighbour#"
	rng := stream(s.plan.seed, "neighbour's table")
	table := "neighbours"
	if s.plan.neighbour == sameTarget {
		table = s.Mapping.Table
	}
	key, err := transform.ParseTemplate(prefix + "{id}")
	if err != nil {
		panic(err)
	}
	mapping, err := transform.New(transform.Spec{
		Source: name, Table: table, PrimaryKey: []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}},
		Families: []transform.Family{{Name: neighbourFamily}},
		Rules: []transform.Rule{{Name: "all", Writes: []transform.Write{{
			RowKey: key, Columns: []transform.ColumnRule{{Attribute: "*", To: neighbourFamily}},
		}}}},
	})
	if err != nil {
		panic(err)
	}
	n := &neighbour{rng: rng, Migration: &Migration{
		World: s.World, Source: model.NewTable(s.World, name, 1+rng.IntN(2), "id"), Target: s.Target, Mapping: mapping, born: map[string]int{}, fences: s.fences,
		TombstoneAge: s.TombstoneAge, Prefix: prefix,
		Watch: func(table, key string, before, after *model.Row) {
			if table == model.StateTable {
				s.rec.checkNumbered(key, after)
			}
			s.watchBoth(table, key, before, after)
		},
	}}
	from, to := s.Source, n.Source
	to.Throttle, to.Expire, to.ListLate, to.ShowOpen, to.DescribeLate, to.TimeRunsBack = from.Throttle, from.Expire, from.ListLate, from.ShowOpen, from.DescribeLate, from.TimeRunsBack
	to.RestartSequence, to.PinHorizon, to.PageSize, to.Latency, to.Fault = from.RestartSequence, from.PinHorizon, from.PageSize, from.Latency, from.Fault
	s.families = append(s.families, neighbourFamily)
	s.emptyTarget()
	if table != s.Mapping.Table {
		s.Target.Create(table, neighbourFamily, sink.LiveFamily, sink.GoneFamily)
	}
	s.Target.Executed = func(table, key string, before, after *model.Row) {
		if n.isOf(table, key) {
			n.check(table, key, before, after)
		} else {
			s.check(table, key, before, after)
		}
	}
	s.neighbour, s.Foreign = n, n.isOf
	for range rng.IntN(6) {
		n.write()
	}
}

// write changes one of its items.
func (n *neighbour) write() {
	key := attribute.Attribute{Name: "id", Value: attribute.String(fmt.Sprintf("i%d", n.rng.IntN(6)))}
	if n.rng.IntN(4) == 0 {
		n.Source.Delete(attribute.NewItem([]attribute.Attribute{key}))
		return
	}
	attributes := []attribute.Attribute{key, {Name: "value", Value: attribute.String(fmt.Sprint(n.rng.Uint32()))}}
	if n.rng.IntN(2) == 0 {
		attributes = append(attributes, attribute.Attribute{Name: fmt.Sprintf("extra%d", n.rng.IntN(3)), Value: attribute.String("x")})
	}
	n.Source.Put(attribute.NewItem(attributes))
}

// live lets the neighbour's application go on until peace.
func (n *neighbour) live(ctx context.Context, s *simulation) {
	for task.Sleep(ctx, time.Duration(n.rng.Float64()*float64(2*time.Hour))) == nil && !s.peaceful {
		for range 1 + n.rng.IntN(4) {
			n.write()
		}
	}
}

// table is what its workers are told.
func (n *neighbour) table(segments int) pipeline.Table {
	return pipeline.Table{Mapping: n.Mapping, MappingHash: "n", Copy: true, Segments: segments}
}

// tables answers for the database of both tables.
type tables struct{ first, second *model.Table }

func (t tables) of(name string) *model.Table {
	if name == t.second.Name {
		return t.second
	}
	return t.first
}

func (t tables) Describe(ctx context.Context, table string) (backfill.Description, error) {
	return t.of(table).Describe(ctx, table)
}

func (t tables) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	return t.of(table).Scan(ctx, table, segment, total, after, limit)
}

// isOf reports whether a row of the ledger or of a target table is the neighbour's.
func (n *neighbour) isOf(table, key string) bool {
	if table != model.StateTable {
		return strings.HasPrefix(key, n.Prefix) || key == n.Mapping.WitnessKey()
	}
	parts := strings.SplitN(key, "/", 4) // pipeline, kind, table
	return len(parts) > 2 && parts[2] == n.Source.Name
}

// missing is how its rows differ from its items, if it claims that they do not, and nothing of it is parked.
func (n *neighbour) missing() string {
	if n.State().NeedsLoad || len(n.Target.RowsUnder(model.StateTable, "default/parked/"+n.Source.Name+"/")) > 0 {
		return ""
	}
	return strings.Join(n.Unequal(), "\n")
}

// peace ends what fails its calls.
func (n *neighbour) peace() {
	t := n.Source
	t.Throttle, t.Expire, t.PageSize, t.Latency = 0, 0, model.PageRecords, 20*time.Millisecond
	for _, sh := range t.Stream().Shards {
		sh.ListedFrom, sh.ShownOpenUntil = time.Time{}, time.Time{}
	}
}
