package sim

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// parkedRow is a row of the state table that holds a parked change.
type parkedRow struct{ Key, Version string }

func parkedIn(r *Row) (p parkedRow, ok bool) {
	text, ok := r.Value(sink.ParkedFamily, sink.ParkedColumn)
	if !ok {
		return p, false
	}
	if r.record == nil {
		if json.Unmarshal([]byte(text), &p) != nil {
			return p, false
		}
		r.record = p
	}
	return r.record.(parkedRow), true
}

// watchParked: a parked change is forgotten only when the item holds something newer, or has something newer parked (I3).
func (t *truth) watchParked(key string, before, after *Row) {
	if p, ok := parkedIn(after); ok {
		if !strings.HasSuffix(key, "/"+p.Version) {
			t.m.violate("I5: the change of version %s is parked where another may be", p.Version)
		}
		if q, had := parkedIn(before); had && q.Key != p.Key {
			t.m.violate("I5: the change of another item is parked in place of the one of version %s", q.Version)
		}
		t.checkParkedChange(after)
		if t.parkedAt[key].IsZero() {
			t.parkedAt[key] = t.m.World.Now()
			t.overdue[key] = t.obsolete(p, after)
		}
		t.parked[p.Key], t.parkedHere[p.Key] = max(t.parked[p.Key], p.Version), max(t.parkedHere[p.Key], p.Version)
		t.m.World.Inject("item parked")
		if t.m.Policy.onBadItem == sink.Stop {
			t.m.violate("I5: an item is parked, where everybody is to stop at it")
		}
		return
	}
	p, ok := parkedIn(before)
	t.struckOff[key] = true
	if ok {
		t.unparkedAt[p.Key] = t.m.World.Elapsed()
	}
	// What was seen in the target before it was exchanged counted, and who saw it may have stood still since for as long as there are pauses.
	if !ok || t.m.Target.lost.After(t.parkedAt[key]) {
		return
	}
	if t.operator != nil && t.operator.lets(key) {
		return
	}
	if t.outranked(p, before, t.highestAt) {
		t.m.World.Inject("parked item healed")
		return
	}
	if t.parked[p.Key] > p.Version || t.cameFromNowhere(p, t.highestAt) {
		t.m.World.Inject("parked item superseded")
		return
	}
	t.m.violate("I3: the change parked at %s is forgotten, and nothing newer is applied", p.Version)
}

// obsolete tells whether a change that is parked has been outdone by a later one already. Who parks it was late, and may be gone: nobody counts it then, and
// where no row tells of the later change nobody forgets it. One that told may have gone with the target.
func (t *truth) obsolete(p parkedRow, record *Row) bool {
	return t.parked[p.Key] > p.Version || t.outranked(p, record, t.everAt) || t.cameFromNowhere(p, t.everAt)
}

// outranked tells whether some place of the item has held something newer than a parked change, and no place of the parked image lacks it: what a change
// brings to one place comes to all, but a repair may have ended between two of them. At tells what a place has held.
func (t *truth) outranked(p parkedRow, record *Row, at func(register) string) bool {
	for _, spot := range t.layout.place(parkedImage(record)).spots {
		live, _ := t.m.Target.Row(spot.table, spot.row).Value(sink.LiveFamily, spot.column())
		if at(spot.register) <= p.Version && live != p.Version {
			return false
		}
	}
	return slices.ContainsFunc(t.places[p.Key], func(r register) bool { return at(r) > p.Version })
}

// highestAt is the highest version that a place has held: of a restored target, since it was restored.
func (t *truth) highestAt(r register) string {
	return max(t.highest[r], t.found[r], heldIn(t.m.Target.Row(r.table, r.row), r.column()))
}

// everAt is highestAt, of a target that was lost or restored what it held before as well.
func (t *truth) everAt(r register) string { return max(t.ever[r], t.highestAt(r)) }

// parkedImage is what the item became by a parked change.
func parkedImage(r *Row) attribute.Item {
	var record struct{ Change json.RawMessage }
	text, _ := r.Value(sink.ParkedFamily, sink.ParkedColumn)
	_ = json.Unmarshal([]byte(text), &record)
	change, _ := cdc.UnmarshalChange(record.Change) // that it can be read was checked when it was written
	return change.New
}

// astray are the changes of an item that found it without one of its addresses.
func (t *truth) astray(item string) iter.Seq[change] {
	return func(yield func(change) bool) {
		for _, changes := range t.changes {
			for _, c := range changes {
				if c.was.astray && c.Old.Exists() && t.m.Mapping.ItemKey(c.Old) == item && !yield(c) {
					return
				}
			}
		}
	}
}

// cameFromNowhere tells whether a later change than the parked one found its item without one of its addresses, and is in all rows that it gave it: none,
// if it left it so that nothing of it is to be in the target. No row tells of what it found, and the row of the parked image may lack that for ever: what moved
// the item from there may be in a gap. It need not be committed: whoever has read it may be late, and the stream may drop it meanwhile.
func (t *truth) cameFromNowhere(p parkedRow, at func(register) string) bool {
	missing := func(s spot) bool { return at(s.register) <= p.Version }
	for c := range t.astray(p.Key) {
		if t.missed[c.Number] || c.Shard.after(c.Sequence) > c.Shard.given || c.New.Exists() && !c.is.ignored && (len(c.is.spots) == 0 || slices.ContainsFunc(c.is.spots, missing)) {
			continue
		}
		seen := t.ledger[c.Shard.label+"/"+c.Shard.ID]
		if seen == nil {
			return true // with its row went what the shard gave to its versions
		}
		for r := range seen.ranks {
			if string(transform.NewVersion(r.generation, r.hop, c.Sequence, transform.CountExact)) > p.Version {
				return true
			}
		}
	}
	return false
}

