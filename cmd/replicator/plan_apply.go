package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// conclude tells what was found, applies it if that was asked for, and gives the verdict.
func (pl *planner) conclude(ctx context.Context) error {
	r := &pl.report
	r.Checks = pl.Told
	r.Shared = []cost.Line{pl.prices.Nodes(pl.copies, pl.cluster)}
	lines := append([]cost.Line{}, r.Shared...)
	for _, t := range r.Tables {
		lines = append(lines, t.Cost...)
	}
	r.Totals = cost.Totals(lines)
	r.round()
	r.Warnings = r.Warnings.WithFlags(pl.Hints)
	writePlan(pl.Out, r)

	verdict := errors.Join(pl.Failed...)
	if verdict != nil {
		verdict = &reported{verdict} // each where it was met
	}
	switch {
	case pl.flags.apply && verdict == nil && pl.refusal() != nil:
		verdict = &reported{pl.refusal()} // as a warning
		_, _ = fmt.Fprintln(pl.Out, "\nnothing was created: a run would be refused, as the warnings say")
	case pl.flags.apply && verdict == nil:
		verdict = pl.apply(ctx)
	case pl.flags.apply:
		_, _ = fmt.Fprintln(pl.Out, "\nnothing was created: fix the items marked ✗ first")
	case verdict != nil: // what could not be looked at may be missing, too
		_, _ = fmt.Fprintln(pl.Out, "\nnothing was changed; fix the items marked ✗ first: this list may be incomplete")
	case len(r.Create) > 0:
		_, _ = fmt.Fprintln(pl.Out, "\nnothing was changed; `replicator plan --apply` creates what is listed")
	default:
		_, _ = fmt.Fprintln(pl.Out, "\nnothing to create")
	}
	if pl.program.AsJSON() {
		if r.Warnings == nil {
			r.Warnings = diag.List{}
		}
		if err := pl.program.WriteJSON(r); err != nil {
			return err
		}
	}
	if verdict == nil && pl.flags.exitCode && len(r.Create) > 0 {
		return &reported{&diag.Error{Code: diag.TargetTableMissing, What: "something would be created", Exit: diag.ExitNo}}
	}
	return verdict
}

// round leaves the estimates no more precision than they have.
func (r *planReport) round() {
	for i := range r.Totals {
		r.Totals[i].Amount = cost.Round(r.Totals[i].Amount)
	}
	lines := [][]cost.Line{r.Shared}
	for i := range r.Tables {
		lines = append(lines, r.Tables[i].Cost)
		r.Tables[i].Copy.RowsPerSecond = cost.Round(r.Tables[i].Copy.RowsPerSecond)
		r.Tables[i].Copy.Seconds = cost.Round(r.Tables[i].Copy.Seconds)
	}
	for _, list := range lines {
		for i := range list {
			list[i].Amount = cost.Round(list[i].Amount)
		}
	}
}

// refusal is why a run would be refused, of what a plan only warns of; nil if it would not. Nothing is created for such a run (H99).
func (pl *planner) refusal() error {
	var found diag.List
	for _, w := range pl.report.Warnings {
		switch w.Code {
		case diag.ClusterChanged, diag.SourceMoved, diag.MappingChanged:
			if w.Code == diag.MappingChanged && pl.flags.acceptMapping {
				continue
			}
			e := *w
			e.Warning = false
			found = append(found, &e)
		}
	}
	return found.Err()
}

// apply creates what was printed, with the very split keys that were printed. Somebody else may create the same at once.
func (pl *planner) apply(ctx context.Context) error {
	_, _ = fmt.Fprintln(pl.Out)
	if pl.profile != "" {
		name := pl.Cfg.Target.AppProfile
		limited, cancel := context.WithTimeout(ctx, preflight.CreateTime)
		err := pl.Target.Admin.CreateProfile(limited, pl.profile)
		cancel()
		if err != nil {
			return preflight.ExplainTarget("cannot create app profile "+name, err)
		}
		pl.created("app profile " + name)
	}
	for _, m := range pl.missing {
		limited, cancel := context.WithTimeout(ctx, preflight.CreateTime)
		made, err := pl.Target.Admin.Prepare(limited, []sink.TableSpec{m.Spec}, true)
		cancel()
		for _, kind := range []struct {
			noun  string
			names []string
		}{{"table ", made.Tables}, {"family ", made.Families}, {"view ", made.Views}} {
			for _, name := range kind.names {
				pl.created(kind.noun + name)
			}
		}
		if err != nil {
			return preflight.ExplainTarget("cannot create what is missing of table "+m.Spec.Name, err)
		}
	}
	if len(pl.report.Created) == 0 {
		_, _ = fmt.Fprintln(pl.Out, "nothing to create")
	}
	return nil
}

func (pl *planner) created(what string) {
	pl.report.Created = append(pl.report.Created, what)
	_, _ = fmt.Fprintln(pl.Out, "created "+strings.TrimSpace(what))
}
