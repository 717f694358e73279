package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// Everything that is said of a cutover is said of a group: the tables that are cut over are done, and have
// no next steps; the others go on. A command names the group, if there are several.
func TestEachGroupHasItsCutover(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders }, { from: Users }]\n"), nothingSet)
	if err != nil {
		t.Fatal(err)
	}
	orders := checkpoint.Cutover{Row: "Orders", Attempt: 1, Step: checkpoint.CutoverDone, SwitchedAt: ago(time.Hour), CutoverPlan: checkpoint.CutoverPlan{Group: "Orders", Tables: []string{"Orders"}}}
	users := checkpoint.Cutover{Row: "Users", Attempt: 2, Step: checkpoint.CutoverDrain, FreezeBegunAt: ago(4 * time.Second), CutoverPlan: checkpoint.CutoverPlan{Group: "Users", Tables: []string{"Users"}}}
	second := followed()
	second.State.Source = "Users"
	for i := range second.Shards {
		second.Shards[i].Source = "Users"
	}
	l := &Input{Cfg: cfg, Tables: cfg.Tables, Inputs: []TableInput{followed(), second}, Begun: true, Cutovers: checkpoint.Cutovers{orders, users},
		Drivers: []Driver{{Row: "Users", Process: "w"}}}
	l.Inputs[0].Parked = 1
	m := l.Judge(nothingSet, " -c f", noon)
	if got := []standing.State{m.Tables[0].Standing.State, m.Tables[1].Standing.State}; !slices.Equal(got, []standing.State{standing.Done, standing.Cutover}) {
		t.Errorf("states %v", got)
	}
	if len(m.Cutovers) != 2 || m.Cutovers[0].Driver != nil || m.Cutovers[1].Driver == nil || m.Cutover.Group != "Users" || m.Left() || m.Stays("Orders") || !m.Stays("Users") || m.AnyParked() {
		t.Errorf("%+v", m.Cutovers)
	}
	var steps []string
	for _, s := range m.NextSteps {
		steps = append(steps, s.Command)
	}
	if want := []string{"replicator finalize --dry-run --group Orders -c f", "replicator cutover status --group Users -c f"}; !slices.Equal(steps, want) {
		t.Errorf("next %q, want %q", steps, want)
	}
	if notes := strings.Join(m.notes(), "\n"); !strings.Contains(notes, "Cutover of Users: attempt 2, drain; writes are frozen since") || !strings.Contains(notes, "Cutover of Orders: attempt 1, done") {
		t.Errorf("%s", notes)
	}
	facts := m.CutoverFacts()
	if len(facts) != 2 || facts[0].Group != "Orders" || facts[0].Frozen != 0 || facts[1].Frozen != 4*time.Second {
		t.Errorf("%+v", facts)
	}
	// A record of a version without groups counts for each table that it names, and is shown once.
	former := orders
	former.Row, former.Group, former.Tables = "", "", []string{"Orders", "Users"}
	l.Cutovers = checkpoint.Cutovers{former}
	if m := l.Judge(nothingSet, "", noon); !m.Left() || len(m.Cutovers) != 1 || len(m.Cutovers[0].Tables) != 2 {
		t.Errorf("a former record: %+v", m.Cutovers)
	}
}
