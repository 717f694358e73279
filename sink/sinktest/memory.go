// Package sinktest has a reference target in memory for package sink. The target executes requests
// literally. The package also has a store of records, and can inject faults. Tests, the simulation
// and the examples that `replicator test` runs use it; migrations do not.
package sinktest

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Memory is a sink.Table and sink.Reader in memory. Unlike a real table it accepts a server clock
// that steps back. It collects no garbage; a real table may also collect none for days.
type Memory struct {
	// ServerTime dates cells written at sink.ServerTime; nil means the clock of the context.
	ServerTime func(ctx context.Context) time.Time

	mu     sync.Mutex
	tables map[string]*table
}

type table struct {
	families map[string]bool // true: an aggregate that sums
	rows     map[string]row
}

// row holds cells by column. Cells of a column are sorted by descending timestamp, with at most one
// per timestamp.
type row map[column][]transform.Cell

type column struct{ family, qualifier string }

// Create makes a table with the given families and replicator's two. It replaces a table of the
// same name. A family whose name ends with ":intsum" is an aggregate that sums.
func (m *Memory) Create(name string, families ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tables == nil {
		m.tables = map[string]*table{}
	}
	t := &table{families: map[string]bool{sink.LiveFamily: false, sink.GoneFamily: false}, rows: map[string]row{}}
	for _, f := range families {
		name, sum := strings.CutSuffix(f, ":intsum")
		t.families[name] = sum
	}
	m.tables[name] = t
}

// Clone returns a copy of the tables and their rows.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{ServerTime: m.ServerTime, tables: map[string]*table{}}
	for name, t := range m.tables {
		copied := &table{families: maps.Clone(t.families), rows: map[string]row{}}
		for key, cells := range t.rows {
			copied.rows[key] = row{}
			for at, list := range cells {
				copied.rows[key][at] = slices.Clone(list)
			}
		}
		c.tables[name] = copied
	}
	return c
}

// Apply implements sink.Table.
func (m *Memory) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.apply(ctx, r)
}

// ApplyAll implements bulk requests. It executes the entries in reverse order.
func (m *Memory) ApplyAll(ctx context.Context, table string, entries []sink.Entry) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := make([]error, len(entries))
	for i := range slices.Backward(entries) {
		_, errs[i] = m.apply(ctx, &sink.Request{Table: table, Row: entries[i].Row, Ops: entries[i].Ops})
	}
	return errs
}

func (m *Memory) apply(ctx context.Context, r *sink.Request) (bool, error) {
	now := task.Now(ctx)
	if m.ServerTime != nil {
		now = m.ServerTime(ctx)
	}
	t := m.tables[r.Table]
	if t == nil {
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "NotFound", Text: "the table does not exist"}
	}
	if err := t.check(r); err != nil {
		return false, err
	}
	cells := t.rows[r.Row]
	if cells.holds(r.Refuse) != r.Refuse.Exactly {
		return false, nil
	}
	if cells == nil {
		cells = row{}
	}
	for _, op := range r.Ops {
		cells.execute(op, now)
	}
	if len(cells) == 0 {
		delete(t.rows, r.Row)
	} else {
		t.rows[r.Row] = cells
	}
	return true, nil
}

// check refuses a request as a whole before any of it is executed.
func (t *table) check(r *sink.Request) error {
	if r.Row == "" || len(r.Row) > transform.MaxRowKeyBytes {
		return rejected("row key")
	}
	for _, op := range r.Ops {
		sum, exists := t.families[op.Family]
		if !exists {
			return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "NotFound", Text: "a column family does not exist"}
		}
		if len(op.Qualifier) > transform.MaxQualifierBytes {
			return rejected("qualifier")
		}
		if op.Kind == sink.AddToCell && !sum || op.Kind == sink.SetCell && sum {
			return rejected("cell of an aggregate")
		}
		if timed := op.Kind == sink.SetCell && op.Timestamp != sink.ServerTime || slices.Contains(timedDeletes, op.Kind); timed && (op.Timestamp < 0 || op.Timestamp%1000 != 0) {
			return rejected("timestamp")
		}
	}
	return nil
}

var timedDeletes = []sink.OpKind{sink.DeleteFrom, sink.DeleteBefore, sink.DeleteAt}

func rejected(what string) error {
	return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument", Text: what}
}

func (r row) holds(p sink.Predicate) bool {
	for _, family := range p.Families {
		for _, c := range r[column{family, p.Qualifier}] {
			if string(c.Value) == string(p.AtLeast) || !p.Exactly && string(c.Value) > string(p.AtLeast) {
				return true
			}
		}
	}
	return false
}

