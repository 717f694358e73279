package status

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// The tables of a pattern share one line, with the worst of their figures. A single one keeps its
// name.
func TestTablesOfAPatternCollapse(t *testing.T) {
	figure := func(f float64) *float64 { return &f }
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	done := began.Add(2*time.Hour + 3*time.Minute)
	copied := copyStatus{State: copyDone, Started: &began, Done: &done}
	m := &Document{Tables: []Table{
		{Source: "Log_2015_01", group: "Log_*", Copy: copied, LagSeconds: figure(0.3), HeadroomSeconds: figure(80000), ChangesPerSecond: figure(30), Parked: 1},
		{Source: "Log_2015_02", group: "Log_*", Copy: copied, LagSeconds: figure(0.1), HeadroomSeconds: figure(70000), ChangesPerSecond: figure(10), Parked: 2},
		{Source: "Orders", Copy: copyStatus{State: copyNotStarted}},
	}}
	text := func() (out string) {
		for _, l := range m.collapsed() {
			out += fmt.Sprintf("%s: %s, lag %s, headroom %s, %s/s, %d parked\n", l.name, l.copy, l.lagText(), l.headroomText(),
				rateText(l.ChangesPerSecond), l.Parked)
		}
		return out
	}
	const orders = "Orders: -, lag -, headroom -, -/s, 0 parked\n"
	if got, want := text(), "Log_*: 2 done (2h03m), lag 0.3s, headroom 19h26m, 40/s, 3 parked\n"+orders; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	m.Tables[1].Copy, m.Tables[1].Suspended = copyStatus{State: copyNotStarted}, "the table has no enabled stream"
	if got, want := text(), "Log_*: 1 of 2 done, 1 suspended, lag 0.3s, headroom 19h26m, 40/s, 3 parked\n"+orders; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	m.Tables = append(m.Tables[:1], m.Tables[2])
	if got, want := text(), "Log_2015_01: done (2h03m), lag 0.3s, headroom 22h13m, 30/s, 1 parked\n"+orders; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A suspended table is reported once, as trouble, as an event, and with --once as status 3. A
// dropped table is no longer reported as trouble after a day.
func TestSetAside(t *testing.T) {
	cfg := monthlyConfig(t)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	judge := func(at time.Time, reason string) *Document {
		in := TableInput{Found: true, State: checkpoint.TableState{Source: "Log_2015_01", Generation: 7, Listed: 7}}
		if reason != "" {
			in.State.Suspended = checkpoint.Suspension{Since: now, Reason: reason}
		}
		m := NewDocument(cfg, func(string) (string, bool) { return "", false }, at)
		table, _ := cfg.Table("Log_2015_01")
		m.add(table, in)
		m.conclude()
		return m
	}
	const off = "the table has no enabled stream"
	well, aside := judge(now, ""), judge(now.Add(time.Minute), off)
	events := happened(well, aside)
	if len(events) != 1 || events[0].Kind != admin.EventTableSetAside || events[0].Reason != off || events[0].Table != "Log_2015_01" {
		t.Errorf("%+v", events)
	}
	if again := happened(aside, judge(now.Add(2*time.Minute), off)); len(again) > 0 {
		t.Errorf("told again: %+v", again)
	}
	if troubles := aside.Tables[0].Troubles; len(troubles) != 1 || troubles[0].Cause != off || !troubles[0].Since.Equal(now) {
		t.Errorf("%+v", troubles)
	}
	if well.Verdict() != nil || aside.Verdict() == nil {
		t.Errorf("verdicts %v and %v", well.Verdict(), aside.Verdict())
	}
	if dropped := judge(now.Add(time.Hour), engine.GoneReason); len(dropped.Tables[0].Troubles) != 1 {
		t.Errorf("%+v", dropped.Tables[0].Troubles)
	}
	if dropped := judge(now.Add(cdc.Retention+time.Hour), engine.GoneReason); len(dropped.Tables[0].Troubles) != 0 || dropped.Tables[0].HeadroomSeconds != nil {
		t.Errorf("%+v", dropped.Tables[0])
	}
	if joined := happened(&Document{}, well); !slices.ContainsFunc(joined, func(e admin.Event) bool { return e.Kind == admin.EventTableJoined }) {
		t.Errorf("%+v", joined)
	}
}
