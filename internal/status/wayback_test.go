package status

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// followedBack returns the input of a table that is cut over, and whose items follow its rows.
func followedBack() *Input {
	in := followed()
	in.Shards = nil
	cfg := testConfig()
	cfg.Cutover.ReadyWhen.LagBelow = 10 * time.Second
	return &Input{Cfg: cfg, Tables: []config.Table{{From: "Orders", To: "orders"}}, Inputs: []TableInput{in}, Begun: true,
		Cutovers: checkpoint.Cutovers{{Attempt: 2, Step: checkpoint.CutoverWatching, WayBack: true, SwitchedAt: ago(time.Hour), CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"Orders"}}}},
		WaysBack: map[string]checkpoint.Fallback{"Orders": {Source: "Orders", Attempt: 2, State: checkpoint.FallbackFollowing, Wait: 8 * time.Minute,
			Led: ago(30 * time.Minute), Settled: ago(2 * time.Second), SavedAt: ago(time.Second), Parked: 0, Doubts: 0}},
	}
}

// A way back is shown with the reasons of the gates of a rollback, until it ends.
func TestAWayBackIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *checkpoint.Cutover, f *checkpoint.Fallback)
		line   string   // "" if there is no way back
		can    []string // reasons against a rollback; nil if nothing follows
		next   []string
	}{
		"following": {func(*checkpoint.Cutover, *checkpoint.Fallback) {}, "Way back: following, 2.0s behind, 0 parked, 0 in doubt", []string{},
			[]string{"replicator cutover rollback --dry-run", "replicator cutover end-fallback"}},
		"parked rows": {func(_ *checkpoint.Cutover, f *checkpoint.Fallback) { f.Parked, f.Doubts = 3, 1 }, "Way back: following, 2.0s behind, 3 parked, 1 in doubt",
			[]string{"table Orders: 3 rows cannot be carried"}, []string{"replicator cutover status"}},
		"a former leader's doubt": {func(_ *checkpoint.Cutover, f *checkpoint.Fallback) { f.DoubtUntil = noon.Add(time.Minute) }, "Way back: following, 2.0s behind, 0 parked, 1 in doubt",
			[]string{"table Orders: the same leader for 30m (8m needed)"}, []string{"replicator cutover status"}},
		"behind": {func(_ *checkpoint.Cutover, f *checkpoint.Fallback) { f.Settled = ago(71 * time.Second) }, "Way back: following, 1m11s behind, 0 parked, 0 in doubt",
			[]string{"table Orders: 1m11s behind"}, []string{"replicator cutover status"}},
		"behind, as far as a drain takes": {func(_ *checkpoint.Cutover, f *checkpoint.Fallback) { f.Settled = ago(70 * time.Second) }, "Way back: following, 1m10s behind, 0 parked, 0 in doubt",
			[]string{}, []string{"replicator cutover rollback --dry-run", "replicator cutover end-fallback"}},
		"lost": {func(_ *checkpoint.Cutover, f *checkpoint.Fallback) {
			f.State, f.Since, f.Reason, f.Settled = checkpoint.FallbackGap, ago(time.Minute), "a token is too old", ago(3*time.Second)
		}, "Way back: lost since 2026-11-02T11:59:00Z, because a token is too old", []string{"table Orders: changes were lost: a token is too old"},
			[]string{"replicator verify --reverse --repair --table Orders"}},
		"before the switch": {func(c *checkpoint.Cutover, f *checkpoint.Fallback) {
			c.Step, c.FreezeBegunAt, c.SwitchedAt = checkpoint.CutoverDrain, ago(4*time.Second), time.Time{}
			f.State = checkpoint.FallbackStandby
		}, "Way back: standby, 2.0s behind, 0 parked, 0 in doubt", nil, []string{"replicator run"}},
		"of a former attempt": {func(_ *checkpoint.Cutover, f *checkpoint.Fallback) { f.Attempt = 1 }, "", []string{"table Orders: there is no way back"}, []string{"replicator cutover status"}},
		"ended by an operator": {func(c *checkpoint.Cutover, f *checkpoint.Fallback) {
			c.FallbackEndedAt, f.State = noon, checkpoint.FallbackStopped
		}, "", nil, []string{"replicator cutover status"}},
		"none": {func(c *checkpoint.Cutover, _ *checkpoint.Fallback) { c.WayBack = false }, "", nil, []string{"replicator cutover status"}},
	} {
		l := followedBack()
		f := l.WaysBack["Orders"]
		c.change(&l.Cutovers[0], &f)
		l.WaysBack["Orders"] = f
		m := l.Judge(nothingSet, "", noon)
		line := ""
		for _, note := range m.notes() {
			if strings.HasPrefix(note, "Way back") {
				line = note
			}
		}
		if line != c.line || (m.Tables[0].WayBack != nil) != (c.line != "") {
			t.Errorf("%s: %q, want %q", name, line, c.line)
		}
		can := m.Cutover.CanRollBack
		switch {
		case (can == nil) != (c.can == nil):
			t.Errorf("%s: can be rolled back: %+v", name, can)
		case can != nil && can.Ready != (len(c.can) == 0):
			t.Errorf("%s: can be rolled back: %+v", name, can)
		case can != nil && !can.Ready && !strings.HasPrefix(strings.Join(can.Reasons, "; "), c.can[0]):
			t.Errorf("%s: %+v, want %q", name, can, c.can)
		}
		if next := commandsOf(m); !slices.Equal(next, c.next) {
			t.Errorf("%s: next is %q, want %q", name, next, c.next)
		}
		for _, c := range Columns {
			told, want := c.Metric(&m.Tables[0]), m.Left() && m.Tables[0].WayBack != nil && strings.HasPrefix(c.Gauge.Name, "replicator_wayback")
			if m.Left() && (told != nil) != want || !m.Left() && told != nil && strings.HasPrefix(c.Gauge.Name, "replicator_wayback") {
				t.Errorf("%s: metric %q is told: %t", name, c.Gauge.Name, told != nil)
			}
		}
		document, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		validateStatus(t, document)
	}
}

