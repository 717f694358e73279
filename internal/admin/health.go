package admin

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The limits by which facts are judged.
const (
	// liveWithin is how long the main loop of the process may go without a pass. After that the
	// process asks for a restart. It is far above any wait of the loop, because a restart first
	// makes everything slower.
	liveWithin = time.Minute
	// pollWithin is how long a table that is being read may go without a successful poll. The alert
	// for stalled tables uses the same time.
	pollWithin = 2 * time.Minute
	// lookWithin is how old the last successful read of the ledger may be. Every process, even a
	// standby, reads the ledger every two seconds, because leases last only seconds.
	lookWithin = 30 * time.Second
	// idleLookWithin is the same limit for an idle process, which reads the ledger every 30 s.
	idleLookWithin = 90 * time.Second
	// seekWithin is how long the search for tables of patterns may fail. Meanwhile no worker
	// follows new tables. Throttling after a start with thousands of tables ends within that time.
	seekWithin = 10 * time.Minute
)

// Facts are the facts by which health and readiness are judged. All of them concern this process; a
// check sends no request to a cloud.
type Facts struct {
	Started time.Time
	// Ticked is the time of the main loop's last pass; zero before the first.
	Ticked time.Time
	// Target reports that the target has been reached.
	Target bool
	// Looked is when the ledger, which is in the target, was last read for any table; zero if
	// never.
	Looked time.Time
	// Seeking is since when the search for tables of patterns has been failing for some or all
	// tables. It is zero if the last search was complete, or if there are no patterns.
	Seeking time.Time
	// Tables are the configuration's tables, sorted by name.
	Tables []TableFacts
	// Stopping reports that the process was asked to end.
	Stopping bool
	// Idle reports that the tables are cut over, so this process follows none.
	Idle bool
}

// TableFacts are the facts of one source table.
type TableFacts struct {
	Name string
	// Source reports that the table and its stream have been reached.
	Source bool
	// Shards is how many shards this process reads; 0 for a standby.
	Shards int
	// Since is when the first of the current shards was acquired. Polled is the last successful
	// read of any shard.
	Since, Polled time.Time
	// GivenUp is when this process last released a shard because the source did not answer. Vain is
	// since when the source has not answered. Another process may acquire the shard. If none does,
	// this process acquires it again, but that does not prove that the source answers. Both are
	// zero if the last read succeeded.
	GivenUp, Vain time.Time
	// Unlisted is since when the stream has had no complete listing, as seen by this process. Its
	// shards are not read until then. It is zero if there is a complete listing.
	Unlisted time.Time
	// Childless is since when the children of an ended shard have been missing from listings, so
	// that they are not read. It is zero if there is no such shard, or if the shard ended recently.
	Childless time.Time
}

// Check is one finding.
type Check struct {
	Name string
	OK   bool
	Text string // what was found, for people
}

// Verdict holds all findings on one question.
type Verdict []Check

// OK reports whether every check passed.
func (v Verdict) OK() bool {
	return !slices.ContainsFunc(v, func(c Check) bool { return !c.OK })
}

// String lists the checks, one per line.
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

// live reports whether the process needs no restart, because its main loop makes passes.
// Unreachable clouds do not count, because a restart does not fix them.
func live(f Facts, now time.Time) Verdict {
	last := f.Ticked
	if last.IsZero() {
		last = f.Started
	}
	age := now.Sub(last)
	return Verdict{{Name: "loop", OK: age <= liveWithin, Text: fmt.Sprintf("last pass %s ago", round(age))}}
}

// Ready reports whether the process does its work: source and target were reached, the ledger can
// still be read, and reads make progress. A failing write stops the reads of its shard, so progress
// of reads is also progress of writes. A standby without shards is ready while it can read the
// ledger, because it can take over. The same holds for an idle process. A gap in the stream raises
// an alarm, but does not make the process unready, because that would stall the rollout of a fix.
func Ready(f Facts, now time.Time) Verdict {
	v := Verdict{{Name: "process", OK: !f.Stopping, Text: "running"}}
	if f.Stopping {
		v[0].Text = "stopping"
	}
	if f.Idle {
		if !f.Stopping {
			v[0].Text = "idle: the tables are cut over"
		}
		return append(v, looked(f.Looked, idleLookWithin, now))
	}
	v = append(v, f.target(now))
	if len(f.Tables) > 0 {
		v = append(v, looked(f.Looked, lookWithin, now))
	}
	if age := now.Sub(f.Seeking); !f.Seeking.IsZero() {
		v = append(v, Check{Name: "tables of patterns", OK: age <= seekWithin, Text: fmt.Sprintf("not listed for %s; see the log for the reason", round(age))})
	}
	for _, t := range f.Tables {
		v = append(v, reached("source "+t.Name, t.Source), t.polls(now))
	}
	return v
}

