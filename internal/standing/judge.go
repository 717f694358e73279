package standing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// judgement checks all states of a table, one after the other. Its methods are in the order of the
// states.
type judgement struct {
	f *Facts
	s *Standing
}

// hold records that a state applies.
func (j *judgement) hold(state State, reason Reason, since time.Time, detail string) {
	j.s.Conditions = append(j.s.Conditions, Condition{State: state, Reason: reason, Since: since, Detail: detail})
}

// switched reports whether the application has moved from the table to the target.
func (f *Facts) switched() bool {
	return f.Cutover.Moves(f.Table.Source) && f.Cutover.Step.Switched()
}

// movedBack reports whether a rollback has moved the application from the target back to the table,
// and the table's record does not say so yet. The reason is the one that the record will have.
func (f *Facts) movedBack() (why string, moved bool) {
	c := &f.Cutover
	if !c.Moves(f.Table.Source) || c.Step != checkpoint.CutoverRolledBack || c.Rollback == nil || f.Table.Returned(c.Rollback.Attempt) {
		return "", false
	}
	return checkpoint.RolledBackGap(c.Rollback.Attempt).Reason, true
}

// left checks whether the application has left the source, or will leave it soon.
func (j *judgement) left() {
	c := j.f.Cutover
	switch {
	case !c.Moves(j.f.Table.Source):
	case c.Step == checkpoint.CutoverDone:
		reason := Reason("")
		if !c.FinalizedAt.IsZero() {
			reason = finalized
		}
		j.hold(Done, reason, later(c.SwitchedAt, c.EndedAt), "")
	case c.Step == checkpoint.CutoverWatching && c.RollingBack() && !c.Rollback.FreezeBegunAt.IsZero():
		j.hold(Cutover, Reason(c.Rollback.Step), c.Rollback.FreezeBegunAt, "a rollback to DynamoDB")
	case c.Step == checkpoint.CutoverWatching:
		j.hold(Cutover, watching, c.SwitchedAt, "")
	case c.Step.Active() && (!c.FreezeBegunAt.IsZero() || c.Step == checkpoint.CutoverSwitching):
		j.hold(Cutover, Reason(c.Step), c.FreezeBegunAt, "")
	}
}

// unknown checks whether the state is unknown because of the ledger, the target or clocks.
func (j *judgement) unknown() {
	f := j.f
	if at := f.ReadAt; !at.IsZero() && !isFresh(at, f.Now, f.Lease) {
		j.hold(Unknown, ledgerUnreadable, at, "")
	}
	for _, d := range f.Doubts {
		j.hold(Unknown, d.Reason, d.Since, d.Cause)
	}
	if j.s.future {
		j.hold(Unknown, clocksDiffer, time.Time{}, "")
	}
}

func (j *judgement) paused() {
	if p := j.f.Table.Pause; j.f.Table.Paused() {
		j.hold(Paused, byOperator, p.Since, p.Reason)
	}
}

// needsLoad checks whether data is missing and no load is in progress. A gap that is not declared
// yet makes a load in progress invalid.
func (j *judgement) needsLoad() {
	if gaps := j.s.Undeclared; len(gaps) > 0 {
		j.hold(NeedsLoad, undeclared, gaps[0].DoneAt, j.s.LoadReason)
		return
	}
	if why, moved := j.f.movedBack(); moved {
		j.hold(NeedsLoad, rolledBack, j.f.Cutover.Rollback.SwitchedAt, why)
		return
	}
	t := j.f.Table
	load := LoadOf(t, j.f.LoadsAgain)
	if !load.Needed || load.UnderWay {
		return
	}
	since := time.Time{}
	if n := len(t.Gaps); n > 0 {
		since = t.Gaps[n-1].At
	}
	kind := t.Kind
	if kind == "" {
		kind = checkpoint.KindUnknown
	}
	j.hold(NeedsLoad, Reason(kind), since, t.Reason)
	c := &j.s.Conditions[len(j.s.Conditions)-1]
	c.command = load.Leads
}

