package admin

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// When facts become findings.
const (
	// liveWithin is how long the process' main loop may go without a turn before a restart is asked for. It is far above any
	// wait of the loop, because a restart makes everything slower first.
	liveWithin = time.Minute
	// pollWithin is how long a table that is being read may go without a successful poll. The alert for stalled tables uses
	// the same time.
	pollWithin = 2 * time.Minute
	// lookWithin is how old the last look at the ledger may be that succeeded. A look comes every two seconds, on a standby too, and what a
	// process reads rests on leases of seconds.
	lookWithin = 30 * time.Second
	// seekWithin is how long tables of patterns may be looked for in vain: a new one is followed by nobody meanwhile. Throttles of a start with thousands of tables pass
	// within that.
	seekWithin = 10 * time.Minute
)

// Facts are what health and readiness are judged by. They are all about this process: neither asks a cloud anything.
type Facts struct {
	Started time.Time
	// Ticked is the last turn of the main loop; zero before the first.
	Ticked time.Time
	// Target tells that the target was reached once.
	Target bool
	// Looked is when the ledger, which is in the target, was last read for any table; zero: never.
	Looked time.Time
	// Seeking is since when tables of patterns are looked for in vain: some, or all, could not be looked at. Zero if the last look was whole, or there are no patterns.
	Seeking time.Time
	// Tables are those of the configuration, sorted by name.
	Tables []TableFacts
	// Stopping tells that the process was asked to end.
	Stopping bool
}

// TableFacts are the facts of one source table.
type TableFacts struct {
	Name string
	// Source tells that the table and its stream were reached once.
	Source bool
	// Shards is how many shards this process reads; a standby reads none.
	Shards int
	// Since is when the first of the present shards was taken, Polled the last successful read of any.
	Since, Polled time.Time
	// GivenUp is when this process last gave a shard up because the source did not answer, Vain since when it has not: another process may take the shard
	// meanwhile, and if none does this one takes it back, which is no news of the source. Both are zero if there was nothing of the kind since the last successful read.
	GivenUp, Vain time.Time
	// Unlisted is since when this process sees that the stream was never listed as a whole, so that nobody reads it; zero if it was.
	Unlisted time.Time
	// Childless is since when the children of a shard that ended have not been listed, so that nobody reads them; zero if all were, or ended of late.
	Childless time.Time
}

// Check is one finding.
type Check struct {
	Name string
	OK   bool
	Text string // what was found, for people
}

// Verdict is all findings on one question.
type Verdict []Check

// OK reports whether every check passed.
func (v Verdict) OK() bool {
	return !slices.ContainsFunc(v, func(c Check) bool { return !c.OK })
}

// String lists the checks, a line each.
func (v Verdict) String() string {
	var b strings.Builder
	for _, c := range v {
		mark := "ok"
		if !c.OK {
			mark = "not ok"
		}
		fmt.Fprintf(&b, "%s: %s: %s\n", c.Name, mark, c.Text)
	}
	return b.String()
}

// live tells whether the process should be left alone rather than restarted: its main loop turns. Whether the clouds can be
// reached is no part of it, because no restart mends them.
func live(f Facts, now time.Time) Verdict {
	last := f.Ticked
	if last.IsZero() {
		last = f.Started
	}
	age := now.Sub(last)
	return Verdict{{Name: "loop", OK: age <= liveWithin, Text: fmt.Sprintf("last pass %s ago", round(age))}}
}

// Ready tells whether the process does its part: both ends were reached, the ledger still is, and what it reads makes progress. A write that does
// not get through stops the reading of its shard, so progress of the polls is progress of the writes too. A standby without shards
// is ready as long as it sees the ledger: without that it could take nothing over. A gap in the stream is an alarm and not unreadiness: a
// rollout of its cure would otherwise stall.
func Ready(f Facts, now time.Time) Verdict {
	v := Verdict{{Name: "process", OK: !f.Stopping, Text: "running"}}
	if f.Stopping {
		v[0].Text = "stopping"
	}
	v = append(v, f.target(now))
	if len(f.Tables) > 0 {
		v = append(v, looked(f.Looked, now))
	}
	if age := now.Sub(f.Seeking); !f.Seeking.IsZero() {
		v = append(v, Check{Name: "tables of patterns", OK: age <= seekWithin, Text: fmt.Sprintf("not listed for %s; see the log for the reason", round(age))})
	}
	for _, t := range f.Tables {
		v = append(v, reached("source "+t.Name, t.Source), t.polls(now))
	}
	return v
}

// target is the finding on the target, which is asked for the ledger in every look. One that has not answered for lookWithin counts as not reached.
func (f *Facts) target(now time.Time) Check {
	age := now.Sub(f.Looked)
	if !f.Target || len(f.Tables) == 0 || f.Looked.IsZero() || age <= lookWithin {
		return reached("target", f.Target)
	}
	return Check{Name: "target", Text: fmt.Sprintf("no answer for %s", round(age))}
}

// looked is the finding on the ledger. A process without tables, whose patterns match none yet, has nothing to look at.
func looked(last, now time.Time) Check {
	if last.IsZero() {
		return Check{Name: "ledger", Text: "not read yet"}
	}
	age := now.Sub(last)
	return Check{Name: "ledger", OK: age <= lookWithin, Text: fmt.Sprintf("last read %s ago", round(age))}
}

