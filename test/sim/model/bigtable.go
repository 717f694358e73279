package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// Bigtable is the model of the target: rows of cells with conditional single-row writes, behind a
// network that loses replies, delivers late and delivers twice. It guarantees less than the
// emulator.
type Bigtable struct {
	world  *virtual.World
	Tables map[string]*btTable
	// Replaced holds, by table, when its rows were last emptied or set back. Its earlier rows are
	// lost.
	Replaced map[string]time.Time

	// Latency is the longest time of a request in one direction; the default is 10 ms.
	Latency time.Duration
	// These are chances in [0, 1) of network faults for a write. Late deliveries have random
	// delays.
	LoseReply, Late, Drop, Twice float64
	LateBy                       time.Duration
	// BulkLate is the share of the entries of bulk requests that are executed up to BulkLateBy
	// late, after their caller gave up.
	BulkLate   float64
	BulkLateBy time.Duration
	// Torn is the chance that a read of several rows sees them at different times, Broken the
	// chance that it ends with an error in the middle. A read is consistent only within a row.
	// Silent is the chance that a call gets no answer for minutes.
	Torn, Broken, Silent float64
	// ServerSkew is added to the server's clock, which stamps tombstones. The clock may step back.
	ServerSkew time.Duration
	// Fault, if set, is called before every request. An error fails the request without executing
	// it.
	Fault func(op, table, row string) error
	// Route, if set, decides the network's fate for a write; nil leaves it to chance.
	Route func(c Call) *Fate
	// Reject, if set, reports whether a write is refused because of its content, like an item that
	// exceeds a limit of the service.
	Reject func(table, row string, writes []Mutation) bool
	// Executed, if set, is called for every write as it is executed, and SetBack for each table
	// whose rows were emptied or set back. Checkers use both.
	Executed func(table, row string, before, after *Row)
	SetBack  func(table string)
	Schema
}

// Call is one write as the network sees it.
type Call struct {
	Op, Table, Row string
	// Version is the version of a guarded write, "" for other writes.
	Version string
}

// Fate is the network's fate for a write.
type Fate struct {
	Drop  bool          // it never arrives
	Delay time.Duration // it is executed after this delay
	Lose  bool          // its sender gets no answer for a second or two; otherwise the answer follows the execution
	Mute  time.Duration // the time without an answer, if longer
}

type btTable struct {
	families   []string
	fading     map[string]time.Time // dropped families, and the time from which writes to them are refused
	aggregates map[string]string    // by family: intsum, intmin or intmax
	rows       map[string]*Row
	keys       []string // row keys in order; nil if they must be listed again
}

func (t *btTable) put(key string, row *Row) {
	before := len(t.rows)
	if len(row.Cols) == 0 {
		delete(t.rows, key)
	} else {
		t.rows[key] = row
	}
	if len(t.rows) != before {
		t.keys = nil // a new slice, because a reader may still iterate over the old one
	}
}

// Row is the content of one row, with the newest value of each column first. Rows in a table never
// change, because every write creates a new row. So readers need no copy.
type Row struct {
	Cols   []Column
	stored *checkpoint.Row // as a row of the ledger, if it was read as one
	Record any             // the decoded record, if it was decoded
}

type Column struct {
	Family, Qualifier string
	Cells             []Cell // newest timestamp first
}

type Cell struct {
	Micros int64
	Value  string
}

// errUnknown is the outcome of a request whose answer never came.
var errUnknown = errors.New("sim: no answer")

// NewBigtable returns an instance without tables.
func NewBigtable(w *virtual.World) *Bigtable {
	return &Bigtable{world: w, Tables: map[string]*btTable{}, Replaced: map[string]time.Time{}, Latency: 10 * time.Millisecond, LateBy: time.Minute}
}

// Create adds an empty table, or empties an existing one, as if the target was recreated. The name
// of an aggregate family is followed by a colon and the aggregate, as in counters:intsum.
func (b *Bigtable) Create(name string, families ...string) {
	t := &btTable{aggregates: map[string]string{}, rows: map[string]*Row{}}
	for _, family := range families {
		family, aggregate, _ := strings.Cut(family, ":")
		t.families = append(t.families, family)
		t.aggregates[family] = aggregate
	}
	was := b.Tables[name]
	b.Tables[name] = t
	if was != nil && len(was.rows) > 0 {
		b.replaced(name)
	}
}

func (b *Bigtable) replaced(table string) {
	b.Replaced[table] = b.world.Now()
	if b.SetBack != nil {
		b.SetBack(table)
	}
}

