package status

import (
	"slices"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// Every gauge of a table has one entry that computes its value, and every column one way to format
// it.
func TestColumnsAreWhole(t *testing.T) {
	of := map[admin.Gauge]int{}
	ids := map[string]int{}
	for _, c := range Columns {
		of[c.Gauge]++
		if c.Gauge.Name != "" && (c.value == nil || !slices.Contains(admin.Gauges, c.Gauge)) {
			t.Errorf("%s cannot be told", c.Gauge.Name)
		}
		if c.Head == "" {
			continue
		}
		if ids[c.ID]++; ids[c.ID] > 1 || c.text == nil && c.value == nil || c.rare && c.value == nil {
			t.Errorf("column %s cannot be shown", c.ID)
		}
	}
	for _, g := range admin.Gauges {
		if of[g] != 1 {
			t.Errorf("%s has %d entries", g.Name, of[g])
		}
	}
}

// A rare column is omitted while no table has a value for it. The others are always shown.
func TestRareColumnsAreLeftOut(t *testing.T) {
	defer func(were []Column) { Columns = were }(Columns)
	Columns = []Column{{Head: "Odd", rare: true, value: func(t *Table) *float64 { return figure(t.Parked) }}, {Head: "Even", value: lastPoll}}
	none := copyStatus{State: copyNotStarted}
	m := &Document{Tables: []Table{{Copy: none}, {Copy: none}}}
	if got := m.Columns(); len(got) != 1 || got[0].Head != "Even" {
		t.Errorf("%d columns without a figure", len(got))
	}
	m.Tables[1].Parked = 3
	if got := m.Columns(); len(got) != 2 || got[0].Text(&m.Tables[0]) != "0" || got[0].Text(&m.Tables[1]) != "3" || got[1].Text(&m.Tables[1]) != "-" {
		t.Errorf("%d columns with a figure", len(got))
	}
}
