package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// patience is how long anything may stand still while a worker and both services are well (I10). A
// lease is over after its time, is looked at once in a pass, and may be tried in vain; a worker
// that cannot reach the source gives up what it took after some leases.
func (s *simulation) patience() time.Duration {
	return 8*(s.Lease+s.plan.pass+s.plan.list) + time.Duration(s.plan.workers-1)*4*(s.Lease+s.plan.pass) + time.Hour + s.Target.LateBy
}

// checkStill: while a worker is well and both services are, somebody keeps the table, lists its
// stream, and reads each shard that can be read (I10).
func (s *simulation) checkStill() {
	now, patience := s.World.Elapsed(), s.patience()
	well := now - patience
	someone := slices.ContainsFunc(s.crew, func(m *member) bool { return m.works() && m.healthy <= well })
	state := s.State()
	if !someone || max(s.healthy, s.expired, s.contended) > well {
		return
	}
	if still := now - s.rec.coordinator; still > patience {
		s.fail("I10", "nobody keeps the table for %s", still)
	}
	stream := s.Source.Stream()
	if still := s.World.Now().Sub(later(stream.WholeAt, stream.Shards[0].Begun)); state.Listed > 0 && still > patience && !stream.Ended {
		s.fail("I10", "nobody lists the stream for %s", still)
	}
	if state.Label == stream.Label {
		s.checkNoted(stream, patience)
	}
	for _, seen := range inOrder(s.rec.shards) {
		parent := s.rec.shards[seen.Label+"/"+seen.Parent]
		waits := parent != nil && (!parent.Finished() || now-parent.wrote <= patience)
		if state.Listed == 0 || waits || seen.Label != state.Label || seen.Finished() && !seen.Reopenable(state) {
			continue
		}
		if still := now - s.lastMoved(seen); still > patience {
			s.fail("I10", "shard %s, which is %s, owned by %q, stands still for %s", seen.ID, seen.State, seen.Owner, still)
		}
	}
}

// checkNoted: what listings show open is noted soon; else a child would be covered to much less
// than it is, and an outage of less than a day would be taken for a loss (I5, H75).
func (s *simulation) checkNoted(stream *model.Stream, patience time.Duration) {
	noted := recordOf[openRecord](s.Target.Row(model.StateTable, "default/open/"+s.Source.Name))
	for _, sh := range stream.Open() {
		at := sh.Begun
		if noted.Label == stream.Label {
			at = later(at, noted.Open[sh.ID])
		}
		if sh.ShownOpen.Sub(at) > patience {
			s.fail("I5", "shard %s was shown open at %s, and that is noted of %s", sh.ID, sh.ShownOpen, at)
		}
	}
}

// lastMoved is when a shard's row was last written, or when it was last read, or its checkpoint
// moved though there is more to be applied: whatever is longest ago.
func (s *simulation) lastMoved(seen *seenShard) time.Duration {
	sh := s.Source.Shard(seen.Label, seen.ID)
	if sh == nil || sh.Gone {
		return seen.wrote
	}
	last := seen.wrote
	if !sh.ReadAt.IsZero() {
		last = min(last, sh.ReadAt.Sub(simEpoch))
	}
	next := max(sh.After(seen.Position), sh.Trimmed)
	if next < len(sh.Records) && s.Policy == (policy{}) { // else who meets an item that cannot be held ends
		last = min(last, max(seen.moved, later(sh.Records[next].At, sh.EmptyAt).Sub(simEpoch)))
	}
	return last
}

// starvation is how long a shard may stay unread, or the stream unlisted, before changes may count
// as lost: a stream keeps 24 hours, and what that is judged by gives up the margins of the
// replicator, a listing's period, and two hours by which clocks may be wrong.
const starvation = 18 * time.Hour

// checkStarved notes when a gap may be declared though nothing took place that loses changes at
// once.
func (s *simulation) checkStarved() {
	if !s.starved && starved(s.Migration) {
		s.starved = true
		s.World.Inject("nothing read for 18 hours")
		s.World.Tracef("from now on a gap may be declared")
	}
}

