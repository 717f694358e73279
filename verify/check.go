package verify

import (
	"context"
	"slices"
)

// Checked is what a comparison of some rows came to.
type Checked struct {
	Counts
	// Findings are the rows that differ, by both looks (V1).
	Findings []Finding
	// Equal are the places at which every row is as it should be. The others differ, or moved on at
	// every look.
	Equal []Place
}

// Check compares the rows of some places, with both looks. It waits for the second one until what
// was committed before the first is applied, and Settle after that. Drain ends it, with ErrDrained.
func (c *Comparison) Check(ctx, drain context.Context, places ...Place) (Checked, error) {
	r := (&Work{Comparison: c, Look: true, Drain: drain}).begin(ctx, Progress{})
	var equal []Place
	err := c.looks(ctx, places, func(look Look) error {
		r.at.Compared++
		equal = append(equal, look.Place) // unless its second look says otherwise
		if err := r.leave(ctx); err != nil || !look.differs() {
			return err
		}
		return r.suspect(ctx, candidate{Look: look, wants: everything})
	})
	if err != nil {
		return Checked{}, err
	}
	if err := r.confirm(ctx); err != nil {
		return Checked{}, err
	}
	equal = slices.DeleteFunc(equal, func(p Place) bool {
		return slices.ContainsFunc(r.found, func(f Finding) bool { return f.Table == p.Table && f.Row == p.Row }) ||
			slices.ContainsFunc(r.moving, func(m candidate) bool { return m.Table == p.Table && m.Row == p.Row })
	})
	r.found = slices.DeleteFunc(r.found, func(f Finding) bool { return f.Kind == InFlight })
	return Checked{r.at.Counts, r.found, equal}, nil
}