func (r row) execute(op sink.Op, now time.Time) {
	switch op.Kind {
	case sink.DeleteFamily:
		maps.DeleteFunc(r, func(c column, _ []transform.Cell) bool { return c.family == op.Family })
	case sink.DeleteColumn:
		delete(r, column{op.Family, op.Qualifier})
	case sink.DeleteFrom:
		at := column{op.Family, op.Qualifier}
		if r[at] = slices.DeleteFunc(r[at], func(c transform.Cell) bool { return c.Timestamp >= op.Timestamp }); len(r[at]) == 0 {
			delete(r, at)
		}
	case sink.DeleteBefore:
		at := column{op.Family, op.Qualifier}
		before := func(c transform.Cell) bool { return op.Timestamp == 0 || c.Timestamp < op.Timestamp } // 0 means no end
		if r[at] = slices.DeleteFunc(r[at], before); len(r[at]) == 0 {
			delete(r, at)
		}
	case sink.DeleteAt:
		at := column{op.Family, op.Qualifier}
		if r[at] = slices.DeleteFunc(r[at], func(c transform.Cell) bool { return c.Timestamp == op.Timestamp }); len(r[at]) == 0 {
			delete(r, at)
		}
	case sink.SetCell:
		c := transform.Cell{Family: op.Family, Qualifier: op.Qualifier, Timestamp: op.Timestamp, Value: slices.Clone(op.Value)}
		if c.Timestamp == sink.ServerTime {
			c.Timestamp = max(0, now.UnixMilli()) * 1000
		}
		at := column{op.Family, op.Qualifier}
		cells := slices.DeleteFunc(r[at], func(o transform.Cell) bool { return o.Timestamp == c.Timestamp })
		cells = append(cells, c)
		slices.SortFunc(cells, func(a, b transform.Cell) int { return int(min(1, max(-1, b.Timestamp-a.Timestamp))) })
		r[at] = cells
	case sink.AddToCell:
		sum := binary.BigEndian.Uint64(op.Value)
		for _, o := range r[column{op.Family, op.Qualifier}] {
			if o.Timestamp == op.Timestamp {
				sum += binary.BigEndian.Uint64(o.Value)
			}
		}
		op.Kind, op.Value = sink.SetCell, binary.BigEndian.AppendUint64(nil, sum)
		r.execute(op, now)
	default:
		panic("sinktest: unknown operation")
	}
}

// Look implements sink.Looker.
func (m *Memory) Look(ctx context.Context, mutation *transform.RowMutation, _ int64) (sink.Row, error) {
	found := sink.Row{Key: mutation.Row}
	err := m.ReadRows(ctx, mutation.Table, sink.Single(mutation.Row), func(r sink.Row) error { found = r; return nil })
	return found, err
}

