package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func versionColumn(owner string) string {
	if owner == "" {
		return sink.VersionColumn
	}
	return sink.VersionColumn + ":" + owner
}

func originColumn(owner string) string {
	if owner == "" {
		return sink.OriginColumn
	}
	return sink.OriginColumn + ":" + owner
}

func isOurs(family string) bool { return family == sink.LiveFamily || family == sink.GoneFamily }

// contents are the data cells of a row, by the register whose columns they are in. What is in no item's column is under "?".
func (t *truth) contents(id rowID, row *Row) map[string]content {
	all := map[string]content{}
	known := t.shared[id]
	row.cells(func(c *column) {
		if isOurs(c.family) {
			return
		}
		at, owner := c.family+":"+c.qualifier, nobody
		if known != nil {
			if s, ok := known.columns[at]; ok {
				owner = s.owner
			}
		}
		if all[owner] == nil {
			all[owner] = content{}
		}
		all[owner][at] = t.values(c)
	})
	return all
}

// nobody is whose columns are no item's.
const nobody = "?"

// cells calls f for each column with all its cells.
func (r *Row) cells(f func(c *column)) {
	if r == nil {
		return
	}
	for i := range r.columns {
		if len(r.columns[i].cells) > 0 {
			f(&r.columns[i])
		}
	}
}

// values are the values of all cells of a column, the newest first; of one that keeps what it was before, the newest alone.
func (t *truth) values(c *column) string {
	cells := c.cells
	if t.keeps {
		cells = cells[:1]
	}
	var b strings.Builder
	for _, cell := range cells {
		b.WriteString(cell.value)
		b.WriteByte(0)
	}
	return b.String()
}

// owners are the registers of a row that hold a version, live or as a tombstone.
func owners(row *Row) []string {
	var all []string
	row.cells(func(c *column) {
		owner, ok := strings.CutPrefix(c.qualifier, sink.VersionColumn)
		if isOurs(c.family) && ok && !slices.Contains(all, strings.TrimPrefix(owner, ":")) {
			all = append(all, strings.TrimPrefix(owner, ":"))
		}
	})
	return all
}

