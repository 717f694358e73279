package sim

import (
	"fmt"
	"slices"
	"strings"
)

// Faults names every kind of fault that a run may have and SimOptions.Without may leave out.
func Faults() []string {
	var names []string
	for _, r := range rates {
		names = append(names, r.name)
	}
	for i := range kinds {
		names = append(names, kinds[i].name)
	}
	return names
}

// shownLines is how much of a trace a person reads.
const shownLines = 100

// Explain makes a failing seed's run smaller, as long as the same checker fails, and says what is left: the faults that are needed, the
// failure, and the end of the trace. It is "" for a seed that does not fail.
func Explain(seed uint64) string {
	first := Simulate(seed, SimOptions{})
	checker := first.Checker()
	if checker == "" {
		return ""
	}
	o := minimise(seed, checker)
	o.Trace = true
	last := Simulate(seed, o)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d fails: %s\nrun it again: make sim SEED=%d\n", seed, first.Failures[0], seed)
	p := newPlan(seed, o)
	var needed []string
	for _, r := range rates {
		if _, ok := p.rates[r.name]; ok {
			needed = append(needed, r.name)
		}
	}
	for _, e := range p.events {
		needed = append(needed, fmt.Sprintf("%s at %.0f s", e.kind.name, e.at.Seconds()))
	}
	fmt.Fprintf(&b, "smaller, with %d bursts of writes and only: %s\n", len(p.writes), strings.Join(needed, ", "))
	fmt.Fprintf(&b, "then it fails with: %s\n\n%s\n", strings.Join(last.Failures, "\n"), readable(last.Trace))
	return b.String()
}

// minimise leaves out one kind of fault after the other, and then writes, while the same checker fails.
func minimise(seed uint64, checker string) SimOptions {
	fails := func(o SimOptions) bool { return Simulate(seed, o).Checker() == checker }
	var o SimOptions
	for _, name := range Faults() {
		if fewer := (SimOptions{Without: append(slices.Clone(o.Without), name)}); fails(fewer) {
			o = fewer
		}
	}
	for _, part := range []int{5, 20, 50} {
		if fewer := (SimOptions{Without: o.Without, Writes: part}); fails(fewer) {
			return fewer
		}
	}
	return o
}

// readable is the end of a trace up to its first violation, without lines that say nothing to a person.
func readable(trace string) string {
	var lines []string
	for line := range strings.Lines(trace) {
		if strings.HasSuffix(line, " goes on\n") {
			continue
		}
		lines = append(lines, line)
		if strings.Contains(line, "VIOLATION") {
			break
		}
	}
	return strings.Join(lines[max(0, len(lines)-shownLines):], "")
}
