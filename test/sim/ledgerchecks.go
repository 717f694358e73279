package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// Every write of the ledger is compared with the truth. A wrong statement there may do no harm for
// a whole day, and lose everything after an outage.

// pipelineRecord has the fields of the pipeline's row that are checked here.
type pipelineRecord struct {
	Ledger  string `json:"ledger"`
	Cluster string `json:"cluster"`
}

// pipelineWritten: a ledger keeps the id by which targets know it (H68), and a migration stays in
// its cluster (H46).
func (t *recorder) pipelineWritten(before, after *model.Row) {
	was, is := recordOf[pipelineRecord](before), recordOf[pipelineRecord](after)
	if is.Ledger == "" || was.Ledger != "" && was.Ledger != is.Ledger {
		t.m.violate("I6: ledger %q is now %q", was.Ledger, is.Ledger)
	}
	if was.Cluster != "" && is.Cluster != was.Cluster && !(t.m.led && is.Cluster == was.Cluster+"'") {
		t.m.violate("I6: the migration is of cluster %q, and goes on as one of %q", was.Cluster, is.Cluster)
	}
}

// completes reports whether a write of a shard's row only marks that its children have rows: the
// coordinator does that when the shard is done, and so has no owner.
func completes(before *model.Row, is checkpoint.Shard) bool {
	was, _ := decoded[shardRecord](before)
	return was.State == checkpoint.Done && is.State == checkpoint.Done && !was.Complete && is.Complete && is.Position.Compare(was.Position) == 0
}

// shardWritten: only the owner writes under an epoch (I6), a shard is done only at its last change
// (I5), and its row is kept longer than the shard is listed (I4).
func (t *recorder) shardWritten(name string, before, after *model.Row) {
	m := t.m
	is, exists := decoded[shardRecord](after)
	seen := t.shards[name]
	if !exists {
		if seen != nil {
			t.checkForgotten(seen)
		}
		delete(t.shards, name)
		return
	}
	sh := m.Source.Shard(is.Label, is.ID)
	if sh == nil {
		m.violate("I4: shard %s is known, and no stream has it", is.ID)
		return
	}
	now, isNew := m.World.Elapsed(), seen == nil
	if isNew {
		t.known[name] = true
		seen = &seenShard{made: m.World.Now()}
		t.shards[name] = seen
		if orphan := !is.CoveredTo.IsZero() || is.State == checkpoint.Gap; orphan && !slices.ContainsFunc(m.State().Gaps, func(g checkpoint.DeclaredGap) bool { return g.Shard == is.ID }) {
			m.violate("I5: shard %s has no place in the lineage, and no gap tells of it", is.ID)
		}
	} else if is.Epoch == seen.Epoch && is.By != seen.Owner && !completes(before, is.Shard) {
		m.violate("I6: %s wrote the row of shard %s under epoch %d of %q", is.By, is.ID, is.Epoch, seen.Owner)
	}
	last := len(sh.Records) - 1
	if moved := is.Position.Compare(seen.Position) > 0; moved && (last < 0 || sh.Records[last].Change.Sequence.Compare(is.Position) < 0) {
		m.violate("I3: the checkpoint of shard %s is beyond its last change", is.ID)
	} else if moved && t.era == 0 {
		t.checkPassed(is.Shard, sh, seen)
	}
	if is.State == checkpoint.Done && seen.State != checkpoint.Done &&
		(!sh.Closed || last >= sh.Trimmed && sh.Records[last].Change.Sequence.Compare(is.Position) != 0) {
		m.violate("I5: shard %s is done before its last change", is.ID)
	}
	if is.State == checkpoint.Done && is.DoneAt.IsZero() || is.State == checkpoint.Gap && (is.Loss == "" || is.Reason == "") {
		m.violate("I5: shard %s is %s %q since %s, and says %q", is.ID, is.State, is.Loss, is.DoneAt, is.Reason)
	}
	if is.CellTime.Before(seen.CellTime) {
		m.violate("I3: shard %s has cells of %s, and goes on from %s", is.ID, seen.CellTime, is.CellTime)
	}
	if s := &seen.Shard; m.World.Tracing() && (is.State != s.State || is.Epoch != s.Epoch || is.Owner != s.Owner || is.Position != s.Position || is.Generation != s.Generation) {
		m.World.Tracef("ledger: shard %s is %s %s, hop %d, generation %d, epoch %d of %q, at %s", is.ID, is.State, is.Loss, is.Hop, is.Generation, is.Epoch, is.Owner, is.Position)
	}
	if t.era == 0 && is.Loss == "" {
		t.checkProgress(is.Shard, sh)
		t.checkCovered(is.Shard, seen, sh)
	}
	if t.ranks[name] == nil {
		t.ranks[name] = map[rank]bool{}
	}
	t.ranks[name][rank{is.Generation, is.Hop}] = true
	if is.Position != seen.Position || isNew {
		seen.moved = now
	}
	seen.reopened = seen.reopened || seen.State == checkpoint.Gap
	seen.Shard, seen.wrote = is.Shard, now
	t.checkRank(is.Shard)
}

