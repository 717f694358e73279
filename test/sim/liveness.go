package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// patience is the longest time without progress while a worker and both services work (I10). A
// lease ends after its time, is checked once per pass, and a takeover may fail once. A worker that
// cannot reach the source releases its leases after some lease times.
func (s *simulation) patience() time.Duration {
	return 8*(s.Lease+s.plan.pass+s.plan.list) + time.Duration(s.plan.workers-1)*4*(s.Lease+s.plan.pass) + time.Hour + s.Target.LateBy
}

// checkStill checks that while a worker and both services work, some worker coordinates the table,
// lists its stream, and reads each readable shard (I10).
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

// checkNoted checks that the ledger soon records which shards listings show as open. Otherwise a
// child's coverage would be far too early, and an outage of less than a day would count as a loss
// (I5, H75).
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

// lastMoved returns the earliest of three times: the last write of a shard's row, its last read,
// and the last move of its checkpoint while more is to be applied.
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
	// Under other policies a worker may end at an item that cannot be stored.
	if next < len(sh.Records) && s.Policy == (policy{}) {
		last = min(last, max(seen.moved, later(sh.Records[next].At, sh.EmptyAt).Sub(simEpoch)))
	}
	return last
}

// starvation is how long a shard may stay unread, or the stream unlisted, before changes may count
// as lost. A stream keeps 24 hours. From these the check subtracts the replicator's margins, a
// listing's period, and two hours for wrong clocks.
const starvation = 18 * time.Hour

// checkStarved records when a gap may be declared although no fault lost changes.
func (s *simulation) checkStarved() {
	if !s.starved && starved(s.Migration) {
		s.starved = true
		s.World.Inject("nothing read for 18 hours")
		s.World.Tracef("from now on a gap may be declared")
	}
}

// starved reports whether the stream was not listed, or some shard not read, for too long. For a
// shard with only empty pages, its coverage counts.
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
			since = row.FirstRead // for a root
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

// loses reports whether something happened after which a gap may be declared: its stream was
// replaced, ended, or left out shards that it can no longer return; its target or ledger was set
// back; its mapping changed; or it was not read for too long.
func (s *simulation) loses() bool {
	stream := s.Source.Stream()
	return s.starved || s.failedOver || s.expiry() > 0 || s.isSetBack() || len(s.Source.Streams) > 1 || stream.Ended || s.hash != s.firstHash || holed(stream)
}

// holed reports whether listings omitted a shard that vanished before it was trimmed, or that was
// listed after its child.
func holed(stream *model.Stream) bool {
	return slices.ContainsFunc(stream.Shards, func(sh *model.Shard) bool {
		parent := stream.Shard(sh.Parent)
		return sh.Vanished ||
			parent != nil && !sh.ListedAt.IsZero() && (parent.ListedAt.IsZero() || parent.ListedAt.After(sh.ListedAt))
	})
}

// reasons lists the reasons that gaps may have only after a table was set back or a stream
// replaced.
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

// checkGap: no gap is declared before a loss, and no gap names a reason that did not happen (I5).
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