// Remove removes a table, as an operator's mistake does. The returned function puts it back
// unchanged.
func (b *Bigtable) Remove(name string) (restore func()) {
	t := b.Tables[name]
	delete(b.Tables, name)
	return func() { b.Tables[name] = t }
}

// Snapshot copies the rows of a table. Restore puts them back, as a restore from a backup does.
func (b *Bigtable) Snapshot(table string) map[string]*Row {
	return maps.Clone(b.Tables[table].rows)
}

// Restore replaces the rows of a table by a snapshot.
func (b *Bigtable) Restore(table string, snapshot map[string]*Row) {
	b.Tables[table].rows, b.Tables[table].keys = maps.Clone(snapshot), nil
	b.replaced(table)
}

// Rows lists the keys of a table in order. Callers must not change the list.
func (b *Bigtable) Rows(table string) []string {
	t := b.Tables[table]
	if t == nil {
		return nil
	}
	if t.keys == nil {
		t.keys = slices.Sorted(maps.Keys(t.rows))
	}
	return t.keys
}

// RowsUnder lists the keys of a table that begin with prefix, in order. Callers must not change the
// list.
func (b *Bigtable) RowsUnder(table, prefix string) []string {
	return keyRange(b.Rows(table), prefix, func(key string) bool { return strings.HasPrefix(key, prefix) })
}

// keyRange returns the sorted keys from the first that is not below from, while in is true.
func keyRange(keys []string, from string, in func(key string) bool) []string {
	first, _ := slices.BinarySearch(keys, from)
	last := first
	for last < len(keys) && in(keys[last]) {
		last++
	}
	return keys[first:last]
}

// Row returns the current row, or nil.
func (b *Bigtable) Row(table, key string) *Row {
	if t := b.Tables[table]; t != nil {
		return t.rows[key]
	}
	return nil
}

// Value returns the newest value of a column, or false.
func (r *Row) Value(family, qualifier string) (string, bool) {
	if c := r.Column(family, qualifier); c != nil {
		return c.Cells[0].Value, true
	}
	return "", false
}

func (r *Row) Column(family, qualifier string) *Column {
	if r == nil {
		return nil
	}
	for i := range r.Cols {
		if c := &r.Cols[i]; c.Family == family && c.Qualifier == qualifier && len(c.Cells) > 0 {
			return c
		}
	}
	return nil
}

// Columns calls f for every column with its newest cell, in order of family and qualifier.
func (r *Row) Columns(f func(family, qualifier string, micros int64, value string)) {
	if r == nil {
		return
	}
	for _, c := range r.Cols {
		f(c.Family, c.Qualifier, c.Cells[0].Micros, c.Cells[0].Value)
	}
}

// Cells returns the timestamps, in microseconds, of all cells of a column, the newest first.
func (r *Row) Cells(family, qualifier string) []int64 {
	var micros []int64
	if c := r.Column(family, qualifier); c != nil {
		for _, cell := range c.Cells {
			micros = append(micros, cell.Micros)
		}
	}
	return micros
}

// String formats a row, for failures and traces.
func (r *Row) String() string {
	var parts []string
	r.Columns(func(family, qualifier string, micros int64, value string) {
		parts = append(parts, fmt.Sprintf("%s:%s@%d=%q", family, qualifier, micros, value))
	})
	return strings.Join(parts, " ")
}

func (r *Row) Clone() *Row {
	c := &Row{Cols: slices.Clone(r.Cols)}
	for i := range c.Cols {
		c.Cols[i].Cells = slices.Clone(c.Cols[i].Cells)
	}
	return c
}

// Mutation is one change of a row, independent of the kind of request.
type Mutation struct {
	Kind              writeKind
	Family, Qualifier string
	micros            int64 // -1: the server's clock
	Value             string
}

type writeKind uint8

const (
	deleteFamily writeKind = iota
	deleteColumn
	deleteRow
	deleteFrom   // the column's cells from micros on
	deleteBefore // the cells before micros
	deleteAt     // the cell at exactly micros
	SetCell
	addToCell // the value is a number of 8 bytes, big-endian
)

// joined returns the value of an aggregate cell after a value was added.
func joined(aggregate string, was, added int64) int64 {
	switch aggregate {
	case "intmin":
		return min(was, added)
	case "intmax":
		return max(was, added)
	}
	return was + added
}

