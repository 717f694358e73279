package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// truth knows what really happened to every item, and holds each write of the target and of the ledger against it as it takes
// place. It shares nothing with the replicator but the mapping of one image to one row.
type truth struct {
	m *Migration
	// rows is, for each row key that an item ever mapped to, the images that belonged there, in order.
	rows map[string][]image
	// changes are the recorded changes by sequence number; numbers of several shards may be equal.
	changes map[string][]Write
	latest  map[string]Write // the last write of each item
	// highest is the highest version that a row ever held, also after its tombstone was collected (I7, I8).
	highest map[string]string
	number  map[string]int // the true order of the change that the row holds, 0 for a load
	ledger  map[string]*seenShard
	known   map[string]bool // shards the ledger ever had
	seat    time.Duration   // when the keeper's row was last written
	// scanned is when the keeper's row first told that the whole table was read, beaten when the witness was last written.
	scanned, beaten time.Time
	// trimmed are the changes that the stream dropped before they were applied (I5).
	trimmed []Write
	parked  map[string]string // highest parked version by item
	// parkedAt is when a row of a parked change was first written, by its key.
	parkedAt map[string]time.Time
	places   map[string][]string // every row that an item ever mapped to, by item key
	adopted  time.Duration       // when the current generation was adopted by all shards
	poison   func(item cdc.Item) bool
}

// image is what an item looked like from one instant to another, at the row it mapped to then.
type image struct {
	id       string
	item     cdc.Item
	from, to time.Time // to is zero while it lasts
	number   int       // of the write that made it
	ended    int       // of the write that ended it
}

// seenShard is what was last seen of a shard's row.
type seenShard struct {
	checkpoint.Shard
	hops  map[uint32]bool // all it was ever ranked with
	wrote time.Duration
	// found is when the shard was last found trimmed, dropped how many changes the stream had dropped of it by then.
	found   time.Duration
	dropped int
}

// newTruth watches a migration from now on, which must not have begun.
func newTruth(m *Migration) *truth {
	t := &truth{
		m: m, rows: map[string][]image{}, changes: map[string][]Write{}, known: map[string]bool{}, latest: map[string]Write{}, parked: map[string]string{}, parkedAt: map[string]time.Time{}, places: map[string][]string{},
		poison: func(cdc.Item) bool { return false },
	}
	t.forgetTarget()
	t.forgetLedger()
	m.Source.Written, m.Source.Trimmed, m.Watch = t.written, t.dropped, t.watch
	return t
}

// forgetTarget begins anew after the target was lost or restored.
func (t *truth) forgetTarget() {
	t.highest, t.number = map[string]string{}, map[string]int{}
}

// forgetLedger begins anew after the ledger was lost or restored.
func (t *truth) forgetLedger() {
	t.ledger, t.seat = map[string]*seenShard{}, t.m.World.Elapsed()
	for _, s := range t.m.Shards() {
		t.ledger[s.Label+"/"+s.ID] = &seenShard{Shard: s, hops: map[uint32]bool{s.Hop: true}, wrote: t.m.World.Elapsed()}
	}
}

func (t *truth) written(w Write) {
	t.latest[w.ID] = w
	if w.Shard != nil {
		key := w.Sequence.String()
		t.changes[key] = append(t.changes[key], w)
	}
	was, err := t.m.Mapping.Row(w.Old)
	existed := w.Old.Exists() && err == nil
	if existed {
		list := t.rows[was]
		list[len(list)-1].to, list[len(list)-1].ended = w.At, w.Number
	}
	if row, err := t.m.Mapping.Row(w.New); w.New.Exists() && err == nil {
		if existed && row != was {
			t.m.World.Inject("item moved to another row")
		}
		if key := t.m.Mapping.ItemKey(w.New); !slices.Contains(t.places[key], row) {
			t.places[key] = append(t.places[key], row)
		}
		t.rows[row] = append(t.rows[row], image{id: w.ID, item: w.New, from: w.At, number: w.Number})
	}
}