// The metrics of a way back hold its figures.
func TestMetricsOfAWayBack(t *testing.T) {
	l := followedBack()
	f := l.WaysBack["Orders"]
	f.State, f.Since, f.Reason, f.Parked = checkpoint.FallbackGap, ago(time.Minute), "a token is too old", 4
	l.WaysBack["Orders"] = f
	m := l.Judge(nothingSet, "", noon)
	want := map[admin.Gauge]float64{admin.GaugeWayBackLag: 2, admin.GaugeWayBackLost: 1, admin.GaugeWayBackParked: 4}
	for _, c := range Columns {
		if v, of := want[c.Gauge]; of && (c.Metric(&m.Tables[0]) == nil || *c.Metric(&m.Tables[0]) != v) {
			t.Errorf("%s is not %v", c.Gauge.Name, v)
		}
	}
}

func commandsOf(m *Document) (commands []string) {
	for _, s := range m.NextSteps {
		commands = append(commands, s.Command)
	}
	return commands
}

// A rollback is shown instead of its cutover while it runs. After its switch, the tables need a load,
// and the gates of another cutover are judged.
func TestARollbackIsShown(t *testing.T) {
	plan := checkpoint.CutoverPlan{Direction: checkpoint.Back, FreezeWithin: time.Minute, FreezeDeadline: 15 * time.Minute}
	for name, c := range map[string]struct {
		rollback   checkpoint.Cutover
		over       bool // the rollback has moved the application
		driver     string
		state      standing.State
		reason     string
		step, line string
		frozen     time.Duration
		next       string
	}{
		"checks": {checkpoint.Cutover{Step: checkpoint.CutoverChecks}, false, "w", standing.Cutover, "watching", "checks", "Rollback: attempt 3, checks", 0, "replicator cutover status"},
		"frozen": {checkpoint.Cutover{Step: checkpoint.CutoverVerify, FreezeBegunAt: ago(8 * time.Second)}, false, "w", standing.Cutover, "verify", "verify",
			"Rollback: attempt 3, verify; writes are frozen since 2026-11-02T11:59:52Z (8.0s)", 8 * time.Second, "replicator cutover status"},
		"undriven": {checkpoint.Cutover{Step: checkpoint.CutoverVerify, FreezeBegunAt: ago(8 * time.Second)}, false, "", standing.Cutover, "verify", "verify",
			"Rollback: attempt 3, verify; writes are frozen since 2026-11-02T11:59:52Z (8.0s); no process drives it", 8 * time.Second, "replicator run"},
		"cancelled": {checkpoint.Cutover{Step: checkpoint.CutoverCancelled, FreezeBegunAt: ago(8 * time.Second), UnfrozenAt: noon}, false, "w", standing.Cutover, "watching", "watching",
			"Cutover: attempt 2, watching", 0, "replicator cutover rollback --dry-run"},
		"moved back": {checkpoint.Cutover{Step: checkpoint.CutoverWatching, FreezeBegunAt: ago(9 * time.Second), SwitchedAt: ago(time.Second)}, true, "w", standing.NeedsLoad, "rolled_back", "rolled_back",
			"Rollback: attempt 3, rolled_back; writes were frozen for 8.0s", 0, "replicator cutover status"},
		"moved back, undriven": {checkpoint.Cutover{Step: checkpoint.CutoverWatching, FreezeBegunAt: ago(9 * time.Second), SwitchedAt: ago(time.Second)}, true, "", standing.NeedsLoad, "rolled_back", "rolled_back",
			"Rollback: attempt 3, rolled_back; writes were frozen for 8.0s", 0, "replicator run"},
	} {
		l := followedBack()
		c.rollback.Attempt, c.rollback.CutoverPlan = 3, plan
		record := &l.Cutovers[0]
		record.Rollback, l.Drivers = &c.rollback, []Driver{{Process: c.driver}}
		if c.over {
			record.Step = checkpoint.CutoverRolledBack
		}
		m := l.Judge(nothingSet, "", noon)
		table := m.Tables[0]
		if table.State != c.state || OrDash(table.Reason) != c.reason || table.LoadNeeded != c.over || m.Left() == c.over {
			t.Errorf("%s: %s (%s), left %t", name, table.State, OrDash(table.Reason), m.Left())
		}
		if m.Cutover.Step != c.step || m.notes()[0] != c.line {
			t.Errorf("%s: %s, %q; want %q", name, m.Cutover.Step, m.notes(), c.line)
		}
		if facts := m.CutoverFacts()[0]; facts.Frozen != c.frozen || c.frozen > 0 && facts.Limit != 16*time.Minute || facts.Unanswered > 0 {
			t.Errorf("%s: alerts hear %+v", name, facts)
		}
		if next := commandsOf(m); len(next) == 0 || next[0] != c.next {
			t.Errorf("%s: next is %q, want %q", name, next, c.next)
		}
		if (len(m.Cutover.Gates) > 0) != c.over || m.Cutover.Ready {
			t.Errorf("%s: %d gates", name, len(m.Cutover.Gates))
		}
		document, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		validateStatus(t, document)
	}
	l := followedBack()
	l.Cutovers[0].Strays, l.Cutovers[0].Rollback = 2, &checkpoint.Cutover{Attempt: 3, Step: checkpoint.CutoverChecks, CutoverPlan: plan}
	if facts := l.Judge(nothingSet, "", noon).CutoverFacts()[0]; facts.Unanswered != 2 || facts.Strays != 2 {
		t.Errorf("late writes before the rollback: %+v", facts)
	}
	for _, c := range []struct {
		cutover, rollback checkpoint.CutoverStep
		needs             bool
	}{
		{checkpoint.CutoverWatching, "", true}, {checkpoint.CutoverRolledBack, checkpoint.CutoverWatching, true},
		{checkpoint.CutoverRolledBack, checkpoint.CutoverDone, false}, {checkpoint.CutoverDone, "", false},
	} {
		record := checkpoint.Cutover{Attempt: 1, Step: c.cutover, Rollback: &checkpoint.Cutover{Step: c.rollback}}
		if needsDriver(&record) != c.needs {
			t.Errorf("%s, %s: needs a driver: %t", c.cutover, c.rollback, !c.needs)
		}
	}
	l = followedBack()
	l.Cutovers[0].Step = checkpoint.CutoverRolledBack
	l.Cutovers[0].Rollback = &checkpoint.Cutover{Attempt: 3, Step: checkpoint.CutoverDone, CutoverPlan: plan, FreezeBegunAt: ago(time.Hour), SwitchedAt: ago(time.Hour)}
	l.Inputs[0] = followed()
	l.Inputs[0].State.Halt.Over = 3
	m := l.Judge(nothingSet, "", noon)
	if m.Tables[0].State != standing.InSync || m.Cutover.Step != "rolled_back" || m.Cutover.Direction != "back" || m.Cutover.Attempt != 3 || m.Cutover.CanRollBack != nil || len(m.notes()) > 0 {
		t.Errorf("afterwards: %s, %+v, %q", m.Tables[0].State, m.Cutover, m.notes())
	}
}

