package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// template, when and mapping are for mappings that are written here, and are right.
func template(text string) *transform.Template { return must(transform.ParseTemplate(text)) }

func when(text string) *expression.Condition { return must(expression.ParseWhen(text)) }

func mapping(spec transform.Spec) *transform.Mapping { return must(transform.New(spec)) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// rules are all that a mapping can do to an item: rows of its own whose columns another rule of the same row replaces, counters, cells of
// rows that many items share, several rows, rows that move with an attribute, and nothing at all; and
// items that no rule matches are parked. Items go from one to another all the time.
func rules() *transform.Mapping {
	cell := transform.Write{RowKey: template("wide#{pk | hash(1)}"), Cell: &transform.CellRule{Family: "c", Qualifier: template("{pk}#{sk}"), As: transform.AsJSON}}
	columns := func(rowKey, family string, more ...transform.ColumnRule) transform.Write {
		return transform.Write{RowKey: template(rowKey), Columns: append([]transform.ColumnRule{{Attribute: "*", To: family}}, more...)}
	}
	return mapping(transform.Spec{
		Source: "Orders", Table: "orders", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "n", Aggregate: transform.IntSum}, {Name: "l"}},
		Rules: []transform.Rule{
			{Name: "cell", When: when(`kind = "cell"`), Writes: []transform.Write{cell}},
			{Name: "both", When: when(`kind = "both"`), Writes: []transform.Write{cell, columns("moved#{value}#{pk}#{sk}", "b")}},
			{Name: "row", When: when(`kind = "row"`), Writes: []transform.Write{columns("own#{pk}#{sk}", "a", transform.ColumnRule{Attribute: "count", To: "n:count", As: transform.AsCounter},
				transform.ColumnRule{Attribute: "log", To: "l", As: transform.AsCells})}},
			{Name: "other row", When: when(`kind = "other"`), Writes: []transform.Write{columns("own#{pk}#{sk}", "b")}},
			{Name: "ignored", When: when(`kind = "ignored"`), Ignore: true},
		},
	})
}

func rulesBuild(w *virtual.World) *Migration {
	m := swarmBuild(w)
	m.Mapping = rules()
	m.Source.View = "NEW_AND_OLD_IMAGES"
	m.Target.Create("orders", "a", "b", "c", "n:intsum", "l", sink.LiveFamily, sink.GoneFamily)
	return m
}

// rulesSwarm is a run like swarm, of items that change their rule.
func rulesSwarm(s *scene) {
	put := func() {
		pick := func(n int) int { return s.World.Rand().IntN(n) }
		key := fmt.Sprint(pick(12))
		if pick(5) == 0 {
			s.del(key)
			return
		}
		count, err := attribute.Number(fmt.Sprint(pick(9) - 3))
		if err != nil {
			s.failf("%v", err)
		}
		var log []attribute.Value
		for range pick(4) {
			log = append(log, attribute.String(fmt.Sprint(pick(3))))
		}
		s.Source.Put(attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "sk", Value: attribute.String(key)}, {Name: "count", Value: count}, {Name: "log", Value: attribute.List(log)},
			{Name: "value", Value: attribute.String(fmt.Sprint(pick(4)))}, {Name: "kind", Value: attribute.String([]string{"cell", "both", "row", "other", "ignored", "of no rule"}[pick(6)])}}))
	}
	s.troubled(200*time.Millisecond, put, func() {})
}

// troubled lets two workers follow an application, which puts up to four times at intervals about every, for a minute of trouble; settled waits for what
// else has to be before the target is compared.
func (s *scene) troubled(every time.Duration, put, settled func()) {
	for range s.World.Rand().IntN(20) {
		put()
	}
	workers := &crew{scene: s}
	workers.start()
	workers.start()
	over := s.World.Now().Add(60 * time.Second)
	s.beside("application", over, every, func() {
		for range 1 + s.World.Rand().IntN(4) {
			put()
		}
	})
	s.beside("shards", over, 40*time.Second, s.turnShards)
	s.beside("crashes", over, 40*time.Second, workers.kill)
	s.beside("pauses", over, 40*time.Second, workers.pause)
	s.sleep(61 * time.Second)
	s.peace()
	workers.start()
	settled()
	s.inSync(10 * time.Minute)
	s.sleep(s.Target.LateBy)
	s.inSync(0)
	workers.end()
}

// rulesSeeds is how many whole systems TestSwarmOfRules plays; SIM_SEEDS sets another number.
const rulesSeeds = 16

// H72, H73, H74: whatever rules make of items that change from one to another, and whatever goes wrong meanwhile, each item has exactly
// the cells of its last image in the end, and none refused or deleted another's.
func TestH72_H73_H74_SwarmOfRules(t *testing.T) {
	seeds := uint64(rulesSeeds)
	if n, err := strconv.ParseUint(os.Getenv("SIM_SEEDS"), 10, 32); err == nil {
		seeds = n
	}
	playWith(t, seeds, rulesBuild, rulesSwarm)
}
