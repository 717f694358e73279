package comparison

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/verify"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// ended returns a result from half an hour ago.
func ended(change func(r *checkpoint.VerifyResult)) checkpoint.VerifyResult {
	r := checkpoint.VerifyResult{Number: 1, Way: "quiet", BegunAt: noon.Add(-time.Hour), EndedAt: noon.Add(-30 * time.Minute)}
	if change != nil {
		change(&r)
	}
	return r
}

// The state of a verify, and the commands that continue from there.
func TestStatesAndNextSteps(t *testing.T) {
	dirty := func(r *checkpoint.VerifyResult) { r.Extra = 1 }
	repaired := &repair.Document{Repaired: 1}
	for name, c := range map[string]struct {
		verify checkpoint.Verify
		repair *repair.Document
		state  string
		next   string
	}{
		"never":     {checkpoint.Verify{}, nil, StateNever, "verify"},
		"runs":      {checkpoint.Verify{Number: 2, Phase: 1, Result: ended(dirty)}, nil, StateRunning, "verify"},
		"paused":    {checkpoint.Verify{Number: 2, Phase: 1, Paused: "x"}, nil, StatePaused, "verify resume"},
		"cancelled": {checkpoint.Verify{Number: 2}, nil, stateEnded, "verify"},
		"clean":     {checkpoint.Verify{Number: 2, Result: ended(nil)}, nil, StateDone, ""},
		"stale":     {checkpoint.Verify{Number: 2, Result: ended(func(r *checkpoint.VerifyResult) { r.EndedAt = noon.Add(-25 * time.Hour) })}, nil, StateDone, "verify"},
		"extra":     {checkpoint.Verify{Number: 2, Result: ended(dirty)}, nil, StateDone, "verify --repair --dry-run"},
		"missing":   {checkpoint.Verify{Number: 2, Result: ended(func(r *checkpoint.VerifyResult) { r.Missing = 1 })}, nil, StateDone, "verify --repair --dry-run"},
		"different": {checkpoint.Verify{Number: 2, Result: ended(func(r *checkpoint.VerifyResult) { r.Different = 1 })}, nil, StateDone, "verify --repair --dry-run"},
		"foreign":   {checkpoint.Verify{Number: 2, Result: ended(func(r *checkpoint.VerifyResult) { r.Foreign = 1 })}, nil, StateDone, "verify --repair --remove-foreign --dry-run"},
		"foreign, dry": {checkpoint.Verify{Number: 2, Result: ended(func(r *checkpoint.VerifyResult) { r.Foreign = 1 })}, &repair.Document{DryRun: true, Repaired: 1}, StateDone,
			"verify --repair --remove-foreign"},
		"repaired":         {checkpoint.Verify{Number: 2, Result: ended(dirty)}, repaired, StateDone, "verify"},
		"nothing repaired": {checkpoint.Verify{Number: 2, Result: ended(dirty)}, &repair.Document{}, StateDone, ""},
		"dry":              {checkpoint.Verify{Number: 2, Result: ended(dirty)}, &repair.Document{DryRun: true, Repaired: 1}, StateDone, "verify --repair"},
	} {
		state := checkpoint.TableState{Source: "Orders", Verify: c.verify}
		table := Table{Source: "Orders", State: StateOf(state), Result: resultOf(c.verify.Result, cost.Default(), noon), Repair: c.repair}
		command, why := next(table)
		if table.State != c.state || command != c.next || (why == "") != (command == "") {
			t.Errorf("%s: %s, then %q (%s); want %s, then %q", name, table.State, command, why, c.state, c.next)
		}
	}
}

