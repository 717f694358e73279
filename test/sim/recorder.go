package sim

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// recorder records what happened to one table: the images of its items, and every executed write of
// its target and ledger. Checkers compare each write with these records. Only the layout of a
// single image is shared with replicator.
//
// A disaster ends an era: the target or the ledger was set back, or a generation rose. The recorder
// then forgets the target's content, and checkers that need the ledger's whole history only cover
// the first era. After a disaster the end of the run checks that a gap was declared and that later
// changes are applied.
type recorder struct {
	m      *Migration
	layout layout
	keeps  bool // columns keep older values
	fast   bool // the first load may be fast
	// exports, if not nil, makes the exports that loads copy. byHand means that nothing is copied
	// without a command.
	exports *exportService
	byHand  bool
	era     int

	// The source. images holds, for each register to which an item ever mapped, its images there,
	// in order.
	images  map[register][]image
	rows    map[rowID]*sharedRow
	changes map[string][]change   // by sequence number; different shards may use the same number
	latest  map[string]change     // the last write of each item
	places  map[string][]register // all registers to which an item ever mapped, by item key
	strange map[rowID]bool        // rows of another writer, which a repair may write
	nowhere map[string]bool       // items without an address at some time, by item key
	missed  []model.Write         // changes that the stream dropped before they were applied

	// The target in this era: the highest version of each register, and the write of the table that
	// it represents.
	highest map[register]string
	number  map[register]written

	// The ledger.
	shards      map[string]*seenShard    // by label and id
	ranks       map[string]map[rank]bool // every rank that a shard ever had, by the same
	known       map[string]bool          // shards that were ever in the ledger
	listed      map[string]time.Time     // when a stream was first completely listed, by its label
	coordinator time.Duration            // when the coordinator's row was last written
	adopted     time.Duration            // when the current generation was adopted by all shards
	raised      time.Time                // when it began
	gaps        int                      // generations that ended with a gap

	parked  map[string]string        // the highest version ever parked of an item, by its key
	decided map[string]time.Duration // when the operator last decided about an item, by its key
	gaveUp  map[string]time.Duration // when the operator last dropped an item's records, by its key
}

// change is a write with the item before and after it.
type change struct {
	model.Write
	was, is placement
}

// image is an item's image during a period, at an address that it had then.
type image struct {
	id       string
	item     attribute.Item
	spot     *spot
	from, to time.Time // to is zero while it lasts
	outlived bool      // the item was removed, but its image stays in the target
	number   int       // the number of the write that made it
	ended    int       // the number of the write that ended it
}

// written is the position of a register's content in the order of the table's writes, in one
// generation.
type written struct {
	generation uint32
	number     int // 0 for a load
}

// seenShard is the last observed state of a shard's row.
type seenShard struct {
	checkpoint.Shard
	wrote    time.Duration
	moved    time.Duration // when its position changed
	made     time.Time     // when the row was first seen
	reopened bool          // it was a gap before
}

// rank is a shard's part of its changes' versions, besides their sequence numbers.
type rank struct{ generation, hop uint32 }

// newRecorder observes a migration that has not begun.
func newRecorder(m *Migration) *recorder {
	t := &recorder{
		m: m, layout: mapped{m.Mapping}, keeps: m.Mapping.KeepsVersions(), images: map[register][]image{}, rows: map[rowID]*sharedRow{},
		changes: map[string][]change{}, latest: map[string]change{}, places: map[string][]register{}, strange: map[rowID]bool{}, nowhere: map[string]bool{},
		highest: map[register]string{}, number: map[register]written{}, shards: map[string]*seenShard{}, ranks: map[string]map[rank]bool{},
		known: map[string]bool{}, listed: map[string]time.Time{}, parked: map[string]string{},
		decided: map[string]time.Duration{}, gaveUp: map[string]time.Duration{},
	}
	m.Source.Written, m.Source.Trimmed, m.Watch, m.Target.SetBack = t.written, t.dropped, t.watch, t.setBack
	return t
}

// newEra forgets the content of the target.
func (t *recorder) newEra() {
	t.era++
	t.highest, t.number = map[register]string{}, map[register]written{}
}

// setBack ends an era, because the rows of a table were replaced. The ledger's current shards are
// the new baseline.
func (t *recorder) setBack(table string) {
	t.newEra()
	if table != model.StateTable {
		return
	}
	now := t.m.World.Elapsed()
	t.shards, t.coordinator = map[string]*seenShard{}, now
	for _, s := range t.m.Shards() {
		t.shards[s.Label+"/"+s.ID] = &seenShard{Shard: s, wrote: now, made: t.m.World.Now(), reopened: true}
	}
}

