package sim

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
	"github.com/dynamodb-bigtable/replicator/internal/virtual"
)

// Bigtable is the model of the target: rows of cells with conditional single-row writes, behind a network that loses replies,
// delivers late and delivers twice. It promises less than the emulator does.
type Bigtable struct {
	world  *virtual.World
	tables map[string]*btTable
	lost   time.Time // when the target's tables were last emptied or set back: what was applied before is not looked for

	// Latency is the longest one way of a request; the default is 10 ms.
	Latency time.Duration
	// Chances in [0, 1) of what may happen to a write, and how late "late" can be.
	LoseReply, Late, Drop, Twice float64
	LateBy                       time.Duration
	// Torn is the chance that a read of several rows sees them at several moments, Broken that it ends with an error in their midst: a read is
	// consistent within a row alone. Silent is the chance that a call is not answered for minutes.
	Torn, Broken, Silent float64
	// ServerSkew is added to the server's clock, which stamps tombstones. It may step back.
	ServerSkew time.Duration
	// Fault, if set, is asked before every request: an error fails it and nothing is executed.
	Fault func(op, table, row string) error
	// Route, if set, decides what the network does with a write; nil leaves it to chance.
	Route func(c Call) *Fate
	// Reject, if set, tells whether a write is refused for what it contains, as an item is that exceeds a limit of the service.
	Reject func(table, row string, writes []write) bool
	// Executed, if set, sees every write as it takes place: checkers hang on it.
	Executed func(table, row string, before, after *Row)
}

// Call is one write as the network sees it.
type Call struct {
	Op, Table, Row string
	// Version is what a guarded write of an item carries; "" for every other.
	Version string
}

// Fate is what the network does with a write.
type Fate struct {
	Drop  bool          // it never arrives
	Delay time.Duration // it is executed that much later
	Lose  bool          // its sender hears nothing for a second or two; otherwise the answer follows the execution
	Mute  time.Duration // and how long that is, if it is longer
}

type btTable struct {
	families   []string
	aggregates map[string]string // by family: intsum, intmin or intmax
	rows       map[string]*Row
	keys       []string // of rows, in order; nil if they are to be listed anew
}

func (t *btTable) put(key string, row *Row) {
	before := len(t.rows)
	if len(row.columns) == 0 {
		delete(t.rows, key)
	} else {
		t.rows[key] = row
	}
	if len(t.rows) != before {
		t.keys = nil // not changed in place: somebody may be going through them
	}
}

// Row is the content of one row: the newest value of each column first. Rows that are in a table never change: every write makes
// another one. That is why nobody has to copy them.
type Row struct {
	columns []column
	stored  *checkpoint.Row // as a row of the ledger, if it was read as one
	record  any             // what that was decoded to, if it was
}

type column struct {
	family, qualifier string
	cells             []modelCell // newest timestamp first
}

type modelCell struct {
	micros int64
	value  string
}

// errUnknown is the outcome of a request whose answer never came.
var errUnknown = errors.New("sim: no answer")

// NewBigtable makes an instance without tables.
func NewBigtable(w *virtual.World) *Bigtable {
	return &Bigtable{world: w, tables: map[string]*btTable{}, Latency: 10 * time.Millisecond, LateBy: time.Minute}
}

// Create adds an empty table, or empties one: a target created anew. The name of a family whose cells are an aggregate is followed by a
// colon and the aggregate, as in counters:intsum.
func (b *Bigtable) Create(name string, families ...string) {
	t := &btTable{aggregates: map[string]string{}, rows: map[string]*Row{}}
	for _, family := range families {
		family, aggregate, _ := strings.Cut(family, ":")
		t.families = append(t.families, family)
		t.aggregates[family] = aggregate
	}
	b.tables[name] = t
}

// Remove takes a table away, as an operator's mistake does; the returned function puts it back as it was.
func (b *Bigtable) Remove(name string) (restore func()) {
	t := b.tables[name]
	delete(b.tables, name)
	return func() { b.tables[name] = t }
}