// Which findings count as different: not kept or unmapped ones. Changes that stay in flight make a
// result not clean. After a repair only the remaining differences count.
func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		result   checkpoint.VerifyCounts
		repaired *repair.Document
		what     string // "": no error
	}{
		"clean":         {checkpoint.VerifyCounts{}, nil, ""},
		"missing":       {checkpoint.VerifyCounts{Missing: 1}, nil, "1 row of table Orders differs from the source"},
		"all kinds":     {checkpoint.VerifyCounts{Missing: 1, Different: 2, Extra: 3, Foreign: 4}, nil, "10 rows of table Orders differ from the source"},
		"no difference": {checkpoint.VerifyCounts{Kept: 1, Unmapped: 1}, nil, ""},
		"in flight":     {checkpoint.VerifyCounts{InFlight: 1}, nil, "1 row of table Orders stayed in flight"},
		"repaired":      {checkpoint.VerifyCounts{Missing: 2}, &repair.Document{Table: "Orders", Repaired: 2}, ""},
		"not reached":   {checkpoint.VerifyCounts{Missing: 2}, &repair.Document{Table: "Orders", NotReached: 2}, "2 rows of table Orders could not be repaired"},
		"left out":      {checkpoint.VerifyCounts{Missing: 9, LeftOut: 7}, &repair.Document{Table: "Orders", Repaired: 2}, "7 rows of table Orders were not repaired"},
		"both":          {checkpoint.VerifyCounts{Missing: 9, LeftOut: 7}, &repair.Document{Table: "Orders", NotReached: 2}, "2 rows of table Orders could not be repaired"},
	} {
		result := ended(func(r *checkpoint.VerifyResult) { r.VerifyCounts = c.result })
		o := &Operator{Console: &terminal.Console{}, tables: []table{{config: config.Table{From: "Orders"}, repaired: c.repaired,
			state: checkpoint.TableState{Verify: checkpoint.Verify{Number: result.Number, Result: result}}}}}
		err := o.verdict()
		if (err == nil) != (c.what == "") || err != nil && (!diag.Has(err, diag.RowsDiffer) || !strings.Contains(err.Error(), c.what)) {
			t.Errorf("%s: %v, want %q", name, err, c.what)
		}
	}
	if e := asDiag(errors.New("x")); e.Code != diag.RowsDiffer {
		t.Errorf("%+v", e)
	}
}

// Each table is judged by itself, whatever state the tables before it have. So all that is said of
// two tables is what is said of each.
func TestEachTableIsJudged(t *testing.T) {
	m := enginetest.OrdersMapping(t)
	result := func(change func(r *checkpoint.VerifyResult)) checkpoint.Verify {
		return checkpoint.Verify{Number: 1, Result: ended(change)}
	}
	dirty := result(func(r *checkpoint.VerifyResult) { r.Missing, r.LeftOut = 2, 1 })
	list := []verify.Finding{{Kind: verify.Missing, Table: "orders", Row: "a"}}
	tables := map[string]table{
		"never":        {state: checkpoint.TableState{}},
		"clean":        {state: checkpoint.TableState{Verify: result(nil)}, mapping: m},
		"differs":      {state: checkpoint.TableState{Verify: dirty}, mapping: m, list: list},
		"in flight":    {state: checkpoint.TableState{Verify: result(func(r *checkpoint.VerifyResult) { r.InFlight = 1 })}, mapping: m},
		"repaired":     {state: checkpoint.TableState{Verify: result(func(r *checkpoint.VerifyResult) { r.Missing = 1 })}, mapping: m, list: list, repaired: &repair.Document{Repaired: 1}},
		"left out":     {state: checkpoint.TableState{Verify: dirty}, mapping: m, list: list, repaired: &repair.Document{Repaired: 1}},
		"not reached":  {state: checkpoint.TableState{Verify: dirty}, mapping: m, list: list, repaired: &repair.Document{NotReached: 1}},
		"not mapped":   {state: checkpoint.TableState{Verify: dirty}, list: list},
		"cancelled":    {state: checkpoint.TableState{Verify: checkpoint.Verify{Number: 2, Result: dirty.Result}}, mapping: m},
		"ended":        {state: checkpoint.TableState{Verify: checkpoint.Verify{Number: 2, Ended: "the mapping has changed"}}, mapping: m},
		"running":      {state: checkpoint.TableState{Verify: checkpoint.Verify{Number: 2, Phase: 1, Parts: 1, Result: dirty.Result}}, mapping: m},
		"paused":       {state: checkpoint.TableState{Verify: checkpoint.Verify{Number: 2, Phase: 1, Parts: 1, Paused: "x"}}, mapping: m},
		"mode topic":   {state: checkpoint.TableState{Verify: dirty, Apply: checkpoint.Topic}, mapping: m, list: list},
		"was switched": {state: checkpoint.TableState{Verify: checkpoint.Verify{Number: 2, Ended: "x"}, Halt: checkpoint.Halt{Switched: true}}, mapping: m},
	}
	said := func(named ...table) (all [][]string) {
		o := &Operator{Console: &terminal.Console{}, Cfg: &config.Config{}, migration: &desk.Migration{}, tables: named}
		for _, err := range []error{o.verdict(), o.unfinished()} {
			lines := []string{}
			if list, ok := err.(diag.List); ok {
				for _, one := range list {
					lines = append(lines, one.Error())
				}
			} else if err != nil {
				t.Fatal(err)
			}
			all = append(all, lines)
		}
		d := o.judge(noon)
		states, steps := []string{}, []string{}
		for _, one := range d.Tables {
			text, err := json.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, string(text))
		}
		for _, one := range d.NextSteps {
			steps = append(steps, one.Command+": "+one.Why)
		}
		var report bytes.Buffer
		if err := o.lines(&report, noon); err != nil {
			t.Fatal(err)
		}
		return append(all, states, steps, slices.DeleteFunc(strings.Split(report.String(), "\n"), func(line string) bool { return line == "" }))
	}
	var most [5]int
	for first, a := range tables {
		for second, b := range tables {
			a.config, a.state.Source = config.Table{From: "Orders"}, "Orders"
			b.config, b.state.Source = config.Table{From: "Parts"}, "Parts"
			both, one, other := said(a, b), said(a), said(b)
			for i, what := range []string{"verdict", "unfinished", "document", "next steps", "report"} {
				if want := slices.Concat(one[i], other[i]); !slices.Equal(both[i], want) {
					t.Errorf("%s after %s, %s:\n%q, want\n%q", second, first, what, both[i], want)
				}
				most[i] = max(most[i], len(both[i]))
			}
		}
	}
	if most != [5]int{2, 2, 2, 2, 4} {
		t.Errorf("at most %v lines", most)
	}
}

