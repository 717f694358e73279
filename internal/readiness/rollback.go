package readiness

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// Carried is how long after the freeze of a rollback the changes must have reached the source.
const Carried = time.Minute

// RollbackGates judges the gates of a rollback of the cutover c from the records of its ways back. The
// argument `carried` replaces Carried unless it is 0.
func RollbackGates(c checkpoint.Cutover, found []checkpoint.Fallback, limits Limits, carried time.Duration, now time.Time) (gates []checkpoint.CutoverGate) {
	for _, f := range found {
		gates = append(gates, judgeRollback(f, c.Attempt, limits.LagBelow+cmp.Or(carried, Carried), limits.Lease, now)...)
	}
	return gates
}

// judgeRollback judges the gates of a rollback of a table. The lease is that of the leaders.
func judgeRollback(f checkpoint.Fallback, attempt uint32, below, lease time.Duration, now time.Time) []checkpoint.CutoverGate {
	gate := func(name string, ready bool, figure, cure string) checkpoint.CutoverGate {
		g := checkpoint.CutoverGate{Name: name, Table: f.Source, Ready: ready, Figure: figure}
		if !ready {
			g.Cure, g.Binding = cure, name != GateCarried
		}
		return g
	}
	following, figure, cure := f.State == checkpoint.FallbackFollowing && f.Attempt == attempt, string(f.State), "replicator status --table "+f.Source
	switch {
	case f.State == "" || f.Attempt != attempt:
		figure = "there is no way back"
	case f.State == checkpoint.FallbackGap:
		figure, cure = "changes were lost: "+f.Reason, "replicator verify --reverse --repair --table "+f.Source
	case f.State == checkpoint.FallbackStopping, f.State == checkpoint.FallbackStopped:
		cure = "replicator cutover end-fallback" // it began, and did not complete
	case following && now.Sub(f.SavedAt) > 3*lease:
		following, figure, cure = false, "no worker leads since "+f.SavedAt.UTC().Format(time.DateTime), "start a worker"
	}
	behind := now.Sub(f.Settled)
	lag := "lag unknown"
	if !f.Settled.IsZero() {
		lag = timespan.Spell(max(behind, 0).Round(time.Second)) + " behind"
	}
	led, leader := now.Sub(f.Led), "no leader"
	if !f.Led.IsZero() {
		leader = "the same leader for " + timespan.Spell(max(led, 0).Round(time.Second)) + " (" + timespan.Spell(f.Wait) + " needed)"
	}
	return []checkpoint.CutoverGate{
		gate(GateFollowing, following, figure, cure),
		gate(GateCarried, f.Parked == 0, fmt.Sprintf("%d rows cannot be carried", f.Parked), "correct the rows; replicator status --table "+f.Source+" has the number"),
		gate(GateBehind, !f.Settled.IsZero() && behind <= below, lag, "wait; replicator status --table "+f.Source),
		gate(GateLeader, !f.Led.IsZero() && led >= f.Wait && !f.DoubtUntil.After(now), leader, "wait"),
	}
}

// LostBack returns why the way back of a table can no longer be proved; "" if it can. The argument
// `parked` allows rows that cannot be carried.
func LostBack(f checkpoint.Fallback, attempt uint32, parked bool) string {
	switch {
	case f.State == checkpoint.FallbackGap:
		return "changes were lost: " + f.Reason
	case f.Attempt != attempt || f.State != checkpoint.FallbackFollowing:
		return "the way back is " + string(f.State)
	case f.Parked > 0 && !parked:
		return fmt.Sprintf("%d rows cannot be carried", f.Parked)
	}
	return ""
}

// DrainedBack returns the condition for which the drain of a table waits; "" if everything before
// the freeze has reached the source. The watermarks of the change stream are estimates, and a request
// may be executed twice. So nothing may have changed for the time `carried`.
func DrainedBack(f checkpoint.Fallback, frozen, now time.Time, carried time.Duration) string {
	to := frozen.Add(carried)
	switch {
	case f.Settled.Before(to):
		return fmt.Sprintf("changes are read up to %s, and %s is needed", f.Settled.UTC().Format(time.TimeOnly), to.UTC().Format(time.TimeOnly))
	case f.Dirty > 0:
		return fmt.Sprintf("%d rows may differ from their items", f.Dirty)
	case f.Doubts > 0 || f.DoubtUntil.After(now):
		return "a request may still be executed"
	case f.SavedAt.Before(to):
		return "its leader has not answered yet"
	case now.Before(f.WroteAt.Add(carried)):
		return "the last request to DynamoDB was at " + f.WroteAt.UTC().Format(time.TimeOnly)
	}
	return ""
}

// StoppedAll returns the condition for which the end of the ways back waits; "" if all are stopped.
func StoppedAll(found []checkpoint.Fallback, now time.Time) string {
	for _, f := range found {
		if f.State == checkpoint.FallbackStopped {
			continue
		}
		if f.DoubtUntil.After(now) {
			return fmt.Sprintf("table %s: a request may still be executed until %s", f.Source, f.DoubtUntil.UTC().Format(time.TimeOnly))
		}
		return fmt.Sprintf("table %s: its leader has not stopped yet", f.Source)
	}
	return ""
}
