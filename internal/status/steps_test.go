package status

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

func TestNextSteps(t *testing.T) {
	owned := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Reading, Owner: "w1", ReadAt: ago(time.Second), CaughtUp: true}
	frozen, stuck, denied, free := owned, owned, owned, owned
	frozen.ReadAt, frozen.WrittenAt = ago(time.Hour), ago(time.Hour)
	stuck.ReadAt, stuck.WrittenAt = ago(time.Hour), ago(time.Second)
	denied.ReadAt, denied.AppliedTo, denied.WrittenAt = ago(19*time.Hour), ago(19*time.Hour), ago(time.Second)
	denied.Trouble = checkpoint.Trouble{Step: "read a shard", Cause: "DynamoDB: denied", Since: ago(19 * time.Hour)}
	free.ID, free.Owner, free.ReadAt = "2", "", ago(time.Hour)
	lost := loadedTable()
	lost.NeedsLoad, lost.Reason = true, "trimmed"
	lost.Generation, lost.Adopted = lost.Generation+1, lost.Generation+1
	for _, c := range []struct {
		name string
		in   TableInput
		want []string // commands
	}{
		{"nothing was started", TableInput{}, []string{"replicator run"}},
		{"all is well", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned}}, nil},
		{"nobody reads", TableInput{Found: true, State: loadedTable()}, []string{"replicator run"}},
		{"whoever reads is silent", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{frozen}}, []string{"replicator run"}},
		{"whoever reads lives, and does not get on", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{stuck}},
			[]string{"replicator status --shards --table Orders"}},
		{"a shard that nobody takes", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned, free}}, []string{"replicator run"}},
		{"reads are denied, and the headroom goes", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{denied}},
			[]string{"replicator status --shards --table Orders"}},
		{"items are parked", TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned}, Parked: 2}, []string{"replicator parked list --table Orders"}},
		{"changes were lost", TableInput{Found: true, State: lost, Shards: []checkpoint.Shard{owned}}, []string{"replicator backfill repair Orders"}},
	} {
		m := judged(c.in)
		var got []string
		for _, s := range m.NextSteps {
			got = append(got, s.Command)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if m := judged(TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned}}); len(m.Workers) != 1 || m.Leases != 1 {
		t.Errorf("%d workers with %d leases, want one of each", len(m.Workers), m.Leases)
	}
}

// With --shards, the advice to look at the shards is omitted.
func TestTheViewOfShardsAdvisesNoLook(t *testing.T) {
	step := func(command string) standing.NextStep { return standing.NextStep{Command: "replicator " + command} }
	of := func() []standing.NextStep {
		return []standing.NextStep{step("run"), step("status --shards --table Orders"), step("status --shards -c f"), step("status")}
	}
	m := &Document{NextSteps: of(), Tables: []Table{{NextSteps: of()}}}
	m.looked()
	for _, left := range [][]standing.NextStep{m.NextSteps, m.Tables[0].NextSteps} {
		if !slices.Equal(left, []standing.NextStep{step("run"), step("status")}) {
			t.Errorf("left are %v", left)
		}
	}
}