// checkPutAside: a checkpoint passes a change that has left its row without the image that it made only if the change is parked (I3). A tombstone of a
// generation in which nobody read the shard is that of another stream's change, which has the same number.
func (t *truth) checkPutAside(s checkpoint.Shard, shard *Shard, seen *seenShard) {
	from := seen.Position
	for _, r := range shard.records[max(shard.after(from), shard.trimmed):] { // what was trimmed was not read again
		c := r.change
		if c.Sequence.Compare(s.Position) > 0 {
			return
		}
		if !c.New.Exists() {
			continue
		}
		version := string(transform.NewVersion(0, s.Hop, c.Sequence, transform.CountExact))[9:]
		for _, spot := range t.layout.place(c.New).spots {
			row := t.m.Target.Row(spot.table, spot.row)
			gone, _ := row.Value(sink.GoneFamily, spot.column())
			if len(gone) < 9 || gone[9:] != version || hasLive(row, spot.register) {
				continue
			}
			if v, err := transform.ParseVersion(gone); err == nil && v.Generation() != s.Generation && !seen.ranks[rank{v.Generation(), s.Hop}] {
				continue
			}
			if !t.everParked(version) {
				t.m.violate("I3: checkpoint of %s is at %s, and the change %s is neither applied nor parked", s.ID, s.Position, c.Sequence)
			}
		}
	}
}

// everParked tells whether a change was parked in any generation, by its version without that.
func (t *truth) everParked(version string) bool {
	for key := range t.parkedAt {
		if strings.HasSuffix(key, version) {
			return true
		}
	}
	return false
}

// isParked tells whether the item's last change is parked, or was given up.
func (t *truth) isParked(item attribute.Item, w change) bool {
	key := t.m.Mapping.ItemKey(item)
	// Not the highest version that was ever parked alone: where the ledger and the target were lost at once, clocks alone tell in which generation the next one
	// begins.
	for _, last := range []string{t.parked[key], t.parkedHere[key]} {
		if t.operator != nil && t.operator.gaveUp[parkedRow{key, last}] && t.isOf(last, w) {
			return true
		}
	}
	return slices.ContainsFunc(t.m.Target.RowsUnder(stateTable, "default/parked/"), func(at string) bool {
		p, ok := parkedIn(t.m.Target.Row(stateTable, at))
		return ok && p.Key == key && t.isOf(p.Version, w)
	})
}

// isOf tells whether a version is that of a change, or of a load that read the item since.
func (t *truth) isOf(version string, w change) bool {
	v, err := transform.ParseVersion(version)
	if err != nil {
		return false
	}
	if v.Hop() == transform.LoadHop { // and it was so when it was read
		return v.Sequence().Compare(cdc.SequenceOf(uint64(w.At.Add(-t.clockError()).Unix()))) >= 0
	}
	return w.Shard != nil && v.Sequence().Compare(w.Sequence) == 0
}

// clockError is by how much the clock of a worker may be behind, which is what a load's version tells the time by.
func (t *truth) clockError() time.Duration {
	injected := t.m.World.Injected()
	if injected["worker clock wrong from its start"]+injected["worker clock jumped"]+injected["worker clock stood still"] == 0 {
		return 0
	}
	return 4 * time.Hour
}

// healed is a parked change that is still there though its item holds something newer, or has something newer parked; "" if there is none.
func (t *truth) healed() string {
	last := ""
	for _, key := range t.m.Target.RowsUnder(stateTable, "default/parked/") {
		p, ok := parkedIn(t.m.Target.Row(stateTable, key))
		if !ok {
			return "a parked change is unreadable"
		}
		item := key[:strings.LastIndexByte(key, '/')]
		ours := strings.HasPrefix(key, "default/parked/"+t.m.Mapping.Source+"/") // the neighbour's are looked after by nobody
		if item == last && ours {
			return fmt.Sprintf("of the item whose change is parked at %s an older one is, too", p.Version)
		}
		last = item
		// The newest place alone: older ones may hold what was removed there by a change that the parked one does not know. A parked image
		// without an address does not tell where to look.
		if places := t.places[p.Key]; len(places) == 1 && !t.nowhere[p.Key] && heldIn(t.m.Target.Row(places[0].table, places[0].row), places[0].column()) > p.Version {
			return fmt.Sprintf("the change parked at %s is healed and stays", p.Version)
		}
		if ours && t.nowhere[p.Key] && !t.struckOff[key] && t.superseded(p, t.parkedAt[key]) {
			return fmt.Sprintf("the change parked at %s is superseded and stays", p.Version)
		}
	}
	return ""
}

// superseded tells whether a change that was made after another was parked has found its item without an address, and is applied: the parked one goes with
// that, because no row tells that it is obsolete.
func (t *truth) superseded(p parkedRow, parked time.Time) bool {
	for c := range t.astray(p.Key) {
		name := c.Shard.label + "/" + c.Shard.ID
		seen := t.ledger[name]
		if t.unread[c.Number] || len(c.was.spots) > 0 || !parked.Before(c.At) || seen == nil || t.reopened[name] || seen.Position.Compare(c.Sequence) < 0 {
			continue // it had a row, or nobody knows what became of it
		}
		if !seen.reaches(p.Version, c.Sequence) {
			return true
		}
	}
	return false
}