// watchItem: each write is of one register, and touches no other item's columns (T6). What a version names is what the register holds
// (I1); it takes each version once (I7) and nothing older ever again, also after its tombstone is gone (I8).
func (t *truth) watchItem(id rowID, before, after *Row) {
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
	if isLive == isGone || len(after.Cells(sink.GoneFamily, r.column())) > 1 {
		m.violate("I8: row %q holds a live version %v, and %d tombstones", key, isLive, len(after.Cells(sink.GoneFamily, r.column())))
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
	t.checkHistory(w, was)
	switch {
	case w.comesAgain(was):
	case string(v) == was:
		m.violate("I7: row %q was written twice at %s", key, v)
	case string(v) < was && !t.readSince(w):
		m.violate("I8: row %q was written at %s after %s", key, v, was)
	}
	t.highest[r], t.ever[r] = max(was, string(v)), max(t.ever[r], string(v))
	if v.Count() <= transform.CountExact {
		t.wroteAt[r] = m.World.Elapsed()
	} else {
		t.repaired[r] = repair{m.World.Elapsed(), v}
	}
	if isGone {
		t.checkEmpty(w)
	}
	switch {
	case v.Count() > transform.CountExact:
		t.checkRepaired(w, was)
	case v.Hop() == transform.LoadHop:
		t.checkLoaded(w, was)
	default:
		t.checkChange(w, was)
	}
}

// comesAgain tells whether a write is a remove that came before the tombstone which the register held last, or is the one that left it, and that tombstone was
// collected: the guard knows nothing of it. Who reads a shard again has pages that end elsewhere, and may bring in parts what came at once, puts that
// have become too old as removes among them. No remove brings anything back; and what it takes away, which was read since, the item's next changes bring.
func (w rowWrite) comesAgain(was string) bool {
	return w.gone && string(w.version) <= was && heldIn(w.before, w.column()) < was
}

// readSince tells whether a write brings, into a register whose tombstone was collected, an image that is not older than what left the tombstone: by a
// load or a repair, which read the item since, also a repair of what came again (comesAgain). The change that made the image outranks both, and comes or has
// come before. A repair that is made again finds what it wrote the first time. Of an image that the target cannot hold, or that has become too old to be
// put, a load leaves a tombstone, which may have been one before.
func (t *truth) readSince(w rowWrite) bool {
	if w.version.Hop() != transform.LoadHop && w.version.Count() <= transform.CountExact || heldIn(w.before, w.column()) >= string(w.version) {
		return false
	}
	return slices.ContainsFunc(t.rows[w.register], func(im image) bool {
		switch {
		case im.number < t.number[w.register]:
			return false
		case w.gone:
			return !im.spot.held || t.m.MaxImageAge > 0
		}
		return im.spot.held && t.matches(w, im.spot)
	})
}

// rowWrite is a write of a register as it took place.
type rowWrite struct {
	register
	version       transform.Version
	content       content // of the register, after it
	gone          bool
	before, after *Row
}

// checkOthers: what other items hold in the row is as it was. It returns what the register holds.
func (t *truth) checkOthers(r register, before, after *Row) content {
	is := t.contents(r.rowID, after)
	if len(is[nobody]) > 0 {
		t.m.violate("I1: row %q holds %d cells in columns that no item has", r.row, len(is[nobody]))
	}
	if row := t.shared[r.rowID]; row == nil || len(row.registers) < 2 {
		return is[r.owner]
	}
	was := t.contents(r.rowID, before)
	for _, owner := range t.shared[r.rowID].registers {
		if owner != r.owner && !equalCells(was[owner], is[owner]) {
			t.m.violate("T6: a write of one item of row %q changes another's cells", r.row)
		}
	}
	return is[r.owner]
}

// leftover tells whether a column may hold what it did before a write that says nothing of it: one that no image of the rule that decides has.
// An item that changes its rule within a row leaves such for as long as the changes between are not all applied, or for good if they are lost.
func (t *truth) leftover(r register, column string, rule int) bool {
	return t.shared[r.rowID].columns[column].rules&(1<<rule) == 0
}

// checkEmpty: a register that is removed holds nothing.
func (t *truth) checkEmpty(w rowWrite) {
	for column, values := range w.content {
		if !t.shared[w.rowID].mixed || t.valuesOf(w.before, column) != values {
			t.m.violate("I1: row %q is removed and holds %d cells", w.row, len(w.content))
			return
		}
	}
}

// valuesOf are those of a column that is named as in contents; "" if there is none.
func (t *truth) valuesOf(r *Row, name string) string {
	family, qualifier, _ := strings.Cut(name, ":")
	if c := r.column(family, qualifier); c != nil {
		return t.values(c)
	}
	return ""
}

// matches tells whether the register holds what an image becomes there, with the cell times that follow from the image.
func (t *truth) matches(w rowWrite, s *spot) bool {
	for column := range s.content {
		if _, ok := w.content[column]; !ok {
			return false
		}
	}
	for column, values := range w.content {
		want, ok := s.content[column]
		switch {
		case !ok && (!t.leftover(w.register, column, s.rule) || t.valuesOf(w.before, column) != values), ok && values != want:
			return false
		case s.stamps[column] != nil:
			family, qualifier, _ := strings.Cut(column, ":")
			if !slices.Equal(w.after.Cells(family, qualifier), s.stamps[column]) {
				return false
			}
		}
	}
	return true
}

// secondOf is when the image of a load was read, by its version.
func secondOf(v transform.Version) (second int64) {
	_, _ = fmt.Sscan(v.Sequence().String(), &second)
	return second
}

// checkLoaded: a load asserts an image that the item had at or after the second its version names, not one before.
func (t *truth) checkLoaded(w rowWrite, was string) {
	at := time.Unix(secondOf(w.version), 0)
	if at.After(t.m.World.Now()) {
		t.m.violate("I1: row %q is loaded from the future, %s", w.row, w.version)
	}
	if t.operator == nil && !t.loads[w.version.Generation()] {
		t.m.violate("I7: row %q is loaded in generation %d, in which no load began", w.row, w.version.Generation())
	}
	for _, im := range t.rows[w.register] {
		if !im.to.IsZero() && im.to.Before(at) {
			continue
		}
		if im.spot.held && !w.gone && t.matches(w, im.spot) || !im.spot.held && w.gone {
			t.number[w.register] = 0
			t.checkLoadTimes(w, im.spot, at.Unix())
			return
		}
	}
	if w.gone && t.m.MaxImageAge > 0 {
		return // too old to be put
	}
	if t.keeps && t.madeBefore(w, was) {
		return // as in checkChange
	}
	t.m.violate("I1: row %q is loaded with an image that its item had not at %s", w.row, w.version)
}

// checkChange: a change's version is that of a change of the item, its generation and hop are such that its shard had at once, and the register holds what
// the change made of it. Within a generation no older change follows a newer one, by the order in which they were made, but a remove that comes again.
func (t *truth) checkChange(w rowWrite, was string) {
	v := w.version
	if v.Count() != transform.CountExact {
		t.m.violate("I7: row %q is written at %s, which is not what its change is first sent with", w.row, v)
	}
	back := 0
	for _, c := range t.changes[numbered(v.Sequence())] {
		seen := t.ledger[c.Shard.label+"/"+c.Shard.ID]
		if seen == nil || !seen.ranks[rank{v.Generation(), v.Hop()}] {
			continue
		}
		s := c.is.at(w.register)
		switch here := s != nil && s.held; {
		case !w.gone && (!here || !t.matches(w, s)), w.gone && here && t.m.MaxImageAge == 0,
			!slices.ContainsFunc(t.rows[w.register], func(im image) bool { return im.id == c.ID }):
			continue
		}
		if was != "" && was[:8] == string(v[:8]) && c.Number < t.number[w.register] && !w.comesAgain(was) {
			back = c.Number // unless the version names a change of another stream as well
			continue
		}
		t.number[w.register] = c.Number
		t.checkTimes(w, was, s, c.Write)
		if age := t.m.World.Now().Sub(c.At); !w.gone && t.m.TombstoneAge > 0 && age > t.m.TombstoneAge {
			t.m.violate("I8: row %q is put at %s with an image that is %s old, and what was removed since is remembered for %s", w.row, v, age, t.m.TombstoneAge)
		}
		return
	}
	if t.keeps && t.madeBefore(w, was) {
		return // which is declared: the cells that were to stay are not there
	}
	if back > 0 {
		t.m.violate("I1: row %q goes back from the item's write %d to its write %d, %s", w.row, t.number[w.register], back, v)
		return
	}
	t.m.violate("I1: row %q holds what no change %s made of it", w.row, v)
}

func equalCells(a, b content) bool {
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

// sorted are the registers that ever were, in order.
func (t *truth) sorted() []register {
	all := make([]register, 0, len(t.rows))
	for r := range t.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b register) int {
		return cmp.Or(a.compare(b.rowID), strings.Compare(a.owner, b.owner))
	})
	return all
}

