package sim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// What the ledger says of time and of amounts decides seldom, and then about everything: after an outage of about a day. So each statement is held
// against the truth whenever it is written, and not only in the runs in which something hangs on it.

// checkProgress: what a shard's row says of its changes is so (I3, I5).
func (t *truth) checkProgress(is checkpoint.Shard, seen *seenShard) {
	m := t.m
	sh := m.Source.shard(is.Label, is.ID)
	if sh == nil || t.reopened[is.Label+"/"+is.ID] || is.Loss != "" { // a shard that is read on keeps what it said before
		return
	}
	var latest time.Time
	applied := uint64(0)
	for _, r := range sh.records {
		if r.change.Sequence.Compare(is.Position) > 0 {
			break
		}
		applied++
		if r.change.Time.After(latest) {
			latest = r.change.Time
		}
	}
	// The latest may have been trimmed before anybody read the shard, for which a load makes up, and what came after it be dated before it.
	mayLack := m.Source.TimeRunsBack && sh.trimmed > 0 && is.EventTime.Before(latest) && latest.Sub(is.EventTime) <= backBy*time.Second
	if !is.EventTime.Equal(latest) && !mayLack && (applied > 0 || !is.EventTime.IsZero()) {
		m.violate("I5: shard %s says that it is applied up to %s, which is %s", is.ID, is.EventTime, latest)
	}
	if is.Applied > applied {
		m.violate("I3: shard %s says that %d changes are applied, of %d", is.ID, is.Applied, applied)
	}
	if is.FirstRead.After(m.World.Now()) || !is.FirstRead.IsZero() && is.FirstRead.Before(sh.firstRead.Truncate(time.Second)) {
		m.violate("I5: shard %s says that it was first read at %s, which was %s", is.ID, is.FirstRead, sh.firstRead)
	}
	// A row that is made with it is of a shard without its place, up to whose gap (checkPlaced) all is the business of a load. By a late request it may be
	// made after its parent's.
	if isNew := seen.ID == ""; !isNew && !is.CoveredTo.Equal(seen.CoveredTo) {
		t.checkCovered(is, sh)
	}
}

// checkCovered: a shard's first change is not from before what it is said to be covered to, unless a gap says that it may be (H75).
func (t *truth) checkCovered(is checkpoint.Shard, sh *Shard) {
	parent := t.ledger[is.Label+"/"+is.Parent]
	if parent == nil || parent.Loss != "" || t.reopened[is.Label+"/"+is.Parent] {
		return // up to a gap everything is the business of the load that follows it
	}
	table := t.m.State()
	switch {
	case !is.CoveredTo.After(sh.begun), !is.CoveredTo.After(sh.listedAt):
		return // its parent cannot be known to be closed while nothing else is listed
	case !is.CoveredTo.After(parent.CoveredTo):
		return // its parent's gap is its own
	case !table.Owed().IsZero() && !is.CoveredTo.After(table.Owed()):
		return // nobody asked for what came before
	case table.NeedsLoad && !is.CoveredTo.After(parent.FirstRead):
		return // the business of the load that follows the gap, when the roots were read
	case table.Owed().IsZero() && (table.Load.StartedAt.IsZero() || !is.CoveredTo.After(table.Load.StartedAt)):
		return // the business of the load, which begins later
	}
	t.m.violate("I5: shard %s is covered to %s, and begins at %s", is.ID, is.CoveredTo, sh.begun)
}

// checkSeat: only the keeper writes its row, under an epoch of its own (I6), and what it has loaded is not forgotten (I7).
func (t *truth) checkSeat(before, after *Row) {
	was, is := recordOf[seatRecord](before), recordOf[seatRecord](after)
	if is.Epoch < was.Epoch || is.Epoch == was.Epoch && was.Epoch > 0 && is.By != was.Owner {
		t.m.violate("I6: %s wrote the keeper's row under epoch %d of %q after epoch %d", is.By, is.Epoch, was.Owner, was.Epoch)
	}
	if is.Owner != was.Owner && is.Owner != "" && is.Epoch == was.Epoch {
		t.m.violate("I6: %s keeps the table under the epoch %d of %q", is.Owner, is.Epoch, was.Owner)
	}
	if string(was.Scan) == string(is.Scan) {
		return
	}
	var a, b backfill.Progress
	if was.Scan != nil && json.Unmarshal(was.Scan, &a) != nil || json.Unmarshal(is.Scan, &b) != nil {
		t.m.violate("I7: the progress of a load cannot be read")
		return
	}
	for i, o := range b.Open {
		if o.Segment < 0 || o.Segment >= b.Next || i > 0 && o.Segment <= b.Open[i-1].Segment {
			t.m.violate("I7: the progress of a load has segment %d open, %d of %d, of which %d were begun", o.Segment, i+1, len(b.Open), b.Next)
		}
	}
	if load := t.m.State().Load.Generation; b.Generation != load {
		t.m.violate("I7: the load of generation %d says that it is of %d", load, b.Generation)
	}
	if b.Generation < a.Generation || b.Generation == a.Generation && (b.Next < a.Next || b.Items < a.Items || b.Total != a.Total && a.Total > 0) {
		t.m.violate("I7: the load of generation %d goes back from segment %d and %d items to segment %d and %d items", a.Generation, a.Next, a.Items, b.Next, b.Items)
	}
}