// ReadRows implements sink.Reader. It reads a snapshot.
func (m *Memory) ReadRows(ctx context.Context, name string, r sink.Range, f func(sink.Row) error) error {
	rows, err := m.snapshot(name, r)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := context.Cause(ctx); err != nil {
			return &sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Canceled"}
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

// ReadMarks implements sink.MarkReader.
func (m *Memory) ReadMarks(ctx context.Context, name string, r sink.Range, unmarked bool, limit int, f func(sink.Row) error) error {
	return Marked(limit, unmarked, f, func(f func(sink.Row) error) error { return m.ReadRows(ctx, name, r, f) })
}

// errEnough ends a read at its limit.
var errEnough = errors.New("enough")

// Marked implements ReadMarks with a read of whole rows.
func Marked(limit int, unmarked bool, f func(sink.Row) error, read func(func(sink.Row) error) error) error {
	n := 0
	err := read(func(row sink.Row) error {
		marks := sink.MarksOf(row)
		if !unmarked && !marks.Marked() {
			return nil
		}
		if err := f(marks); err != nil {
			return err
		}
		if n++; n == limit {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return err
}

// ReadSet implements sink.SetReader.
func (m *Memory) ReadSet(ctx context.Context, name string, rows []string, f func(sink.Row) error) error {
	return Chosen(rows, f, func(f func(sink.Row) error) error { return m.ReadRows(ctx, name, sink.Range{}, f) })
}

// ReadAt implements sink.MarkReader.
func (m *Memory) ReadAt(ctx context.Context, name string, rows []string, at int64, f func(sink.Row) error) error {
	return At(at, f, func(f func(sink.Row) error) error { return m.ReadSet(ctx, name, rows, f) })
}

// At implements ReadAt with a read of whole rows.
func At(at int64, f func(sink.Row) error, read func(func(sink.Row) error) error) error {
	return read(func(row sink.Row) error {
		only := sink.Row{Key: row.Key}
		for _, c := range slices.Concat(row.Cells, row.Own) {
			if c.Timestamp == at {
				only.Cells = append(only.Cells, c)
			}
		}
		if len(only.Cells) == 0 {
			return nil
		}
		return f(only)
	})
}

// ReadSince implements sink.SetReader.
func (m *Memory) ReadSince(ctx context.Context, name string, r sink.Range, since int64, f func(key string) error) error {
	rows, err := m.snapshotSince(name, r, since)
	if err != nil {
		return err
	}
	for _, key := range rows {
		if err := f(key); err != nil {
			return err
		}
	}
	return nil
}

func (m *Memory) snapshotSince(name string, r sink.Range, since int64) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables[name]
	if t == nil {
		return nil, &sink.Error{Op: "ReadRows", Reason: sink.Permanent, Code: "NotFound", Text: "the table does not exist"}
	}
	var keys []string
	for key, cells := range t.rows {
		recent := func(c transform.Cell) bool { return c.Timestamp >= since }
		for _, column := range cells {
			if key >= r.From && (r.To == "" || key < r.To) && slices.ContainsFunc(column, recent) {
				keys = append(keys, key)
				break
			}
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Chosen implements ReadSet with a read of all rows.
func Chosen(rows []string, f func(sink.Row) error, read func(func(sink.Row) error) error) error {
	wanted := make(map[string]bool, len(rows))
	for _, key := range rows {
		wanted[key] = true
	}
	return read(func(row sink.Row) error {
		if !wanted[row.Key] {
			return nil
		}
		return f(row)
	})
}

// SampleKeys implements sink.MarkReader.
func (m *Memory) SampleKeys(_ context.Context, name string) ([]string, error) {
	rows, err := m.snapshot(name, sink.Range{})
	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = row.Key
	}
	return Sampled(keys), err
}

// Sampled returns some of the keys of a table, evenly spread.
func Sampled(keys []string) []string {
	const every = 8
	var samples []string
	for i := every; i < len(keys); i += every {
		samples = append(samples, keys[i])
	}
	return samples
}

func (m *Memory) snapshot(name string, r sink.Range) ([]sink.Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables[name]
	if t == nil {
		return nil, &sink.Error{Op: "ReadRows", Reason: sink.Permanent, Code: "NotFound", Text: "the table does not exist"}
	}
	var rows []sink.Row
	for key, cells := range t.rows {
		if key >= r.From && (r.To == "" || key < r.To) {
			rows = append(rows, cells.read(key))
		}
	}
	slices.SortFunc(rows, func(a, b sink.Row) int { return strings.Compare(a.Key, b.Key) })
	return rows, nil
}

func (r row) read(key string) sink.Row {
	columns := slices.SortedFunc(maps.Keys(r), func(a, b column) int {
		if c := strings.Compare(a.family, b.family); c != 0 {
			return c
		}
		return strings.Compare(a.qualifier, b.qualifier)
	})
	var cells []transform.Cell
	for _, c := range columns {
		for _, cell := range r[c] {
			cell.Value = slices.Clone(cell.Value)
			cells = append(cells, cell)
		}
	}
	return sink.NewRow(key, cells)
}

// Records is a sink.Records in memory. The zero value is ready.
type Records struct {
	mu   sync.Mutex
	data map[string][]byte
}

// Put implements sink.Records.
func (r *Records) Put(_ context.Context, key string, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.data == nil {
		r.data = map[string][]byte{}
	}
	r.data[key] = slices.Clone(data)
	return nil
}

// Delete implements sink.Records.
func (r *Records) Delete(_ context.Context, key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.data, key)
	return nil
}

// Scan implements sink.Records.
func (r *Records) Scan(_ context.Context, prefix string, keysOnly bool, f func(string, []byte) error) error {
	r.mu.Lock()
	keys := slices.Sorted(maps.Keys(r.data))
	data := maps.Clone(r.data)
	r.mu.Unlock()
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		value := slices.Clone(data[key])
		if keysOnly {
			value = nil
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// NoFence proves rights for targets without a fence.
func NoFence(ctx context.Context, tables []string, right func(ctx context.Context) error) (sink.Stamps, error) {
	withheld := func(context.Context, string) (sink.Mark, error) { return sink.Mark{Withheld: true}, nil }
	return sink.Prove(ctx, sink.ApplicationGate(), tables, withheld, right)
}

// Raise adds a family to a table, as a raised fence does.
func (m *Memory) Raise(table, family string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tables[table].families[family] = false
}

// Drop removes a family with its cells.
func (m *Memory) Drop(table, family string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tables[table].families, family)
	for _, r := range m.tables[table].rows {
		maps.DeleteFunc(r, func(c column, _ []transform.Cell) bool { return c.family == family })
	}
}
