package verify

import (
	"context"
	"slices"
)

// Checked is the outcome of a comparison of some rows.
type Checked struct {
	Counts
	// Findings are the rows that differed at both checks (V1).
	Findings []Finding
	// Pending are the rows with a change that was not applied at any check.
	Pending []Finding
	// Equal lists the places at which every row is correct. A row at any other place differs, or
	// had a newer version at every check.
	Equal []Place
}

// Check compares the rows of some places, with both checks. Before the second check, Check waits
// until all changes committed before the first check are applied, and then for Settle. If drain
// ends, Check returns ErrDrained.
func (c *Comparison) Check(ctx, drain context.Context, places ...Place) (Checked, error) {
	r := (&Work{Comparison: c, Look: true, Drain: drain}).begin(ctx, Progress{})
	var equal []Place
	err := c.looks(ctx, places, func(look Look) error {
		r.at.Compared++
		equal = append(equal, look.Place) // removed below if its second check differs
		if err := r.leave(ctx); err != nil || !look.differs() {
			return err
		}
		return r.suspect(ctx, Candidate{Look: look, wants: everything})
	})
	if err != nil {
		return Checked{}, err
	}
	if err := r.confirm(ctx, within); err != nil {
		return Checked{}, err
	}
	equal = slices.DeleteFunc(equal, func(p Place) bool {
		return slices.ContainsFunc(r.found, func(f Finding) bool { return f.Table == p.Table && f.Row == p.Row }) ||
			slices.ContainsFunc(r.moving, func(m Candidate) bool { return m.Table == p.Table && m.Row == p.Row })
	})
	checked := Checked{Counts: r.at.Counts, Equal: equal}
	for _, f := range r.found {
		if f.Kind == InFlight {
			checked.Pending = append(checked.Pending, f)
		} else {
			checked.Findings = append(checked.Findings, f)
		}
	}
	return checked, nil
}
