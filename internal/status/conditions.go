package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// condition is a statement about a migration or one of its tables, in addition to the states that
// package standing judges. All texts that status shows below its table of figures come from the
// lists of conditions in this file, in their order.
type condition struct {
	name  string
	holds func(s subject) bool
	lines func(s subject) []string // the condition's lines of text; nil for none
	// weight returns how urgently the lines need an operator. If it is nil, they are for information.
	weight func(s subject) standing.Severity
	next   func(s subject) []standing.NextStep // the condition's next steps; nil for none
}

// subject is the object of a condition: a table, the cutover of a group, or else the whole migration.
type subject struct {
	m *Document
	t *Table
	c *Cutover
}

// ofMigration are the conditions of the whole migration. All conditions that apply are shown.
var ofMigration = []condition{
	{name: "the app profile routes elsewhere", holds: func(s subject) bool { return s.m.otherPlace != "" },
		next: leads("failover --dry-run", func(s subject) string { return s.m.otherPlace })},
	{name: "receivers fail", weight: warning, holds: func(s subject) bool { return len(s.m.Receivers) > 0 }, lines: receiverLines,
		next: leads("notify test", says("notifications do not arrive; correct the receiver or its secret"))},
}

// attempted are the conditions of the cutover of a group that is running or has switched. All
// conditions that apply are shown.
var attempted = []condition{
	{name: "cutover attempted", holds: func(s subject) bool {
		return s.c.Attempt > 0 && (!s.c.record.Step.Over() || s.c.record.RollingBack())
	}, weight: weightOfAttempt, lines: cutoverLines},
	{name: "way back", holds: always, weight: weightOfWayBack, lines: wayBackLines},
}

// ofCutover are the conditions during the cutover of a group in which an operator can act. The first
// condition that applies is shown.
var ofCutover = []condition{
	{name: "late writers", holds: func(s subject) bool { return s.c.record.Step.Switched() && s.c.record.Unanswered() > 0 },
		next: leads("cutover status", says("DynamoDB has received writes since the freeze; find the writer, and correct the target"))},
	{name: "done", holds: func(s subject) bool {
		return s.c.record.Step == checkpoint.CutoverDone && s.c.record.FinalizedAt.IsZero()
	},
		next: leads("finalize --dry-run", says("the application no longer uses the source; replicator's metadata can be removed from the target"))},
	{name: "frozen and undriven", holds: func(s subject) bool { return s.c.FrozenSince != nil && s.c.Driver == nil },
		next: leads("run", says("writes are frozen, and no process drives the cutover: start a worker that can call the hooks"))},
	{name: "waits for approval", holds: func(s subject) bool { return s.c.record.Step == checkpoint.CutoverRequested && !s.c.record.Approved },
		next: leads("cutover approve", says("the requested cutover waits for approval"))},
	{name: "switching", holds: func(s subject) bool { return s.c.Latest().Step == checkpoint.CutoverSwitching },
		next: leads("cutover status", func(s subject) string {
			return "the application is being switched; the " + strings.ToLower(s.c.kind()) + " can no longer be cancelled"
		})},
	{name: "rolled back and undriven", holds: func(s subject) bool {
		return s.c.record.Step == checkpoint.CutoverRolledBack && s.c.record.RollingBack() && s.c.Driver == nil
	},
		next: leads("run", says("the application was moved back, and no process makes the tables ready for their load"))},
	{name: "rolling back", holds: func(s subject) bool { return s.c.record.RollingBack() },
		next: leads("cutover status", func(s subject) string { return "a rollback is running: " + s.c.Step })},
	{name: "way back lost", holds: func(s subject) bool { return slices.ContainsFunc(s.followed(), (*Table).lost) }, next: lostSteps},
	{name: "can be rolled back", holds: func(s subject) bool { return s.c.CanRollBack != nil && s.c.CanRollBack.Ready },
		next: func(s subject) []standing.NextStep {
			return append(leads("cutover rollback --dry-run", says("DynamoDB follows; the application can be moved back"))(s),
				leads("cutover end-fallback", says("use it when no way back is needed any more"))(s)...)
		}},
	{name: "cannot be rolled back", holds: func(s subject) bool { return s.c.CanRollBack != nil },
		next: leads("cutover status", func(s subject) string {
			return "the application cannot be moved back now: " + strings.Join(s.c.CanRollBack.Reasons, "; ")
		})},
	{name: "running", holds: func(s subject) bool { return s.c.record.Step.Active() },
		next: leads("cutover status", func(s subject) string { return "a cutover is running: " + string(s.c.record.Step) })},
}

