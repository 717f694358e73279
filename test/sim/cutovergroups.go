package sim

import (
	"net/http"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// About a quarter of the runs have two groups of tables. Each group has its own record, application
// switch, operator and checkers: it is a cutoverRun of its own. All groups share the world, the
// target, the ledger, and the processes.

// addGroup adds a second group with tables of its own. It is called before processes start.
func (d *cutoverRun) addGroup(w *virtual.World, tables int) {
	second := *d
	second.tables, second.scene = nil, nil
	for range tables {
		second.addTable(w, 1+d.rng.IntN(2))
	}
	second.Migration = second.tables[0].Migration
	second.Lease, second.Timing, second.Late = d.Lease, d.Timing, d.Late
	second.app = newCutoverApp(&second)
	second.app.chances = d.app.chances
	d.row, second.row = "first", "second"
	second.follows = d.rng.IntN(2) == 0
	for _, t := range second.tables {
		t.FromTopic = d.topic != nil
		if !d.o.Calm {
			t.Source.ListLate = d.rng.Float64()
		}
	}
	if d.lossAt > 0 {
		second.lossAt += time.Duration(d.rng.Int64N(int64(time.Hour)))
	}
	if d.dayAt != "" { // a second day may be too much
		second.dayAt = ""
	}
	d.groups = append(d.groups, &second)
}

// all returns the tables of all groups.
func (d *cutoverRun) all() (all sources) {
	for _, g := range d.main.groups {
		all = append(all, g.tables...)
	}
	return all
}

// of returns the group of a call of a hook.
func (d *cutoverRun) of(group string) *cutoverRun {
	for _, g := range d.main.groups {
		if g.row == group {
			return g
		}
	}
	panic("a hook is called for group " + group)
}

// everyGroup reports whether something holds for every group.
func (d *cutoverRun) everyGroup(holds func(g *cutoverRun) bool) bool {
	for _, g := range d.main.groups {
		if !holds(g) {
			return false
		}
	}
	return true
}

// ended reports whether the cutover of the group is done.
func (d *cutoverRun) ended() bool { return d.record().Step == checkpoint.CutoverDone }

// hookServer passes each call of a hook to the application of its group.
type hookServer struct{ d *cutoverRun }

// RoundTrip implements http.RoundTripper.
func (s hookServer) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.d.of(r.Header.Get("Cutover-Group")).app.RoundTrip(r)
}

// recordKey is the key of the group's record in the ledger.
func (d *cutoverRun) recordKey() string {
	if d.row == "" {
		return "default/cutover"
	}
	return "default/cutover/" + d.row
}

// patternOf is the pattern to which the group's tables belong; "" for none.
func (d *cutoverRun) patternOf() string {
	if !d.pattern {
		return ""
	}
	return "Orders*" + d.row
}

// groupOf returns the group of a table.
func (d *cutoverRun) groupOf(t *cutTable) *cutoverRun {
	for _, g := range d.main.groups {
		if g.moves(t.Source.Name) {
			return g
		}
	}
	return nil
}

// moves reports whether a table of the ledger belongs to the group.
func (d *cutoverRun) moves(source string) bool {
	for _, t := range d.tables {
		if t.Source.Name == source {
			return true
		}
	}
	return false
}

// tellApart counts what groups do beside each other.
func (d *cutoverRun) tellApart(is checkpoint.Cutover) {
	for _, g := range d.main.groups {
		other := g.record()
		switch {
		case g == d:
		case is.Step == checkpoint.CutoverFreeze && g.app.frozen && !g.app.switched:
			d.World.Inject("two groups are frozen")
		case is.Step == checkpoint.CutoverDone && !other.Step.Switched():
			d.World.Inject("one group is cut over, the other is not")
		case is.Step == checkpoint.CutoverCancelled && other.Step.Active():
			d.World.Inject("one group is cancelled, the other goes on")
		}
	}
}

// executedAnywhere shows a write to the checkers of all groups.
func (d *cutoverRun) executedAnywhere(table, key string, before, after *model.Row) {
	for _, g := range d.groups {
		name, ofTable := strings.CutPrefix(key, "default/table/")
		if table == model.StateTable && ofTable && !g.moves(name) {
			continue
		}
		g.executed(table, key, before, after)
	}
}
