package checkpoint

import (
	"cmp"
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
func (r Runs) Union(o Runs) Runs { return join(slices.Concat(r, o)) }

// join makes Runs of ranges in any order. It reuses their memory.
func join(all []Run) Runs {
	slices.SortFunc(all, func(a, b Run) int { return cmp.Compare(a.From, b.From) })
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
func (r Runs) Within(o Runs) bool { return len(r.Outside(o)) == 0 }

// Outside returns the runs of r that o does not contain completely. Because both are in order, it
// passes through each of them once.
func (r Runs) Outside(o Runs) (out Runs) {
	for _, run := range r {
		for len(o) > 0 && o[0].To < run.To {
			o = o[1:]
		}
		if len(o) == 0 || o[0].From > run.From {
			out = append(out, run)
		}
	}
	return out
}

// Prefix returns the last number of the unbroken run of applied messages that begins with the
// number after `after`, and the run's latest event time. If that first message is not applied, it
// returns `after`.
func (r Runs) Prefix(after uint64) (through uint64, at time.Time) {
	for _, run := range r {
		if run.From <= after+1 && run.To > after {
			return run.To, run.At
		}
	}
	return after, time.Time{}
}