// checkPassed: a checkpoint passes a change that the target cannot hold only if it is parked, or if
// a newer change is applied (I3).
func (t *recorder) checkPassed(is checkpoint.Shard, sh *model.Shard, seen *seenShard) {
	if t.m.FromTopic {
		return
	}
	latest := map[string]change{}
	cut := later(t.m.State().Cut, is.Cut)
	for _, r := range sh.Records[max(sh.After(seen.Position), sh.Trimmed):min(sh.After(is.Position), len(sh.Records))] {
		for _, c := range t.changes[numbered(r.Change.Sequence)] {
			if c.Shard == sh && (cut.IsZero() || !r.Change.Time.Before(cut)) {
				latest[c.ID] = c
			}
		}
	}
	for _, c := range inOrder(latest) {
		if !c.New.Exists() || c.is.held() {
			continue
		}
		version, key := string(versionOf(is, c.Sequence)), t.m.Mapping.ItemKey(c.New)
		if t.parked[key] < version && !slices.ContainsFunc(t.places[key], func(r register) bool { return t.highest[r] > version }) {
			t.m.violate("I3: checkpoint of %s is at %s, and the change %s is neither applied nor parked", is.ID, is.Position, c.Sequence)
		}
	}
}

// checkProgress: the progress in a shard's row is true, as far as the stream still has all of the
// changes (I3, I5).
func (t *recorder) checkProgress(is checkpoint.Shard, sh *model.Shard) {
	var latest time.Time
	applied := sh.After(is.Position)
	for _, r := range sh.Records[:applied] {
		latest = later(latest, r.Change.Time)
	}
	if sh.Trimmed == 0 && !is.EventTime.Equal(latest) && (applied > 0 || !is.EventTime.IsZero()) {
		t.m.violate("I5: shard %s says that it is applied up to %s, which is %s", is.ID, is.EventTime, latest)
	}
	if is.Applied > uint64(applied) {
		t.m.violate("I3: shard %s says that %d changes are applied, of %d", is.ID, is.Applied, applied)
	}
	if is.FirstRead.After(t.m.World.Now()) || !is.FirstRead.IsZero() && is.FirstRead.Before(sh.FirstRead.Truncate(time.Second)) {
		t.m.violate("I5: shard %s says that it was first read at %s, which was %s", is.ID, is.FirstRead, sh.FirstRead)
	}
}