// stalled checks whether a shard was not read, or a step has failed, for three durations of a
// lease.
func (j *judgement) stalled() {
	f, t := j.f, j.f.Table
	switch {
	case j.s.Dropped:
		j.hold(Stalled, dropped, t.Suspended.Since, "")
	case t.Suspended.Reason != "":
		j.hold(Stalled, suspended, t.Suspended.Since, t.Suspended.Reason)
	case t.StreamEnded:
		j.hold(Stalled, streamEnded, time.Time{}, "")
	}
	if d := f.DeadLetter; d.Messages > 0 && t.Apply == checkpoint.Topic {
		j.hold(Stalled, deadLetter, d.Since, fmt.Sprintf("%d or more", d.Messages))
	}
	if j.s.LongGone || t.Paused() || t.Generation == 0 {
		return
	}
	j.unread()
	if b := f.Coordinator; Answers(b, f.Now, f.Lease) && fails(b, f) {
		j.hold(Stalled, stepFails, TroubleSince(b, f.Now), "cannot "+b.Trouble.Step+": "+b.Trouble.Cause)
	}
}

// fails reports whether the trouble in a process's heartbeat has lasted long enough to count as a
// failure. Throttling by a service is normal, and does not count.
func fails(b checkpoint.Heartbeat, f *Facts) bool {
	return b.Trouble.Step != "" && !b.Trouble.Throttled && !isFresh(TroubleSince(b, f.Now), f.Now, f.Lease)
}

// unread records one condition for each reason why shards are not read. The reason that has lasted
// longest comes first.
func (j *judgement) unread() {
	f := j.f
	found := map[Reason]*Condition{}
	note := func(r Reason, since time.Time, detail string) {
		if c := found[r]; c == nil || since.Before(c.Since) {
			found[r] = &Condition{State: Stalled, Reason: r, Since: since, Detail: detail}
		}
	}
	for i := range f.Shards {
		shard, row := &j.s.Shards[i], &f.Shards[i]
		if shard.Over || shard.askedAt.IsZero() || shard.future || isFresh(shard.askedAt, f.Now, f.Lease) {
			continue
		}
		reason, detail := whyUnread(shard, row)
		note(reason, shard.askedAt, detail)
	}
	listed := f.Table.Listed > 0
	if listed && j.s.open == 0 && !j.s.Dropped && !f.Table.StreamEnded && !Answers(f.Coordinator, f.Now, f.Lease) {
		note(noWorker, beatAt(f.Coordinator), "")
	}
	if j.s.Unlisted {
		note(notListed, j.s.OldestRead, "")
	}
	var all []Condition
	for _, c := range found {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Condition) int {
		if n := a.Since.Compare(b.Since); n != 0 {
			return n
		}
		return slices.Compare([]byte(a.Reason), []byte(b.Reason))
	})
	j.s.Conditions = append(j.s.Conditions, all...)
}

// whyUnread returns why a shard was not read for three lease durations.
func whyUnread(shard *Shard, row *checkpoint.Shard) (Reason, string) {
	switch {
	case shard.Unfollowed:
		return noChildren, "shard " + row.ID
	case row.Owner == "":
		return noWorker, "shard " + row.ID
	case shard.Silent:
		return workerSilent, row.Owner + ", shard " + row.ID
	case row.Trouble.Step != "":
		return stepFails, "cannot " + row.Trouble.Step + ": " + row.Trouble.Cause
	}
	return notRead, "shard " + row.ID
}

// begun reports whether a worker has registered the table, and there is a complete listing of its
// stream.
func (j *judgement) begun() bool {
	return j.f.Table.Generation > 0 && (j.f.Table.Listed > 0 || !WaitsForListing(j.f.Table))
}

func (j *judgement) preparing() {
	switch t := j.f.Table; {
	case t.Generation == 0:
		j.hold(Preparing, notStarted, time.Time{}, "")
	case !j.begun():
		j.hold(Preparing, "", begunAt(t, j.f.Now), "")
	}
}

// copying checks whether the copy of the existing items is unfinished. If a load is needed but not
// in progress, needsLoad reports that instead.
func (j *judgement) copying() {
	t := j.f.Table
	load := LoadOf(t, j.f.LoadsAgain)
	switch {
	case !j.begun():
	case load.State == LoadAsked && t.Load.Request.Failed != "":
		j.hold(Copying, exportRefused, t.Load.AskedAt, "")
	case load.State == LoadAsked:
		j.hold(Copying, pausedOr(t.Load, asked), t.Load.AskedAt, pauseDetail(t.Load))
	case load.State == LoadCopying:
		j.hold(Copying, pausedOr(t.Load, fastOr(t.Load)), t.Load.StartedAt, "")
	case load.State == LoadNotStarted && !load.Needed:
		j.hold(Copying, notAsked, time.Time{}, "")
	}
}