// dropped notes what the stream loses before it is applied.
func (t *truth) dropped(sh *Shard, r *record) {
	for _, w := range t.changes[r.change.Sequence.String()] {
		if w.Shard != sh {
			continue
		}
		im := w.New
		if !im.Exists() {
			im = w.Old
		}
		row, err := t.m.Mapping.Row(im)
		if err != nil {
			return
		}
		seen := t.ledger[sh.label+"/"+sh.ID]
		if seen != nil && seen.Position.Compare(w.Sequence) >= 0 {
			return
		}
		if have := t.highest[row]; seen != nil && have != "" {
			want := string(transform.NewVersion(0, seen.Hop, w.Sequence, transform.CountExact))
			if have[9:] >= want[9:] {
				return
			}
		}
		t.m.World.Inject("change trimmed before it was applied")
		t.m.World.Tracef("LOST %s in %s, never applied", w.Sequence, sh.ID)
		t.trimmed = append(t.trimmed, w)
	}
}

// watch sees every write of both tables.
func (t *truth) watch(table, key string, before, after *Row) {
	switch {
	case table == t.m.Mapping.Table && !strings.HasPrefix(key, transform.WitnessPrefix):
		t.watchItem(key, after)
	case table == t.m.Mapping.Table:
		t.beaten = t.m.World.Now()
	case table != stateTable:
	case strings.HasPrefix(key, "default/shard/"):
		t.watchShard(key, before, after)
	case strings.HasPrefix(key, "default/table/"):
		t.watchTable(before, after)
	case strings.HasPrefix(key, "default/keeper/"):
		t.watchSeat(before, after)
	case strings.HasPrefix(key, "default/parked/"):
		t.watchParked(key, before, after)
	}
}

// watchItem: what a version names is what the row holds (I1), a row takes each version once (I7) and nothing older ever again,
// also after its tombstone is gone (I8).
func (t *truth) watchItem(key string, after *Row) {
	m := t.m
	live, isLive := after.Value(sink.LiveFamily, sink.VersionColumn)
	gone, isGone := after.Value(sink.GoneFamily, sink.VersionColumn)
	if isLive == isGone || len(after.Cells(sink.GoneFamily, sink.VersionColumn)) > 1 {
		m.violate("I8: row %q holds a live version %v, and %d tombstones", key, isLive, len(after.Cells(sink.GoneFamily, sink.VersionColumn)))
	}
	v, err := transform.ParseVersion(max(live, gone))
	if err != nil {
		m.violate("I2: row %q holds no version", key)
		return
	}
	was := t.highest[key]
	if m.World.Tracing() {
		m.World.Tracef("row %q is %s, %s, after %q", key, map[bool]string{true: "removed", false: "put"}[isGone], v, was)
	}
	switch {
	case string(v) == was:
		m.violate("I7: row %q was written twice at %s", key, v)
	case string(v) < was:
		m.violate("I8: row %q was written at %s after %s", key, v, was)
	}
	t.highest[key] = max(was, string(v))
	content := map[string]string{}
	after.Columns(func(family, qualifier string, _ int64, value string) {
		if family != sink.LiveFamily && family != sink.GoneFamily {
			content[family+":"+qualifier] = value
		}
	})
	if isGone && len(content) > 0 {
		m.violate("I1: row %q is removed and holds %d cells", key, len(content))
	}
	if v.Hop() == transform.LoadHop {
		t.checkLoaded(key, v, content, isGone)
		t.checkLoadTimes(key, secondOf(v), after)
	} else if w := t.checkChange(key, v, content, isGone, was); w != nil {
		t.checkTimes(key, *w, after)
	}
}

// secondOf is when the image of a load was read, by its version.
func secondOf(v transform.Version) (second int64) {
	_, _ = fmt.Sscan(v.Sequence().String(), &second)
	return second
}