// unequal is how the target differs from the source as they are now, as far as the last change of an item was made after since.
func (t *truth) unequal(since time.Time) []string {
	var diff []string
	ids := slices.Collect(maps.Keys(t.shared))
	for _, table := range t.m.Mapping.Tables() {
		for _, key := range t.m.Target.Rows(table) {
			if !strings.HasPrefix(key, transform.WitnessPrefix) && (t.m.Foreign == nil || !t.m.Foreign(table, key)) {
				ids = append(ids, rowID{table, key})
			}
		}
	}
	slices.SortFunc(ids, rowID.compare)
	for _, id := range slices.Compact(ids) {
		diff = append(diff, t.differences(id, since)...)
	}
	return append(diff, t.unparked(since)...)
}

// differences are those of one row: what each of its items should hold there and nothing else, ours included.
func (t *truth) differences(id rowID, since time.Time) []string {
	key, row := id.row, t.m.Target.Row(id.table, id.row)
	have := t.contents(id, row)
	var diff []string
	known := t.shared[id]
	if known == nil || len(have[nobody]) > 0 {
		return []string{fmt.Sprintf("row %q is nobody's", key)}
	}
	for _, owner := range owners(row) {
		if !slices.Contains(known.registers, owner) {
			diff = append(diff, fmt.Sprintf("row %q has a version that is nobody's", key))
		}
	}
	for _, owner := range known.registers {
		r := register{id, owner}
		if d := t.differs(r, row, have[owner], since); d != "" {
			diff = append(diff, d)
		}
	}
	return diff
}