// polls is the finding on the reading of a table.
func (t *TableFacts) polls(now time.Time) Check {
	c := Check{Name: "polls " + t.Name, OK: true, Text: "no shards here"}
	switch {
	case t.Shards > 0:
		age := now.Sub(t.progress())
		c.OK, c.Text = age <= pollWithin, fmt.Sprintf("shards here: %d, last progress %s ago", t.Shards, round(age))
	case !t.Vain.IsZero() && now.Sub(t.GivenUp) <= pollWithin:
		age := now.Sub(t.Vain)
		c.OK, c.Text = age <= pollWithin, fmt.Sprintf("no shards here; the last was released %s ago, last progress %s ago", round(now.Sub(t.GivenUp)), round(age))
	case !t.Unlisted.IsZero():
		age := now.Sub(t.Unlisted)
		c.OK, c.Text = age <= pollWithin, fmt.Sprintf("the stream has had no complete listing for %s", round(age))
	case !t.Childless.IsZero():
		c.OK, c.Text = false, fmt.Sprintf("a shard ended %s ago, and its children were not listed yet", round(now.Sub(t.Childless)))
	}
	return c
}

// progress is since when what is read here made none.
func (t *TableFacts) progress() time.Time {
	switch {
	case !t.Vain.IsZero():
		return t.Vain
	case t.Since.After(t.Polled):
		return t.Since
	}
	return t.Polled
}

func reached(name string, ok bool) Check {
	if ok {
		return Check{Name: name, OK: true, Text: "reached"}
	}
	return Check{Name: name, Text: "not reached yet"}
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// Health collects the facts. Its methods may be called by many tasks at once.
type Health struct {
	clock func() time.Time

	mu    sync.Mutex
	facts Facts
}

// NewHealth expects the given source tables. The clock should carry a monotonic reading, as the host's does: then jumps of the
// wall clock do no harm.
func NewHealth(clock func() time.Time, tables ...string) *Health {
	h := &Health{clock: clock, facts: Facts{Started: clock()}}
	for _, name := range tables {
		h.table(name)
	}
	return h
}

// Facts are a copy of what was reported.
func (h *Health) Facts() Facts {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.facts
	f.Tables = slices.Clone(f.Tables)
	return f
}

// Tick reports a turn of the main loop.
func (h *Health) Tick() { h.report(func(f *Facts, now time.Time) { f.Ticked = now }) }

// TargetReached reports that the target answered.
func (h *Health) TargetReached() { h.report(func(f *Facts, _ time.Time) { f.Target = true }) }

// SourceReached reports that a table and its stream answered.
func (h *Health) SourceReached(table string) {
	h.report(func(_ *Facts, _ time.Time) { h.table(table).Source = true })
}

// Sought reports that tables of patterns were looked for, and whether all could be looked at.
func (h *Health) Sought(whole bool) {
	h.report(func(f *Facts, now time.Time) {
		switch {
		case whole:
			f.Seeking = time.Time{}
		case f.Seeking.IsZero():
			f.Seeking = now
		}
	})
}

// Looked reports a look at the ledger that succeeded, for one table, and whether that shows that its stream waits to be listed.
func (h *Health) Looked(table string, unlisted bool) {
	h.report(func(f *Facts, now time.Time) {
		f.Looked = now
		switch t := h.table(table); {
		case !unlisted:
			t.Unlisted = time.Time{}
		case t.Unlisted.IsZero():
			t.Unlisted = now
		}
	})
}

// Childless reports since when the children of a shard of a table have not been listed; zero: there is none. It passes over tables that are not expected:
// what tells of it knows those that other processes follow.
func (h *Health) Childless(table string, since time.Time) {
	h.report(func(f *Facts, _ time.Time) {
		if slices.ContainsFunc(f.Tables, func(t TableFacts) bool { return t.Name == table }) {
			h.table(table).Childless = since
		}
	})
}

// ShardTaken reports that this process reads one more shard of a table.
func (h *Health) ShardTaken(table string) {
	h.report(func(_ *Facts, now time.Time) {
		t := h.table(table)
		if t.Shards == 0 {
			t.Since = now
			if now.Sub(t.GivenUp) > pollWithin { // others read it meanwhile
				t.Vain, t.GivenUp = time.Time{}, time.Time{}
			}
		}
		t.Shards++
	})
}

// ShardLeft reports that it reads one less.
func (h *Health) ShardLeft(table string) {
	h.report(func(_ *Facts, _ time.Time) {
		t := h.table(table)
		t.Shards = max(0, t.Shards-1)
	})
}

// ShardGivenUp is ShardLeft where the source did not answer: the shard was left to other processes, and perhaps there are none.
func (h *Health) ShardGivenUp(table string) {
	h.report(func(_ *Facts, now time.Time) {
		t := h.table(table)
		t.Vain, t.GivenUp = t.progress(), now
		t.Shards = max(0, t.Shards-1)
	})
}

// Polled reports progress in any shard of a table: a page that was empty, or whose changes are durable.
func (h *Health) Polled(table string) {
	h.report(func(_ *Facts, now time.Time) {
		t := h.table(table)
		t.Polled, t.Vain, t.GivenUp = now, time.Time{}, time.Time{}
	})
}

// Stopping reports that the process was asked to end, so that nothing more is expected of it.
func (h *Health) Stopping() { h.report(func(f *Facts, _ time.Time) { f.Stopping = true }) }

func (h *Health) report(change func(f *Facts, now time.Time)) {
	now := h.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.facts, now)
}

// table is the entry of a table, made if it is new. The mutex is held, or nobody else knows h yet.
func (h *Health) table(name string) *TableFacts {
	at, ok := slices.BinarySearchFunc(h.facts.Tables, name, func(t TableFacts, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		h.facts.Tables = slices.Insert(h.facts.Tables, at, TableFacts{Name: name})
	}
	return &h.facts.Tables[at]
}