// checkLoaded: a load asserts an image that the item had at or after the second its version names, not one before.
func (t *truth) checkLoaded(key string, v transform.Version, content map[string]string, gone bool) {
	at := time.Unix(secondOf(v), 0)
	if at.After(t.m.World.Now()) {
		t.m.violate("I1: row %q is loaded from the future, %s", key, v)
	}
	for _, im := range t.rows[key] {
		if !im.to.IsZero() && im.to.Before(at) {
			continue
		}
		if cells, ok := t.expected(im.item); ok && !gone && equalCells(cells, content) || !ok && gone {
			t.number[key] = 0
			return
		}
	}
	if gone && t.m.MaxImageAge > 0 {
		return // too old to be put
	}
	t.m.violate("I1: row %q is loaded with an image that its item had not at %s", key, v)
}

// checkChange: a change's version is that of a change of the item, its hop one that its shard was ranked with, and the row holds what
// the change made of it. Within a generation no older change follows a newer one, by the order in which they were made. It returns the change.
func (t *truth) checkChange(key string, v transform.Version, content map[string]string, gone bool, was string) *Write {
	if v.Count() != transform.CountExact {
		t.m.violate("I7: row %q is written at %s, which is not what its change is first sent with", key, v)
	}
	back := 0
	for _, w := range t.changes[v.Sequence().String()] {
		seen := t.ledger[w.Shard.label+"/"+w.Shard.ID]
		if seen == nil || !seen.hops[v.Hop()] || v.Generation() > t.m.State().Generation {
			continue
		}
		row, err := t.m.Mapping.Row(w.New)
		here := w.New.Exists() && err == nil && row == key
		cells, ok := map[string]string(nil), false
		if here {
			cells, ok = t.expected(w.New)
		}
		if here && ok && !gone && !equalCells(cells, content) {
			continue
		}
		if !gone && !(here && ok) || gone && here && ok && t.m.MaxImageAge == 0 {
			continue
		}
		if !slices.ContainsFunc(t.rows[key], func(im image) bool { return im.id == w.ID }) {
			continue
		}
		if was != "" && was[:8] == string(v[:8]) && w.Number < t.number[key] {
			back = w.Number // unless the version names a change of another stream as well
			continue
		}
		t.number[key] = w.Number
		return &w
	}
	if back > 0 {
		t.m.violate("I1: row %q goes back from the item's write %d to its write %d, %s", key, t.number[key], back, v)
		return nil
	}
	t.m.violate("I1: row %q holds what no change %s made of it", key, v)
	return nil
}

// expected is what an item's row should hold; false if it cannot be held.
func (t *truth) expected(item cdc.Item) (map[string]string, bool) {
	if t.poison(item) {
		return nil, false
	}
	cells, err := t.m.Mapping.Cells(item, 0)
	if err != nil {
		return nil, false
	}
	want := make(map[string]string, len(cells))
	for _, c := range cells {
		want[c.Family+":"+c.Qualifier] = string(c.Value)
	}
	return want, true
}

func equalCells(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || w != v {
			return false
		}
	}
	return true
}