// starved reports whether the stream was not listed, or something of it was not read, for too long.
// Of a shard of which nothing but empty pages was read, what it is covered to counts.
func starved(m *Migration) bool {
	rows := map[string]checkpoint.Shard{}
	for _, row := range m.Shards() {
		rows[row.Label+"/"+row.ID] = row
	}
	late := func(since time.Time) bool { return m.World.Now().Sub(since) > starvation }
	stream := m.Source.Stream()
	if late(later(stream.WholeAt, stream.Shards[0].Begun)) {
		return true
	}
	for _, sh := range slices.Concat(shardsOf(m.Source.Streams)...) {
		row, known := rows[sh.Label+"/"+sh.ID]
		since := later(sh.Begun, sh.ReadAt)
		if known && row.Position.IsZero() && !row.CoveredTo.IsZero() {
			since = row.CoveredTo
		} else if known && row.Position.IsZero() && !row.FirstRead.IsZero() {
			since = row.FirstRead // of a root
		}
		if late(since) && (!known && !sh.Gone || known && !row.Finished()) {
			return true
		}
	}
	return false
}

func shardsOf(streams []*model.Stream) (all [][]*model.Shard) {
	for _, s := range streams {
		all = append(all, s.Shards)
	}
	return all
}

// loses reports whether something took place after which a gap may be declared: its
// stream was replaced, ended or left out what it cannot give any more, its target or its ledger was
// set back, its mapping is another, or nothing was read of it for long.
func (s *simulation) loses() bool {
	stream := s.Source.Stream()
	return s.starved || s.failedOver || s.expiry() > 0 || s.isSetBack() || len(s.Source.Streams) > 1 || stream.Ended || s.hash != s.firstHash || holed(stream)
}

// holed reports whether the stream left out what it has: a shard that it cannot give before it was
// trimmed, or one that is listed after its child.
func holed(stream *model.Stream) bool {
	return slices.ContainsFunc(stream.Shards, func(sh *model.Shard) bool {
		parent := stream.Shard(sh.Parent)
		return sh.Vanished ||
			parent != nil && !sh.ListedAt.IsZero() && (parent.ListedAt.IsZero() || parent.ListedAt.After(sh.ListedAt))
	})
}

// reasons are what gaps may say only after a table was set back, or a stream replaced.
var reasons = []struct {
	says  string
	holds func(s *simulation) bool
}{
	{"recreated or restored", func(s *simulation) bool { return !s.targetLost().IsZero() }},
	{"another ledger", func(s *simulation) bool { return s.Migration.isSetBack() }},
	{"app profile was routed", func(s *simulation) bool { return s.failedOver }},
	{"a new stream", func(s *simulation) bool { return len(s.Source.Streams) > 1 }},
	{"stream is disabled", func(s *simulation) bool { return s.Source.Stream().Ended || len(s.Source.Streams) > 1 }},
	{"stream is gone", func(s *simulation) bool { return s.Source.Stream().Ended || len(s.Source.Streams) > 1 }},
	{"mapping was changed", func(s *simulation) bool { return s.hash != s.firstHash }},
}

// checkGap: no gap is declared before anything was lost, and none tells of what did not happen
// (I5).
func (s *simulation) checkGap(table, key string, before, after *model.Row) {
	if table != model.StateTable || !strings.HasPrefix(key, "default/table/") {
		return
	}
	was, is := recordOf[checkpoint.TableState](before), recordOf[checkpoint.TableState](after)
	if is.GapCount <= was.GapCount || is.Gaps[len(is.Gaps)-1].Kind == checkpoint.KindAskedFor {
		return
	}
	if s.checkStarved(); !s.loses() {
		s.fail("I5", "a gap before a loss: %s", is.Reason)
	}
	for _, r := range reasons {
		if strings.Contains(is.Reason, r.says) && !r.holds(s) {
			s.fail("I5", "a gap that tells of what did not happen: %s", is.Reason)
		}
	}
}
