package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Faults names every kind of fault that a run may have and that SimOptions.Without may exclude.
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

// Explain reduces the run of a failing seed as long as the same checker fails. It describes the
// rest: the system, the required faults, the failure, and its history. It returns "" for a seed
// that does not fail.
func Explain(seed uint64, o SimOptions) string {
	first := Simulate(seed, o)
	checker := first.Checker()
	if checker == "" {
		return ""
	}
	o = minimise(seed, o, checker)
	o.Trace = true
	last := Simulate(seed, o)
	p := newPlan(seed, o)
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d fails after %.1f virtual hours: %s\nrun it again: make sim SEED=%d%s\n\n", seed, first.Elapsed.Hours(), first.Failures[0], seed, o.Named())
	fmt.Fprintf(&b, "as small as it gets, it fails after %.1f virtual hours:\n  %s\n", last.Elapsed.Hours(), strings.Join(last.Failures[:min(len(last.Failures), 5)], "\n  "))
	fmt.Fprintf(&b, "with %d shards, %d workers, a lease of %s, a poll every %s, a listing every %s, the mapping %q\n", p.shards, p.workers, p.lease, p.poll, p.list, p.mapping)
	for _, r := range rates {
		if part, ok := p.rates[r.name]; ok {
			fmt.Fprintf(&b, "%12s  %s (%.2f)\n", "always", r.name, part)
		}
	}
	for _, e := range p.events {
		fmt.Fprintf(&b, "%10.0f s  %s\n", e.at.Seconds(), e.name)
	}
	fmt.Fprintf(&b, "and %d bursts of writes. What happened to it, by the second of the run:\n\n%s", len(p.writes), story(last.Trace, last.Failures[0]))
	return b.String()
}

// Named returns the arguments of make for options that the seed does not choose.
func (o SimOptions) Named() (text string) {
	if o.Mapping != "" {
		text += " MAPPING=" + o.Mapping
	}
	if o.Dense {
		text += " DENSE=1"
	}
	if o.Verifies {
		text += " VERIFIES=1"
	}
	if o.Exports {
		text += " EXPORTS=1"
	}
	if o.Failovers {
		text += " FAILOVERS=1"
	}
	if o.DualWrites {
		text += " DUAL_WRITES=1"
	}
	if o.Mappings {
		text += " MAPPINGS=1"
	}
	if o.Fast {
		text += " FAST=1"
		if o.Plain {
			text += " PLAIN=1"
		}
	}
	if o.Relay {
		text += " RELAY=1"
	}
	if o.Neighbours {
		text += " NEIGHBOURS=1"
	}
	if o.Fallback {
		text += " FALLBACK=1"
	}
	if o.Rollback {
		text += " ROLLBACK=1"
	}
	if o.Cutovers {
		text += " CUTOVERS=1"
	}
	return text
}

// minimise removes kinds of faults one by one, then single faults, then writes, while the same
// checker fails.
func minimise(seed uint64, o SimOptions, checker string) SimOptions {
	without := func(names []string) bool {
		fewer := o
		fewer.Without = slices.Concat(o.Without, names)
		if Simulate(seed, fewer).Checker() != checker {
			return false
		}
		o = fewer
		return true
	}
	for _, name := range Faults() {
		without([]string{name})
	}
	leaveOut(eventNames(newPlan(seed, o).events), without)
	leaveOut(eventNames(newPlan(seed, o).writes), without)
	return o
}

func eventNames(events []event) []string {
	var names []string
	for _, e := range events {
		names = append(names, e.name)
	}
	return names
}

// mostTries bounds the number of tries in leaveOut.
const mostTries = 100

// leaveOut tries to leave out parts of a list: all of it, halves, quarters, and so on down to
// single entries.
func leaveOut(names []string, without func([]string) bool) {
	tries := 0
	for size := len(names); size > 0; size /= 2 {
		for from := 0; from < len(names) && tries < mostTries; tries++ {
			to := min(from+size, len(names))
			if without(names[from:to]) {
				names = slices.Concat(names[:from], names[to:])
			} else {
				from = to
			}
		}
	}
}

// shownLines is how many lines of a history a person reads.
const shownLines = 120

var (
	subject = regexp.MustCompile(`shardId-\d+-[0-9a-f]{8}|row "[^"]*"`)
	idle    = regexp.MustCompile(` goes on$| gives 0 records of .*, end false$| (Swap|CheckAndMutateRow) \S+ ".*" (takes place|refused)$`)
)

// story returns the part of a trace up to the first violation that concerns a failure: the rows and
// shards that it names, and the events of the whole system.
func story(trace, failure string) string {
	subjects := subject.FindAllString(failure, -1)
	var lines []string
	for line := range strings.Lines(trace) {
		of := subject.FindString(line)
		if idle.MatchString(strings.TrimSuffix(line, "\n")) || len(subjects) > 0 && of != "" && !slices.Contains(subjects, of) {
			continue
		}
		lines = append(lines, line)
		if strings.Contains(line, "VIOLATION") {
			break
		}
	}
	return strings.Join(lines[max(0, len(lines)-shownLines):], "")
}
