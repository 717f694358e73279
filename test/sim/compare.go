package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// sorted returns all registers that ever existed, in order.
func (t *recorder) sorted() []register {
	return slices.SortedFunc(maps.Keys(t.images), func(a, b register) int {
		return cmp.Or(a.compare(b.rowID), strings.Compare(a.owner, b.owner))
	})
}

// unequal returns the current differences between target and source, for items whose last change
// was made after since.
func (t *recorder) unequal(since time.Time) []string {
	return t.unequalOf(since, func(change) bool { return true })
}

// unequalOf is unequal for the items whose last change satisfies of.
func (t *recorder) unequalOf(since time.Time, of func(change) bool) []string {
	var diff []string
	ids := slices.Collect(maps.Keys(t.rows))
	for _, table := range t.m.Mapping.Tables() {
		for _, key := range t.m.Target.Rows(table) {
			if !strings.HasPrefix(key, transform.WitnessPrefix) && others[key] == "" {
				ids = append(ids, rowID{table, key})
			}
		}
	}
	slices.SortFunc(ids, rowID.compare)
	for _, id := range slices.Compact(ids) {
		diff = append(diff, t.differences(id, since, of)...)
	}
	var lost []string // items that cannot be stored anywhere, and are neither ignored nor parked
	for id, c := range t.latest {
		if c.New.Exists() && len(c.is.spots) == 0 && !c.is.ignored && c.At.After(since) && of(c) && !t.isParked(c.New, c) {
			lost = append(lost, fmt.Sprintf("item %q cannot be held, and is not parked", id))
		}
	}
	slices.Sort(lost)
	return append(diff, lost...)
}

// differences returns the differences of one row. It must hold what each of its items should have
// there and nothing else, including replicator's own cells.
func (t *recorder) differences(id rowID, since time.Time, of func(change) bool) []string {
	key, row := id.row, t.m.Target.Row(id.table, id.row)
	have := t.contents(id, row)
	var diff []string
	known := t.rows[id]
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
		if list := t.images[r]; !of(t.latest[list[len(list)-1].id]) {
			continue
		}
		w := rowWrite{register: r, content: have[owner], before: row, after: row}
		if d := t.differs(w, since); d != "" {
			diff = append(diff, d)
		}
	}
	return diff
}

// differs compares a register's content with the last image of its item there. After lost changes,
// a row of several rules may hold cells of another rule, which a sweep removes.
func (t *recorder) differs(w rowWrite, since time.Time) string {
	list := t.images[w.register]
	im := list[len(list)-1]
	s, changed, live := im.spot, im.from, hasLive(w.after, w.register)
	if !im.to.IsZero() {
		changed, s = im.to, nil
	}
	if im.outlived && im.to.IsZero() && len(w.content) == 0 && !live {
		return "" // it was never copied, or was lost with the target
	}
	if s != nil {
		switch parked := t.isParked(im.item, t.latest[im.id]); {
		case s.held && parked && t.matches(w, s):
			// The parked record is an earlier image of the second in which a load read the item.
			return ""
		case !s.held && !parked && changed.After(since):
			return fmt.Sprintf("row %q cannot be held, and is not parked", w.row)
		case !s.held || parked:
			s = nil
		}
	}
	should := 0
	if s != nil {
		should = len(s.content)
	}
	mayKeep := !since.IsZero() && t.rows[w.rowID].mixed
	switch {
	case !changed.After(since):
	case s == nil && len(w.content) > 0 && !mayKeep, s != nil && (!t.matches(w, s) || len(w.content) != should && !mayKeep):
		return fmt.Sprintf("row %q has %d cells, should have %d, of write %d", w.row, len(w.content), should, im.number)
	case live != (s != nil):
		return fmt.Sprintf("row %q has a live version %v of write %d", w.row, live, im.number)
	default:
		return t.originDiffers(w, im, live)
	}
	return ""
}

// originDiffers checks the stored origin: a live item has one if the row key does not determine its
// key. A former rule may have left one too.
func (t *recorder) originDiffers(w rowWrite, im image, live bool) string {
	origin, _ := w.after.Value(sink.LiveFamily, ownColumn(sink.OriginColumn, w.owner))
	its, want := t.m.Mapping.Source+"/"+t.m.Mapping.ItemKey(im.item), ""
	if p, err := t.m.Mapping.Map(im.item, someTime); live && err == nil {
		i := slices.IndexFunc(p.Rows, func(row transform.RowMutation) bool {
			return row.Table == w.table && row.Row == w.row && row.Owner == w.owner
		})
		if i >= 0 && p.Rows[i].Origin != "" {
			want = its
		}
	}
	if origin != want && (want != "" || !live || origin != its) {
		return fmt.Sprintf("row %q does not say whose it is, of write %d", w.row, im.number)
	}
	return ""
}

// keepsOutlived reports whether a row holds an item that the time to live removed from the source.
// No later change can restore its content.
func (t *recorder) keepsOutlived(id rowID) bool {
	known := t.rows[id]
	return known != nil && slices.ContainsFunc(known.registers, func(owner string) bool {
		list := t.images[register{id, owner}]
		return len(list) > 0 && list[len(list)-1].outlived && list[len(list)-1].to.IsZero()
	})
}

func hasLive(row *model.Row, r register) bool {
	_, isLive := row.Value(sink.LiveFamily, r.column())
	return isLive || isCopied(row) && heldIn(row, r.column()) == ""
}

// Unequal compares the current items of a table with the current rows of its target, and returns
// the differences. They contain item data, so only tests may use it.
func Unequal(t *model.Table, b *model.Bigtable, m *transform.Mapping) []string {
	var diff []string
	want := map[string]map[string]string{}
	for _, item := range t.Items() {
		placed, err := m.Map(item, time.Time{})
		if err != nil {
			continue
		}
		for _, row := range placed.Rows { // other items may share them
			key := row.Table + "/" + row.Row
			if want[key] == nil {
				want[key] = map[string]string{}
			}
			for _, c := range row.Cells {
				at := c.Family + ":" + c.Qualifier
				// Lists are ordered from oldest to newest.
				want[key][at] = string(c.Value) + "\x00" + want[key][at]
			}
		}
	}
	var there [][2]string // tables and rows
	for _, table := range m.Tables() {
		for _, key := range b.Rows(table) {
			there = append(there, [2]string{table, key})
		}
	}
	for _, at := range there {
		key := at[0] + "/" + at[1]
		have := map[string]string{}
		for _, c := range b.Row(at[0], at[1]).Cols {
			if c.Family == sink.LiveFamily || c.Family == sink.GoneFamily {
				continue
			}
			cells := c.Cells
			if m.KeepsVersions() { // other checkers judge older values
				cells = cells[:1]
			}
			for _, cell := range cells {
				have[c.Family+":"+c.Qualifier] += cell.Value + "\x00"
			}
		}
		expected := want[key]
		delete(want, key)
		if len(have) == 0 && expected == nil {
			continue
		}
		if expected == nil {
			diff = append(diff, fmt.Sprintf("%q is extra: %v", key, have))
		} else if fmt.Sprint(have) != fmt.Sprint(expected) {
			diff = append(diff, fmt.Sprintf("%q differs: has %v, should have %v", key, have, expected))
		}
	}
	for key := range want {
		diff = append(diff, fmt.Sprintf("%q is missing", key))
	}
	slices.Sort(diff)
	return diff
}