// ofWork checks that a worker exists if there is work. The first condition that applies is shown.
var ofWork = []condition{
	{name: "not begun", holds: func(s subject) bool { return !s.m.started() && !s.m.begun }, next: leads("run", says(terminal.NotStarted))},
	{name: "no table found", holds: func(s subject) bool { return !s.m.started() && len(s.m.Tables) == 0 },
		next: leads("run", says("no table matches the patterns yet"))},
	{name: "no table met", holds: func(s subject) bool { return !s.m.started() }, next: firstOfEach(ofUnmet)},
	{name: "no worker", holds: func(s subject) bool { return s.m.unmanned() },
		next: leads("run", says("no worker reads the stream; the stream keeps changes for only 24 hours"))},
	{name: "workers", holds: always, next: firstOfEach(ofReading)},
}

// ofUnmet lists conditions of a table that has no row in the ledger, because no worker has found it
// yet. The status shows the first condition that applies.
var ofUnmet = []condition{
	{name: "named", holds: func(s subject) bool { return s.t.group == "" }, next: leads("run", about(terminal.NotStarted))},
	{name: "of a pattern", holds: always, next: leads("status", func(s subject) string {
		return fmt.Sprintf("%s matches the pattern %s, but no worker has found it yet; check that it exists in this region", s.t.Source, s.t.group)
	})},
}

// ofReading are the conditions in which shards of a table are not read: their worker is gone, or no
// worker acquires them. The first condition that applies is shown.
var ofReading = []condition{
	{name: "silent", holds: func(s subject) bool { return s.t.silent > 0 }, next: leads("run", func(s subject) string {
		return fmt.Sprintf("%s: a silent worker holds %s; a running worker takes over within seconds", s.t.Source, terminal.Plural(s.t.silent, "shard"))
	})},
	{name: "not acquired", holds: func(s subject) bool { return s.t.waiting > 0 && s.t.Old }, next: leads("run", func(s subject) string {
		return fmt.Sprintf("%s: no worker acquires %s; the stream keeps changes for only 24 hours", s.t.Source, terminal.Plural(s.t.waiting, "shard"))
	})},
	{name: "old", holds: func(s subject) bool { return s.t.Old && len(s.t.Troubles) == 0 }, next: leads(look, func(s subject) string {
		return fmt.Sprintf("%s was last read %s ago, although its worker is running", s.t.Source, since(s.t.OldestReadAt, s.m.At))
	})},
}

// ofWorkers are the conditions of all workers together. All conditions that apply are shown.
var ofWorkers = []condition{
	{name: "unknown tables", holds: func(s subject) bool { return s.m.started() && s.m.Leases > 0 }, next: firstOfEach(ofNew)},
	{name: "clocks", holds: always, next: clockSteps},
}

// ofNew are the conditions of named tables that no worker has registered, although other tables are
// replicated. Such a table is not copied, and its stream keeps changes for only a day. Either the
// workers started before the table was added to the configuration, or they cannot reach the table.
var ofNew = []condition{
	{name: "new", holds: func(s subject) bool { return s.t.Generation == nil && s.t.group == "" },
		next: leads("run", about(terminal.NotStarted+"; restart the workers with this configuration"))},
}

