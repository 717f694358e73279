package comparison

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// judge makes the document from the records that the operator has read.
func (o *Operator) judge(now time.Time) *Document {
	prices := cost.Default()
	d := &Document{Schema: schemaName, Name: o.Cfg.Name, At: now.UTC(), PricesDate: prices.Date, Currency: prices.Currency, Tables: []Table{}, NextSteps: []standing.NextStep{},
		left: o.migration.Left(), reverse: o.Reverse}
	for i := range o.tables {
		t := &o.tables[i]
		out := Table{Source: t.config.From, Target: t.config.TargetNames(), State: StateOf(t.state), Result: resultOf(t.state.Verify.Result, prices, now)}
		if t.state.Verify.Running() {
			out.Progress = progressOf(t.state, t.parts, prices, now)
		}
		if out.Result != nil && t.mapping != nil && t.keyed == nil {
			for _, f := range t.list[:min(len(t.list), mostListed)] {
				out.Result.Findings = append(out.Result.Findings, FindingOf(t.mapping, f, o.ShowValues))
			}
		}
		out.Repair, out.Reverse, out.Keys = t.repaired, comparedItems(t), comparedKeys(t, o.ShowValues)
		d.Tables = append(d.Tables, out)
		command, why := next(out)
		if strings.HasPrefix(command, "verify --repair") && t.state.Apply == checkpoint.Topic { // appliers write the rows
			command, why = "backfill redo", "loads all items of "+out.Source+" again; in mode topic no command repairs single rows"
		}
		if command != "" && d.left == nil && !d.reverse && t.keyed == nil { // once the application has left, the command would be refused
			d.NextSteps = append(d.NextSteps, standing.NextStep{Command: standing.Command(command+" --table TABLE", t.config.From, o.With), Why: why})
		}
		if command, why := nextReverse(out); command != "" && d.reverse {
			d.NextSteps = append(d.NextSteps, standing.NextStep{Command: standing.Command(command+" --table TABLE", t.config.From, o.With), Why: why})
		}
	}
	return d
}

// StateOf returns the state of a table's verify.
func StateOf(s checkpoint.TableState) string {
	v := s.Verify
	switch {
	case v.Running() && v.Paused != "":
		return StatePaused
	case v.Running():
		return StateRunning
	case v.Result.Known():
		return StateDone
	case v.Number > 0:
		return stateEnded
	}
	return StateNever
}

// next returns the command to run next, without the word replicator and the table, and the reason
// for it.
func next(t Table) (command, why string) {
	switch r := t.Result; {
	case t.State == StatePaused:
		return "verify resume", "the verify of " + t.Source + " is paused"
	case t.State == StateRunning:
		return "verify", "resumes the verify of " + t.Source + ", and waits for its end"
	case r == nil || t.State == stateEnded:
		return "verify", t.Source + " was never compared completely"
	case t.Repair != nil && !t.Repair.DryRun && t.Repair.Repaired > 0:
		return "verify", "confirms that " + t.Source + " is clean"
	case t.Repair == nil && r.Missing+r.Different+r.Extra+r.Foreign > 0:
		return repairOf(r) + " --dry-run", "shows what a repair of " + t.Source + " would do, and writes nothing"
	case t.Repair != nil && t.Repair.DryRun && t.Repair.Repaired > 0:
		return repairOf(r), "compares " + t.Source + " again and fixes differences"
	case r.InFlight > 0:
		if r.LeftOut == 0 {
			return "verify --in-flight", "compares the rows of " + t.Source + " again that stayed in flight"
		}
		return "verify", "compares " + t.Source + " again: rows stayed in flight"
	case r.Stale:
		return "verify", "the result of " + t.Source + " is more than a day old"
	}
	return "", ""
}