// A result states all of its counts, and whether it still applies.
func TestResults(t *testing.T) {
	if resultOf(checkpoint.VerifyResult{Number: 1}, cost.Default(), noon) != nil {
		t.Error("a verify without an end has a result")
	}
	counts := checkpoint.VerifyCounts{Items: 1, Rows: 2, Units: 3, Compared: 4, Missing: 5, Different: 6, Extra: 7, Foreign: 8, InFlight: 9, Kept: 10, Unmapped: 11, LeftOut: 12}
	r := resultOf(ended(func(r *checkpoint.VerifyResult) { r.VerifyCounts, r.Why = counts, "changes come in" }), cost.Default(), noon)
	got := checkpoint.VerifyCounts{Items: r.Items, Rows: r.Rows, Units: r.ReadUnits, Compared: r.Compared, Missing: r.Missing, Different: r.Different, Extra: r.Extra,
		Foreign: r.Foreign, InFlight: r.InFlight, Kept: r.Kept, Unmapped: r.Unmapped, LeftOut: r.LeftOut}
	if got != counts || r.Clean || r.Stale || r.Sample != nil || r.Since != nil || r.Why != "changes come in" || r.scope() != "full" || r.verdict(noon) != "26 rows differ, 30m ago" {
		t.Errorf("%+v, %s, %s", r, r.scope(), r.verdict(noon))
	}
	for age, stale := range map[time.Duration]bool{24 * time.Hour: false, 24*time.Hour + 1: true} {
		if r := resultOf(ended(nil), cost.Default(), noon.Add(-30*time.Minute+age)); r.Stale != stale || !r.Clean {
			t.Errorf("after %s: stale %t", age, r.Stale)
		}
	}
	part := resultOf(ended(func(r *checkpoint.VerifyResult) { r.Sample = 0.01 }), cost.Default(), noon)
	late := resultOf(ended(func(r *checkpoint.VerifyResult) { r.Since = noon }), cost.Default(), noon)
	if part.scope() != "1%" || late.scope() != "changed since 2026-11-02T12:00:00Z" || len(part.Blind) == 0 || len(late.Blind) == 0 {
		t.Errorf("%s, %s", part.scope(), late.scope())
	}
}

