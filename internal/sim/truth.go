package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// truth knows what really happened to every item, and holds each write of the target and of the ledger against it as it takes
// place. It shares nothing with the replicator but what one image becomes (layout).
type truth struct {
	m      *Migration
	layout layout
	keeps  bool // columns keep what they were before
	// forgotten tells that the target was lost, restored or exchanged; lostIn is the generation in which that happened last, and lostAt when.
	forgotten bool
	lostIn    uint32
	lostAt    time.Duration
	// found is what registers held when the target was set back then: tombstones among it may be collected before anything else is written.
	found map[register]string
	// loads are the generations in which a load began.
	loads map[uint32]bool
	// wroteAt is when a register was last written otherwise than by a repair, repaired the last repair of each.
	wroteAt  map[register]time.Duration
	repaired map[register]repair
	// rows is, for each register that an item ever mapped to, the images that belonged there, in order.
	rows map[register][]image
	// shared is, for each row, what the images of all items ever made of it.
	shared map[rowID]*rowTruth
	// changes are the recorded changes by sequence number; numbers of several shards may be equal.
	changes map[string][]change
	latest  map[string]change // the last write of each item
	// highest is the highest version that a register ever held, also after its tombstone was collected (I7, I8).
	highest map[register]string
	// ever is the same, of all that the target was before it was lost or restored as well.
	ever map[register]string
	// numbered are the records of the ledger by who wrote them and which write of that worker's it was.
	numbered map[string]string
	number   map[register]int // the true order of the change that the register holds, 0 for a load
	ledger   map[string]*seenShard
	known    map[string]bool // shards the ledger ever had
	// reopened are the shards that were found trimmed in any state of the ledger, one that was lost or restored since among them: what
	// their rows say of their changes may be from before.
	reopened map[string]bool
	seat     time.Duration // when the keeper's row was last written
	// scanned is when the keeper's row first told that the whole table was read, beaten when the witness of each target table was last written.
	scanned time.Time
	beaten  map[string]time.Time
	// trimmed are the changes that the stream dropped before they were applied (I5); unread has the numbers of those without an address, too.
	trimmed    []Write
	unread     map[int]bool
	missed     map[int]bool             // numbers of changes that the stream dropped before anybody was given them
	parked     map[string]string        // highest parked version by item
	parkedHere map[string]string        // the same, since the ledger was lost or restored
	mostParked int                      // items at once, as long as there is a limit
	unparkedAt map[string]time.Duration // when a parked change of an item was last removed, by item
	// parkedAt is when a row of a parked change was first written, by its key.
	parkedAt map[string]time.Time
	// struckOff are the keys of rows of parked changes that were removed once: a late attempt may bring one back.
	struckOff map[string]bool
	// overdue are the keys of what a later change had outdone when it was first parked.
	overdue map[string]bool
	places  map[string][]register // all that an item ever mapped to, by item key
	nowhere map[string]bool       // items that had no address at some time, by item key
	// told is when a worker was first told that the target is another cluster, by its name.
	told     map[string]time.Duration
	operator *operator     // who decides about what is parked; nil if nobody does
	adopted  time.Duration // when the current generation was adopted by all shards
	raised   time.Time     // when it began
	// listed is when a stream was first known as a whole, by its label.
	listed map[string]time.Time
}

// change is a write with what the item was by then, and what it is now.
type change struct {
	Write
	was, is placement
}

// image is what an item was from one instant to another, at an address it had then.
type image struct {
	id       string
	item     attribute.Item
	spot     *spot
	from, to time.Time // to is zero while it lasts
	outlived bool      // the item is gone, and the image stays where it was copied
	number   int       // of the write that made it
	ended    int       // of the write that ended it
}

// seenShard is what was last seen of a shard's row.
type seenShard struct {
	checkpoint.Shard
	ranks map[rank]bool // all that its changes may have been stamped with
	wrote time.Duration
	moved time.Duration // when its position changed
	made  time.Time     // when the row was first seen
	// reopened is when the shard was last reopened.
	reopened time.Time
	// found is when the shard was last found trimmed, dropped how many changes the stream had dropped of it by then.
	found   time.Duration
	dropped int
}