// repairOf returns the repair command for a verify's findings. If this migration wrote none of the
// rows that differ, the command has the flag that allows the removal of foreign rows. Without the
// flag, the repair would do nothing.
func repairOf(r *Result) string {
	if r.Missing+r.Different+r.Extra == 0 {
		return "verify --repair --remove-foreign"
	}
	return "verify --repair"
}

// progressOf returns the progress of a verify.
func progressOf(s checkpoint.TableState, parts []checkpoint.Part, prices cost.Prices, now time.Time) *Progress {
	run := s.Verify
	var plan verify.Plan
	// A newer version may have written the plan. The members that this version knows are shown.
	_ = json.Unmarshal(run.Plan, &plan)
	sums := checkpoint.PartsDone(parts, run.Parts)
	p := &Progress{Way: string(plan.Way), Why: plan.Why, Phase: run.Phase, Parts: Parts{Total: sums.Total, Done: sums.Done, Held: sums.Held},
		Items: run.Sums.Items, Rows: run.Sums.Rows, Differing: run.Sums.Differing(), ReadUnits: run.Sums.Units}
	bytes := run.Sums.Bytes
	var first time.Time
	for _, part := range parts {
		p.Items += part.Compared.Items
		p.Rows += part.Compared.Rows
		p.Differing += part.Compared.Differing()
		p.ReadUnits += part.Compared.Units
		bytes += part.Compared.Bytes
		if first.IsZero() || !part.Begun.IsZero() && part.Begun.Before(first) {
			first = part.Begun
		}
	}
	p.Spent = prices.Spent(p.ReadUnits, bytes)
	if !run.BegunAt.IsZero() {
		p.BegunAt = &run.BegunAt
	}
	if run.Estimate > 0 {
		p.Estimate = &run.Estimate
	}
	if took := now.Sub(first); sums.Done > 0 && sums.Total > sums.Done && !first.IsZero() && run.Paused == "" {
		eta := took.Seconds() / float64(sums.Done) * float64(sums.Total-sums.Done)
		p.ETASeconds = &eta
	}
	return p
}

// judged reports whether the last verify has a result.
func (t *table) judged() bool {
	run := t.state.Verify
	return !run.Running() && run.Result.Number == run.Number
}

// verdict returns the error of the command: nil if all results are clean.
func (o *Operator) verdict() error {
	var found diag.List
	for i := range o.tables {
		t := &o.tables[i]
		r := t.state.Verify.Result
		if !t.judged() {
			continue
		}
		if n := r.InFlight; n > 0 {
			found = append(found, &diag.Error{Code: diag.RowsDiffer, What: terminal.Plural(int(n), "row") + " of table " + t.config.From + " stayed in flight",
				Cause: "their changes were not applied while the table was compared; they are listed above",
				Fix:   "see replicator status, and compare these rows again: replicator verify --in-flight --table " + t.config.From + o.With})
		}
		if t.repaired != nil {
			if err := t.repaired.Verdict(); err != nil {
				found = append(found, asDiag(err))
			} else if n := int(r.LeftOut) + t.unread; n > 0 {
				found = append(found, &diag.Error{Code: diag.RowsDiffer, What: terminal.Plural(n, "row") + " of table " + t.config.From + " were not repaired",
					Cause: "more rows differ than one verify records", Fix: "repeat the command; it compares again and repairs the next rows"})
			}
			continue
		}
		if n := r.Differing(); n > 0 {
			found = append(found, &diag.Error{Code: diag.RowsDiffer, What: terminal.RowsDiffer(int(n), "table "+t.config.From) + " from the source",
				Cause: "they are listed above", Fix: "replicator explain --table " + t.config.From + " --key KEY explains one"})
		}
	}
	return found.Err()
}

// asDiag converts a repair's verdict to an error for people.
func asDiag(err error) *diag.Error {
	var of *diag.Error
	if !errors.As(err, &of) {
		of = &diag.Error{Code: diag.RowsDiffer, What: "rows could not be repaired", Err: err}
	}
	return of
}