func (j *judgement) sweeping() {
	l := j.f.Table.Load
	switch LoadOf(j.f.Table, j.f.LoadsAgain).State {
	case LoadApproval:
		c := l.Sweep.Counts
		j.hold(Sweeping, approval, l.DoneAt, fmt.Sprintf("rows to write: %d, to remove: %d", c.Put, c.Removed))
	case LoadSweeping:
		j.hold(Sweeping, pausedOr(l, fastOr(l)), l.DoneAt, pauseDetail(l))
	}
}

// pausedOr returns why a load is paused. If the load is not paused, it returns `other`.
func pausedOr(l checkpoint.Load, other Reason) Reason {
	switch l.Paused {
	case "":
		return other
	case checkpoint.PausedByOperator:
		return byOperator
	case checkpoint.PausedForHeadroom:
		return lowHeadroom
	}
	switch {
	case l.PausedForStranger():
		return sharedTarget
	case strings.HasPrefix(l.Paused, checkpoint.PausedForFence):
		return openFence
	}
	return targetBusy
}

// fastOr returns the reason of a load that is fast; "" for another load.
func fastOr(l checkpoint.Load) Reason {
	if l.Fast {
		return fastLoad
	}
	return ""
}

// pauseDetail returns the name of another migration or the trouble with the fence, if that is why a
// load is paused; otherwise "".
func pauseDetail(l checkpoint.Load) string {
	for _, reason := range []string{checkpoint.PausedForStranger, checkpoint.PausedForFence} {
		if detail, is := strings.CutPrefix(l.Paused, reason); is {
			return detail
		}
	}
	return ""
}

func (j *judgement) parked() {
	if n := j.f.Parked; n > 0 {
		j.hold(Parked, "", time.Time{}, fmt.Sprint(n))
	}
}

func (j *judgement) differs() {
	t := j.f.Table
	if r, n := differing(t); n > 0 {
		detail, command := fmt.Sprint(n), ""
		if n == r.Foreign {
			detail, command = detail+", not written by this migration", foreign
		}
		j.hold(Differs, byVerify, r.EndedAt, detail)
		j.s.Conditions[len(j.s.Conditions)-1].command = command
		j.aroundNoTopic()
	}
	if n := t.Sampled.Differing; n > 0 {
		j.hold(Differs, bySample, t.Sampled.At, fmt.Sprint(n))
		j.aroundNoTopic()
	}
}

// aroundNoTopic recommends a load as the repair of a table in mode topic. Appliers write the rows
// of such a table, so no command can repair single rows.
func (j *judgement) aroundNoTopic() {
	if j.f.Table.Apply == checkpoint.Topic {
		j.s.Conditions[len(j.s.Conditions)-1].command = redo
	}
}

// catchingUp checks whether there may be unapplied changes that are older than three durations of a
// lease.
func (j *judgement) catchingUp() {
	s, t, now := j.s, j.f.Table, j.f.Now
	if !j.begun() {
		return
	}
	if t.Adopted != t.Generation {
		j.hold(CatchingUp, newGeneration, time.Time{}, "")
	}
	if s.overdue(j.f.Lease) {
		j.hold(CatchingUp, unapplied, now.Add(-*s.TopicLag), fmt.Sprint(*s.Behind))
	}
	switch {
	case s.outlived():
		j.hold(CatchingUp, beyondStream, now.Add(*s.Headroom-cdc.Retention), "")
	case s.unknown:
		j.hold(CatchingUp, unread, time.Time{}, "")
	case s.Lag != nil && *s.Lag > Fresh(j.f.Lease):
		j.hold(CatchingUp, lagging, now.Add(-*s.Lag), "")
	}
}

// syncedSince returns the time since which a table is known to be in sync. Since that time, its
// load has been complete, and no shard's lag has exceeded the configured bound.
func (f *Facts) syncedSince() time.Time {
	since := later(f.Table.Load.SweptAt, f.Table.Load.DoneAt)
	for _, s := range Open(f.Table, f.Shards) {
		since = later(since, s.Sighted.BehindAt)
	}
	return since
}