func (r *Row) apply(writes []Mutation, aggregates map[string]string, serverMicros int64) {
	for _, w := range writes {
		switch w.Kind {
		case deleteRow:
			r.Cols = nil
		case deleteFamily:
			r.Cols = slices.DeleteFunc(r.Cols, func(c Column) bool { return c.Family == w.Family })
		case deleteColumn:
			r.Cols = slices.DeleteFunc(r.Cols, func(c Column) bool { return c.Family == w.Family && c.Qualifier == w.Qualifier })
		case deleteFrom:
			if c := r.Column(w.Family, w.Qualifier); c != nil {
				c.Cells = slices.DeleteFunc(c.Cells, func(cell Cell) bool { return cell.Micros >= w.micros })
			}
			r.Cols = slices.DeleteFunc(r.Cols, func(c Column) bool { return len(c.Cells) == 0 })
		case deleteBefore:
			if w.micros <= 0 {
				// The service would delete the whole column.
				panic("sim: a delete by time range without an end")
			}
			if c := r.Column(w.Family, w.Qualifier); c != nil {
				c.Cells = slices.DeleteFunc(c.Cells, func(cell Cell) bool { return cell.Micros < w.micros })
			}
			r.Cols = slices.DeleteFunc(r.Cols, func(c Column) bool { return len(c.Cells) == 0 })
		case deleteAt:
			if c := r.Column(w.Family, w.Qualifier); c != nil {
				c.Cells = slices.DeleteFunc(c.Cells, func(cell Cell) bool { return cell.Micros == w.micros })
			}
			r.Cols = slices.DeleteFunc(r.Cols, func(c Column) bool { return len(c.Cells) == 0 })
		case SetCell:
			micros := w.micros
			if micros < 0 {
				micros = serverMicros / 1000 * 1000
			}
			r.set(w.Family, w.Qualifier, Cell{micros, w.Value})
		case addToCell:
			sum := int64(binary.BigEndian.Uint64([]byte(w.Value)))
			if c := r.Column(w.Family, w.Qualifier); c != nil {
				for _, cell := range c.Cells {
					if cell.Micros == w.micros {
						sum = joined(aggregates[w.Family], int64(binary.BigEndian.Uint64([]byte(cell.Value))), sum)
					}
				}
			}
			r.set(w.Family, w.Qualifier, Cell{w.micros, string(binary.BigEndian.AppendUint64(nil, uint64(sum)))})
		}
	}
}

func (r *Row) set(family, qualifier string, cell Cell) {
	at, found := slices.BinarySearchFunc(r.Cols, Column{Family: family, Qualifier: qualifier}, func(a, b Column) int {
		if c := strings.Compare(a.Family, b.Family); c != 0 {
			return c
		}
		return strings.Compare(a.Qualifier, b.Qualifier)
	})
	if !found {
		r.Cols = slices.Insert(r.Cols, at, Column{Family: family, Qualifier: qualifier})
	}
	cells := &r.Cols[at].Cells
	i, same := slices.BinarySearchFunc(*cells, cell, func(a, b Cell) int { return int(min(max(b.Micros-a.Micros, -1), 1)) })
	if same {
		(*cells)[i] = cell
		return
	}
	*cells = slices.Insert(*cells, i, cell)
}

// conditional sends a single-row write that is executed unless the row satisfies refuse. It reports
// whether it was executed. Request and answer each take time, and other tasks run in between. If a
// caller gives up, its sent request may still be executed.
func (b *Bigtable) conditional(ctx context.Context, c Call, refuse func(*Row) bool, writes []Mutation) (bool, error) {
	w := b.world
	if b.Fault != nil {
		if err := b.Fault(c.Op, c.Table, c.Row); err != nil {
			return false, err
		}
	}
	fate := b.fate(c)
	done := task.NewEvent(ctx)
	var took, alone bool
	var failed error
	defer func() { alone = true }()
	if !fate.Drop {
		w.After(fate.Delay+b.oneWay(), func() {
			if alone {
				w.Inject("request executed after its caller gave up")
			}
			first, err := b.Execute(c.Op, c.Table, c.Row, refuse, writes)
			w.After(b.oneWay(), func() { took, failed = first, err; done.Set() })
		})
	}
	if fate.Drop || fate.Lose {
		if err := task.Sleep(ctx, fate.Mute+b.oneWay()+w.UpTo(2*time.Second)); err != nil {
			return false, err
		}
		w.Tracef("%s %s: no answer", c.Op, c.Table)
		return false, errUnknown
	}
	if w.Chance(b.Twice) {
		w.Inject("request executed twice")
		w.After(b.oneWay()+w.UpTo(b.LateBy), func() { _, _ = b.Execute(c.Op, c.Table, c.Row, refuse, writes) })
	}
	if err := done.Wait(ctx); err != nil {
		return false, err
	}
	return took, failed
}