// checkRaised: a generation that rises says why, says when a load began as it was, and knows nothing yet of a new stream (I5).
func (t *truth) checkRaised(was, is checkpoint.TableState) {
	if was.Generation > 0 && is.Generation > was.Generation {
		told := slices.ContainsFunc(is.Gaps, func(g checkpoint.Gap) bool { return g.Generation == was.Generation && g.Reason != "" && !g.At.IsZero() })
		if !told || !is.NeedsLoad || is.Reason == "" || is.GapCount <= was.GapCount && was.GapCount < 50 {
			t.m.violate("I5: generation %d ends without a gap that says why", was.Generation)
		}
	}
	if was.Owed().IsZero() && is.Owed().After(t.m.World.Now().Add(-checkpoint.Slack)) {
		t.m.violate("I5: changes are owed from %s on, which is not before the start", is.Owed())
	}
	if is.Label < was.Label {
		t.m.violate("I5: stream %s is followed again, after %s, which came later", is.Label, was.Label)
	}
	if was.Label != "" && is.Label != was.Label && is.Listed != 0 {
		t.m.violate("I5: stream %s counts as listed when it is first heard of", is.Label)
	}
	if is.Aside.Reason != "" && is.Aside.Reason != was.Aside.Reason {
		t.m.World.Inject("table set aside")
		if injected := t.m.World.Injected(); injected["table out of sight"]+injected["stream without images"]+injected["stream disabled"]+injected["one call fails at the source"]+injected["service denied"] == 0 {
			t.m.violate("I5: the table is set aside, though nothing ails it: %s", is.Aside.Reason)
		}
	}
	if is.StreamEnded && !t.ended(is.Label) {
		t.m.violate("I5: stream %s is said to have ended, and goes on", is.Label)
	}
	if is.Load.StartedAt.After(t.m.World.Now()) {
		t.m.violate("I5: the load begins at %s, which is to come", is.Load.StartedAt)
	}
}

// ended tells whether a stream takes no changes any more.
func (t *truth) ended(label string) bool {
	return slices.ContainsFunc(t.m.Source.Streams, func(s *Stream) bool { return s.Label == label && s.Ended })
}

// reasons are what gaps may say only after one of the named faults took effect.
var reasons = []struct {
	says   string
	faults []string
}{
	{"created anew or restored", []string{"target lost", "target restored"}},
	{"another ledger", []string{"ledger lost", "ledger restored", "ledger exchanged", "target exchanged"}},
	{"a new stream", []string{"new stream"}},
	{"stream is disabled", []string{"stream disabled"}},
	{"stream is gone", []string{"stream disabled", "new stream", "stream without images"}}, // a day later the one before is, too
	{"mapping was changed", []string{"mapping changed"}},
}

// checkEnds: the end of a stream is told as often as it happened (I5).
func (s *simulation) checkEnds() {
	times := 0
	for _, gap := range s.State().Gaps {
		if strings.Contains(gap.Reason, "stream is disabled") || strings.Contains(gap.Reason, "stream is gone") {
			times++
		}
	}
	ended := 0
	for _, stream := range s.Source.Streams {
		if stream.Ended {
			ended++
		}
	}
	if times > 2*ended && !s.exchanged { // an end is told as such, and once more when the service forgets the stream
		s.fail("I5", "the end of the stream is declared %d times", times)
	}
}

// The faults after which a gap may be declared: those of the ledger concern a neighbour as well, those of the target one that is in it.
var (
	lossesOfTable  = []string{"new stream", "stream disabled", "stream without images", "mapping changed", "child listed before its parent", "shard gone"}
	lossesOfTarget = []string{"target lost", "target restored", "target exchanged"}
	lossesOfLedger = []string{"ledger lost", "ledger restored", "ledger exchanged"}
)

// happened tells whether one of the faults took effect by now.
func (s *simulation) happened(faults []string) bool {
	return slices.ContainsFunc(faults, func(name string) bool { return s.World.Injected()[name] > 0 })
}

// mayLose tells whether something has happened by now after which a gap of the table may be declared.
func (s *simulation) mayLose(m *Migration) bool {
	return s.starved || s.happened(lossesOfLedger) || s.happened(lossesOfTarget) && (m == s.Migration || s.plan.neighbour == sameTarget) ||
		s.happened(lossesOfTable) && m == s.Migration
}

// checkGap: no gap is declared before anything was lost, and none tells of what did not happen (I5).
func (s *simulation) checkGap(table, key string, before, after *Row) {
	if table != stateTable || !strings.HasPrefix(key, "default/table/") {
		return
	}
	was, is := recordOf[checkpoint.TableState](before), recordOf[checkpoint.TableState](after)
	if is.GapCount <= was.GapCount {
		return
	}
	m := s.Migration
	if n := s.neighbour; n != nil && n.isOf(table, key) {
		m = n.Migration
	}
	if s.checkStarved(); !s.mayLose(m) {
		s.fail("I5", "a gap before a loss: %s", is.Reason)
	}
	s.checkTold(is.Reason)
}

// checkTold: what a gap tells of has happened by now.
func (s *simulation) checkTold(reason string) {
	for _, r := range reasons {
		if strings.Contains(reason, r.says) && !s.happened(r.faults) {
			s.fail("I5", "a gap that tells of what did not happen: %s", reason)
		}
	}
}