// checkCovered: a shard's coverage does not exceed the shard's begin, unless a load or a start from
// now is responsible. A new child continues with its parent's coverage and times (H75).
func (t *recorder) checkCovered(is checkpoint.Shard, seen *seenShard, sh *model.Shard) {
	table, parent := t.m.State(), t.shards[is.Label+"/"+is.Parent]
	bound := later(later(later(table.Load.StartedAt, table.Owed()), sh.Begun), sh.ListedAt)
	if known := !table.Load.StartedAt.IsZero() || !table.Owed().IsZero(); known && seen.ID != "" && is.CoveredTo.After(bound) {
		t.m.violate("I5: shard %s is covered to %s, and begins at %s", is.ID, is.CoveredTo, sh.Begun)
	}
	if seen.State != checkpoint.Waiting || is.State != checkpoint.Reading || parent == nil || !parent.Finished() || !parent.made.Before(seen.made) ||
		!is.Position.IsZero() || !is.FirstRead.IsZero() {
		return
	}
	least := parent.CoveredTo
	if !parent.Position.IsZero() && parent.Cut.IsZero() && parent.EventTime.Before(least) {
		least = time.Time{} // it was found after a gap, and applied a change from before the gap
	}
	if !parent.EventTime.IsZero() {
		least = later(least, parent.EventTime.Add(-checkpoint.Slack))
	}
	most := later(least, seen.CoveredTo)
	noted := recordOf[openRecord](t.m.Target.Row(model.StateTable, "default/open/"+t.m.Source.Name))
	if at := noted.Open[parent.ID]; noted.Label == is.Label && !at.IsZero() {
		most = later(most, at.Add(-checkpoint.Slack))
	}
	if most.IsZero() {
		most = parent.FirstRead
	}
	if is.CoveredTo.IsZero() || is.CoveredTo.Before(least) || is.CoveredTo.After(most) {
		t.m.violate("I5: shard %s is covered to %s, and what it follows at least to %s and at most to %s", is.ID, is.CoveredTo, least, most)
	}
	if is.CellTime.Before(parent.CellTime) {
		t.m.violate("I3: shard %s goes on from %s, and its parent had cells of %s", is.ID, is.CellTime, parent.CellTime)
	}
}

// checkRank: a shard that is being read outranks its ancestors (I2, H66), except those that were
// listed too late to be read.
func (t *recorder) checkRank(is checkpoint.Shard) {
	sh := t.m.Source.Shard(is.Label, is.ID)
	for depth := 0; is.State == checkpoint.Reading && sh != nil && sh.Parent != "" && depth < 3; depth++ {
		if p := t.shards[is.Label+"/"+sh.Parent]; p != nil && p.Hop >= is.Hop && p.Loss != checkpoint.Late {
			t.m.violate("I2: shard %s has hop %d, its ancestor %s has %d", is.ID, is.Hop, p.ID, p.Hop)
		}
		sh = t.m.Source.Shard(is.Label, sh.Parent)
	}
}

// checkForgotten: a row is removed long after its shard was finished, and not while a descendant is
// read (I4, H16, H76). Clocks may be wrong by hours.
func (t *recorder) checkForgotten(seen *seenShard) {
	if ago := t.m.World.Now().Sub(seen.DoneAt); !seen.Finished() || ago < 36*time.Hour {
		t.m.violate("I4: the row of shard %s, which is %s, is removed after %s", seen.ID, seen.State, ago)
	}
	for _, s := range inOrder(t.shards) {
		if s.Label == seen.Label && s.Parent == seen.ID && !s.Finished() {
			t.m.violate("I4: the row of shard %s is removed while its child %s is %s", seen.ID, s.ID, s.State)
		}
	}
}

// openRecord lists the shards that listings showed as open, as in the ledger.
type openRecord struct {
	Label string               `json:"label"`
	Open  map[string]time.Time `json:"open"`
}

