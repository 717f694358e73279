package sim

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// What the ledger says of listings: coverage and the ranks of shards rest on it, which shows in a run only after an outage of a day.

// openRecord is what the ledger notes of shards that listings showed open.
type openRecord struct {
	Label string               `json:"label"`
	Open  map[string]time.Time `json:"open"`
}

// listedShards is what one complete listing showed.
type listedShards []string

// checkListed: a stream counts as listed only when one complete listing of it is known as a whole (I4).
func (t *truth) checkListed(was, is checkpoint.TableState) {
	if is.Listed == 0 || was.Listed != 0 && was.Label == is.Label {
		return
	}
	t.listed[is.Label] = t.m.World.Now()
	for _, s := range t.m.Source.Streams {
		if s.Label != is.Label || s.forgotten() {
			continue // there is no listing of a stream that the service does not know any more
		}
		unknown := func(id string) bool { return t.ledger[s.Label+"/"+id] == nil }
		if !slices.ContainsFunc(s.whole, func(ids listedShards) bool { return !slices.ContainsFunc(ids, unknown) }) {
			t.m.violate("I4: stream %s counts as listed, and no listing of it is known", is.Label)
		}
	}
}

// overlooked tells whether a change is in a shard that the first complete listing left out, though it had a child of it. The child is taken for a root, as
// those are whose parents are trimmed; so all of the shard is of before that listing. A load covers it, because it begins later. Where nothing is loaded
// it is read if the shard is listed after all, and otherwise it is from before the start for all that anybody can know.
func (t *truth) overlooked(w Write) bool {
	if !w.At.Before(t.listed[w.Shard.label]) {
		return false
	}
	row := t.ledger[w.Shard.label+"/"+w.Shard.ID]
	for _, child := range t.ledger {
		if child.Label == w.Shard.label && child.Parent == w.Shard.ID && (row == nil || child.made.Before(row.made)) {
			return true
		}
	}
	return false
}

// checkBegun: a load begins when somebody asked for one, no gap waits for another kind of load, and the roots of the stream are known (I1).
func (t *truth) checkBegun(was, is checkpoint.TableState) {
	t.loads[is.Load.Generation] = true
	if is.Load.Generation == was.Load.Generation && is.Load.StartedAt.Equal(was.Load.StartedAt) {
		return
	}
	switch {
	case !is.Owed().IsZero():
		t.m.violate("I1: a load begins where changes are followed from %s on", is.Owed())
	case is.NeedsLoad:
		t.m.violate("I5: a load begins in generation %d, which a gap began: %s", is.Generation, is.Reason)
	case is.Listed == 0 || is.Adopted != is.Generation:
		t.m.violate("I1: a load begins before the shards of stream %s are known in generation %d", is.Label, is.Generation)
	}
	for _, s := range checkpoint.Roots(t.m.Shards(), is.Label) {
		seen := t.ledger[s.Label+"/"+s.ID]
		known := seen != nil && seen.made.Before(is.Load.StartedAt)
		if known && is.Load.StartedAt.Add(time.Hour).Before(s.FirstRead) { // one that was listed at the same time may be read a moment later
			t.m.violate("I1: a load begins at %s, before root %s was read at %s", is.Load.StartedAt, s.ID, s.FirstRead)
		}
	}
}

// checkOpen: a shard counts as open at a time only if a listing showed it so then, and none of its children was known before (H75).
func (t *truth) checkOpen(before, after *Row) {
	was, is := recordOf[openRecord](before), recordOf[openRecord](after)
	for id, at := range is.Open {
		sh := t.m.Source.shard(is.Label, id)
		if sh == nil || was.Label == is.Label && was.Open[id].Equal(at) {
			continue
		}
		if at.After(sh.shownOpen) {
			t.m.violate("I5: shard %s counts as open at %s, and was last shown so at %s", id, at, sh.shownOpen)
		}
		for _, child := range t.ledger {
			if child.Label == is.Label && child.Parent == id && child.made.Before(at) {
				t.m.violate("I5: shard %s counts as open at %s, when its child %s was known", id, at, child.ID)
			}
		}
		if at.Before(was.Open[id]) && was.Label == is.Label {
			t.m.violate("I5: shard %s counted as open at %s, and now at %s", id, was.Open[id], at)
		}
	}
}

// checkNoted: what complete listings show open is noted soon, while a worker is well; else a child would be covered to much less than it is, and
// an outage of less than a day would be taken for a loss (H75).
func (s *simulation) checkNoted(state checkpoint.TableState, patience time.Duration) {
	stream := s.Source.Stream()
	if state.Label != stream.Label {
		return
	}
	noted := recordOf[openRecord](s.Target.Row(stateTable, "default/open/"+s.Source.Name))
	for _, sh := range stream.Open() {
		at := noted.Open[sh.ID]
		if noted.Label != stream.Label {
			at = time.Time{}
		}
		if sh.shownOpen.Sub(later(at, sh.begun)) > patience {
			s.fail("I5", "shard %s was shown open at %s, and that is noted of %s", sh.ID, sh.shownOpen, at)
		}
	}
}
