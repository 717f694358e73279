package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// twoTables maps items to two target tables: to both, where an attribute moves the row of the
// second; to only one of them; and to a shared row of the second. Rows of the two tables are
// different, even with the same key.
func twoTables() *transform.Mapping {
	rule := func(kind string, writes ...transform.Write) transform.Rule {
		return transform.Rule{Name: kind, When: when(`kind = "` + kind + `"`), Writes: writes, Ignore: len(writes) == 0}
	}
	row := func(table, key, family string) transform.Write {
		return transform.Write{Table: table, RowKey: template(key), Columns: []transform.ColumnRule{{Attribute: "*", To: family}}}
	}
	return mapping(transform.Spec{
		Source: "Orders", Table: "orders", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Rules: []transform.Rule{
			rule("both", row("", "own#{pk}#{sk}", "a"), row("second", "value#{value}#{pk}#{sk}", "b")),
			rule("row", row("", "own#{pk}#{sk}", "a")),
			rule("other", row("second", "own#{pk}#{sk}", "a")),
			rule("cell", transform.Write{Table: "second", RowKey: template("wide#{pk | hash(1)}"),
				Cell: &transform.CellRule{Family: "c", Qualifier: template("{pk}#{sk}"), As: transform.AsJSON}}),
			rule("ignored"),
		},
	})
}

// quiet returns a system without faults of the services.
func quiet(w *virtual.World) *Migration {
	m := NewMigration(w, 1)
	m.Mapping = twoTables()
	for _, table := range m.Mapping.Tables() {
		m.Target.Create(table, "a", "b", "c", sink.LiveFamily, sink.GoneFamily)
	}
	return m
}

// has reports whether a row holds cells of an item.
func (s *scene) has(table, row string) bool {
	_, live := s.Target.Row(table, row).Value(sink.LiveFamily, sink.VersionColumn)
	return live
}

// A worker that ends between the writes to the two tables has not committed, so its successor
// writes both.
func TestH01_H72_CrashBetweenTheWritesToTwoTables(t *testing.T) {
	for _, first := range []string{"orders", "second"} {
		playWith(t, 10, quiet, func(s *scene) {
			s.putWith("k", "kind", "both", "value", "1")
			a := s.running("a")
			// The worker's in-flight requests never arrive.
			s.Target.Route = func(c model.Call) *model.Fate {
				if c.Op != "CheckAndMutateRow" || c.Table == first || a.Dead() {
					return nil
				}
				return &model.Fate{Drop: true}
			}
			s.Watch = func(table, row string, _, _ *model.Row) {
				if table == first && !strings.HasPrefix(row, transform.WitnessPrefix) {
					a.Kill()
				}
			}
			s.putWith("k", "kind", "both", "value", "2")
			s.until(time.Minute, "killed", a.Dead)
			s.Watch = nil
			s.sleep(time.Second) // in-flight requests to the same table arrive
			if orders, _ := s.Target.Row("orders", "own#k#k").Value("a", "value"); (first == "orders") != (orders == "2") || (first == "second") != s.has("second", "value#2#k#k") {
				s.failf("the crash was not between the writes")
			}
			s.Start("b")
			s.inSync(2 * time.Minute)
		})
	}
}

// H69: each target table has its own witness. If one of them is recreated, that is a gap, and the
// other's witness stays.
func TestH69_OneOfTwoTargetsIsLost(t *testing.T) {
	playWith(t, 10, quiet, func(s *scene) {
		s.putWith("k", "kind", "both", "value", "1")
		s.running("a")
		s.sleep(3 * time.Minute)
		beats := s.State()
		if beats.WitnessBeat == 0 || beats.WitnessBeats["second"] == 0 {
			s.failf("beats %d and %v", beats.WitnessBeat, beats.WitnessBeats)
		}
		s.Target.Create("second", "a", "b", "c", sink.LiveFamily, sink.GoneFamily)
		s.gap(5*time.Minute, "recreated or restored")
		s.sleep(3 * time.Minute)
		if after := s.State(); after.WitnessBeats["second"] <= beats.WitnessBeats["second"] || len(s.Gaps) != 1 {
			s.failf("beats %d and %v, gaps %q", after.WitnessBeat, after.WitnessBeats, s.Gaps)
		}
	})
}

func when(text string) *expression.Condition { return must(expression.ParseWhen(text)) }
