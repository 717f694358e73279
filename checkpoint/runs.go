package checkpoint

import (
	"slices"
	"time"
)

// Run is a stretch of a shard's numbered messages, From to To, all applied, and the latest event
// time among them.
type Run struct {
	From uint64    `json:"f"`
	To   uint64    `json:"t"`
	At   time.Time `json:"at,omitzero"`
}

// Runs are what is applied of a shard's messages: in order, none touches another.
type Runs []Run

// Union is what either holds.
func (r Runs) Union(o Runs) Runs {
	all := slices.Concat(r, o)
	slices.SortFunc(all, func(a, b Run) int {
		switch {
		case a.From < b.From:
			return -1
		case a.From > b.From:
			return 1
		}
		return 0
	})
	out := all[:0]
	for _, run := range all {
		if n := len(out); n > 0 && run.From <= out[n-1].To+1 {
			out[n-1].To, out[n-1].At = max(out[n-1].To, run.To), later(out[n-1].At, run.At)
			continue
		}
		out = append(out, run)
	}
	return slices.Clip(out)
}

// Within reports whether the other runs hold all of these.
func (r Runs) Within(o Runs) bool {
	for _, run := range r {
		if !slices.ContainsFunc(o, func(held Run) bool { return held.From <= run.From && run.To <= held.To }) {
			return false
		}
	}
	return true
}

// Outside are the runs that the other ones do not hold as a whole.
func (r Runs) Outside(o Runs) Runs {
	return slices.DeleteFunc(slices.Clone(r), func(run Run) bool { return Runs{run}.Within(o) })
}

// Prefix is how far messages are applied without a hole from the first one on, which has the number
// after+1: the last number, and the latest event time up to it. Without that message it is after.
func (r Runs) Prefix(after uint64) (through uint64, at time.Time) {
	for _, run := range r {
		if run.From <= after+1 && run.To > after {
			return run.To, run.At
		}
	}
	return after, time.Time{}
}
