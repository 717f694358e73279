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
	case following && now.Sub(f.SavedAt) > 3*lease:
		following, figure, cure = false, "no worker leads since "+f.SavedAt.UTC().Format(time.DateTime), "start a worker"
	}
	behind := now.Sub(f.Settled)
	lag := "unknown"
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