// openWritten: a shard counts as open at a time only if a listing showed it so then, and none of
// its children was known before (H75).
func (t *recorder) openWritten(before, after *model.Row) {
	was, is := recordOf[openRecord](before), recordOf[openRecord](after)
	for id, at := range inOrder(is.Open) {
		sh := t.m.Source.Shard(is.Label, id)
		if sh == nil || was.Label == is.Label && was.Open[id].Equal(at) {
			continue
		}
		if at.After(sh.ShownOpen) {
			t.m.violate("I5: shard %s counts as open at %s, and was last shown so at %s", id, at, sh.ShownOpen)
		}
		for _, child := range inOrder(t.shards) {
			if child.Label == is.Label && child.Parent == id && child.made.Before(at) {
				t.m.violate("I5: shard %s counts as open at %s, when its child %s was known", id, at, child.ID)
			}
		}
		if at.Before(was.Open[id]) && was.Label == is.Label {
			t.m.violate("I5: shard %s counted as open at %s, and now at %s", id, was.Open[id], at)
		}
	}
}

// tableWritten: a generation never falls, ends with a gap that has a reason, and counts as adopted
// when all readers are in it. A stream counts as listed when a complete listing of it is known. A
// load begins when it is admissible, and is done when everything is copied.
func (t *recorder) tableWritten(before, after *model.Row) {
	m := t.m
	is, exists := decoded[checkpoint.TableState](after)
	if !exists {
		m.violate("I5: the table's record is gone")
		return
	}
	was := recordOf[checkpoint.TableState](before)
	if is.Generation < was.Generation || is.GapCount < was.GapCount || is.WitnessBeat < was.WitnessBeat || is.Adopted < was.Adopted || is.Label < was.Label {
		m.violate("I6: the table's record goes back, from generation %d of stream %s to %d of %s", was.Generation, was.Label, is.Generation, is.Label)
	}
	mended := is.Base == is.Generation && !is.Load.SweptAt.IsZero()
	if was.NeedsLoad && !is.NeedsLoad && !mended || was.Loaded() && !is.Loaded() && !is.NeedsLoad {
		m.violate("I5: a declared gap is forgotten")
	}
	if was.Generation > 0 && is.Generation > was.Generation {
		t.checkRaised(was, is)
	}
	if is.Generation > was.Generation {
		t.raised = m.World.Now()
	}
	if was.Owed().IsZero() && is.Owed().After(m.World.Now().Add(-checkpoint.Slack)) {
		m.violate("I5: changes are owed from %s on, which is not before the start", is.Owed())
	}
	if s := m.Source.StreamOf(is.Label); is.StreamEnded && (s == nil || !s.Ended) {
		m.violate("I5: stream %s is said to have ended, and goes on", is.Label)
	}
	if is.Suspended.Reason != "" && is.Suspended.Reason != was.Suspended.Reason {
		m.World.Inject("table set aside")
	}
	t.checkListed(was, is)
	t.checkLoad(was, is)
	if is.Adopted > was.Adopted {
		t.checkAdopted(is)
	}
}

// checkRaised ends an era.
func (t *recorder) checkRaised(was, is *checkpoint.TableState) {
	t.newEra()
	t.gaps++
	told := slices.ContainsFunc(is.Gaps, func(g checkpoint.DeclaredGap) bool {
		return g.Generation == was.Generation && g.Reason != "" && !g.At.IsZero()
	})
	if !told || !is.NeedsLoad || is.Reason == "" || is.GapCount <= was.GapCount && was.GapCount < 50 {
		t.m.violate("I5: generation %d ends without a gap that says why", was.Generation)
	}
}

// checkListed: a stream counts as listed only when all shards of one complete listing are known
// (I4), not when it is first found.
func (t *recorder) checkListed(was, is *checkpoint.TableState) {
	if was.Label != "" && is.Label != was.Label && is.Listed != 0 {
		t.m.violate("I5: stream %s counts as listed when it is first heard of", is.Label)
	}
	if is.Listed == 0 || was.Listed != 0 && was.Label == is.Label {
		return
	}
	t.listed[is.Label] = t.m.World.Now()
	s := t.m.Source.StreamOf(is.Label)
	if s == nil || s.Forgotten() {
		return // the service no longer knows the stream, so there is no listing
	}
	unknown := func(id string) bool { return t.shards[s.Label+"/"+id] == nil }
	if !slices.ContainsFunc(s.Whole, func(ids model.ListedShards) bool { return !slices.ContainsFunc(ids, unknown) }) {
		t.m.violate("I4: stream %s counts as listed, and no listing of it is known", is.Label)
	}
}