// Of several tables, the lines and steps name the table. A group is not ready unless all its tables are.
func TestWaysBackOfAGroup(t *testing.T) {
	l := followedBack()
	l.Tables = append(l.Tables, config.Table{From: "Users", To: "users"})
	l.Cfg.Cutover.Groups = nil
	l.Inputs = append(l.Inputs, TableInput{})
	l.Cutovers[0].Tables = []string{"Orders", "Users"}
	users := l.WaysBack["Orders"]
	users.Source, users.State, users.Since, users.Reason = "Users", checkpoint.FallbackGap, ago(time.Hour), "the leader was away"
	l.WaysBack["Users"] = users
	m := l.Judge(nothingSet, "", noon)
	notes := strings.Join(m.notes(), "\n")
	if !strings.Contains(notes, "Way back of Orders: following") || !strings.Contains(notes, "Way back of Users: lost since") {
		t.Errorf("%s", notes)
	}
	if can := m.Cutover.CanRollBack; can == nil || can.Ready || len(can.Reasons) != 1 || !strings.HasPrefix(can.Reasons[0], "table Users") {
		t.Errorf("%+v", can)
	}
	if next := commandsOf(m); len(next) != 1 || next[0] != "replicator verify --reverse --repair --table Users" {
		t.Errorf("next is %q", next)
	}
	l.Tables, l.Inputs = l.Tables[:1], l.Inputs[:1] // status --table Orders
	if can := l.Judge(nothingSet, "", noon).Cutover.CanRollBack; can == nil || can.Ready {
		t.Errorf("of one table: %+v", can)
	}
}

// The records of ways back are read of every table of a cutover that keeps one, and of no other.
func TestReadingWaysBack(t *testing.T) {
	ctx := context.Background()
	l, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "test", checkpoint.Options{Worker: "w", ID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"Orders", "Users", "Billing"} {
		if _, err := l.UpdateFallback(ctx, source, 0, func(f *checkpoint.Fallback) error { f.Attempt = 1; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	of := func(step checkpoint.CutoverStep, tables ...string) checkpoint.Cutover {
		return checkpoint.Cutover{Attempt: 1, Step: step, WayBack: true, CutoverPlan: checkpoint.CutoverPlan{Tables: tables}}
	}
	ended := of(checkpoint.CutoverWatching, "Billing")
	ended.FallbackEndedAt = noon
	found, err := readWaysBack(ctx, l, checkpoint.Cutovers{of(checkpoint.CutoverWatching, "Orders", "Missing"), of(checkpoint.CutoverCancelled, "Users"), ended})
	if err != nil || len(found) != 2 || found["Orders"].Attempt != 1 || found["Missing"].Attempt != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