// ofTable are the conditions of a table. All conditions that apply are shown.
var ofTable = []condition{
	{name: "state", weight: func(s subject) standing.Severity { return s.t.Severity() }, holds: func(s subject) bool { return len(s.m.Tables) > 1 && s.t.standsText() != "" }, lines: line(func(s subject) string { return s.t.standsText() })},
	{name: "settling", holds: func(s subject) bool { return s.t.Settling > 0 }, lines: line(func(s subject) string {
		return fmt.Sprintf("%s: %s applied once, to be written again after dual_writes.settle", s.t.Source, terminal.Plural(int(s.t.Settling), "change"))
	})},
	{name: "paused", weight: warning, holds: func(s subject) bool { return s.t.Paused != nil }, lines: line(pausedLine), next: leads("resume --table TABLE", func(s subject) string {
		return fmt.Sprintf("%s: paused for %s; the stream keeps changes for only 24 hours", s.t.Source, since(&s.t.Paused.Since, s.m.At))
	})},
	{name: "needs a load", weight: urgent, holds: func(s subject) bool { return s.t.LoadNeeded }, lines: line(loadLine)},
	{name: "fence withheld", weight: warning, holds: func(s subject) bool { return s.t.FenceReason != nil }, lines: line(func(s subject) string {
		return fmt.Sprintf("Fence: %s: late writes are not rejected: %s", s.t.Source, *s.t.FenceReason)
	})},
	{name: "old", weight: urgent, holds: func(s subject) bool { return s.t.Old }, lines: line(func(s subject) string {
		return fmt.Sprintf("Old: %s was last read %s ago; later changes are unknown", s.t.Source, since(s.t.OldestReadAt, s.m.At))
	})},
	{name: "not listed", weight: warning, holds: func(s subject) bool { return s.t.stands.Unlisted }, lines: line(func(s subject) string {
		if s.t.OldestReadAt == nil {
			return "Waiting: workers read the shards of " + s.t.Source + " after the first complete listing of its stream"
		}
		return fmt.Sprintf("Waiting: %s began %s ago; workers read its shards after the first complete listing of its stream", s.t.Source, since(s.t.OldestReadAt, s.m.At))
	})},
	{name: "load", holds: always, lines: loadLines},
	{name: "throttled", holds: always, lines: throttledLines},
	{name: "beyond retention", holds: func(s subject) bool { return s.t.outlived() }, next: leads(look, func(s subject) string {
		return fmt.Sprintf("%s: changes have waited for %s, but the stream keeps them for only 24 hours; the next read shows whether any were lost", s.t.Source,
			backfill.FormatDuration(cdc.Retention-AsDuration(*s.t.HeadroomSeconds)))
	})},
	{name: "little headroom", holds: func(s subject) bool { return s.t.headroomLittle() && !s.t.outlived() }, next: leads(look, func(s subject) string {
		return fmt.Sprintf("%s: the stream drops unapplied changes in %s", s.t.Source, seconds(s.t.HeadroomSeconds))
	})},
	{name: "troubles", holds: func(s subject) bool { return len(s.t.Troubles) > 0 }, weight: weightOfTroubles, lines: troubleLines, next: troubleSteps},
	{name: "fence can be kept", holds: func(s subject) bool { return s.t.FenceReason != nil }, next: leads("plan --print-iam gcp", func(s subject) string {
		return fmt.Sprintf("%s: late writes are not rejected: %s", s.t.Source, *s.t.FenceReason)
	})},
	{name: "long gone", holds: func(s subject) bool { return s.t.LongGone && s.t.group == "" }, next: leads("lint", func(s subject) string {
		return s.t.Source + " no longer exists; remove it from the configuration, or create it again"
	})},
	{name: "load waits", holds: func(s subject) bool { return s.t.load != nil }, next: func(s subject) []standing.NextStep { return s.named(*s.t.load) }},
	{name: "parked", holds: func(s subject) bool { return s.t.Parked > 0 }, next: leads("parked list --table TABLE", parkedWhy)},
	{name: "differs", holds: always, next: func(s subject) (steps []standing.NextStep) {
		for _, c := range s.t.stands.Conditions {
			if step, leads := c.NextStep(s.t.Source, s.m.with); leads && c.State == standing.Differs {
				steps = append(steps, s.named(step)...)
			}
		}
		return steps
	}},
}

// look is the command that shows why a table is not read.
const look = "status --shards --table TABLE"

// urgent and warning are the weights of conditions that always need an operator.
func urgent(subject) standing.Severity  { return standing.SeverityPage }
func warning(subject) standing.Severity { return standing.SeverityWarning }

// weightOfTroubles returns the severity of a table's failing steps. Throttling by a service passes
// by itself.
func weightOfTroubles(s subject) standing.Severity {
	if slices.ContainsFunc(s.t.Troubles, func(t troubleStatus) bool { return !t.Throttled }) {
		return standing.SeverityWarning
	}
	return standing.SeverityInfo
}

// weightOfAttempt returns the severity of a cutover or rollback. A freeze that no process drives lasts
// until an operator acts.
func weightOfAttempt(s subject) standing.Severity {
	switch {
	case s.c.FrozenSince != nil && s.c.Driver == nil:
		return standing.SeverityPage
	case s.c.Trouble != nil:
		return standing.SeverityWarning
	}
	return standing.SeverityInfo
}

// weightOfWayBack returns the severity of a way back. A way back that lost changes cannot be used.
func weightOfWayBack(s subject) standing.Severity {
	if slices.ContainsFunc(s.followed(), (*Table).lost) {
		return standing.SeverityPage
	}
	return standing.SeverityInfo
}