// reaches tells whether a version is that of a change of the shard, or a newer one.
func (seen *seenShard) reaches(version string, change cdc.SequenceNumber) bool {
	for r := range seen.ranks {
		if version >= string(transform.NewVersion(r.generation, r.hop, change, transform.CountExact)) {
			return true
		}
	}
	return false
}

// rank is what a shard gives to the versions of its changes, besides their sequence numbers.
type rank struct{ generation, hop uint32 }

// newTruth watches a migration from now on, which must not have begun.
func newTruth(m *Migration) *truth {
	t := &truth{
		m: m, layout: mapped{m.Mapping}, keeps: m.Mapping.KeepsVersions(), rows: map[register][]image{}, shared: map[rowID]*rowTruth{}, changes: map[string][]change{}, known: map[string]bool{}, numbered: map[string]string{}, reopened: map[string]bool{},
		latest: map[string]change{}, parked: map[string]string{}, parkedAt: map[string]time.Time{}, struckOff: map[string]bool{}, overdue: map[string]bool{}, unread: map[int]bool{}, missed: map[int]bool{}, places: map[string][]register{}, nowhere: map[string]bool{}, beaten: map[string]time.Time{}, told: map[string]time.Duration{}, ever: map[register]string{}, loads: map[uint32]bool{}, listed: map[string]time.Time{}, unparkedAt: map[string]time.Duration{},
	}
	t.forgetTarget()
	t.forgetLedger()
	m.Source.Written, m.Source.Trimmed, m.Watch = t.written, t.dropped, t.watch
	return t
}

// forgetTarget begins anew after the target was lost or restored.
func (t *truth) forgetTarget() {
	t.highest, t.number, t.forgotten = map[register]string{}, map[register]int{}, t.highest != nil
	t.lostIn, t.lostAt, t.wroteAt = t.m.State().Generation, t.m.World.Elapsed(), map[register]time.Duration{}
	t.repaired, t.found = map[register]repair{}, map[register]string{}
	for r := range t.rows {
		t.found[r] = heldIn(t.m.Target.Row(r.table, r.row), r.column())
	}
}

// forgetLedger begins anew after the ledger was lost or restored.
func (t *truth) forgetLedger() {
	t.ledger, t.seat, t.parkedHere = map[string]*seenShard{}, t.m.World.Elapsed(), map[string]string{}
	for _, s := range t.m.Shards() {
		t.reopened[s.Label+"/"+s.ID] = t.reopened[s.Label+"/"+s.ID] || s.Loss == checkpoint.Trimmed
		t.ledger[s.Label+"/"+s.ID] = &seenShard{Shard: s, ranks: map[rank]bool{{s.Generation, s.Hop}: true}, wrote: t.m.World.Elapsed(), made: t.m.World.Now()}
	}
}

func (t *truth) written(w Write) {
	c := change{Write: w, was: t.latest[w.ID].is}
	if w.New.Exists() {
		c.is = t.layout.place(w.New)
	}
	if w.Expired && t.m.Outlives {
		t.m.World.Inject("item removed by its time to live")
		for i := range c.was.spots {
			list := t.rows[c.was.spots[i].register]
			list[len(list)-1].outlived = true
		}
		return // nobody is to notice
	}
	t.latest[w.ID] = c
	if w.Shard != nil {
		key := numbered(w.Sequence)
		t.changes[key] = append(t.changes[key], c)
	}
	for i := range c.was.spots {
		list := t.rows[c.was.spots[i].register]
		list[len(list)-1].to, list[len(list)-1].ended = w.At, w.Number
	}
	some := w.New
	if !some.Exists() {
		some = w.Old
	}
	key := t.m.Mapping.ItemKey(some)
	t.nowhere[key] = t.nowhere[key] || w.New.Exists() && len(c.is.spots) == 0
	for i := range c.is.spots {
		s := &c.is.spots[i]
		t.settle(w, s)
		if t.m.World.Tracing() {
			t.m.World.Tracef("image %d of item %s goes to row %q", w.Number, t.m.Source.name(t.m.Mapping.Keys(some)), s.row)
		}
		if len(c.was.spots) > 0 && !c.was.has(s.register) {
			t.m.World.Inject("item moved to another row")
		}
		if !slices.Contains(t.places[key], s.register) {
			t.places[key] = append(t.places[key], s.register)
		}
		t.rows[s.register] = append(t.rows[s.register], image{id: w.ID, item: w.New, spot: s, from: w.At, number: w.Number})
	}
}

