package status

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// After its cutover, a table has no problems, and its only next steps are the watch for late
// writers and finalize, whatever its record held before.
func TestATableThatWasLeftHasNoTrouble(t *testing.T) {
	for _, c := range []struct {
		step      checkpoint.CutoverStep
		finalized bool
		next      string // the only next step; "" if there is none
	}{
		{checkpoint.CutoverWatching, false, "replicator cutover status"},
		{checkpoint.CutoverDone, false, "replicator finalize --dry-run"},
		{checkpoint.CutoverDone, true, ""},
	} {
		in := TableInput{Found: true, State: loadedTable(), Parked: 2}
		s := &in.State
		s.MappingHash, s.NeedsLoad, s.Reason, s.Kind = "another", true, "a gap", checkpoint.KindStream
		s.Pause.Since, s.StreamEnded = ago(time.Hour), true
		s.Suspended = checkpoint.Suspension{Reason: "its stream was disabled", Since: ago(time.Hour)}
		in.Targets = []checkpoint.Target{{Table: "orders", Fence: 1, Withheld: "it is protected"}}
		in.Coordinator = CoordinatorInput{Owner: "w", Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(time.Second), Trouble: checkpoint.Trouble{Step: "list", Cause: "denied", Since: ago(time.Hour)}}}
		in.Shards = []checkpoint.Shard{{Source: "Orders", ID: "s", Label: s.Label, State: checkpoint.Done, Generation: s.Generation, DoneAt: ago(time.Hour)},
			{Source: "Orders", ID: "r", Label: s.Label, State: checkpoint.Reading, Generation: s.Generation, ReadAt: ago(30 * time.Hour)}}
		l := &Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders", To: "orders"}}, Inputs: []TableInput{in}, Begun: true, Elsewhere: ""}
		l.Cutovers = checkpoint.Cutovers{checkpoint.Cutover{Attempt: 1, Step: c.step, SwitchedAt: ago(time.Hour)}}
		if c.finalized {
			l.Cutovers[0].FinalizedAt = ago(time.Minute)
		}
		l.lookWhere(context.Background(), func(context.Context) (string, error) { t.Error("the app profile is asked for"); return "", nil })
		m := l.Judge(nothingSet, "", noon)
		l.TellMappings(m)
		var text strings.Builder
		if err := m.Render(&text, true); err != nil {
			t.Fatal(err)
		}
		table := m.Tables[0]
		if len(table.Troubles) > 0 || table.LoadNeeded || table.Paused != nil || table.FenceReason != nil || table.Old || len(m.notes()) != 1 {
			t.Errorf("%s: %+v\n%s", c.step, table, &text)
		}
		var next []string
		for _, step := range append(m.NextSteps, table.NextSteps...) {
			if step.Command != c.next {
				next = append(next, step.Command)
			}
		}
		if len(next) > 0 || (c.next != "") != (len(m.NextSteps) == 1) {
			t.Errorf("%s: next is %v of %+v", c.step, next, m.NextSteps)
		}
		for _, shard := range m.Shards {
			if shard.Why != nil || shard.Old {
				t.Errorf("%s: a shard waits: %+v", c.step, shard)
			}
		}
	}
}