// checkAdopted: a reader of a shard reads it in the adopted generation. So will a worker that
// acquires a shard which existed when the generation began, even if it read the table's record
// before (I6, H70).
func (t *recorder) checkAdopted(is *checkpoint.TableState) {
	t.adopted = t.m.World.Elapsed()
	for _, s := range t.m.Shards() {
		seen := t.shards[s.Label+"/"+s.ID]
		waits := !s.Finished() && seen != nil && !seen.reopened && seen.made.Before(t.raised)
		if (waits || s.State == checkpoint.Reading && s.Owner != "") && (s.Label != is.Label || s.Generation < is.Adopted) {
			t.m.violate("I6: generation %d counts as adopted while shard %s is in %d", is.Adopted, s.ID, s.Generation)
		}
	}
}

// checkLoad: a load begins when it was requested, when no gap requires another kind of load, and
// when the roots of the stream were read (I1). Its kind does not change. When it is done, each
// earlier item has a row or is parked.
func (t *recorder) checkLoad(was, is *checkpoint.TableState) {
	begins := is.Load.Number != was.Load.Number
	switch {
	case !begins && !is.Load.StartedAt.Equal(was.Load.StartedAt) && !is.Load.StartedAt.IsZero():
		t.m.violate("I5: a load that goes on says that it began later")
	case begins && !is.Owed().IsZero() && !t.byHand:
		t.m.violate("I1: a load begins where changes are followed from %s on", is.Owed())
	case begins && (is.Listed == 0 || is.Adopted != is.Generation):
		t.m.violate("I1: a load begins before the shards of stream %s are known in generation %d", is.Label, is.Generation)
	case is.Load.StartedAt.After(t.m.World.Now()):
		t.m.violate("I5: the load begins at %s, which is to come", is.Load.StartedAt)
	}
	for _, s := range inOrder(t.shards) {
		// Others are checked when the load ends.
		known := t.shards[s.Label+"/"+s.Parent] == nil && s.made.Before(is.Load.StartedAt)
		// A shard that was listed at the same time may be read a moment later. A lost shard that was opened
		// again is covered up to its gap, so changes that are trimmed after the gap are a gap again.
		if begins && known && s.Label == is.Label && !s.Finished() && s.CoveredTo.IsZero() && (s.FirstRead.IsZero() || is.Load.StartedAt.Add(time.Hour).Before(s.FirstRead)) {
			t.m.violate("I1: the load begins before root %s was read", s.ID)
		}
	}
	if !was.Loaded() && is.Loaded() {
		t.checkCopied(is)
	}
	if was.Load.Sweep.BegunAt.IsZero() && !is.Load.Sweep.BegunAt.IsZero() {
		t.m.fences.sweeps(t.m, is)
	}
	if was.Load.DoneAt.IsZero() && is.Load.DoneAt.Sub(is.Load.StartedAt) > 48*time.Hour {
		t.m.World.Inject("copy of days")
	}
	if was.Load.SweptAt.IsZero() && !is.Load.SweptAt.IsZero() {
		t.m.World.Inject("target swept")
		if t.m.Mapping.Merged() {
			t.m.World.Inject("target of several tables swept")
		}
		if is.Load.Sweep.Removed > 0 {
			t.m.World.Inject("sweep removed a row")
		}
		if is.Load.Sweep.Put > 0 {
			t.m.World.Inject("sweep put a row again")
		}
	}
}