// numbered is a sequence number by its value, as versions hold it.
func numbered(s cdc.SequenceNumber) string { return string(s.AppendPadded(nil)) }

func (p placement) has(r register) bool { return p.at(r) != nil }

// at is what the image is at a register; nil if it is not there.
func (p placement) at(r register) *spot {
	for i := range p.spots {
		if p.spots[i].register == r {
			return &p.spots[i]
		}
	}
	return nil
}

// dropped notes what the stream loses before it is applied.
func (t *truth) dropped(sh *Shard, r *record) {
	for _, w := range t.changes[numbered(r.change.Sequence)] {
		if w.Shard != sh {
			continue
		}
		seen := t.ledger[sh.label+"/"+sh.ID]
		if seen != nil && seen.Position.Compare(w.Sequence) >= 0 {
			return
		}
		t.unread[w.Number], t.missed[w.Number] = true, sh.trimmed >= sh.given
		spots := w.is.spots
		if len(spots) == 0 {
			spots = w.was.spots
		}
		if len(spots) == 0 {
			return
		}
		if seen != nil && !slices.ContainsFunc(spots, func(s spot) bool { return !seen.reaches(t.highest[s.register], w.Sequence) }) {
			return // applied, and not committed
		}
		t.m.World.Inject("change trimmed before it was applied")
		t.m.World.Tracef("LOST %s in %s, never applied", w.Sequence, sh.ID)
		t.trimmed = append(t.trimmed, w.Write)
	}
}

// watch sees every write of all tables.
func (t *truth) watch(table, key string, before, after *Row) {
	if table == stateTable && key != "default/pipeline" { // which is made by a ledger that is opened, perhaps once more, and counts anew
		t.checkNumbered(key, after)
	}
	switch {
	case table != stateTable && !strings.HasPrefix(key, transform.WitnessPrefix):
		t.watchItem(rowID{table, key}, before, after)
	case table != stateTable:
		t.beaten[table] = t.m.World.Now()
		t.watchBeat(after)
	case key == "default/pipeline":
		t.watchPipeline(before, after)
	case strings.HasPrefix(key, "default/shard/"):
		t.watchShard(key, before, after)
	case strings.HasPrefix(key, "default/table/"):
		t.watchTable(before, after)
	case strings.HasPrefix(key, "default/open/"):
		t.checkOpen(before, after)
	case strings.HasPrefix(key, "default/keeper/"):
		t.watchSeat(before, after)
	case strings.HasPrefix(key, "default/parked/"):
		t.watchParked(key, before, after)
	}
}

