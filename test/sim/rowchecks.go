package sim

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func versionColumn(owner string) string { return ownColumn(sink.VersionColumn, owner) }

func ownColumn(name, owner string) string {
	if owner == "" {
		return name
	}
	return name + ":" + owner
}

func isOurs(family string) bool { return family == sink.LiveFamily || family == sink.GoneFamily }

// nobody is the owner of columns that belong to no item.
const nobody = "?"

// contents returns the data cells of a row, by the register that owns their columns. Cells in
// columns of no item belong to nobody.
func (t *recorder) contents(id rowID, row *model.Row) map[string]content {
	all := map[string]content{}
	known := t.rows[id]
	row.EachColumn(func(c *model.Column) {
		if isOurs(c.Family) {
			return
		}
		at, owner := c.Family+":"+c.Qualifier, nobody
		if known != nil {
			if o, ok := known.columns[at]; ok {
				owner = o
			}
		}
		if all[owner] == nil {
			all[owner] = content{}
		}
		all[owner][at] = t.values(c)
	})
	return all
}

// values returns the values of all cells of a column, the newest first. With older values kept, it
// returns only the newest.
func (t *recorder) values(c *model.Column) string {
	cells := c.Cells
	if t.keeps {
		cells = cells[:1]
	}
	var b strings.Builder
	for _, cell := range cells {
		b.WriteString(cell.Value)
		b.WriteByte(0)
	}
	return b.String()
}

// isCopied reports whether a fast load has marked the row.
func isCopied(row *model.Row) bool {
	_, marked := row.Value(sink.LiveFamily, sink.MarkerColumn)
	return marked
}

// sameColumns reports whether a write left a row as it was.
func sameColumns(before, after *model.Row) bool {
	return len(before.Cols)+len(after.Cols) == 0 || reflect.DeepEqual(before.Cols, after.Cols)
}

// owners returns the registers of a row that hold a version, live or tombstone.
func owners(row *model.Row) []string {
	var all []string
	row.EachColumn(func(c *model.Column) {
		owner, ok := strings.CutPrefix(c.Qualifier, sink.VersionColumn)
		if isOurs(c.Family) && ok && !slices.Contains(all, strings.TrimPrefix(owner, ":")) {
			all = append(all, strings.TrimPrefix(owner, ":"))
		}
	})
	return all
}

// rowWrite is an executed write of a register.
type rowWrite struct {
	register
	version       transform.Version
	content       content // of the register, after it
	gone          bool
	before, after *model.Row
}

// rowWritten: each write concerns one register (I7), which holds a live version or one tombstone
// (I8). Its content is an image that the item had there, or empty (I1).
func (t *recorder) rowWritten(id rowID, before, after *model.Row) {
	m, key := t.m, id.row
	var changed []string
	for _, owner := range owners(after) {
		if heldIn(before, versionColumn(owner)) != heldIn(after, versionColumn(owner)) {
			changed = append(changed, owner)
		}
	}
	if len(changed) != 1 {
		m.violate("I7: row %q is written, and %d of its versions change", key, len(changed))
		return
	}
	r := register{id, changed[0]}
	live, isLive := after.Value(sink.LiveFamily, r.column())
	gone, isGone := after.Value(sink.GoneFamily, r.column())
	if stones := len(after.Cells(sink.GoneFamily, r.column())); isLive == isGone || stones > 1 {
		m.violate("I8: row %q holds a live version %v, and %d tombstones", key, isLive, stones)
	}
	v, err := transform.ParseVersion(max(live, gone))
	if err != nil {
		m.violate("I2: row %q holds no version", key)
		return
	}
	was := t.highest[r]
	if m.World.Tracing() {
		m.World.Tracef("row %q is %s, %s, after %q", key, map[bool]string{true: "removed", false: "put"}[isGone], v, was)
	}
	w := rowWrite{r, v, t.checkOthers(r, before, after), isGone, before, after}
	isChange := v.Hop() != transform.LoadHop && v.Count() <= transform.CountExact
	if isChange && !isGone && string(v) < was { // the row's earlier content expired
		m.violate("I8: row %q was written at %s after %s", key, v, was)
	}
	t.highest[r] = max(was, string(v))
	if isGone && len(w.content) > 0 && !t.rows[id].mixed {
		m.violate("I1: row %q is removed and holds %d cells", key, len(w.content))
	}
	for _, micros := range after.Cells(sink.LiveFamily, w.column()) {
		if micros != 0 {
			m.violate("I8: the version of row %q is at %d µs", key, micros)
		}
	}
	switch {
	case t.keeps && t.era > 0: // cells that were to stay may have been removed
	case v.Count() > transform.CountExact:
		t.checkRepaired(w)
	case v.Hop() == transform.LoadHop:
		t.checkLoaded(w)
	default:
		t.checkChange(w)
	}
}