// always is the test of a condition that decides in its lines and steps whether it applies.
func always(subject) bool { return true }

// says returns a function with a fixed text. about returns a function that puts the table's name in
// front of a text.
func says(text string) func(subject) string { return func(subject) string { return text } }
func about(text string) func(subject) string {
	return func(s subject) string { return s.t.Source + ": " + text }
}

// line makes a text the only line of a condition.
func line(text func(subject) string) func(subject) []string {
	return func(s subject) []string { return []string{text(s)} }
}

// leads returns a function that returns one step. The command has the form that standing.Command
// takes.
func leads(command string, why func(subject) string) func(subject) []standing.NextStep {
	return func(s subject) []standing.NextStep {
		table, flag := "", ""
		if s.t != nil {
			table = s.t.Source
		}
		if s.c != nil {
			flag = s.c.flag
		}
		return []standing.NextStep{{Command: standing.Command(command+flag, table, s.m.with), Why: why(s)}}
	}
}

// named returns the step, with the table's name in front of the reason.
func (s subject) named(step standing.NextStep) []standing.NextStep {
	return []standing.NextStep{{Command: step.Command, Why: s.t.Source + ": " + step.Why}}
}

// firstOfEach returns the first condition that applies to each table, as steps.
func firstOfEach(list []condition) func(subject) []standing.NextStep {
	return func(s subject) (steps []standing.NextStep) {
		for i := range s.m.Tables {
			steps = append(steps, first(list, subject{m: s.m, t: &s.m.Tables[i]})...)
		}
		return steps
	}
}

// first returns the steps of the first condition that applies.
func first(list []condition, s subject) []standing.NextStep {
	if i := slices.IndexFunc(list, func(c condition) bool { return c.holds(s) }); i >= 0 {
		return list[i].next(s)
	}
	return nil
}

// all returns the steps of all conditions that apply.
func all(list []condition, s subject) (steps []standing.NextStep) {
	for _, c := range list {
		if c.next != nil && c.holds(s) {
			steps = append(steps, c.next(s)...)
		}
	}
	return steps
}

// steps returns the next steps, in the order of the lists. If the application has left the source,
// its tables need no steps.
func (m *Document) steps() []standing.NextStep {
	s := subject{m: m}
	steps := all(ofMigration, s)
	for i := range m.Cutovers {
		steps = append(steps, first(ofCutover, subject{m: m, c: &m.Cutovers[i]})...)
	}
	if m.Left() {
		return joined(steps)
	}
	steps = append(append(steps, first(ofWork, s)...), all(ofWorkers, s)...)
	for i := range m.Tables {
		if !m.Tables[i].stands.Left {
			steps = append(steps, all(ofTable, subject{m: m, t: &m.Tables[i]})...)
		}
	}
	return joined(steps)
}

// joined merges adjacent steps with the same command, and joins their reasons.
func joined(steps []standing.NextStep) []standing.NextStep {
	out := []standing.NextStep{}
	for _, s := range steps {
		if n := len(out); n > 0 && out[n-1].Command == s.Command {
			out[n-1].Why += "; " + s.Why
			continue
		}
		out = append(out, s)
	}
	return out
}

// remarks returns the lines of all conditions that apply, with their severities.
func (m *Document) remarks() (remarks []Remark) {
	add := func(list []condition, s subject) {
		for _, c := range list {
			if c.lines == nil || !c.holds(s) {
				continue
			}
			severity := standing.SeverityInfo
			if c.weight != nil {
				severity = c.weight(s)
			}
			for _, line := range c.lines(s) {
				remarks = append(remarks, Remark{severity, line})
			}
		}
	}
	add(ofMigration, subject{m: m})
	for i := range m.Cutovers {
		add(attempted, subject{m: m, c: &m.Cutovers[i]})
	}
	for i := range m.Tables {
		add(ofTable, subject{m: m, t: &m.Tables[i]})
	}
	return remarks
}

// notes returns the lines of all conditions that apply, in the order of their tables.
func (m *Document) notes() (notes []string) {
	for _, r := range m.remarks() {
		notes = append(notes, r.Text)
	}
	return notes
}

// started reports whether a worker has registered one of the tables.
func (m *Document) started() bool {
	return slices.ContainsFunc(m.Tables, func(t Table) bool { return t.Generation != nil })
}