// watchShard: only the owner writes under an epoch (I6), and what is committed is adopted.
func (t *truth) watchShard(key string, before, after *Row) {
	m := t.m
	is, exists := decoded[shardRecord](after)
	name := strings.TrimPrefix(key, "default/shard/"+m.Source.Name+"/")
	if !exists {
		if seen := t.ledger[name]; seen != nil {
			t.checkForgotten(seen)
		}
		delete(t.ledger, name)
		t.checkRemoved(before)
		return
	}
	seen := t.ledger[name]
	if seen == nil {
		t.known[name] = true
		seen = &seenShard{ranks: map[rank]bool{}, made: m.World.Now()}
		t.ledger[name] = seen
		t.checkPlaced(is.Shard)
	} else if is.Epoch == seen.Epoch && is.By != seen.Owner {
		m.violate("I6: %s wrote the row of shard %s under epoch %d of %q", is.By, is.ID, is.Epoch, seen.Owner)
	}
	if is.Position.Compare(seen.Position) > 0 {
		if is.Generation < m.State().Adopted {
			m.violate("I6: shard %s is committed in generation %d after %d was adopted", is.ID, is.Generation, m.State().Adopted)
		}
		if sh := m.Source.shard(is.Label, is.ID); sh == nil || len(sh.records) == 0 || sh.records[len(sh.records)-1].change.Sequence.Compare(is.Position) < 0 {
			m.violate("I3: the checkpoint of shard %s is beyond its last change", is.ID)
		} else {
			t.checkPutAside(is.Shard, sh, seen)
		}
	}
	if is.State == checkpoint.Done && seen.State != checkpoint.Done {
		sh := m.Source.shard(is.Label, is.ID)
		if sh == nil || !sh.Closed || len(sh.records) > sh.trimmed && sh.records[len(sh.records)-1].change.Sequence.Compare(is.Position) != 0 {
			m.violate("I5: shard %s is done before its last change", is.ID)
		}
	}
	if s := &seen.Shard; m.World.Tracing() && (is.State != s.State || is.Epoch != s.Epoch || is.Owner != s.Owner || is.Position != s.Position || is.Generation != s.Generation) {
		m.World.Tracef("ledger: shard %s is %s %s, hop %d, generation %d, epoch %d of %q, at %s", is.ID, is.State, is.Loss, is.Hop, is.Generation, is.Epoch, is.Owner, is.Position)
	}
	t.checkProgress(is.Shard, seen)
	t.checkDropping(is.Shard, seen)
	t.checkTaken(is.Shard, seen)
	t.checkFinished(is.Shard)
	next := seenShard{Shard: is.Shard, ranks: seen.ranks, wrote: m.World.Elapsed(), made: seen.made, reopened: seen.reopened, found: seen.found, dropped: seen.dropped}
	next.ranks[rank{is.Generation, is.Hop}] = true
	if next.moved = seen.moved; is.Position != seen.Position || seen.ID == "" {
		next.moved = next.wrote
	}
	if seen.State == checkpoint.Lost && is.State == checkpoint.Waiting {
		next.reopened = m.World.Now()
	}
	if is.Loss == checkpoint.Trimmed && seen.Loss != checkpoint.Trimmed {
		t.reopened[name] = true
		next.found, next.dropped = t.checkTrimmed(seen, is.Shard)
	}
	*seen = next
	t.checkRank(is.Shard)
}

// checkTrimmed: what is read on after a gap is found trimmed again only if the stream has dropped more of it since. How often that happens is
// not bounded: who reads at the horizon and is taken away again and again finds the next changes gone each time. Without a change that was
// dropped, coverage alone may tell of a trim, and what is reopened is covered up to its gap, whatever the clocks of workers say.
func (t *truth) checkTrimmed(seen *seenShard, is checkpoint.Shard) (found time.Duration, dropped int) {
	sh := t.m.Source.shard(is.Label, is.ID)
	if sh == nil {
		return 0, 0
	}
	now := t.m.World.Elapsed()
	if seen.found > 0 && sh.trimmed == seen.dropped && now-seen.found < cdc.Retention/2 {
		t.m.violate("I10: shard %s is found trimmed again, and nothing of it was dropped since", is.ID)
	}
	return now, sh.trimmed
}

// checkRank: a shard that is being read outranks its ancestors (H66).
func (t *truth) checkRank(is checkpoint.Shard) {
	if is.State != checkpoint.Reading {
		return
	}
	sh := t.m.Source.shard(is.Label, is.ID)
	for depth := 0; sh != nil && sh.Parent != "" && depth < 3; depth++ {
		if p := t.ledger[is.Label+"/"+sh.Parent]; p != nil && p.Hop >= is.Hop && p.Loss != checkpoint.Late {
			t.m.violate("I2: shard %s has hop %d, its ancestor %s has %d", is.ID, is.Hop, p.ID, p.Hop)
		}
		sh = t.m.Source.shard(is.Label, sh.Parent)
	}
}

