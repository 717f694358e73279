package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
)

const monthly = `version: 1
target: { project: p, instance: i }
tables:
  - from: Log_{year:4}_{month:2}
    to: logs
    families: { r: maxversions=1 }
    rules:
      - row_key: "{$year}{$month}#{id}"
        columns: { "*": r }
  - from: Orders
`

func monthlyConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Parse("replicator.yaml", []byte(monthly), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The tables of a pattern are one line, with the worst of their figures; a single one keeps its name.
func TestTablesOfAPatternCollapse(t *testing.T) {
	figure := func(f float64) *float64 { return &f }
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	done := began.Add(2*time.Hour + 3*time.Minute)
	copied := copyStatus{State: copyDone, Started: &began, Done: &done}
	m := &migration{Tables: []tableStatus{
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
	m.Tables[1].Copy, m.Tables[1].aside = copyStatus{State: copyNotStarted}, "the table has no enabled stream"
	if got, want := text(), "Log_*: 1 of 2 done, 1 set aside, lag 0.3s, headroom 19h26m, 40/s, 3 parked\n"+orders; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	m.Tables = append(m.Tables[:1], m.Tables[2])
	if got, want := text(), "Log_2015_01: done (2h03m), lag 0.3s, headroom 22h13m, 30/s, 1 parked\n"+orders; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A named table that was dropped is told by the metric, too, until it is there again.
func TestSurveyTellsOfADroppedTable(t *testing.T) {
	metrics := admin.NewMetrics(admin.Build{})
	o := newObserver("w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	dropped := loadedTable()
	dropped.Aside = checkpoint.Aside{Since: ago(time.Minute), Reason: pipeline.GoneReason}
	for want, state := range map[string]checkpoint.TableState{"1": dropped, "0": loadedTable()} {
		o.surveyed(judged(tableInput{found: true, state: state}), true)
		w := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if line := `replicator_source_set_aside{source_table="Orders"} ` + want + "\n"; !strings.Contains(w.Body.String(), line) {
			t.Errorf("set aside for %q: no line %q", state.Aside.Reason, line)
		}
	}
}

// What is set aside is told once, as trouble, as an event and with --once as the answer no; a table that was dropped is no trouble after a day.
func TestSetAside(t *testing.T) {
	cfg := monthlyConfig(t)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	judge := func(at time.Time, reason string) *migration {
		in := tableInput{found: true, state: checkpoint.TableState{Source: "Log_2015_01"}}
		if reason != "" {
			in.state.Aside = checkpoint.Aside{Since: now, Reason: reason}
		}
		m := newMigration(cfg, func(string) (string, bool) { return "", false }, at)
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
	if well.verdict() != nil || aside.verdict() == nil {
		t.Errorf("verdicts %v and %v", well.verdict(), aside.verdict())
	}
	if dropped := judge(now.Add(time.Hour), pipeline.GoneReason); len(dropped.Tables[0].Troubles) != 1 {
		t.Errorf("%+v", dropped.Tables[0].Troubles)
	}
	if dropped := judge(now.Add(cdc.Retention+time.Hour), pipeline.GoneReason); len(dropped.Tables[0].Troubles) != 0 || dropped.Tables[0].HeadroomSeconds != nil {
		t.Errorf("%+v", dropped.Tables[0])
	}
	if joined := happened(&migration{}, well); !slices.ContainsFunc(joined, func(e admin.Event) bool { return e.Kind == admin.EventTableJoined }) {
		t.Errorf("%+v", joined)
	}
}

// A table that appears later is followed from its beginning, whatever start says: all that it holds is newer than the start.
func TestBornAfterTheStart(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	states := []checkpoint.TableState{{}, {Cut: start}}
	if !bornAfter(start.Add(time.Minute), states) || bornAfter(start.Add(-time.Minute), states) || bornAfter(start, states[:1]) {
		t.Error("a table's birth is misjudged")
	}
}
