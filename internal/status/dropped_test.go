package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// droppedTable returns the ledger of a table that was dropped and read to its end. If coordinator
// is not empty, it holds the coordinator lease.
func droppedTable(dropped, beat time.Duration, coordinator string) TableInput {
	state := loadedTable()
	state.Suspended = checkpoint.Suspension{Reason: engine.GoneReason, Since: ago(dropped)}
	in := TableInput{Found: true, State: state, Listings: checkpoint.Listings{At: ago(dropped - 20*time.Minute)}}
	in.Shards = []checkpoint.Shard{{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Done, EventTime: ago(dropped + time.Hour), DoneAt: ago(dropped), ReadAt: ago(dropped), FirstRead: ago(100 * time.Hour)}}
	if coordinator != "" {
		in.Coordinator = CoordinatorInput{Owner: coordinator, Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(beat)}}
	}
	return in
}

// asksForAWorker reports whether a next step starts a worker.
func asksForAWorker(m *Document) bool {
	return slices.ContainsFunc(m.NextSteps, func(s standing.NextStep) bool { return strings.Contains(s.Why, "no worker reads the stream") })
}

// A table that was dropped, or that no worker follows, is not in sync, and its line shows the
// reason. The advice to start a worker appears only if none runs and something is left to read.
func TestStatusOfADroppedTable(t *testing.T) {
	for _, c := range []struct {
		name    string
		in      TableInput
		dropped bool
		asks    bool
	}{
		{"kept by a worker", droppedTable(time.Hour, time.Second, "w"), true, false},
		{"nobody runs", droppedTable(time.Hour, 0, ""), true, false},
		{"its worker is silent", droppedTable(time.Hour, time.Hour, "w"), true, false},
		{"long ago, and nobody runs", droppedTable(48*time.Hour, 0, ""), true, false},
		{"it is there, nothing was listed yet, and a worker keeps it", TableInput{Found: true, State: loadedTable(), Coordinator: CoordinatorInput{Owner: "w", Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(time.Second)}}}, false, false},
		{"it is there, and its worker is silent", TableInput{Found: true, State: loadedTable(), Coordinator: CoordinatorInput{Owner: "w", Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(time.Hour)}}}, false, true},
		{"it is there, and nobody runs", TableInput{Found: true, State: loadedTable()}, false, true},
	} {
		m := judged(c.in)
		var text strings.Builder
		if err := m.Render(&text, false); err != nil {
			t.Fatal(err)
		}
		if synced := !c.dropped && !c.asks; (m.Phase == PhaseInSync) != synced || strings.Contains(text.String(), "in sync") != synced || strings.Contains(text.String(), ", dropped") != c.dropped {
			t.Errorf("%s: %s\n%s", c.name, m.Phase, text.String())
		}
		if got := asksForAWorker(m); got != c.asks || c.dropped && len(m.NextSteps) == 0 {
			t.Errorf("%s: %+v", c.name, m.NextSteps)
		}
	}
	held := droppedTable(time.Hour, 0, "")
	held.Shards[0].State, held.Shards[0].DoneAt = checkpoint.Reading, time.Time{}
	if !asksForAWorker(judged(held)) {
		t.Error("a shard of a dropped table is half read, and no worker is asked for")
	}
}

// Tables of a pattern may be dropped at any time: such a table is not in sync, but the migration of
// the others is, unless a dropped table lost changes.
func TestAMigrationWhoseTablesOfAPatternAreDropped(t *testing.T) {
	copying := followed()
	copying.State.Load.DoneAt = time.Time{}
	synced := followed()
	for _, c := range []struct {
		name   string
		config config.Table
		in     TableInput
		others *TableInput
		want   string
	}{
		{"named", config.Table{From: "Orders"}, droppedTable(time.Hour, 0, ""), &synced, PhaseCopy},
		{"of a pattern", monthlyTable(t), droppedTable(time.Hour, 0, ""), &synced, PhaseInSync},
		{"of a pattern, long ago", monthlyTable(t), droppedTable(48*time.Hour, 0, ""), &synced, PhaseInSync},
		{"of a pattern, while others are copied", monthlyTable(t), droppedTable(time.Hour, 0, ""), &copying, PhaseCopy},
		{"of a pattern, and no other is there", monthlyTable(t), droppedTable(time.Hour, 0, ""), nil, PhaseCopy},
		{"of a pattern, and it lost changes", monthlyTable(t), func() TableInput {
			in := droppedTable(time.Hour, 0, "")
			in.State.NeedsLoad = true
			return in
		}(), &synced, PhaseCopy},
	} {
		l := &Input{Cfg: testConfig(), Tables: []config.Table{c.config}, Inputs: []TableInput{c.in}}
		if c.others != nil {
			l.Tables, l.Inputs = append(l.Tables, config.Table{From: "Other"}), append(l.Inputs, *c.others)
		}
		if m := l.Judge(nothingSet, "", noon); m.Phase != c.want || m.Tables[0].Phase != PhaseCopy {
			t.Errorf("%s: the table %s, the migration %s, want %s", c.name, m.Tables[0].Phase, m.Phase, c.want)
		}
	}
}

// monthlyTable returns a table of a pattern.
func monthlyTable(t *testing.T) config.Table {
	t.Helper()
	table, ok := monthlyConfig(t).Table("Log_2015_01")
	if !ok {
		t.Fatal("no such table")
	}
	return table
}
