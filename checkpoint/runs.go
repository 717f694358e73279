package checkpoint

import (
	"slices"
	"time"
)

// Run is a range of a shard's numbered messages, From to To, and their latest event time. All these
// messages are applied.
type Run struct {
	From uint64    `json:"f"`
	To   uint64    `json:"t"`
	At   time.Time `json:"at,omitzero"`
}

// Runs are the applied messages of a shard, in order. No run touches another.
type Runs []Run

// Union returns the messages that are in r or in o.
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

// Within reports whether o contains all runs of r.
func (r Runs) Within(o Runs) bool {
	for _, run := range r {
		if !slices.ContainsFunc(o, func(held Run) bool { return held.From <= run.From && run.To <= held.To }) {
			return false
		}
	}
	return true
}

// Outside returns the runs of r that o does not contain completely.
func (r Runs) Outside(o Runs) Runs {
	return slices.DeleteFunc(slices.Clone(r), func(run Run) bool { return Runs{run}.Within(o) })
}

// Prefix returns the last number of the unbroken run of applied messages that begins with number
// after+1, and the run's latest event time. If message after+1 is not applied, it returns after.
func (r Runs) Prefix(after uint64) (through uint64, at time.Time) {
	for _, run := range r {
		if run.From <= after+1 && run.To > after {
			return run.To, run.At
		}
	}
	return after, time.Time{}
}
