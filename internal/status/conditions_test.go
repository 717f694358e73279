package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// quiet returns a migration of one table that a worker follows, without any condition to report.
func quiet() *Document {
	m := judged(followed())
	m.with = " -c f"
	return m
}

// TestConditions checks each condition with a document that differs from a quiet one in one fact.
func TestConditions(t *testing.T) {
	float := func(d time.Duration) *float64 { return inSeconds(&d) }
	text := func(s string) *string { return &s }
	at := ago(time.Minute)
	unmet := func(m *Document, _ *Table) { m.begun, m.Tables[0].Generation = true, nil }
	step := func(step checkpoint.CutoverStep, more func(c *checkpoint.Cutover)) func(*Document, *Table) {
		return func(m *Document, _ *Table) {
			c := &m.Cutovers[0]
			if c.record.Step = step; more != nil {
				more(&c.record)
			}
		}
	}
	back := func(step checkpoint.CutoverStep, of checkpoint.CutoverStep) func(*Document, *Table) {
		return func(m *Document, _ *Table) {
			c := &m.Cutovers[0]
			c.record.Step, c.Step = of, string(step)
			c.record.Rollback = &checkpoint.Cutover{Attempt: 3, Step: step, CutoverPlan: checkpoint.CutoverPlan{Direction: checkpoint.Back}}
		}
	}
	follows := func(change func(w *WayBack, c *CanRollBack)) func(*Document, *Table) {
		return func(m *Document, t *Table) {
			t.WayBack, m.Cutovers[0].CanRollBack = &WayBack{State: "following", LagSeconds: float(2 * time.Second)}, &CanRollBack{Ready: true}
			change(t.WayBack, m.Cutovers[0].CanRollBack)
		}
	}
	lists := map[string][]condition{"migration": ofMigration, "attempted": attempted, "cutover": ofCutover, "work": ofWork, "unmet": ofUnmet, "reading": ofReading,
		"workers": ofWorkers, "new": ofNew, "table": ofTable}
	asked := map[string]bool{}
	for _, c := range []struct {
		name   string // of the list and the condition
		change func(m *Document, t *Table)
		line   string // part of the line; "" if there is none
		next   string // without the flags
		why    string // part of the reason
	}{
		{"migration/the app profile routes elsewhere", func(m *Document, _ *Table) { m.otherPlace = "to c2" }, "", "failover --dry-run", "to c2"},
		{"migration/receivers fail", func(m *Document, _ *Table) {
			m.Receivers = []receiverStatus{{Name: "2 (slack, c)", FailingSince: at, Reason: "HTTP status 500", Lost: 1}}
		}, "Notifications: receiver 2 (slack, c) has failed for 1m00s: HTTP status 500; 1 notification lost", "notify test", "do not arrive"},
		{"attempted/cutover attempted", func(m *Document, _ *Table) {
			m.Cutovers[0] = Cutover{record: checkpoint.Cutover{Step: checkpoint.CutoverDrain}, Attempt: 2, Step: "drain", FrozenSeconds: 4, Trouble: text("a shard")}
		}, "Cutover: attempt 2, drain; writes were frozen for 4.0s; a shard", "", ""},
		{"cutover/frozen and undriven", func(m *Document, _ *Table) {
			m.Cutovers[0] = Cutover{record: checkpoint.Cutover{Step: checkpoint.CutoverDrain}, Attempt: 2, Step: "drain", FrozenSeconds: 4, FrozenSince: &m.At}
		}, "", "run", "no process drives the cutover"},
		{"cutover/done", step(checkpoint.CutoverDone, nil), "", "finalize --dry-run", "no longer uses the source"},
		{"cutover/late writers", step(checkpoint.CutoverWatching, func(c *checkpoint.Cutover) { c.Strays = 1 }), "", "cutover status", "writes since the freeze"},
		{"cutover/waits for approval", step(checkpoint.CutoverRequested, nil), "", "cutover approve", "waits for approval"},
		{"cutover/switching", step(checkpoint.CutoverSwitching, nil), "", "cutover status", "being switched"},
		{"cutover/switching", back(checkpoint.CutoverSwitching, checkpoint.CutoverWatching), "", "cutover status", "the rollback can no longer be cancelled"},
		{"cutover/rolled back and undriven", back(checkpoint.CutoverWatching, checkpoint.CutoverRolledBack), "", "run", "moved back"},
		{"cutover/rolling back", back(checkpoint.CutoverVerify, checkpoint.CutoverWatching), "", "cutover status", "a rollback is running: verify"},
		{"attempted/way back", follows(func(*WayBack, *CanRollBack) {}), "Way back: following, 2.0s behind, 0 parked, 0 in doubt", "", ""},
		{"cutover/way back lost", follows(func(w *WayBack, _ *CanRollBack) { w.LostSince, w.Reason = &at, text("no token") }), "",
			"verify --reverse --repair --table Orders", "Orders: changes were lost on the way back: no token"},
		{"cutover/can be rolled back", follows(func(*WayBack, *CanRollBack) {}), "", "cutover rollback --dry-run", "can be moved back"},
		{"cutover/cannot be rolled back", follows(func(_ *WayBack, c *CanRollBack) { c.Ready, c.Reasons = false, []string{"table Orders: 1h behind"} }), "",
			"cutover status", "cannot be moved back now: table Orders: 1h behind"},
		{"cutover/running", step(checkpoint.CutoverDrain, nil), "", "cutover status", "running: drain"},
		{"work/not begun", func(_ *Document, t *Table) { t.Generation = nil }, "", "run", "not started yet"},
		{"work/no table found", func(m *Document, _ *Table) { m.begun, m.Tables = true, nil }, "", "run", "no table matches the patterns"},
		{"work/no table met", unmet, "", "run", "Orders: not started yet"},
		{"work/no worker", func(m *Document, _ *Table) { m.Leases, m.Workers = 0, nil }, "", "run", "no worker reads the stream"},
		{"work/no worker", func(m *Document, _ *Table) { m.Leases, m.Workers = 0, []workerStatus{{ID: "beam/job/host-1"}} }, "", "run", "no worker reads the stream"},
		{"work/workers", func(_ *Document, t *Table) { t.silent = 2 }, "", "run", "Orders: a silent worker holds 2 shards"},
		{"unmet/named", unmet, "", "run", "Orders: not started yet"},
		{"unmet/of a pattern", func(_ *Document, t *Table) { t.group = "Log_*" }, "", "status", "matches the pattern Log_*"},
		{"reading/silent", func(_ *Document, t *Table) { t.silent = 1 }, "", "run", "Orders: a silent worker holds 1 shard"},
		{"reading/not acquired", func(_ *Document, t *Table) { t.waiting, t.Old = 1, true }, "", "run", "no worker acquires 1 shard"},
		{"reading/old", func(_ *Document, t *Table) { t.Old = true }, "", "status --shards --table Orders", "although its worker is running"},
		{"workers/unknown tables", func(m *Document, t *Table) {
			m.Tables = append(m.Tables, Table{Source: "Billing"})
		}, "", "run", "Billing: not started yet; restart the workers"},
		{"workers/clocks", func(m *Document, _ *Table) { m.Workers[0].ClockOffsetSeconds = float(2 * time.Minute) }, "", "status --shards", "the clock of worker w"},
		{"new/new", func(_ *Document, t *Table) { t.Generation = nil }, "", "run", "Orders: not started yet; restart"},
		{"table/state", func(m *Document, t *Table) {
			t.State = standing.CatchingUp
			m.Tables = append(m.Tables, Table{Source: "Billing"})
		}, "Orders is catching up", "", ""},
		{"table/settling", func(_ *Document, t *Table) { t.Settling = 1 }, "Orders: 1 change applied once", "", ""},
		{"table/paused", func(_ *Document, t *Table) { t.Paused = &pausedStatus{at, text("a test")} }, "Orders is paused since 2026-11-02T11:59:00Z: a test",
			"resume --table Orders", "Orders: paused for 1m00s"},
		{"table/needs a load", func(_ *Document, t *Table) { t.LoadNeeded, t.LostFrom = true, &at }, "Orders needs a load: -; changes since 2026-11-02T11:59:00Z", "", ""},
		{"table/fence withheld", func(_ *Document, t *Table) { t.FenceReason = text("denied") }, "Fence: Orders", "", ""},
		{"table/old", func(_ *Document, t *Table) { t.Old, t.OldestReadAt = true, &at }, "Old: Orders was last read 1m00s ago", "", ""},
		{"table/not listed", func(_ *Document, t *Table) { t.stands.Unlisted = true }, "Waiting: Orders began", "", ""},
		{"table/load", func(_ *Document, t *Table) { t.copiedFrom = "from an export" }, "Load of Orders: from an export", "", ""},
		{"table/throttled", func(_ *Document, t *Table) {
			t.Throttled = []throttledStatus{{Reason: "reads", Seconds: 6, WindowSeconds: 3600}}
		}, "Throttled: Orders: reads (6.0s of the last hour)", "", ""},
		{"table/beyond retention", func(_ *Document, t *Table) { t.HeadroomSeconds = float(-time.Hour) }, "", "status --shards --table Orders", "changes have waited for 25h00m"},
		{"table/little headroom", func(_ *Document, t *Table) { t.HeadroomSeconds = float(time.Hour) }, "", "status --shards --table Orders", "Orders: the stream drops unapplied changes in 1h00m"},
		{"table/troubles", func(_ *Document, t *Table) {
			t.troubled(checkpoint.Trouble{Step: "read a shard", Cause: "denied", Since: at}, 2)
		}, "Trouble: Orders: cannot read a shard (for 1m00s in 2 shards): denied", "status --shards --table Orders", "Orders: cannot read a shard"},
		{"table/fence can be kept", func(_ *Document, t *Table) { t.FenceReason = text("denied") }, "", "plan --print-iam gcp", "Orders: late writes are not rejected: denied"},
		{"table/long gone", func(_ *Document, t *Table) { t.LongGone = true }, "", "lint", "Orders no longer exists"},
		{"table/load waits", func(_ *Document, t *Table) {
			t.load = &standing.NextStep{Command: "replicator backfill redo --table Orders -c f", Why: "lost"}
		}, "", "backfill redo --table Orders", "Orders: lost"},
		{"table/parked", func(_ *Document, t *Table) { t.Parked = 1 }, "", "parked list --table Orders", "1 item needs a decision"},
		{"table/differs", func(_ *Document, t *Table) {
			t.stands = standing.Of(standing.Facts{Table: checkpoint.TableState{Sampled: checkpoint.Sampled{At: at, Differing: 1}}, Now: noon})
		}, "", "verify --repair --dry-run --table Orders", "Orders: a sample found rows that differ: 1"},
	} {
		asked[c.name] = true
		list, name, _ := strings.Cut(c.name, "/")
		i := slices.IndexFunc(lists[list], func(o condition) bool { return o.name == name })
		if i < 0 {
			t.Errorf("%s: there is no such condition", c.name)
			continue
		}
		said := func(m *Document) (line, next, why string) {
			s := subject{m: m}
			if len(m.Cutovers) > 0 {
				s.c = &m.Cutovers[0]
			}
			if len(m.Tables) > 0 {
				s.t = &m.Tables[0]
			}
			o := lists[list][i]
			if !o.holds(s) {
				return "", "", ""
			}
			if o.lines != nil {
				line = strings.Join(o.lines(s), "\n")
			}
			if o.next != nil {
				if steps := joined(o.next(s)); len(steps) > 0 {
					next, why = steps[0].Command, steps[0].Why
				}
			}
			return line, next, why
		}
		m := quiet()
		if line, next, why := said(m); line != "" || next != "" && list != "unmet" {
			t.Errorf("%s: a quiet migration: %q, %q (%s)", c.name, line, next, why)
		}
		c.change(m, &m.Tables[0])
		line, next, why := said(m)
		if (line != "") != (c.line != "") || !strings.Contains(line, c.line) {
			t.Errorf("%s: line %q, want %q", c.name, line, c.line)
		}
		want := ""
		if c.next != "" {
			want = "replicator " + c.next + " -c f"
		}
		if next != want || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q (%s), want %q (%s)", c.name, next, why, want, c.why)
		}
	}
	for list, conditions := range lists {
		for _, c := range conditions {
			if !asked[list+"/"+c.name] {
				t.Errorf("nothing asks for %s/%s", list, c.name)
			}
		}
	}
}

