package sink

import (
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The two families that are ours in every target table, and their one column. A live row carries LiveFamily:v with its
// version; a removed item leaves a row with GoneFamily:v alone, the tombstone, until the family's age rule collects it.
const (
	LiveFamily    = "_cdc"
	GoneFamily    = "_cdc_gone"
	VersionColumn = "v"
)

// OriginColumn of LiveFamily names the source table and the item of a row whose key does not tell them. Where several items live
// in one row, each has columns of its own for both: the name, a colon, and the item's key.
const OriginColumn = "k"

// itemColumn is the column of ours for an item: the row's if it is the row's one item, and its own otherwise.
func itemColumn(column, owner string) string {
	if owner == "" {
		return column
	}
	return column + ":" + owner
}

// ServerTime as a timestamp lets the server stamp the cell.
const ServerTime int64 = -1

// liveTime is the constant timestamp of live versions: a clock that ran ahead once must not hide a newer version (H43), and the
// same timestamp overwrites, so there never is a surplus cell for garbage collection to choose from (H28).
const liveTime int64 = 0

var guardFamilies = []string{LiveFamily, GoneFamily}

// Request is one conditional write of one row: if Refuse holds, nothing happens; otherwise all of Ops are executed in order,
// atomically.
type Request struct {
	Table  string
	Row    string
	Refuse Predicate
	Ops    []Op
}

// Predicate holds if any cell, of whatever age, in the named column of any of the families has a value of at least AtLeast,
// compared as bytes.
type Predicate struct {
	Families  []string
	Qualifier string
	AtLeast   transform.Version
	// Exactly turns it round: the request is executed only if a cell has the value AtLeast, neither more nor less. That is the
	// compare-and-set of the one write after which a row's version may be lower (Mend).
	Exactly bool
}

// Op is one change of the row.
type Op struct {
	Kind      OpKind
	Family    string
	Qualifier string // not for DeleteFamily
	Timestamp int64  // SetCell, AddToCell, DeleteFrom, DeleteBefore: microseconds in whole milliseconds; of SetCell also ServerTime
	Value     []byte // SetCell; of AddToCell 8 bytes, big-endian
}

// OpKind says what an Op does.
type OpKind uint8

// The kinds. No other change is ever made to a row.
const (
	DeleteFamily OpKind = iota + 1
	DeleteColumn
	SetCell
	AddToCell  // of an aggregate, to a column that the same request deletes before: so repeating it is harmless
	DeleteFrom // the column's cells at Timestamp and after it, without an end
	// DeleteBefore deletes the column's cells before Timestamp, which is 1,000 at least: Bigtable takes an end of 0 for infinity,
	// which would delete the column (H51).
	DeleteBefore
)

// Guard is the request that executes a mutation if it is newer than what the row holds (see the package
// comment). It is pure, and repeating it is harmless.
//
// A put deletes what the item owns, sets the image's cells, drops the tombstone and sets the version. A remove deletes what
// the item owns and the version and leaves a tombstone at server time, from which the age of the tombstone counts: a
// worker's clock must not have it collected early.
//
// A timestamped put or remove is the first of the two that a change gets while the application writes the target too: of what the
// item owns it deletes the columns alone that an old image names, and of those no cell that is younger than the record.
//
// Where several items live in one row, each has its own version column, and the predicate looks at that alone: they neither
// refuse nor delete each other.
func Guard(m transform.RowMutation) Request {
	ops := make([]Op, 0, len(m.Families)+len(m.Columns)+len(m.InheritedFamilies)+len(m.InheritedColumns)+len(m.Named)+len(m.Cells)+4)
	ops = deletions(ops, m)
	if !m.Remove {
		for _, c := range m.Cells {
			if c.Add {
				ops = append(ops, Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier})
			}
			ops = append(ops, setting(c))
		}
	}
	return Request{
		Table: m.Table, Row: m.Row, Ops: marks(ops, m),
		Refuse: Predicate{Families: guardFamilies, Qualifier: itemColumn(VersionColumn, m.Owner), AtLeast: m.Version},
	}
}

// deletions are the deletes of all that an item owns, and of what former mappings left.
func deletions(ops []Op, m transform.RowMutation) []Op {
	ops = deleting(ops, m.InheritedFamilies, m.InheritedColumns)
	if m.Timestamped {
		return timestamped(ops, m)
	}
	return deleting(ops, m.Families, m.Columns)
}

func deleting(ops []Op, families []string, columns []transform.Column) []Op {
	for _, family := range families {
		ops = append(ops, Op{Kind: DeleteFamily, Family: family})
	}
	for _, column := range columns {
		ops = append(ops, Op{Kind: DeleteColumn, Family: column.Family, Qualifier: column.Qualifier})
	}
	return ops
}

// timestamped are the deletes of a first apply under dual writes: up to the record's second, and with it, since the old image's
// cells may be of the same. Aggregates have no history, and are exact at once.
func timestamped(ops []Op, m transform.RowMutation) []Op {
	const millisecond = 1000
	for _, c := range m.Named {
		op := Op{Kind: DeleteBefore, Family: c.Family, Qualifier: c.Qualifier, Timestamp: m.Second + millisecond}
		if c.Add {
			op = Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier}
		}
		ops = append(ops, op)
	}
	return ops
}

// setting sets a cell, or adds to an aggregate that is empty.
func setting(c transform.Cell) Op {
	op := Op{Kind: SetCell, Family: c.Family, Qualifier: c.Qualifier, Timestamp: c.Timestamp, Value: c.Value}
	if c.Add {
		op.Kind = AddToCell
	}
	return op
}

// marks are the changes of our own two families.
func marks(ops []Op, m transform.RowMutation) []Op {
	column, origin := itemColumn(VersionColumn, m.Owner), itemColumn(OriginColumn, m.Owner)
	if m.Alone {
		ops = append(ops, Op{Kind: DeleteFamily, Family: LiveFamily}, Op{Kind: DeleteFamily, Family: GoneFamily})
	}
	if m.Remove {
		return append(ops,
			Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: origin}, // set by another rule, perhaps
			Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: column},
			Op{Kind: DeleteColumn, Family: GoneFamily, Qualifier: column},
			Op{Kind: SetCell, Family: GoneFamily, Qualifier: column, Timestamp: ServerTime, Value: []byte(m.Version)})
	}
	if m.Origin != "" {
		ops = append(ops, Op{Kind: SetCell, Family: LiveFamily, Qualifier: origin, Timestamp: liveTime, Value: []byte(m.Origin)})
	}
	return append(ops,
		Op{Kind: DeleteColumn, Family: GoneFamily, Qualifier: column},
		Op{Kind: SetCell, Family: LiveFamily, Qualifier: column, Timestamp: liveTime, Value: []byte(m.Version)})
}

// Size is about how many bytes the request takes in memory and on the wire.
func (r *Request) Size() int64 {
	const perRequest, perOp = 256, 32
	n := perRequest + len(r.Row) + 2*len(r.Refuse.Families)*len(r.Refuse.Qualifier)
	for i := range r.Ops {
		n += perOp + len(r.Ops[i].Family) + len(r.Ops[i].Qualifier) + len(r.Ops[i].Value)
	}
	return int64(n)
}