// Snapshot copies the rows of a table; Restore puts them back: a restore from a backup.
func (b *Bigtable) Snapshot(table string) map[string]*Row {
	return maps.Clone(b.tables[table].rows)
}

// Restore replaces the rows of a table by a snapshot.
func (b *Bigtable) Restore(table string, snapshot map[string]*Row) {
	b.tables[table].rows, b.tables[table].keys = maps.Clone(snapshot), nil
}

// Rows lists the keys of a table in order. The list is the table's own.
func (b *Bigtable) Rows(table string) []string {
	t := b.tables[table]
	if t == nil {
		return nil
	}
	if t.keys == nil {
		t.keys = slices.Sorted(maps.Keys(t.rows))
	}
	return t.keys
}

// RowsUnder lists the keys of a table that begin with prefix, in order. The list is the table's own.
func (b *Bigtable) RowsUnder(table, prefix string) []string {
	return keyRange(b.Rows(table), prefix, func(key string) bool { return strings.HasPrefix(key, prefix) })
}

// keyRange is the part of sorted keys from the first that is not below from, as long as in is true.
func keyRange(keys []string, from string, in func(key string) bool) []string {
	first, _ := slices.BinarySearch(keys, from)
	last := first
	for last < len(keys) && in(keys[last]) {
		last++
	}
	return keys[first:last]
}

// Row is a row as it is now; nil if there is none.
func (b *Bigtable) Row(table, key string) *Row {
	if t := b.tables[table]; t != nil {
		return t.rows[key]
	}
	return nil
}

// Value is the newest value of a column; false if there is none.
func (r *Row) Value(family, qualifier string) (string, bool) {
	if c := r.column(family, qualifier); c != nil {
		return c.cells[0].value, true
	}
	return "", false
}