// unmanned reports whether no worker runs although there may be changes to read. A worker without a
// lease of a shard may still be a table's coordinator, if all shards have ended or are not listed
// yet.
func (m *Document) unmanned() bool {
	lives := slices.ContainsFunc(m.Workers, func(w workerStatus) bool { return !w.Silent && !standing.Lends(w.ID) })
	return m.Leases == 0 && !lives && slices.ContainsFunc(m.Tables, func(t Table) bool { return !t.drained() && t.Paused == nil })
}

func cutoverLines(s subject) []string {
	c, text, of := s.c, "", ""
	switch {
	case c.FrozenSince != nil:
		text = fmt.Sprintf("; writes are frozen since %s (%s)", c.FrozenSince.Format(time.RFC3339), backfill.FormatDuration(AsDuration(c.FrozenSeconds)))
		if c.Driver == nil {
			text += "; no process drives it"
		}
	case c.FrozenSeconds > 0:
		text = "; writes were frozen for " + backfill.FormatDuration(AsDuration(c.FrozenSeconds))
	}
	if c.Trouble != nil {
		text += "; " + *c.Trouble
	}
	if c.flag != "" {
		of = " of " + c.Group
	}
	return []string{fmt.Sprintf("%s%s: attempt %d, %s%s", c.kind(), of, c.Attempt, c.Step, text)}
}

func pausedLine(s subject) string {
	reason := ""
	if s.t.Paused.Reason != nil {
		reason = ": " + diag.Printable(*s.t.Paused.Reason)
	}
	return fmt.Sprintf("%s is paused since %s%s", s.t.Source, s.t.Paused.Since.Format(time.RFC3339), reason)
}

func loadLine(s subject) string {
	since := ""
	if s.t.LostFrom != nil {
		since = "; changes since " + s.t.LostFrom.Format(time.RFC3339) + " may be lost"
	}
	return fmt.Sprintf("%s needs a load: %s%s", s.t.Source, OrDash(s.t.NeedsLoadReason), since)
}

// loadLines describes the source of a load, and why the load is not faster.
func loadLines(s subject) (lines []string) {
	if s.t.copiedFrom != "" {
		lines = append(lines, fmt.Sprintf("Load of %s: %s", s.t.Source, s.t.copiedFrom))
	}
	for _, why := range s.t.slowed {
		lines = append(lines, fmt.Sprintf("Load of %s: %s", s.t.Source, why))
	}
	return lines
}

func throttledLines(s subject) (lines []string) {
	for _, w := range s.t.Throttled {
		lines = append(lines, fmt.Sprintf("Throttled: %s: %s (%s of the last %s)", s.t.Source, w.Reason, backfill.FormatDuration(AsDuration(w.Seconds)), windowText(w.WindowSeconds)))
	}
	return lines
}

func troubleLines(s subject) (lines []string) {
	for _, trouble := range s.t.Troubles {
		word := "Trouble"
		if trouble.Throttled {
			word = "Throttled"
		}
		lines = append(lines, fmt.Sprintf("%s: %s: %s", word, s.t.Source, trouble.text(s.m.At)))
	}
	return lines
}

func troubleSteps(s subject) (steps []standing.NextStep) {
	for _, trouble := range s.t.Troubles {
		command := look
		if trouble.Step == stepApply {
			command = "relay dead-letter list"
		}
		steps = append(steps, leads(command, about(trouble.text(s.m.At)))(s)...)
	}
	return steps
}

func parkedWhy(s subject) string {
	verb := "need"
	if s.t.Parked == 1 {
		verb = "needs"
	}
	return terminal.Plural(s.t.Parked, "item") + " " + verb + " a decision"
}

// clockSteps returns steps for workers whose ledger writes are in the future by this machine's
// clock. Lag and headroom compare workers' times with this clock. A clock that is behind cannot be
// detected, because such a worker looks like a silent worker.
func clockSteps(s subject) (steps []standing.NextStep) {
	add := func(format string, args ...any) {
		steps = append(steps, leads("status --shards", says(fmt.Sprintf(format, args...)))(s)...)
	}
	for _, w := range s.m.Workers {
		switch {
		case w.ClockOffsetSeconds != nil:
			add("the clock of worker %s is %s DynamoDB's; correct it", w.ID, clock.Text(AsDuration(*w.ClockOffsetSeconds)))
		case w.HeartbeatAt != nil && w.HeartbeatAt.Sub(s.m.At) > s.m.lease:
			add("the clock of worker %s is %s ahead of this machine's; one of them is wrong, so lag and headroom are wrong too", w.ID, backfill.FormatDuration(w.HeartbeatAt.Sub(s.m.At)))
		}
	}
	return steps
}