func (t *recorder) written(w model.Write) {
	c := change{Write: w, was: t.latest[w.ID].is}
	if w.New.Exists() {
		c.is = t.layout.place(w.New)
	}
	if w.Expired && t.m.Outlives {
		t.m.World.Inject("item removed by its time to live")
		for i := range c.was.spots {
			list := t.images[c.was.spots[i].register]
			list[len(list)-1].outlived = true
		}
		return // no checker may notice
	}
	t.latest[w.ID] = c
	if phase, _ := t.m.State().RunningPhase(); phase != "" {
		t.m.World.Inject("item changed while its table is " + map[bool]string{true: "copied", false: "swept"}[phase == checkpoint.PhaseCopy])
	}
	if w.Shard != nil {
		key := numbered(w.Sequence)
		t.changes[key] = append(t.changes[key], c)
	}
	for i := range c.was.spots {
		list := t.images[c.was.spots[i].register]
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
			t.m.World.Tracef("image %d of item %s goes to row %q", w.Number, t.m.Source.NameOf(t.m.Mapping.Keys(some)), s.row)
		}
		if len(c.was.spots) > 0 && c.was.at(s.register) == nil {
			t.m.World.Inject("item moved to another row")
		}
		if !slices.Contains(t.places[key], s.register) {
			t.places[key] = append(t.places[key], s.register)
		}
		t.images[s.register] = append(t.images[s.register], image{id: w.ID, item: w.New, spot: s, from: w.At, number: w.Number})
	}
}

// numbered returns a sequence number by its value, as in versions.
func numbered(s cdc.SequenceNumber) string { return string(s.AppendPadded(nil)) }

// dropped records what the stream drops before it is applied.
func (t *recorder) dropped(sh *model.Shard, r *model.Record) {
	name := sh.Label + "/" + sh.ID
	for _, w := range t.changes[numbered(r.Change.Sequence)] {
		if w.Shard != sh {
			continue
		}
		if seen := t.shards[name]; seen != nil && seen.Position.Compare(w.Sequence) >= 0 {
			return
		}
		spots := w.is.spots
		if len(spots) == 0 {
			spots = w.was.spots
		}
		if !slices.ContainsFunc(spots, func(s spot) bool { return !t.reaches(name, t.highest[s.register], w.Sequence) }) {
			return // applied but not committed, or without a row
		}
		t.m.World.Inject("change trimmed before it was applied")
		t.m.World.Tracef("LOST %s in %s, never applied", w.Sequence, sh.ID)
		t.missed = append(t.missed, w.Write)
	}
}

// reaches reports whether a version belongs to a change of a shard, or is newer.
func (t *recorder) reaches(shard, version string, change cdc.SequenceNumber) bool {
	for r := range t.ranks[shard] {
		if version >= string(transform.NewVersion(r.generation, r.hop, change, transform.CountExact)) {
			return true
		}
	}
	return false
}

// inOrder iterates over a map in the order of its keys, so that a run's messages are repeatable.
func inOrder[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// watch observes every write of all tables.
func (t *recorder) watch(table, key string, before, after *model.Row) {
	if table != model.StateTable {
		switch {
		case others[key] != "":
			t.m.violate("T6: row %q is another table's, and is written", key)
		case isCopied(before) || isCopied(after): // its cells are right once the load is swept
			for _, owner := range owners(after) {
				r := register{rowID{table, key}, owner}
				t.highest[r] = max(t.highest[r], heldIn(after, r.column()))
			}
		case t.fast && sameColumns(before, after): // a cell of a fast load is removed twice
		case !strings.HasPrefix(key, transform.WitnessPrefix):
			t.rowWritten(rowID{table, key}, before, after)
		}
		return
	}
	kind, name, _ := strings.Cut(strings.TrimPrefix(key, "default/"), "/")
	switch kind {
	case "pipeline":
		t.pipelineWritten(before, after)
	case "shard":
		t.shardWritten(strings.TrimPrefix(name, t.m.Source.Name+"/"), before, after)
	case "table":
		t.tableWritten(before, after)
	case "open":
		t.openWritten(before, after)
	case "keeper":
		t.coordinatorWritten(before, after)
	case "part":
		t.partWritten(before, after)
	case "parked":
		t.parkedWritten(key, before, after)
	}
}