func (t *truth) differs(r register, row *Row, have content, since time.Time) string {
	list := t.rows[r]
	im := list[len(list)-1]
	s := im.spot
	changed := im.from
	if !im.to.IsZero() {
		changed, s = im.to, nil
	}
	w := rowWrite{register: r, content: have, before: row, after: row}
	if im.outlived && im.to.IsZero() && len(have) == 0 && !hasLive(row, r) {
		return "" // it was never copied, or went with the target
	}
	if !since.IsZero() {
		w.content = t.withoutLeftovers(r, have, im.spot.rule)
	} else {
		w.before = nil
	}
	if s != nil {
		parked := t.isParked(im.item, t.latest[im.id])
		switch {
		case s.held && parked && t.matches(w, s):
			return "" // parked is what the item was earlier in the second in which a load read it
		case !s.held && !parked && changed.After(since):
			return fmt.Sprintf("row %q cannot be held, and is not parked", r.row)
		case !s.held || parked:
			s = nil
		}
	}
	switch {
	case !changed.After(since):
	case s == nil && len(w.content) > 0, s != nil && !t.matches(w, s):
		should := 0
		if s != nil {
			should = len(s.content)
		}
		return fmt.Sprintf("row %q has %d cells, should have %d, of write %d", r.row, len(w.content), should, im.number)
	default:
		return t.oursDiffer(r, row, im, s != nil)
	}
	return ""
}

// withoutLeftovers leaves out what an image of another rule left in a register when changes were lost: only a sweep removes that.
func (t *truth) withoutLeftovers(r register, have content, rule int) content {
	rest := content{}
	for column, values := range have {
		if !t.leftover(r, column, rule) {
			rest[column] = values
		}
	}
	return rest
}

// oursDiffer compares what of a register is ours: a live item has its version and, where the row does not give its key back, its origin. That may be
// there from a former rule too.
func (t *truth) oursDiffer(r register, row *Row, im image, live bool) string {
	isLive := hasLive(row, r)
	origin, _ := row.Value(sink.LiveFamily, originColumn(r.owner))
	want := ""
	if live {
		want = t.origin(r, im)
	}
	switch {
	case isLive != live:
		return fmt.Sprintf("row %q has a live version %v of write %d", r.row, isLive, im.number)
	case origin != want && (want != "" || !live || origin != t.originOf(im)):
		return fmt.Sprintf("row %q does not say whose it is, of write %d", r.row, im.number)
	}
	return ""
}

func hasLive(row *Row, r register) bool {
	_, isLive := row.Value(sink.LiveFamily, r.column())
	return isLive
}

// origin is what a row says of where an item comes from, if it has to say it.
func (t *truth) origin(r register, im image) string {
	p, err := t.m.Mapping.Map(im.item, someTime)
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(p.Rows, func(row transform.RowMutation) bool {
		return row.Table == r.table && row.Row == r.row && row.Owner == r.owner
	})
	if i < 0 || p.Rows[i].Origin == "" {
		return ""
	}
	return t.originOf(im)
}

func (t *truth) originOf(im image) string {
	return t.m.Mapping.Source + "/" + t.m.Mapping.ItemKey(im.item)
}

// unparked are items that cannot be held anywhere, and are neither ignored nor parked.
func (t *truth) unparked(since time.Time) []string {
	var diff []string
	for id, c := range t.latest {
		if c.New.Exists() && len(c.is.spots) == 0 && !c.is.ignored && c.At.After(since) && !t.isParked(c.New, c) {
			diff = append(diff, fmt.Sprintf("item %q cannot be held, and is not parked", id))
		}
	}
	slices.Sort(diff)
	return diff
}
