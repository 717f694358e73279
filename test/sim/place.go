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

// register is what has one version: a row, or one item's part of a shared row.
type register struct {
	rowID
	owner string // the item's key, if the row is shared
}

// column returns the name of the column that holds the register's version, in both of replicator's
// families.
func (r register) column() string { return versionColumn(r.owner) }

// content maps family:qualifier to the values of all cells of that column, the newest first.
type content map[string]string

// spot is the content of an image at one address.
type spot struct {
	register
	rule int // the rule that decides for the image
	// held means that the target can hold the image there. Otherwise it is parked, and nothing may
	// be there.
	held    bool
	content content
	// stamps holds the cell times, in microseconds, of columns whose cells do not have the time of
	// their change; the newest first.
	stamps map[string][]int64
}

// placement is where an item belongs.
type placement struct {
	spots []spot
	// ignored means that a rule excludes the item. Without spots, an item that is not ignored
	// cannot be held anywhere, and is parked.
	ignored bool
	// astray means that the item lacks the row key of one of its rows.
	astray bool
}

// held reports whether no part of the item must be parked.
func (p placement) held() bool {
	return p.ignored || len(p.spots) > 0 && !slices.ContainsFunc(p.spots, func(s spot) bool { return !s.held })
}

// layout computes the placement of an item, from the item alone.
type layout interface {
	place(item attribute.Item) placement
}

// mapped is the layout by the mapping itself, for mappings that other tests prove.
type mapped struct{ *transform.Mapping }

// someTime is the time of an image that is passed to a mapping. Cells with this time get the time
// of their change.
var someTime = time.Unix(1_795_000_001, 777e6).UTC()

func (l mapped) place(item attribute.Item) placement {
	var p placement
	made, err := l.Map(item, someTime)
	rows := made.Rows
	if err != nil {
		// The item is removed from all rows that it names, even if it lacks another row's key.
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

// add adds cells to the spot. If the target rejects one, the image cannot be held.
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

// sharedRow records what the images of all items made of one row.
type sharedRow struct {
	registers []string          // owners, in the order of their appearance
	columns   map[string]string // the owner of each column
	mixed     bool              // an item had images of several rules here
}

// settle records that an image uses a spot. Two items never share an address (T1).
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

// at returns the image's spot at a register, or nil.
func (p placement) at(r register) *spot {
	for i := range p.spots {
		if p.spots[i].register == r {
			return &p.spots[i]
		}
	}
	return nil
}