// Progress adds the parts of the phase to the earlier phases, and extrapolates from the finished
// ones.
func TestProgress(t *testing.T) {
	state := checkpoint.TableState{Source: "Orders", Verify: checkpoint.Verify{Number: 2, Phase: 2, Parts: 4, Plan: []byte(`{"way":"live","why":"changes come in"}`), BegunAt: noon, Estimate: 100,
		Sums: checkpoint.VerifyCounts{Items: 10, Rows: 20, Units: 5, Missing: 1}}}
	part := func(i int, state checkpoint.PartState, begun time.Duration) checkpoint.Part {
		return checkpoint.Part{Index: i, Total: 4, State: state, Begun: noon.Add(begun),
			PartProgress: checkpoint.PartProgress{Compared: checkpoint.VerifyCounts{Items: 1, Rows: 2, Units: 3, Extra: 1}}}
	}
	done := []checkpoint.Part{part(0, checkpoint.PartDone, 2*time.Minute), part(1, checkpoint.PartDone, time.Minute), part(2, checkpoint.PartOpen, 3*time.Minute)}
	p := progressOf(state, done, cost.Default(), noon.Add(11*time.Minute))
	if p.Items != 13 || p.Rows != 26 || p.ReadUnits != 14 || p.Differing != 4 || p.Parts != (Parts{Total: 4, Done: 2}) || p.Phase != 2 || p.Way != "live" || p.Why != "changes come in" || *p.Estimate != 100 {
		t.Errorf("%+v", p)
	}
	if p.ETASeconds == nil || *p.ETASeconds != 600 || !p.BegunAt.Equal(noon) {
		t.Errorf("%+v", p.ETASeconds)
	}
	table := Table{Source: "Orders", State: StateRunning, Progress: p}
	if text := table.progressText(); text != "running: phase 2 of 2, 2 of 4 parts, ETA 10m" {
		t.Error(text)
	}
	paused := state
	paused.Verify.Paused = "x"
	for name, p := range map[string]*Progress{"paused": progressOf(paused, done, cost.Default(), noon), "not begun": progressOf(state, done[2:], cost.Default(), noon), "nothing": progressOf(state, nil, cost.Default(), noon)} {
		if p.ETASeconds != nil {
			t.Errorf("%s: %g", name, *p.ETASeconds)
		}
	}
}

// The text for people: one line per table, then up to twenty findings, rows that were not compared,
// kept and unmapped items, and the next step.
func TestRender(t *testing.T) {
	r := resultOf(ended(func(r *checkpoint.VerifyResult) {
		r.Missing, r.Foreign, r.Kept, r.Unmapped, r.Why, r.Units = 30, 2, 3, 1, "changes come in", 1000
	}), cost.Default(), noon)
	for range 25 {
		r.Findings = append(r.Findings, Finding{Kind: "missing", Target: "orders", KeyHash: "abc"})
	}
	d := &Document{At: noon, Currency: "USD", PricesDate: "2026-01-01", Tables: []Table{{Source: "Orders", State: StateDone, Result: r}, {Source: "Parts", State: StateNever}, {Source: "Old", State: stateEnded},
		{Source: "Now", State: StateRunning, Progress: &Progress{Phase: 1, Items: 7, Rows: 8, Parts: Parts{Total: 2}, ReadUnits: 10}}}, NextSteps: []standing.NextStep{{Command: "replicator verify", Why: "because"}}}
	var out bytes.Buffer
	if err := d.render(&out); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"Orders 32 rows differ, 30m ago full 0 0 30 0 0 2 0", "Parts not started yet - -", "Old ended - -", "Now running: phase 1 of 2, 0 of 2 parts - 7 8 - -",
		"Orders: mode: checksums (changes come in)", "3 rows without an item may stay", "1 item cannot be mapped", "Orders and 12 more rows", "Orders cost 1000 read units,", "Now cost 10 read units,",
		"Next: replicator verify because"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	if n := strings.Count(text, "missing orders/abc"); n != mostShown {
		t.Errorf("%d findings", n)
	}
	quiet := &Document{At: noon, Tables: []Table{{Source: "Orders", State: StateDone, Result: resultOf(ended(nil), cost.Default(), noon)}}}
	out.Reset()
	if err := quiet.render(&out); err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%v\n%s", err, &out)
	}
}

// Every failure is an error with the code of its kind.
func TestExplain(t *testing.T) {
	for code, err := range map[string]error{diag.VerifyRefused: &checkpoint.LoadError{Reason: "r", Cure: "c"}, diag.VerifyWaits: &verify.NotApplied{}} {
		if got := explain(t.Context(), "what", err); !diag.Has(got, code) {
			t.Errorf("%s: %v", code, got)
		}
	}
	if away := errors.New("x"); explain(t.Context(), "what", nil) != nil || !errors.Is(explain(t.Context(), "what", away), away) {
		t.Error("no error, or an unknown one, is explained")
	}
}