// watchShard: only the owner writes under an epoch (I6), and what is committed is adopted.
func (t *truth) watchShard(key string, before, after *Row) {
	m := t.m
	is, exists := decoded[shardRecord](after)
	name := strings.TrimPrefix(key, "default/shard/Orders/")
	if !exists {
		delete(t.ledger, name)
		t.checkRemoved(before)
		return
	}
	seen := t.ledger[name]
	if seen == nil {
		t.known[name] = true
		seen = &seenShard{hops: map[uint32]bool{}}
		t.ledger[name] = seen
	} else if is.Epoch == seen.Epoch && is.By != seen.Owner {
		m.violate("I6: %s wrote the row of shard %s under epoch %d of %q", is.By, is.ID, is.Epoch, seen.Owner)
	}
	if is.Position.Compare(seen.Position) > 0 {
		if is.Generation < m.State().Adopted {
			m.violate("I6: shard %s is committed in generation %d after %d was adopted", is.ID, is.Generation, m.State().Adopted)
		}
		if sh := m.Source.shard(is.Label, is.ID); sh == nil || len(sh.records) == 0 || sh.records[len(sh.records)-1].change.Sequence.Compare(is.Position) < 0 {
			m.violate("I3: the checkpoint of shard %s is beyond its last change", is.ID)
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
	next := seenShard{Shard: is.Shard, hops: seen.hops, wrote: m.World.Elapsed(), found: seen.found, dropped: seen.dropped}
	next.hops[is.Hop] = true
	if is.Loss == checkpoint.Trimmed && seen.Loss != checkpoint.Trimmed {
		next.found, next.dropped = t.checkTrimmed(seen, is.Shard)
	}
	*seen = next
	t.checkRank(is.Shard)
}

// checkTrimmed: what is read on after a gap is found trimmed again only if the stream has dropped more of it since. How often that happens is
// not bounded: who reads at the horizon and is taken away again and again finds the next changes gone each time. Without a change that was
// dropped, coverage alone may tell of a trim, and what is reopened is covered up to its gap, for as long as clocks are wrong by less than half a day.
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
	if sh == nil || was.Label != t.m.State().Label || t.m.Source.Stream().forgotten() {
		return
	}
	if !sh.Gone || sh.StaysListed {
		t.m.violate("I4: the row of shard %s is removed while the stream shows it", was.ID)
	}
	for _, s := range t.m.Source.Stream().Shards {
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
	if is.Adopted > was.Adopted {
		t.adopted = t.m.World.Elapsed()
		for _, s := range t.m.Shards() {
			if s.State == checkpoint.Reading && s.Owner != "" && (s.Label != is.Label || s.Generation < is.Adopted) {
				t.m.violate("I6: generation %d counts as adopted while shard %s is in %d", is.Adopted, s.ID, s.Generation)
			}
		}
	}
	if was.Load.Generation == is.Load.Generation && existed && was.Load.StartedAt != is.Load.StartedAt && !was.Load.StartedAt.IsZero() {
		t.m.violate("I5: a load that goes on says that it began later")
	}
	if was.Load.StartedAt.IsZero() && !is.Load.StartedAt.IsZero() {
		shards := t.m.Shards()
		for _, s := range shards {
			root := s.Label == is.Label && !slices.ContainsFunc(shards, func(p checkpoint.Shard) bool { return p.Label == s.Label && p.ID == s.Parent })
			if root && s.FirstRead.IsZero() && !s.Finished() {
				t.m.violate("I1: the load begins before root %s was read", s.ID)
			}
		}
	}
	if !was.Loaded() && is.Loaded() {
		t.checkCopied(*is)
	}
}

// unequal is how the target differs from the source as they are now, as far as the last change of a row was made after since.
func (t *truth) unequal(since time.Time) []string {
	var diff []string
	keys := slices.Clone(t.m.Target.Rows(t.m.Mapping.Table))
	for key := range t.rows {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if strings.HasPrefix(key, transform.WitnessPrefix) {
			continue
		}
		have := map[string]string{}
		t.m.Target.Row(t.m.Mapping.Table, key).Columns(func(family, qualifier string, _ int64, value string) {
			if family != sink.LiveFamily && family != sink.GoneFamily {
				have[family+":"+qualifier] = value
			}
		})
		if d := t.differs(key, have, since); d != "" {
			diff = append(diff, d)
		}
	}
	return diff
}

func (t *truth) differs(key string, have map[string]string, since time.Time) string {
	list := t.rows[key]
	if len(list) == 0 {
		return fmt.Sprintf("row %q is nobody's", key)
	}
	im := list[len(list)-1]
	changed, want := im.from, map[string]string(nil)
	if !im.to.IsZero() {
		changed = im.to
	} else {
		cells, ok := t.expected(im.item)
		parked := t.isParked(im.item, t.latest[im.id])
		if ok && parked && equalCells(cells, have) {
			return "" // parked is what the item was earlier in the second in which a load read it
		}
		switch {
		case !ok && !parked && changed.After(since):
			return fmt.Sprintf("row %q cannot be held, and is not parked", key)
		case ok && !parked:
			want = cells
		}
	}
	if !changed.After(since) || equalCells(want, have) {
		return ""
	}
	return fmt.Sprintf("row %q has %d cells, should have %d, of write %d", key, len(have), len(want), im.number)
}
