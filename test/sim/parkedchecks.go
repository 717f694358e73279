package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// parkedRow is a row of the state table with a parked change.
type parkedRow struct{ Key, Version string }

func parkedIn(r *model.Row) (p parkedRow, ok bool) {
	text, ok := r.Value(sink.ParkedFamily, sink.ParkedColumn)
	if !ok {
		return p, false
	}
	if r.Record == nil {
		if json.Unmarshal([]byte(text), &p) != nil {
			return p, false
		}
		r.Record = p
	}
	return r.Record.(parkedRow), true
}

// parkedWritten: a parked change is forgotten only when the item holds, or has parked, something
// newer (I3).
func (t *recorder) parkedWritten(key string, before, after *model.Row) {
	if p, ok := parkedIn(after); ok {
		if !strings.HasSuffix(key, "/"+p.Version) {
			t.m.violate("I5: the change of version %s is parked where another may be", p.Version)
		}
		if q, had := parkedIn(before); had && q.Key != p.Key {
			t.m.violate("I5: the change of another item is parked in place of the one of version %s", q.Version)
		}
		t.checkParkedChange(after)
		t.parked[p.Key] = max(t.parked[p.Key], p.Version)
		t.m.World.Inject("item parked")
		if t.m.Policy.onBadItem == sink.Stop {
			t.m.violate("I5: an item is parked, where everybody is to stop at it")
		}
		return
	}
	p, ok := parkedIn(before)
	_, decided := t.decided[p.Key]
	switch {
	case !ok:
	case slices.ContainsFunc(t.places[p.Key], func(r register) bool { return t.highest[r] > p.Version }):
		t.m.World.Inject("parked item healed")
	case t.parked[p.Key] > p.Version:
		t.m.World.Inject("parked item superseded")
	case !decided && !t.nowhere[p.Key] && t.era == 0:
		t.m.violate("I3: the change parked at %s is forgotten, and nothing newer is applied", p.Version)
	}
}

// checkParkedChange: a parked change equals the original change, byte for byte (I5), because it is
// the only remaining copy.
func (t *recorder) checkParkedChange(r *model.Row) {
	var record struct {
		Source, Key, Version, Reason string
		Change                       json.RawMessage
	}
	text, _ := r.Value(sink.ParkedFamily, sink.ParkedColumn)
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		t.m.violate("I5: a parked record: %v", err)
		return
	}
	kept, err := cdc.UnmarshalChange(record.Change)
	v, badVersion := transform.ParseVersion(record.Version)
	if err != nil || badVersion != nil {
		t.m.violate("I5: the change parked at %q cannot be read: %v", record.Version, err)
		return
	}
	if record.Source != t.m.Mapping.Source || record.Reason == "" || record.Key != t.m.Mapping.ItemKey(kept.Keys) || !t.m.Mapping.Keys(kept.Keys).Equal(kept.Keys) {
		t.m.violate("I5: what is parked at %s is of item %q of table %q, because: %s", v, record.Key, record.Source, record.Reason)
	}
	if v.Hop() == transform.LoadHop {
		return // not a change, but an item as it was read
	}
	made := slices.ContainsFunc(t.changes[numbered(v.Sequence())], func(w change) bool {
		unread := t.m.Mapping.DependsOnKeyOnly() && !kept.Old.Exists() // a worker reads old images only if it uses them
		return w.New.Equal(kept.New) && (w.Old.Equal(kept.Old) || t.m.Source.View == "NEW_IMAGE" || unread)
	})
	switch {
	case !made:
		t.m.violate("I5: what is parked at %s is not the change that was made", v)
	case !kept.New.Exists():
		t.m.violate("I5: a remove is parked, of version %s", v)
	case t.m.MaxImageAge == 0 && t.layout.place(kept.New).held():
		t.m.violate("I5: the change parked at %s could have been applied", v)
	}
}

// isParked reports whether the item's last change is parked or was dropped.
func (t *recorder) isParked(item attribute.Item, w change) bool {
	key := t.m.Mapping.ItemKey(item)
	if at, ok := t.gaveUp[key]; ok && !w.At.After(simEpoch.Add(at)) {
		return true
	}
	return slices.ContainsFunc(t.m.Target.RowsUnder(model.StateTable, "default/parked/"), func(at string) bool {
		p, ok := parkedIn(t.m.Target.Row(model.StateTable, at))
		v, err := transform.ParseVersion(p.Version)
		return ok && p.Key == key && err == nil && (v.Hop() == transform.LoadHop || w.Shard != nil && v.Sequence().Compare(w.Sequence) == 0)
	})
}

// stale returns a parked change that should have been forgotten, because its item holds or has
// parked something newer, or "". An item that has had several places is not checked, because
// nothing proves it.
func (t *recorder) stale() string {
	last := ""
	for _, key := range t.m.Target.RowsUnder(model.StateTable, "default/parked/"+t.m.Mapping.Source+"/") {
		p, ok := parkedIn(t.m.Target.Row(model.StateTable, key))
		item := key[:strings.LastIndexByte(key, '/')]
		switch places := t.places[p.Key]; {
		case !ok:
			return "a parked change is unreadable"
		case item == last:
			return fmt.Sprintf("of the item whose change is parked at %s an older one is, too", p.Version)
		case len(places) == 1 && !t.nowhere[p.Key] && !t.removedByLoad(places[0], p.Version) && heldIn(t.m.Target.Row(places[0].table, places[0].row), places[0].column()) > p.Version:
			return fmt.Sprintf("the change parked at %s is healed and stays", p.Version)
		}
		last = item
	}
	return ""
}

// removedByLoad reports whether the generation's load has removed what it parked, by a later window
// or by its sweep. This cannot be distinguished from the removal before parking.
func (t *recorder) removedByLoad(r register, parked string) bool {
	gone, _ := t.m.Target.Row(r.table, r.row).Value(sink.GoneFamily, r.column())
	held, err := transform.ParseVersion(gone)
	v, bad := transform.ParseVersion(parked)
	return err == nil && bad == nil && held.Hop() == transform.LoadHop && v.Hop() == transform.LoadHop && held.Generation() == v.Generation()
}

// parkedItems returns the number of items of the table that are currently parked.
func (t *recorder) parkedItems() int {
	items := map[string]bool{}
	for _, key := range t.m.Target.RowsUnder(model.StateTable, "default/parked/"+t.m.Mapping.Source+"/") {
		if p, ok := parkedIn(t.m.Target.Row(model.StateTable, key)); ok {
			items[p.Key] = true
		}
	}
	return len(items)
}