// Workers that hold no lease are counted and shown as standbys, as long as they send heartbeats.
func TestStandbysAreShown(t *testing.T) {
	beat := func(worker string, before time.Duration) checkpoint.Process {
		return checkpoint.Process{Worker: worker, Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(before)}}
	}
	owned := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Reading, Owner: "w1", ReadAt: ago(time.Second), CaughtUp: true}
	owned.WrittenAt = ago(time.Second)
	idle := func(worker string, before time.Duration) checkpoint.Process {
		p := beat(worker, before)
		p.Role = checkpoint.RoleIdle
		return p
	}
	loads := checkpoint.Part{Source: "Orders", Owner: "w3", Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(time.Second)}}
	for _, c := range []struct {
		name      string
		shards    []checkpoint.Shard
		parts     []checkpoint.Part
		processes []checkpoint.Process
		text      string
		standbys  int
	}{
		{"none", nil, nil, nil, "0 workers, 0 leases", 0},
		{"one holds all", []checkpoint.Shard{owned}, nil, nil, "1 worker, 1 lease", 0},
		{"one holds all, and has beaten before", []checkpoint.Shard{owned}, nil, []checkpoint.Process{beat("w1", time.Second)}, "1 worker, 1 lease", 0},
		{"another waits", []checkpoint.Shard{owned}, nil, []checkpoint.Process{beat("w2", time.Second)}, "2 workers (1 standby), 1 lease", 1},
		{"nobody holds anything", nil, nil, []checkpoint.Process{beat("w1", time.Second), beat("w2", 3*stateLease)}, "2 workers (2 standby), 0 leases", 2},
		{"it is gone", []checkpoint.Shard{owned}, nil, []checkpoint.Process{beat("w2", 3*stateLease+1)}, "1 worker, 1 lease", 0},
		{"idle workers wait for no lease", nil, nil, []checkpoint.Process{idle("w1", time.Second), idle("w2", 3*stateLease)}, "2 workers (2 idle), 0 leases", 0},
		{"one still waits", nil, nil, []checkpoint.Process{idle("w1", time.Second), beat("w2", time.Second)}, "2 workers (1 idle, 1 standby), 0 leases", 1},
		{"it loads", []checkpoint.Shard{owned}, []checkpoint.Part{loads}, []checkpoint.Process{beat("w3", time.Second)}, "2 workers, 1 lease", 0},
	} {
		l := &Input{Cfg: testConfig(), Begun: true, Tables: []config.Table{{From: "Orders", To: "orders"}}, Processes: c.processes,
			Inputs: []TableInput{{Found: true, State: loadedTable(), Shards: c.shards, Parts: c.parts}}}
		m := l.Judge(nothingSet, "", noon)
		var text strings.Builder
		if err := m.Render(&text, true); err != nil {
			t.Fatal(err)
		}
		if m.Standbys != c.standbys || !strings.Contains(text.String(), "   "+c.text+"\n") || strings.Count(text.String(), "(standby)") != c.standbys {
			t.Errorf("%s: %d standbys, in:\n%s", c.name, m.Standbys, text.String())
		}
		if m.Beats("w1") != (len(c.shards) > 0) || m.Beats("w2") {
			t.Errorf("%s: w1 holds something: %t", c.name, m.Beats("w1"))
		}
	}
}

// A process that has a heartbeat and is not idle may still write. It is named with its version,
// whatever it reports. An idle worker does not write, even if it still has a lease.
func TestWorkingWorkers(t *testing.T) {
	about := func(version string, before time.Duration) checkpoint.Heartbeat {
		return checkpoint.Heartbeat{WrittenAt: ago(before), Holder: checkpoint.About{Version: version}}
	}
	shard := func(owner string, h checkpoint.Heartbeat) checkpoint.Shard {
		return checkpoint.Shard{ID: owner, Label: "L", State: checkpoint.Reading, Owner: owner, Heartbeat: h}
	}
	l := &Input{Cfg: testConfig(), Begun: true, Tables: []config.Table{{From: "Orders", To: "orders"}},
		Processes: []checkpoint.Process{
			{Worker: "idle", Role: checkpoint.RoleIdle, Heartbeat: about("2", 0)},
			{Worker: "idle with a lease", Role: checkpoint.RoleIdle, Heartbeat: about("2", 0)},
			{Worker: "gone", Heartbeat: about("1", 3*stateLease+1)},
			{Worker: "idle before", Role: checkpoint.RoleIdle, Heartbeat: about("2", 3*stateLease+1)},
			{Worker: "old standby", Heartbeat: about("1", stateLease)}},
		Inputs: []TableInput{{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{
			shard("idle with a lease", about("2", time.Hour)), shard("reads", about("2", 0)), shard("silent", about("2", time.Hour)), shard("idle before", about("2", 0))}}}}
	l.Cutovers = checkpoint.Cutovers{checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverDone}}
	m := l.Judge(nothingSet, "", noon)
	if got := strings.Join(m.Working(), ", "); got != "idle before (version 2), old standby (version 1), reads (version 2)" {
		t.Errorf("%s", got)
	}
	if got, want := m.WorkersByRole(), (map[string]int{"active": 2, "standby": 1, "idle": 2}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v: silent workers have no role", got, want)
	}
	for _, c := range Columns {
		if v := c.Metric(&m.Tables[0]); v != nil {
			t.Errorf("metric %s of a table that was left is %v", c.Gauge.Name, *v)
		}
	}
	var text strings.Builder
	if err := m.Render(&text, true); err != nil || strings.Count(text.String(), "(idle)") != 2 || strings.Count(text.String(), "(silent)") != 1 {
		t.Errorf("%v\n%s", err, &text)
	}
}
