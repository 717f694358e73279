package admin

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits by which live and Ready judge the facts.
const (
	// liveWithin is how long the main loop of the process may go without a pass. After that the
	// process asks for a restart. The limit is far longer than any wait in the loop, because a
	// needless restart slows the work down.
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
	// follows new tables. A process that starts with thousands of tables is throttled at first, but
	// for less than this time.
	seekWithin = 10 * time.Minute
)

// Facts are the facts by which health and readiness are judged. Each fact was recorded by this
// process. So a health check sends no request to a cloud.
type Facts struct {
	Started time.Time
	// Ticked is the time of the main loop's last pass; zero before the first.
	Ticked time.Time
	// Target reports whether the target has answered.
	Target bool
	// Looked is the time of the last successful read of the ledger, for any table; zero if there
	// was none. The ledger is a table in the target.
	Looked time.Time
	// Seeking is the time since which the search for tables that match the patterns has failed for
	// some or all tables. It is zero if the last search was complete, or if there are no patterns.
	Seeking time.Time
	// Tables are the configuration's tables, sorted by name.
	Tables []TableFacts
	// Stopping reports whether the process was asked to end.
	Stopping bool
	// Idle reports whether all tables are cut over. Then this process replicates no table.
	Idle bool
}

// TableFacts are the facts of one source table.
type TableFacts struct {
	Name string
	// Source reports whether the table and its stream have answered.
	Source bool
	// Shards is the number of shards that this process reads; 0 for a standby.
	Shards int
	// Since is the time at which this process acquired the first of its current shards. Polled is
	// the last successful read of any shard.
	Since, Polled time.Time
	// GivenUp is the last time at which this process released a shard because the source did not
	// answer. Vain is the time since which the source has not answered. After a release, another
	// process may acquire the shard. If none does, this process acquires the shard again, but that
	// does not prove that the source answers. GivenUp and Vain are zero if the last read succeeded.
	GivenUp, Vain time.Time
	// Unlisted is the time since which this process has seen no complete listing of the stream's
	// shards. No shard is read before the first complete listing. Unlisted is zero if there is a
	// complete listing.
	Unlisted time.Time
	// Childless is the time since which listings have not shown the children of a shard that ended.
	// Until listings show the children, no process reads them. Childless is zero if no shard's
	// children are missing, or if the shard ended only recently.
	Childless time.Time
}

// Check is one finding of a health check.
type Check struct {
	Name string
	OK   bool
	Text string // what was found, for people
}

// Verdict holds all findings of one health check, such as Ready.
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

// live reports whether the process needs no restart. It needs none if its main loop makes passes.
// Clouds that do not answer are no reason, because a restart does not help.
func live(f Facts, now time.Time) Verdict {
	last := f.Ticked
	if last.IsZero() {
		last = f.Started
	}
	age := now.Sub(last)
	return Verdict{{Name: "loop", OK: age <= liveWithin, Text: fmt.Sprintf("last pass %s ago", round(age))}}
}

// Ready reports whether the process does its work: source and target have answered, the ledger can
// still be read, and reads make progress. If a write fails, the reads of its shard stop. So
// progress of reads proves progress of writes. A standby without shards is ready while it can read
// the ledger, because it can take over. The same holds for an idle process. A gap in the stream
// raises an alarm, but does not make the process unready, because that would stall the rollout of a
// fix.
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

// target returns the finding on the target. Reads of the ledger also show whether the target
// answers, because the ledger is in the target. A target that has not answered for lookWithin
// counts as unreachable.
func (f *Facts) target(now time.Time) Check {
	age := now.Sub(f.Looked)
	if !f.Target || len(f.Tables) == 0 || f.Looked.IsZero() || age <= lookWithin {
		return reached("target", f.Target)
	}
	return Check{Name: "target", Text: fmt.Sprintf("no answer for %s", round(age))}
}

// looked returns the finding on the ledger. If the patterns match no table, the process does not
// read the ledger, so the check passes.
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

// progress returns the time at which a read of this process last made progress.
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

// NewHealth returns the health for the given source tables. The clock's times should have a
// monotonic reading, as time.Now has. Then jumps of the wall clock have no effect.
func NewHealth(clock func() time.Time, tables ...string) *Health {
	h := &Health{clock: clock, facts: Facts{Started: clock()}}
	for _, name := range tables {
		h.table(name)
	}
	return h
}

// Facts returns a copy of the facts that were reported to h.
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

// Sought reports a search for tables that match the patterns, and whether the search was complete.
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

// Looked reports a successful read of the ledger for one table. If `unlisted`, the table's stream
// has no complete listing of its shards yet.
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

// Idle reports a successful read of the ledger, by which all tables are cut over.
func (h *Health) Idle() { h.report(func(f *Facts, now time.Time) { f.Idle, f.Looked = true, now }) }

// Childless reports the time since which listings have not shown the children of a table's shard;
// zero if none are missing. It ignores tables of other processes.
func (h *Health) Childless(table string, since time.Time) {
	h.report(func(f *Facts, _ time.Time) {
		if slices.ContainsFunc(f.Tables, func(t TableFacts) bool { return t.Name == table }) {
			h.table(table).Childless = since
		}
	})
}

// ShardTaken reports that this process now reads one more shard of a table.
func (h *Health) ShardTaken(table string) {
	h.report(func(_ *Facts, now time.Time) {
		t := h.table(table)
		if t.Shards == 0 {
			t.Since = now
			if now.Sub(t.GivenUp) > pollWithin { // since then, other processes have read the table
				t.Vain, t.GivenUp = time.Time{}, time.Time{}
			}
		}
		t.Shards++
	})
}

// ShardLeft reports that this process now reads one shard less of a table.
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

// Polled reports progress in any shard of a table: the read of an empty page, or a page whose
// changes are all durable.
func (h *Health) Polled(table string) {
	h.report(func(_ *Facts, now time.Time) {
		t := h.table(table)
		t.Polled, t.Vain, t.GivenUp = now, time.Time{}, time.Time{}
	})
}

// Stopping reports that the process was asked to end. Checks of progress no longer apply to it.
func (h *Health) Stopping() { h.report(func(f *Facts, _ time.Time) { f.Stopping = true }) }

func (h *Health) report(change func(f *Facts, now time.Time)) {
	now := h.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.facts, now)
}

// table returns the entry of a table, and creates it if it is new. The caller must hold the mutex,
// or be the only task that uses h.
func (h *Health) table(name string) *TableFacts {
	at, ok := slices.BinarySearchFunc(h.facts.Tables, name, func(t TableFacts, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		h.facts.Tables = slices.Insert(h.facts.Tables, at, TableFacts{Name: name})
	}
	return &h.facts.Tables[at]
}
