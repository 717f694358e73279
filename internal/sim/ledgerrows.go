package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// What rows of the ledger say of shards, and how they are written. A wrong word here may lose nothing in a whole day, and everything after it.

// checkPlaced: a shard whose ancestors are not known is written down after the gap that this is: nobody would find it again (H76).
func (t *truth) checkPlaced(is checkpoint.Shard) {
	orphan := !is.CoveredTo.IsZero() || is.State == checkpoint.Lost
	if orphan && !slices.ContainsFunc(t.m.State().Gaps, func(g checkpoint.Gap) bool { return g.Shard == is.ID }) {
		t.m.violate("I5: shard %s has no place in the lineage, and no gap tells of it", is.ID)
	}
}

// checkDropping: what came before the cut is dropped until something after it is applied, in the shard or in what it follows (H84).
func (t *truth) checkDropping(is checkpoint.Shard, seen *seenShard) {
	sh := t.m.Source.shard(is.Label, is.ID)
	isNew := seen.ID == ""
	cut, parent := t.m.State().Cut, t.ledger[is.Label+"/"+is.Parent]
	if sh == nil || cut.IsZero() || is.Dropping || !seen.Dropping && !isNew || seen.Loss != "" {
		return
	}
	kept := slices.ContainsFunc(sh.records, func(r record) bool {
		return r.change.Sequence.Compare(is.Position) <= 0 && !r.change.Time.Before(cut)
	})
	if !kept && (parent == nil || parent.Dropping) {
		t.m.violate("I5: shard %s drops nothing any more, and all of it is from before the cut", is.ID)
	}
}

// checkTaken: a shard that is begun rests on what its parent covers, and goes on with its parent's times (H75). A parent whose row came later may
// not have been seen.
func (t *truth) checkTaken(is checkpoint.Shard, seen *seenShard) {
	if is.CellTime.Before(seen.CellTime) {
		t.m.violate("I3: shard %s has cells of %s, and goes on from %s", is.ID, seen.CellTime, is.CellTime)
	}
	parent := t.ledger[is.Label+"/"+is.Parent]
	if seen.State != checkpoint.Waiting || is.State != checkpoint.Reading || parent == nil || !parent.Finished() || !parent.made.Before(seen.made) ||
		!is.Position.IsZero() || !is.FirstRead.IsZero() {
		return
	}
	least := parent.CoveredTo
	switch {
	case parent.Loss != "":
		least = parent.DoneAt
	case !parent.EventTime.IsZero():
		least = later(least, parent.EventTime.Add(-checkpoint.Slack))
	}
	most := later(least, seen.CoveredTo)
	if parent.Loss == "" {
		noted := recordOf[openRecord](t.m.Target.Row(stateTable, "default/open/"+t.m.Source.Name))
		if at := noted.Open[parent.ID]; noted.Label == is.Label && !at.IsZero() {
			most = later(most, at.Add(-checkpoint.Slack))
		}
		if most.IsZero() {
			most = parent.FirstRead
		}
	}
	if is.CoveredTo.IsZero() || is.CoveredTo.Before(least) || is.CoveredTo.After(most) {
		t.m.violate("I5: shard %s is covered to %s, and what it follows at least to %s and at most to %s", is.ID, is.CoveredTo, least, most)
	}
	if is.CellTime.Before(parent.CellTime) {
		t.m.violate("I3: shard %s goes on from %s, and its parent had cells of %s", is.ID, is.CellTime, parent.CellTime)
	}
}

// checkFinished: a shard that nobody reads any more says since when, and one that is lost why.
func (t *truth) checkFinished(is checkpoint.Shard) {
	if is.Finished() && is.DoneAt.IsZero() || is.State == checkpoint.Lost && (is.Loss == "" || is.Reason == "") {
		t.m.violate("I5: shard %s is %s %q since %s, and says %q", is.ID, is.State, is.Loss, is.DoneAt, is.Reason)
	}
}

// checkForgotten: a row is removed long after its shard was finished, and not while a shard that follows it is read (H16, H76), whatever
// the clocks of workers say.
func (t *truth) checkForgotten(seen *seenShard) {
	if ago := t.m.World.Now().Sub(seen.DoneAt); !seen.Finished() || ago < 36*time.Hour {
		t.m.violate("I4: the row of shard %s, which is %s, is removed after %s", seen.ID, seen.State, ago)
	}
	for _, s := range t.ledger {
		if s.Label == seen.Label && s.Parent == seen.ID && !s.Finished() {
			t.m.violate("I4: the row of shard %s is removed while its child %s is %s", seen.ID, s.ID, s.State)
		}
	}
}

// checkNumbered: no two writes of a worker to the ledger have the same number, or after an unknown outcome one would be taken for the other (H44).
func (t *truth) checkNumbered(key string, after *Row) {
	text, ok := after.Value(ledgerFamily, recordColumn)
	by := strings.Index(text, `,"n":`)
	if !ok || by < 0 {
		return
	}
	end := by + 5 + strings.IndexAny(text[by+5:], ",}")
	if was, found := t.numbered[text[:end]]; found && was != key+text {
		t.m.violate("I6: two writes of the ledger begin with %s", text[:end])
	}
	t.numbered[text[:end]] = key + text
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