// fate returns Route's decision, or otherwise a random one.
func (b *Bigtable) fate(c Call) Fate {
	if b.Route != nil {
		if fate := b.Route(c); fate != nil {
			return *fate
		}
	}
	w := b.world
	switch {
	case c.Op == bulkOp && w.Chance(b.BulkLate):
		w.Inject("entry of a bulk request executed late")
		return Fate{Delay: w.UpTo(b.BulkLateBy), Lose: true}
	case w.Chance(b.Drop):
		w.Inject("request dropped")
		return Fate{Drop: true}
	case w.Chance(b.Late):
		w.Inject("request executed late")
		return Fate{Delay: w.UpTo(b.LateBy), Lose: true}
	case w.Chance(b.LoseReply):
		w.Inject("reply lost")
		return Fate{Lose: true}
	case w.Chance(b.Silent):
		w.Inject("no answer for minutes")
		return Fate{Lose: true, Mute: w.UpTo(LongSilence)}
	}
	return Fate{}
}

func (b *Bigtable) oneWay() time.Duration {
	return b.world.Travel(b.Latency)
}

// errNoSuchTable is permanent.
var errNoSuchTable = errors.New("sim: no such table or family")

func (b *Bigtable) Execute(op, table, key string, refuse func(*Row) bool, writes []Mutation) (bool, error) {
	t := b.Tables[table]
	if t == nil {
		return false, errNoSuchTable
	}
	for _, m := range writes {
		if m.Kind != deleteRow && !t.takes(m.Family, b.world.Now()) || m.Kind == SetCell && t.aggregates[m.Family] != "" || m.Kind == addToCell && t.aggregates[m.Family] == "" {
			if sink.IsFence(m.Family) {
				b.world.Inject("request refused by the fence")
			}
			return false, errNoSuchTable
		}
	}
	before := t.rows[key]
	if before == nil {
		before = &Row{}
	}
	if refuse != nil && refuse(before) {
		b.note(op, table, key, "refused")
		return false, nil
	}
	after := before.Clone()
	if b.ServerSkew != 0 {
		b.world.Inject("server clock wrong")
	}
	after.apply(writes, t.aggregates, b.world.Now().Add(b.ServerSkew).UnixMicro())
	t.put(key, after)
	b.note(op, table, key, "takes place")
	if b.Stamped != nil && len(writes) > 0 {
		b.Stamped(table, key, writes[0].Family)
	}
	if b.Executed != nil {
		b.Executed(table, key, before, after)
	}
	return true, nil
}

// note adds a line to the trace. It shortens the keys of witnesses, which have thousands of bytes.
func (b *Bigtable) note(op, table, key, what string) {
	if b.world.Tracing() {
		b.world.Tracef("%s %s %q %s", op, table, key[:min(len(key), 120)], what)
	}
}

// EachColumn calls f for each column with all its cells.
func (r *Row) EachColumn(f func(c *Column)) {
	if r == nil {
		return
	}
	for i := range r.Cols {
		if len(r.Cols[i].Cells) > 0 {
			f(&r.Cols[i])
		}
	}
}

// Collect removes cells of a family that are older than age by the server's clock, as garbage
// collection does. Each of them goes now or, just as likely, in a later call (H28).
func (b *Bigtable) Collect(table, family string, age time.Duration) {
	t := b.Tables[table]
	if t == nil {
		return
	}
	oldest := b.world.Now().Add(b.ServerSkew - age).UnixMicro()
	for _, key := range b.Rows(table) {
		if !slices.ContainsFunc(t.rows[key].Cols, func(c Column) bool {
			return c.Family == family && c.Cells[len(c.Cells)-1].Micros < oldest
		}) || b.world.Rand().IntN(2) == 0 {
			continue
		}
		b.world.Inject("tombstone collected")
		b.world.Tracef("collects what is old of %q", key)
		row := t.rows[key].Clone()
		for i := range row.Cols {
			if c := &row.Cols[i]; c.Family == family {
				c.Cells = slices.DeleteFunc(c.Cells, func(cell Cell) bool { return cell.Micros < oldest })
			}
		}
		row.Cols = slices.DeleteFunc(row.Cols, func(c Column) bool { return len(c.Cells) == 0 })
		t.put(key, row)
	}
}
