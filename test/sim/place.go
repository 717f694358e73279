package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// rowID names a row of one of the target tables.
type rowID struct{ table, row string }

func (r rowID) compare(o rowID) int {
	return cmp.Or(strings.Compare(r.table, o.table), strings.Compare(r.row, o.row))
}

// register is what has one version: a row, or one item's part of a row that several share.
type register struct {
	rowID
	owner string // the item's key, where the row is not the item's alone
}

// column is the name of the column that holds the register's version, of both families of ours.
func (r register) column() string { return versionColumn(r.owner) }

// content is what columns hold, by family:qualifier: the values of all their cells, the newest
// first.
type content map[string]string

// spot is what an image becomes at one address.
type spot struct {
	register
	rule int // that decides for the image
	// held tells that the target can hold the image there. Otherwise it is parked, and nothing is
	// to be there.
	held    bool
	content content
	// stamps are the cell times, in microseconds, of columns whose cells do not have the time of
	// their change; the newest first.
	stamps map[string][]int64
}

// placement is what becomes of an item.
type placement struct {
	spots []spot
	// ignored: a rule says not to copy the item. Without spots an item that is not ignored cannot
	// be held anywhere, and is parked.
	ignored bool
	// astray: the item should be in a row, the only one or one of several, whose key it does not
	// give.
	astray bool
}

// held reports whether nothing of the item has to be parked.
func (p placement) held() bool {
	return p.ignored || len(p.spots) > 0 && !slices.ContainsFunc(p.spots, func(s spot) bool { return !s.held })
}

// layout says what an item becomes, item by item. It is a function of the item alone.
type layout interface {
	place(item attribute.Item) placement
}

// mapped is the layout by the mapping itself, for mappings that are shown to be right by other
// tests.
type mapped struct{ *transform.Mapping }

// someTime is when a mapping is told that an image was written: what it stamps with that is stamped
// with the time of the change.
var someTime = time.Unix(1_795_000_001, 777e6).UTC()

func (l mapped) place(item attribute.Item) placement {
	var p placement
	made, err := l.Map(item, someTime)
	rows := made.Rows
	if err != nil {
		// It is removed from all rows that it names, also where it does not name another.
		change := cdc.Change{Event: cdc.Insert, Keys: l.Keys(item), New: item, Sequence: cdc.SequenceOf(1), Time: someTime}
		rows = transform.Fold(l.Mapping, []cdc.Change{change}, transform.Stamp{Generation: 1, Hop: cdc.RootHop}).Rows
		_, unknown := l.Addresses(item)
		p.astray = unknown != nil
	}
	p.ignored = made.Ignored
	for _, row := range rows {
		s := spot{register: register{rowID{row.Table, row.Row}, row.Owner}, rule: made.Rule, held: err == nil}
		if err == nil {
			s.add(row.Cells)
		}
		p.spots = append(p.spots, s)
	}
	return p
}

// add takes the cells of the spot. What the target rejects cannot be held.
func (s *spot) add(cells []transform.Cell) {
	s.content = make(content, len(cells))
	slices.SortStableFunc(cells, func(a, b transform.Cell) int { return cmp.Compare(b.Timestamp, a.Timestamp) })
	for _, c := range cells {
		at := c.Family + ":" + c.Qualifier
		s.content[at] += string(c.Value) + "\x00"
		if c.Timestamp != someTime.UnixMicro()/1000*1000 {
			s.stamp(at, c.Timestamp)
		}
		s.held = s.held && !strings.Contains(string(c.Value), rejectedValue)
	}
}

func (s *spot) stamp(column string, micros int64) {
	if s.stamps == nil {
		s.stamps = map[string][]int64{}
	}
	s.stamps[column] = append(s.stamps[column], micros)
}

// sharedRow is what the images of all items made of one row.
type sharedRow struct {
	registers []string          // owners, in the order in which they came
	columns   map[string]string // whose each is
	mixed     bool              // an item had images of several rules here
}

// settle notes that an image takes a spot. Two items never have one address (T1).
func (t *recorder) settle(w model.Write, s *spot) {
	row := t.rows[s.rowID]
	if row == nil {
		row = &sharedRow{columns: map[string]string{}}
		t.rows[s.rowID] = row
	}
	if !slices.Contains(row.registers, s.owner) {
		row.registers = append(row.registers, s.owner)
	}
	for _, im := range t.images[s.register] {
		if im.id != w.ID {
			t.m.violate("T1: two items take row %q", s.row)
			break
		}
		row.mixed = row.mixed || im.spot.rule != s.rule
	}
	for column := range s.content {
		if owner, known := row.columns[column]; known && owner != s.owner {
			t.m.violate("T1: two items take one column of row %q", s.row)
		}
		row.columns[column] = s.owner
	}
}

// at is what the image is at a register; nil if it is not there.
func (p placement) at(r register) *spot {
	for i := range p.spots {
		if p.spots[i].register == r {
			return &p.spots[i]
		}
	}
	return nil
}