func (r *Row) column(family, qualifier string) *column {
	if r == nil {
		return nil
	}
	for i := range r.columns {
		if c := &r.columns[i]; c.family == family && c.qualifier == qualifier && len(c.cells) > 0 {
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
	for _, c := range r.columns {
		f(c.family, c.qualifier, c.cells[0].micros, c.cells[0].value)
	}
}

// Cells are the timestamps, in microseconds, of all cells of a column, the newest first.
func (r *Row) Cells(family, qualifier string) []int64 {
	var micros []int64
	if c := r.column(family, qualifier); c != nil {
		for _, cell := range c.cells {
			micros = append(micros, cell.micros)
		}
	}
	return micros
}

// String shows a row as text, for failures and traces.
func (r *Row) String() string {
	var parts []string
	r.Columns(func(family, qualifier string, micros int64, value string) {
		parts = append(parts, fmt.Sprintf("%s:%s@%d=%q", family, qualifier, micros, value))
	})
	return strings.Join(parts, " ")
}

func (r *Row) clone() *Row {
	c := &Row{columns: slices.Clone(r.columns)}
	for i := range c.columns {
		c.columns[i].cells = slices.Clone(c.columns[i].cells)
	}
	return c
}

// write is one change of a row, independent of whose request it was.
type write struct {
	kind              writeKind
	family, qualifier string
	micros            int64 // -1: the server's clock
	value             string
}

type writeKind uint8

const (
	deleteFamily writeKind = iota
	deleteColumn
	deleteRow
	deleteFrom // the column's cells from micros on
	setCell
	addToCell // the value is a number of 8 bytes, big-endian
)

// joined is what a cell of an aggregate holds after a value was added to it.
func joined(aggregate string, was, added int64) int64 {
	switch aggregate {
	case "intmin":
		return min(was, added)
	case "intmax":
		return max(was, added)
	}
	return was + added
}

func (r *Row) apply(writes []write, aggregates map[string]string, serverMicros int64) {
	for _, w := range writes {
		switch w.kind {
		case deleteRow:
			r.columns = nil
		case deleteFamily:
			r.columns = slices.DeleteFunc(r.columns, func(c column) bool { return c.family == w.family })
		case deleteColumn:
			r.columns = slices.DeleteFunc(r.columns, func(c column) bool { return c.family == w.family && c.qualifier == w.qualifier })
		case deleteFrom:
			if c := r.column(w.family, w.qualifier); c != nil {
				c.cells = slices.DeleteFunc(c.cells, func(cell modelCell) bool { return cell.micros >= w.micros })
			}
			r.columns = slices.DeleteFunc(r.columns, func(c column) bool { return len(c.cells) == 0 })
		case setCell:
			micros := w.micros
			if micros < 0 {
				micros = serverMicros / 1000 * 1000
			}
			r.set(w.family, w.qualifier, modelCell{micros, w.value})
		case addToCell:
			sum := int64(binary.BigEndian.Uint64([]byte(w.value)))
			if c := r.column(w.family, w.qualifier); c != nil {
				for _, cell := range c.cells {
					if cell.micros == w.micros {
						sum = joined(aggregates[w.family], int64(binary.BigEndian.Uint64([]byte(cell.value))), sum)
					}
				}
			}
			r.set(w.family, w.qualifier, modelCell{w.micros, string(binary.BigEndian.AppendUint64(nil, uint64(sum)))})
		}
	}
}

func (r *Row) set(family, qualifier string, cell modelCell) {
	at, found := slices.BinarySearchFunc(r.columns, column{family: family, qualifier: qualifier}, func(a, b column) int {
		if c := strings.Compare(a.family, b.family); c != 0 {
			return c
		}
		return strings.Compare(a.qualifier, b.qualifier)
	})
	if !found {
		r.columns = slices.Insert(r.columns, at, column{family: family, qualifier: qualifier})
	}
	cells := &r.columns[at].cells
	i, same := slices.BinarySearchFunc(*cells, cell, func(a, b modelCell) int { return int(min(max(b.micros-a.micros, -1), 1)) })
	if same {
		(*cells)[i] = cell
		return
	}
	*cells = slices.Insert(*cells, i, cell)
}

// conditional sends a single-row write that takes place unless the row satisfies refuse. It reports whether it took place.
// The request and its answer each take time; between them anything may happen, and a caller that gives up does not stop
// a request that was sent.
func (b *Bigtable) conditional(ctx context.Context, c Call, refuse func(*Row) bool, writes []write) (bool, error) {
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
			first, err := b.execute(c.Op, c.Table, c.Row, refuse, writes)
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
		w.After(b.oneWay()+w.UpTo(b.LateBy), func() { _, _ = b.execute(c.Op, c.Table, c.Row, refuse, writes) })
	}
	if err := done.Wait(ctx); err != nil {
		return false, err
	}
	return took, failed
}

// fate is what Route says, or else chance.
func (b *Bigtable) fate(c Call) Fate {
	if b.Route != nil {
		if fate := b.Route(c); fate != nil {
			return *fate
		}
	}
	w := b.world
	switch {
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
		return Fate{Lose: true, Mute: w.UpTo(longSilence)}
	}
	return Fate{}
}

func (b *Bigtable) oneWay() time.Duration {
	return b.world.Travel(b.Latency)
}

// errNoSuchTable is permanent.
var errNoSuchTable = errors.New("sim: no such table or family")

func (b *Bigtable) execute(op, table, key string, refuse func(*Row) bool, writes []write) (bool, error) {
	t := b.tables[table]
	if t == nil {
		return false, errNoSuchTable
	}
	for _, m := range writes {
		if m.kind != deleteRow && !slices.Contains(t.families, m.family) || m.kind == setCell && t.aggregates[m.family] != "" || m.kind == addToCell && t.aggregates[m.family] == "" {
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
	after := before.clone()
	if b.ServerSkew != 0 {
		b.world.Inject("server clock wrong")
	}
	after.apply(writes, t.aggregates, b.world.Now().Add(b.ServerSkew).UnixMicro())
	t.put(key, after)
	b.note(op, table, key, "takes place")
	if b.Executed != nil {
		b.Executed(table, key, before, after)
	}
	return true, nil
}

// note adds a line to the trace. The key of a witness is thousands of bytes long.
func (b *Bigtable) note(op, table, key, what string) {
	if b.world.Tracing() {
		b.world.Tracef("%s %s %q %s", op, table, key[:min(len(key), 120)], what)
	}
}