// checkCopied: when the load is complete, each item that existed before it began and has not
// changed since has a row or is parked.
func (t *recorder) checkCopied(is *checkpoint.TableState) {
	if done := t.m.partsDone(is, checkpoint.PhaseCopy); done != is.Load.Parts {
		t.m.violate("I7: the load counts as complete with %d of %d parts", done, is.Load.Parts)
	}
	if t.era > 0 {
		return // rows may have been lost with a target
	}
	copied := is.Load.ImagesAt().Add(-time.Second)
	if is.Load.Source == "export" {
		copied = copied.Add(-t.exports.fuzz)
	}
	for _, r := range t.sorted() {
		im := t.images[r][len(t.images[r])-1]
		switch old := im.to.IsZero() && !im.outlived && im.from.Before(copied); {
		case old && im.spot.held && t.highest[r] == "" && !isCopied(t.m.Target.Row(r.table, r.row)):
			t.m.violate("I1: row %q is missing after the load", r.row)
		case old && !im.spot.held && t.parked[t.m.Mapping.ItemKey(im.item)] == "":
			t.m.violate("I3: what row %q cannot hold is not parked after the load", r.row)
		}
	}
}

// coordinatorRecord has the fields of a coordinator's row that are checked here.
type coordinatorRecord struct {
	By    string `json:"by"` // the writer
	Owner string `json:"owner"`
	Epoch uint64 `json:"epoch"`
}

// partsDone returns how many parts of a phase of the table's load are done, among those in the
// ledger.
func (m *Migration) partsDone(state *checkpoint.TableState, phase checkpoint.Phase) (done int) {
	prefix := fmt.Sprintf("default/part/%s/%08d/%04d/%s/", m.Source.Name, state.Load.Generation, state.Load.Number, phase)
	for _, key := range m.Target.RowsUnder(model.StateTable, prefix) {
		if recordOf[checkpoint.Part](m.Target.Row(model.StateTable, key)).State == checkpoint.PartDone {
			done++
		}
	}
	return done
}

// partWritten: the progress of a part in the running phase is not lost, and each of its leases has
// its own epoch (I7, H98). Rows of finished phases are removed, and a late creation may bring them
// back.
func (t *recorder) partWritten(before, after *model.Row) {
	was, is := recordOf[checkpoint.Part](before), recordOf[checkpoint.Part](after)
	if t.m.World.Tracing() {
		t.m.World.Tracef("ledger: part %d of %s of load %d is %s, epoch %d of %q, %d items", is.Index, is.Phase, is.Number, is.State, is.Epoch, is.Owner, is.Items)
	}
	state := t.m.State()
	phase, _ := state.RunningPhase()
	switch {
	case is.Number != state.Load.Number || is.Phase != phase:
	case is.Epoch < was.Epoch || is.Items < was.Items || was.State == checkpoint.PartDone:
		t.m.violate("I7: part %d of load %d goes back, from epoch %d and %d items to %d and %d", is.Index, is.Number, was.Epoch, was.Items, is.Epoch, is.Items)
	case is.Owner != was.Owner && is.Owner != "" && is.Epoch == was.Epoch:
		t.m.violate("I6: %s loads a part under the epoch of %q", is.Owner, was.Owner)
	}
}

// coordinatorWritten: only the coordinator writes its row, under its own epoch (I6).
func (t *recorder) coordinatorWritten(before, after *model.Row) {
	t.coordinator = t.m.World.Elapsed()
	was, is := recordOf[coordinatorRecord](before), recordOf[coordinatorRecord](after)
	if is.Epoch < was.Epoch || is.Epoch == was.Epoch && was.Epoch > 0 && is.By != was.Owner {
		t.m.violate("I6: %s wrote the coordinator's row under epoch %d of %q after epoch %d", is.By, is.Epoch, was.Owner, was.Epoch)
	}
	if is.Owner != was.Owner && is.Owner != "" && is.Epoch == was.Epoch {
		t.m.violate("I6: %s keeps the table under the epoch %d of %q", is.Owner, is.Epoch, was.Owner)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