// target returns the finding on the target, which every read of the ledger uses. A target that has
// not answered for lookWithin counts as not reached.
func (f *Facts) target(now time.Time) Check {
	age := now.Sub(f.Looked)
	if !f.Target || len(f.Tables) == 0 || f.Looked.IsZero() || age <= lookWithin {
		return reached("target", f.Target)
	}
	return Check{Name: "target", Text: fmt.Sprintf("no answer for %s", round(age))}
}

// looked returns the finding on the ledger. A process has nothing to read while its patterns match
// no table.
func looked(last time.Time, within time.Duration, now time.Time) Check {
	if last.IsZero() {
		return Check{Name: "ledger", Text: "not read yet"}
	}
	age := now.Sub(last)
	return Check{Name: "ledger", OK: age <= within, Text: fmt.Sprintf("last read %s ago", round(age))}
}

// polls returns the finding on the reads of a table.
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

// progress returns when the reads of this process last made progress.
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

// Health collects the facts. It is safe for concurrent use.
type Health struct {
	clock func() time.Time

	mu    sync.Mutex
	facts Facts
}

// NewHealth returns the health for the given source tables. The clock should have a monotonic
// reading, like the host's clock, so that jumps of the wall clock have no effect.
func NewHealth(clock func() time.Time, tables ...string) *Health {
	h := &Health{clock: clock, facts: Facts{Started: clock()}}
	for _, name := range tables {
		h.table(name)
	}
	return h
}

// Facts returns a copy of the reported facts.
func (h *Health) Facts() Facts {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.facts
	f.Tables = slices.Clone(f.Tables)
	return f
}

// Tick reports a pass of the main loop.
func (h *Health) Tick() { h.report(func(f *Facts, now time.Time) { f.Ticked = now }) }

// TargetReached reports that the target answered.
func (h *Health) TargetReached() { h.report(func(f *Facts, _ time.Time) { f.Target = true }) }

// SourceReached reports that a table and its stream answered.
func (h *Health) SourceReached(table string) {
	h.report(func(_ *Facts, _ time.Time) { h.table(table).Source = true })
}

// Sought reports a search for tables of patterns, and whether it was complete.
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

// Looked reports a successful read of the ledger for one table, and whether its stream waits for a
// complete listing.
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

// Idle reports a successful read of the ledger that showed that the tables are cut over.
func (h *Health) Idle() { h.report(func(f *Facts, now time.Time) { f.Idle, f.Looked = true, now }) }

// Childless reports since when the children of a table's shard have been missing from listings;
// zero if there is no such shard. It ignores tables of other processes.
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
			if now.Sub(t.GivenUp) > pollWithin { // other processes have read it meanwhile
				t.Vain, t.GivenUp = time.Time{}, time.Time{}
			}
		}
		t.Shards++
	})
}

// ShardLeft reports that this process reads one shard less.
func (h *Health) ShardLeft(table string) {
	h.report(func(_ *Facts, _ time.Time) {
		t := h.table(table)
		t.Shards = max(0, t.Shards-1)
	})
}

// ShardGivenUp reports that this process released a shard because the source did not answer.
// Another process may acquire it.
func (h *Health) ShardGivenUp(table string) {
	h.report(func(_ *Facts, now time.Time) {
		t := h.table(table)
		t.Vain, t.GivenUp = t.progress(), now
		t.Shards = max(0, t.Shards-1)
	})
}

// Polled reports progress in any shard of a table: an empty page, or a page whose changes are
// durable.
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

// table returns the entry of a table, and creates it if it is new. The caller holds the mutex, or
// is the only task that uses h.
func (h *Health) table(name string) *TableFacts {
	at, ok := slices.BinarySearchFunc(h.facts.Tables, name, func(t TableFacts, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		h.facts.Tables = slices.Insert(h.facts.Tables, at, TableFacts{Name: name})
	}
	return &h.facts.Tables[at]
}