// checkRemoved: a shard's row stays while the stream may still show it, or a child that is not known (H16, H76).
func (t *truth) checkRemoved(before *Row) {
	was, ok := decoded[shardRecord](before)
	if !ok {
		return
	}
	sh := t.m.Source.shard(was.Label, was.ID)
	if sh == nil || was.Label != t.m.State().Label || t.m.Source.streamOf(was.Label).forgotten() {
		return // its stream was replaced, or has ended and is not shown any more
	}
	if !sh.Gone || sh.StaysListed {
		t.m.violate("I4: the row of shard %s is removed while the stream shows it", was.ID)
	}
	if t.ledger[was.Label+"/"+was.Parent] != nil {
		t.m.violate("I4: the row of shard %s is removed before its parent's", was.ID)
	}
	for _, s := range t.m.Source.streamOf(was.Label).Shards {
		if s.Parent == was.ID && t.ledger[was.Label+"/"+s.ID] == nil && !s.Gone {
			t.m.violate("I4: the row of shard %s is removed before its child %s is known", was.ID, s.ID)
		}
	}
}

// watchTable: a generation never falls, a promise that was suspended stays so (no load follows a gap yet), and an adoption is one.
func (t *truth) watchTable(before, after *Row) {
	is, exists := decoded[checkpoint.TableState](after)
	if !exists {
		t.m.violate("I5: the table's record is gone")
		return
	}
	was, existed := decoded[checkpoint.TableState](before)
	if !existed {
		was = &checkpoint.TableState{}
	}
	if is.Generation < was.Generation || is.GapCount < was.GapCount || is.WitnessBeat < was.WitnessBeat || is.Adopted < was.Adopted {
		t.m.violate("I6: the table's record goes back, from generation %d to %d", was.Generation, is.Generation)
	}
	if was.NeedsLoad && !is.NeedsLoad || was.Loaded() && !is.Loaded() && !is.NeedsLoad {
		t.m.violate("I5: a declared gap is forgotten")
	}
	t.checkRaised(*was, *is)
	t.checkListed(*was, *is)
	t.checkBegun(*was, *is)
	if is.Generation > was.Generation {
		t.raised = t.m.World.Now()
	}
	if is.Adopted > was.Adopted {
		t.checkAdopted(*is)
	}
	if was.Load.Generation == is.Load.Generation && existed && was.Load.StartedAt != is.Load.StartedAt && !was.Load.StartedAt.IsZero() {
		t.m.violate("I5: a load that goes on says that it began later")
	}
	if was.Load.StartedAt.IsZero() && !is.Load.StartedAt.IsZero() {
		shards := t.m.Shards()
		for _, s := range shards {
			root := s.Label == is.Label && !slices.ContainsFunc(shards, func(p checkpoint.Shard) bool { return p.Label == s.Label && p.ID == s.Parent })
			// One that a listing had too late may be written down while the load is about to begin, and is asked for when it ends.
			seen := t.ledger[s.Label+"/"+s.ID]
			known := seen == nil || seen.made.Before(is.Load.StartedAt)
			if root && known && s.FirstRead.IsZero() && !s.Finished() {
				t.m.violate("I1: the load begins before root %s was read", s.ID)
			}
		}
	}
	if !was.Loaded() && is.Loaded() {
		t.checkCopied(*is)
	}
}

// checkAdopted: who reads a shard reads it in the generation that is adopted, and so will who takes one that was there when the generation began, also if
// it read the table before (H70). A row that is made or, by a request that comes late, reopened after that may be missed, and is taken in the generation of then.
func (t *truth) checkAdopted(is checkpoint.TableState) {
	t.adopted = t.m.World.Elapsed()
	for _, s := range t.m.Shards() {
		seen := t.ledger[s.Label+"/"+s.ID]
		concerned := s.State == checkpoint.Reading && s.Owner != "" || !s.Finished() && seen != nil && later(seen.made, seen.reopened).Before(t.raised)
		if concerned && (s.Label != is.Label || s.Generation < is.Adopted) {
			t.m.violate("I6: generation %d counts as adopted while shard %s is in %d", is.Adopted, s.ID, s.Generation)
		}
	}
}