// checkOthers: the cells of other items in the row are unchanged (T6). It returns the register's
// content.
func (t *recorder) checkOthers(r register, before, after *model.Row) content {
	if t.rows[r.rowID] == nil && t.strange[r.rowID] {
		return nil
	}
	is := t.contents(r.rowID, after)
	if len(is[nobody]) > 0 {
		t.m.violate("I1: row %q holds %d cells in columns that no item has", r.row, len(is[nobody]))
	}
	row := t.rows[r.rowID]
	if row == nil {
		t.m.violate("I1: row %q is written, and no item was ever there", r.row)
		t.rows[r.rowID] = &sharedRow{columns: map[string]string{}}
		return nil
	}
	if len(row.registers) > 1 {
		was := t.contents(r.rowID, before)
		for _, owner := range row.registers {
			if owner != r.owner && !equalCells(was[owner], is[owner]) {
				t.m.violate("T6: a write of one item of row %q changes another's cells", r.row)
			}
		}
	}
	return is[r.owner]
}

func equalCells(a, b content) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// matches reports whether the register holds an image's cells, with the right cell times. If
// several rules share one row, another rule's cells may stay until the changes between are applied,
// or until a sweep.
func (t *recorder) matches(w rowWrite, s *spot) bool {
	for column, want := range s.content {
		if w.content[column] != want {
			return false
		}
		if stamps := s.stamps[column]; stamps != nil {
			if family, qualifier, _ := strings.Cut(column, ":"); !slices.Equal(w.after.Cells(family, qualifier), stamps) {
				return false
			}
		}
	}
	return t.rows[w.rowID].mixed || len(w.content) == len(s.content)
}

// secondOf returns when a load read an image, from its version.
func secondOf(v transform.Version) int64 {
	second, _ := strconv.ParseInt(v.Sequence().String(), 10, 64)
	return second
}

// checkLoaded: a load writes an image that the item had at or after the second in its version, not
// an earlier one, and with its time.
func (t *recorder) checkLoaded(w rowWrite) {
	at := time.Unix(secondOf(w.version), 0)
	if at.After(t.m.World.Now()) {
		t.m.violate("I1: row %q is loaded from the future, %s", w.row, w.version)
	}
	since := at.Add(-t.exports.fuzzOf(at.Unix()))
	for _, im := range t.images[w.register] {
		if (im.to.IsZero() || !im.to.Before(since)) && t.fits(w, im.spot) && t.timed(w, im, at) {
			t.number[w.register] = written{}
			return
		}
	}
	if w.gone && t.emptySince(w.register, since) {
		return // a sweep found nothing that belongs there
	}
	t.m.violate("I1: row %q is loaded with an image that its item had not at %s, or as of another time", w.row, w.version)
}

// timed reports whether the cells of a loaded image have the time at which it was read or, if it is
// from a window, written.
func (t *recorder) timed(w rowWrite, im image, at time.Time) bool {
	ok := true
	t.eachTime(w, im.spot, func(_ string, micros int64) {
		written := t.exports.isWindow(at.Unix()) && micros/1e3 == im.from.UnixMilli()
		ok = ok && (micros/1e6 == at.Unix() || written || t.keeps && micros/1e6 < at.Unix())
	})
	return ok
}

// emptySince reports whether a register had no image at some moment since.
func (t *recorder) emptySince(r register, since time.Time) bool {
	for _, im := range t.images[r] {
		switch {
		case im.from.After(since):
			return true
		case im.to.IsZero():
			return false
		case im.to.After(since):
			since = im.to
		}
	}
	return true
}

// fits reports whether a write may belong to an image: it holds the image, or nothing if the image
// cannot be held or is too old.
func (t *recorder) fits(w rowWrite, s *spot) bool {
	if w.gone {
		return !s.held || t.m.MaxImageAge > 0
	}
	return s.held && t.matches(w, s)
}