// TestStepsEndWithTheSwitch: once the application uses Bigtable, its tables advise nothing.
func TestStepsEndWithTheSwitch(t *testing.T) {
	for step, want := range map[checkpoint.CutoverStep][]string{
		checkpoint.CutoverDrain:    {"replicator cutover status -c f", "replicator parked list --table Orders -c f"},
		checkpoint.CutoverWatching: {"replicator cutover status -c f"},
		checkpoint.CutoverDone:     {"replicator finalize --dry-run -c f"},
	} {
		m := quiet()
		m.Cutovers[0].record.Step, m.Tables[0].Parked, m.Tables[0].stands.Left = step, 1, step.Switched()
		var got []string
		for _, s := range m.steps() {
			got = append(got, s.Command)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
}

// Status shows since when the application is frozen, and whether a process drives the cutover.
func TestAFreezeIsSeen(t *testing.T) {
	since, driver := noon.Add(-4*time.Second), "worker-1"
	for want, c := range map[string]Cutover{
		"Cutover: attempt 2, drain; writes are frozen since " + since.Format(time.RFC3339) + " (4.0s)":                       {FrozenSince: &since, Driver: &driver},
		"Cutover: attempt 2, drain; writes are frozen since " + since.Format(time.RFC3339) + " (4.0s); no process drives it": {FrozenSince: &since},
		"Cutover: attempt 2, drain; writes were frozen for 4.0s":                                                             {},
	} {
		c.Attempt, c.Step, c.FrozenSeconds = 2, "drain", 4
		if got := cutoverLines(subject{m: &Document{}, c: &c}); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, c := range []struct {
		c      checkpoint.Cutover
		frozen bool
	}{
		{checkpoint.Cutover{Step: checkpoint.CutoverFreeze, FreezeBegunAt: since}, true},
		{checkpoint.Cutover{Step: checkpoint.CutoverCancelling, FreezeBegunAt: since}, true},
		{checkpoint.Cutover{Step: checkpoint.CutoverCancelling, FreezeBegunAt: since, UnfrozenAt: since}, false},
		{checkpoint.Cutover{Step: checkpoint.CutoverWatching, FreezeBegunAt: since, SwitchedAt: since}, false},
		{checkpoint.Cutover{Step: checkpoint.CutoverChecks}, false},
		{checkpoint.Cutover{Step: checkpoint.CutoverCancelled, FreezeBegunAt: since}, false},
	} {
		if _, frozen := c.c.FrozenSince(); frozen != c.frozen {
			t.Errorf("%+v: frozen %t", c.c, frozen)
		}
	}
}
