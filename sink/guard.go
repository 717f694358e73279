package sink

import (
	"github.com/dynamodb-bigtable/replicator/transform"
)

// These are replicator's two families in every target table, and their column. A live row has
// LiveFamily:v with its version. A removed item leaves a row with only GoneFamily:v, the tombstone,
// until the family's age rule collects it.
const (
	LiveFamily    = "_cdc"
	GoneFamily    = "_cdc_gone"
	VersionColumn = "v"
)

// OriginColumn of LiveFamily names the source table and the item of a row whose key does not show
// them. If several items share a row, each has its own version and origin columns. Such a column's
// name is the usual name, a colon and the item's key.
const OriginColumn = "k"

// itemColumn returns the version or origin column of an item: the row's column if owner is empty,
// otherwise the owner's.
func itemColumn(column, owner string) string {
	if owner == "" {
		return column
	}
	return column + ":" + owner
}

// ServerTime as a timestamp makes the server set the cell's timestamp.
const ServerTime int64 = -1

// liveTime is the timestamp of all live versions. It is constant, because a clock that once ran
// ahead must not hide a newer version (H43). A write with the same timestamp overwrites, so garbage
// collection never has several cells to choose from (H28).
const liveTime int64 = 0

var guardFamilies = []string{LiveFamily, GoneFamily}

// Request is one conditional write of one row. If Refuse holds, nothing happens. Otherwise all Ops
// are executed in order, atomically.
type Request struct {
	Table  string
	Row    string
	Refuse Predicate
	Ops    []Op
}

// Predicate holds if one of the families has a cell in the named column whose value is at least
// AtLeast. Values are compared as bytes. Cells of any age count.
type Predicate struct {
	Families  []string
	Qualifier string
	AtLeast   transform.Version
	// Exactly executes the request only if a cell has exactly the value AtLeast. This is the
	// compare-and-set of Mend, the only write that may lower a row's version.
	Exactly bool
}

// Op is one change of the row.
type Op struct {
	Kind      OpKind
	Family    string
	Qualifier string // not for DeleteFamily
	// Timestamp is in microseconds, in whole milliseconds. SetCell, AddToCell, DeleteFrom,
	// DeleteBefore and DeleteAt have one. A SetCell may have ServerTime instead.
	Timestamp int64
	// Value is the value of a SetCell, or the number of an AddToCell in 8 bytes, big-endian.
	Value []byte
}

// OpKind is the kind of change that an Op makes.
type OpKind uint8

// The kinds. Rows are changed in no other way.
const (
	DeleteFamily OpKind = iota + 1
	DeleteColumn
	SetCell
	AddToCell  // adds to an aggregate's column, which the same request deletes first, so a repetition is harmless
	DeleteFrom // deletes the column's cells at and after Timestamp
	// DeleteBefore deletes the column's cells before Timestamp, which is at least 1,000. Bigtable
	// treats an end of 0 as infinity, which would delete the whole column (H51).
	DeleteBefore
	DeleteAt // deletes the column's cell with exactly Timestamp
)

// Guard returns the request that executes a mutation if it is newer than the row (see the package
// comment). Guard is pure, and repeating the request is harmless.
//
// A put deletes the item's cells, sets the image's cells, drops the tombstone and sets the version.
// A remove deletes the item's cells and the version, and leaves a tombstone at server time. The age
// of the tombstone counts from that time, because a worker's fast or slow clock must not cause an
// early collection.
//
// A timestamped put or remove is the first of the two writes of a change while the application also
// writes the target. It deletes only cells in columns that an old image names, and only cells that
// are not younger than the record.
//
// If several items share a row, each item has its own version column, and the predicate checks only
// that column. So a write of one item is neither refused because of another item nor deletes cells
// of another item.
func Guard(m transform.RowMutation) Request {
	ops := make([]Op, 0, len(m.Families)+len(m.Columns)+len(m.InheritedFamilies)+len(m.InheritedColumns)+len(m.Named)+len(m.Cells)+marksOps+stampOps)
	ops = deletions(ops, &m)
	if !m.Remove {
		for i := range m.Cells {
			c := &m.Cells[i]
			if c.Add {
				ops = append(ops, Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier})
			}
			ops = append(ops, setting(c))
		}
	}
	return Request{
		Table: m.Table, Row: m.Row, Ops: marks(ops, &m),
		Refuse: Predicate{Families: guardFamilies, Qualifier: itemColumn(VersionColumn, m.Owner), AtLeast: m.Version},
	}
}

// marksOps is the usual number of operations of marks.
const marksOps = 4

// deletions appends the deletes of all cells that an item owns or inherits from former mappings.
func deletions(ops []Op, m *transform.RowMutation) []Op {
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

// timestamped appends the deletes of the first write under dual writes. They cover cells up to and
// including the record's second, because the old image's cells may have the same second. Aggregates
// have no history, so they are exact immediately.
func timestamped(ops []Op, m *transform.RowMutation) []Op {
	for _, c := range m.Named {
		op := Op{Kind: DeleteBefore, Family: c.Family, Qualifier: c.Qualifier, Timestamp: m.Second + millisecond}
		if c.Add {
			op = Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier}
		}
		ops = append(ops, op)
	}
	return ops
}

// setting returns the operation that sets a cell, or adds to an empty aggregate.
func setting(c *transform.Cell) Op {
	op := Op{Kind: SetCell, Family: c.Family, Qualifier: c.Qualifier, Timestamp: c.Timestamp, Value: c.Value}
	if c.Add {
		op.Kind = AddToCell
	}
	return op
}

// marks appends the changes of replicator's two families.
func marks(ops []Op, m *transform.RowMutation) []Op {
	column, origin := itemColumn(VersionColumn, m.Owner), itemColumn(OriginColumn, m.Owner)
	if m.Alone {
		ops = append(ops, Op{Kind: DeleteFamily, Family: LiveFamily}, Op{Kind: DeleteFamily, Family: GoneFamily})
	}
	if m.Remove {
		return append(ops,
			Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: origin}, // another rule may have set this column
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

// Size returns approximately how many bytes the request takes in memory and on the wire.
func (r *Request) Size() int64 {
	const perRequest, perOp = 256, 32
	n := perRequest + len(r.Row) + 2*len(r.Refuse.Families)*len(r.Refuse.Qualifier)
	for i := range r.Ops {
		n += perOp + len(r.Ops[i].Family) + len(r.Ops[i].Qualifier) + len(r.Ops[i].Value)
	}
	return int64(n)
}
