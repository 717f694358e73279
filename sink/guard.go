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
}

// Op is one change of the row.
type Op struct {
	Kind      OpKind
	Family    string
	Qualifier string // not for DeleteFamily
	Timestamp int64  // SetCell: microseconds in whole milliseconds, or ServerTime
	Value     []byte // SetCell
}

// OpKind says what an Op does.
type OpKind uint8

// The kinds. No other change is ever made to a row; deletes by time range, whose end at zero means infinity (H51), are not needed.
const (
	DeleteFamily OpKind = iota + 1
	DeleteColumn
	SetCell
)

// Guard is the request that executes a mutation if it is newer than what the row holds (DESIGN of the guard in the package
// comment). It is pure, and repeating it is harmless.
//
// A put deletes what the item owns, sets the image's cells, drops the tombstone and sets the version. A remove deletes what
// the item owns and the version and leaves a tombstone at server time, from which the age of the tombstone counts: a
// worker's clock must not have it collected early.
func Guard(m transform.RowMutation) Request {
	ops := make([]Op, 0, len(m.Families)+len(m.Cells)+3)
	for _, family := range m.Families {
		ops = append(ops, Op{Kind: DeleteFamily, Family: family})
	}
	if m.Remove {
		ops = append(ops,
			Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: VersionColumn},
			Op{Kind: DeleteColumn, Family: GoneFamily, Qualifier: VersionColumn},
			Op{Kind: SetCell, Family: GoneFamily, Qualifier: VersionColumn, Timestamp: ServerTime, Value: []byte(m.Version)})
	} else {
		for _, c := range m.Cells {
			ops = append(ops, Op{Kind: SetCell, Family: c.Family, Qualifier: c.Qualifier, Timestamp: c.Timestamp, Value: c.Value})
		}
		ops = append(ops,
			Op{Kind: DeleteColumn, Family: GoneFamily, Qualifier: VersionColumn},
			Op{Kind: SetCell, Family: LiveFamily, Qualifier: VersionColumn, Timestamp: liveTime, Value: []byte(m.Version)})
	}
	return Request{
		Table: m.Table, Row: m.Row, Ops: ops,
		Refuse: Predicate{Families: guardFamilies, Qualifier: VersionColumn, AtLeast: m.Version},
	}
}

// Size is about how many bytes the request takes in memory and on the wire.
func (r *Request) Size() int64 {
	const perRequest, perOp = 256, 32
	n := perRequest + len(r.Row)
	for i := range r.Ops {
		n += perOp + len(r.Ops[i].Family) + len(r.Ops[i].Qualifier) + len(r.Ops[i].Value)
	}
	return int64(n)
}