// checkChange: a change's version belongs to a change of the item. Its shard had that generation
// and hop at the same time. The register holds the result of the change. Within a generation no
// older put follows a newer change, in the order of their creation. No put is older than a
// remembered removal (I8).
func (t *recorder) checkChange(w rowWrite) {
	v := w.version
	if v.Count() != transform.CountExact {
		t.m.violate("I7: row %q is written at %s, which is not what its change is first sent with", w.row, v)
	}
	last, back := t.number[w.register], 0
	for _, c := range t.changes[numbered(v.Sequence())] {
		if !t.ranks[c.Shard.Label+"/"+c.Shard.ID][rank{v.Generation(), v.Hop()}] {
			continue
		}
		s := c.is.at(w.register)
		here := s != nil && s.held
		if !slices.ContainsFunc(t.images[w.register], func(im image) bool { return im.id == c.ID }) ||
			!w.gone && (!here || !t.matches(w, s)) || w.gone && here && t.m.MaxImageAge == 0 {
			continue
		}
		if !w.gone && last.generation == v.Generation() && c.Number < last.number {
			back = c.Number // unless the version also names a change of another stream
			continue
		}
		t.number[w.register] = written{v.Generation(), c.Number}
		t.checkTimes(w, s, c.Write)
		if age := t.m.World.Now().Sub(c.At); !w.gone && t.m.TombstoneAge > 0 && age > t.m.TombstoneAge {
			t.m.violate("I8: row %q is put at %s with an image that is %s old, and removes are remembered for %s", w.row, v, age, t.m.TombstoneAge)
		}
		return
	}
	if back > 0 {
		t.m.violate("I1: row %q goes back from the item's write %d to its write %d, %s", w.row, last.number, back, v)
		return
	}
	t.m.violate("I1: row %q holds what no change %s made of it", w.row, v)
}

// checkRepaired: a repair writes an image that is not older than the register's change, at that
// change's version with one more repair (I9).
func (t *recorder) checkRepaired(w rowWrite) {
	v := w.version
	held, err := transform.ParseVersion(heldIn(w.before, w.column()))
	counts := err == nil && held.Count()+1 == v.Count() && held.WithoutCount() == v.WithoutCount()
	if t.era == 0 && t.m.TombstoneAge == 0 && !counts {
		t.m.violate("I9: row %q is repaired at %s over %q", w.row, v, held)
		return
	}
	t.m.World.Inject("row repaired")
	last, absent := t.number[w.register].number, true
	for _, im := range t.images[w.register] {
		if current := im.ended == 0 || im.ended > last; current && t.fits(w, im.spot) {
			return
		}
		absent = absent && (im.ended > 0 || im.outlived)
	}
	if w.gone && (absent || t.leftSince(w.register, last)) {
		return
	}
	t.m.violate("I9: row %q is repaired at %s with what its item was not since write %d", w.row, v, last)
}

// leftSince reports whether the item was elsewhere, or removed, after the write of that number.
func (t *recorder) leftSince(r register, number int) bool {
	list := t.images[r]
	return slices.ContainsFunc(list, func(im image) bool {
		return im.ended > number && !slices.ContainsFunc(list, func(next image) bool { return next.number == im.ended })
	}) || len(list) > 0 && list[0].number > number
}

// checkTimes: the cells of a change have its second or, if times ran backwards, the latest one
// before it in its lineage (H43), unless the image itself sets them. A change without a time may
// have any. After a gap, the changes before this one may be lost to its lineage.
func (t *recorder) checkTimes(w rowWrite, s *spot, c model.Write) {
	var earliest int64
	for i := c.Shard.Trimmed; i < len(c.Shard.Records) && c.Shard.Records[i].Change.Sequence.Compare(c.Sequence) <= 0; i++ {
		change := &c.Shard.Records[i].Change
		if change.Sequence == c.Sequence && change.Time.IsZero() {
			return
		}
		if change.Sequence == c.Sequence || len(t.m.Gaps) == 0 {
			earliest = max(earliest, change.Time.UnixMicro())
		}
	}
	latest := max(c.Latest.UnixMicro(), simEpoch.UnixMicro()) // a record may have no time
	t.eachTime(w, s, func(qualifier string, micros int64) {
		// Kept cells may be older.
		if micros < earliest && !t.keeps || micros > latest {
			t.m.violate("I1: cell %s of row %q is at %d µs, and its change is of %d to %d", qualifier, w.row, micros, earliest, latest)
		}
	})
}

// eachTime calls f for the cells that must have the time of the change or of the load.
func (t *recorder) eachTime(w rowWrite, s *spot, f func(qualifier string, micros int64)) {
	if s == nil {
		return
	}
	w.after.EachColumn(func(c *model.Column) {
		at := c.Family + ":" + c.Qualifier
		if s.content[at] == "" || s.stamps[at] != nil {
			return
		}
		for _, cell := range c.Cells {
			f(strings.ToValidUTF8(c.Qualifier, "?"), cell.Micros)
		}
	})
}
