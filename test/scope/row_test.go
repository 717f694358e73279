package scope

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// rowState is the content of a row: cells by column, within a column from newest to oldest. It is
// comparable, so that equal contents can be merged.
type rowState struct {
	n     uint8
	cells [maxCells]cell
}

// maxCells bounds the cells of a row.
const maxCells = 20

// cell holds ranks: of its column among the columns, of its value among the values in byte order,
// of its time among the times.
type cell struct{ column, value, at uint8 }

// byServer is the time of a cell that the server stamped. Such cells differ only by their order.
const byServer = 0xff

// program is a set of requests for one row, expressed in ranks.
type program struct {
	columns    []column
	values     []string
	requests   []compiled
	live, gone columnSet // the columns of versions
}

type column struct{ family, qualifier string }

// columnSet has a bit for each column.
type columnSet uint32

type compiled struct {
	refuse  columnSet
	atLeast uint8
	ops     []compiledOp
}

// compiledOp sets a cell or deletes columns.
type compiledOp struct {
	sets   bool
	set    cell
	remove columnSet
}

// compile computes the ranks of everything that requests for one row name. Further values may be
// ranked too. It panics on requests that the compact state cannot express, which would be a mistake
// in these tests.
func compile(requests []sink.Request, further ...string) *program {
	cells := 0
	for _, r := range requests {
		cells += len(r.Ops)
	}
	p := &program{
		values: slices.Grow(further, len(requests)+cells), columns: make([]column, 0, cells), requests: make([]compiled, 0, len(requests)),
	}
	times := make([]int64, 0, cells)
	for _, r := range requests {
		p.values = append(p.values, string(r.Refuse.AtLeast))
		for _, op := range r.Ops {
			if op.Kind == sink.SetCell {
				p.columns = append(p.columns, column{op.Family, op.Qualifier})
				p.values = append(p.values, string(op.Value))
				times = append(times, op.Timestamp)
			}
		}
	}
	p.values, times = ranked(p.values, cmp.Compare[string]), ranked(times, cmp.Compare[int64])
	p.columns = ranked(p.columns, func(a, b column) int {
		return cmp.Or(strings.Compare(a.family, b.family), strings.Compare(a.qualifier, b.qualifier))
	})
	if len(p.columns) > 32 || len(p.values) >= byServer || len(times) >= byServer {
		panic("scope: too many columns, values or times")
	}
	p.live = p.set(func(c column) bool { return c == column{sink.LiveFamily, sink.VersionColumn} })
	p.gone = p.set(func(c column) bool { return c == column{sink.GoneFamily, sink.VersionColumn} })
	for _, r := range requests {
		p.requests = append(p.requests, p.compile(r, times))
	}
	return p
}

func ranked[E comparable](list []E, order func(a, b E) int) []E {
	slices.SortFunc(list, order)
	return slices.Compact(list)
}

// set returns the columns for which in is true.
func (p *program) set(in func(column) bool) columnSet {
	var s columnSet
	for i, c := range p.columns {
		if in(c) {
			s |= 1 << i
		}
	}
	return s
}

func (p *program) compile(r sink.Request, times []int64) compiled {
	c := compiled{
		refuse: p.set(func(c column) bool {
			return slices.Contains(r.Refuse.Families, c.family) && c.qualifier == r.Refuse.Qualifier
		}),
		atLeast: p.rank(string(r.Refuse.AtLeast)), ops: make([]compiledOp, 0, len(r.Ops)),
	}
	stamps := 0
	for _, op := range r.Ops {
		switch op.Kind {
		case sink.DeleteFamily:
			c.ops = append(c.ops, compiledOp{remove: p.set(func(c column) bool { return c.family == op.Family })})
		case sink.DeleteColumn:
			c.ops = append(c.ops, compiledOp{remove: p.set(func(c column) bool { return c == column{op.Family, op.Qualifier} })})
		case sink.SetCell:
			at, _ := slices.BinarySearch(times, op.Timestamp)
			set := cell{column: uint8(slices.Index(p.columns, column{op.Family, op.Qualifier})), value: p.rank(string(op.Value)), at: uint8(at)}
			if op.Timestamp == sink.ServerTime {
				set.at = byServer
				stamps++
			}
			c.ops = append(c.ops, compiledOp{sets: true, set: set})
		default:
			panic(fmt.Sprintf("scope: unknown operation %d", op.Kind))
		}
	}
	if stamps > 1 {
		panic("scope: a request for which the server's clock decides twice")
	}
	return c
}

func (p *program) rank(value string) uint8 {
	i, found := slices.BinarySearch(p.values, value)
	if !found {
		panic("scope: a value without a rank")
	}
	return uint8(i)
}

// execute appends to out the states that a request may leave: several if the server's clock
// decides, which may step back. Applied is false if the predicate refused, and then the row is
// unchanged.
func (p *program) execute(s rowState, request int, out []rowState) (_ []rowState, applied bool) {
	r := &p.requests[request]
	if p.refuses(&s, r) {
		return append(out, s), false
	}
	first := len(out)
	out = append(out, s)
	for i := range r.ops {
		op := &r.ops[i]
		for j, end := first, len(out); j < end; j++ {
			switch {
			case !op.sets:
				out[j].remove(op.remove)
			case op.set.at != byServer:
				out[j].put(op.set)
			default:
				out = out[j].stamp(op.set, out, j)
			}
		}
	}
	return out, true
}

func (p *program) refuses(s *rowState, r *compiled) bool {
	for i := range s.n {
		c := s.cells[i]
		if r.refuse&(1<<c.column) == 0 {
			continue
		}
		if c.value >= r.atLeast {
			return true
		}
	}
	return false
}

// remove deletes the cells of columns.
func (s *rowState) remove(columns columnSet) {
	kept := uint8(0)
	for i := range s.n {
		if columns&(1<<s.cells[i].column) == 0 {
			s.cells[kept] = s.cells[i]
			kept++
		}
	}
	clear(s.cells[kept:s.n])
	s.n = kept
}

// put sets a cell at its own time, and replaces a cell of the same time.
func (s *rowState) put(c cell) {
	i := uint8(0)
	for i < s.n && (s.cells[i].column < c.column || s.cells[i].column == c.column && s.cells[i].at > c.at) {
		if s.cells[i].column == c.column && s.cells[i].at == byServer {
			panic("scope: a column with times of both kinds")
		}
		i++
	}
	if i < s.n && s.cells[i].column == c.column && s.cells[i].at == c.at {
		s.cells[i] = c
		return
	}
	s.insert(i, c)
}

func (s *rowState) insert(i uint8, c cell) {
	if s.n == maxCells {
		panic("scope: a row with too many cells")
	}
	copy(s.cells[i+1:s.n+1], s.cells[i:s.n])
	s.cells[i] = c
	s.n++
}

// stamp sets a cell at any time that the server's clock may show: newer or older than the column's
// other cells, or at the time of one of them, which it replaces. The first of these states replaces
// out[at], others are appended.
func (s *rowState) stamp(c cell, out []rowState, at int) []rowState {
	before := *s
	begin := uint8(0)
	for begin < before.n && before.cells[begin].column < c.column {
		begin++
	}
	end := begin
	for end < before.n && before.cells[end].column == c.column {
		if before.cells[end].at != byServer {
			panic("scope: a column with times of both kinds")
		}
		end++
	}
	for i := begin; i <= end; i++ {
		after := before
		after.insert(i, c)
		if i == begin {
			out[at] = after
		} else {
			out = append(out, after)
		}
		if i < end {
			after = before
			after.cells[i] = c
			out = append(out, after)
		}
	}
	return out
}

// held returns the highest version of the row, live or tombstone, as a rank plus one; 0 if there is
// none.
func (p *program) held(s *rowState) uint8 {
	highest := uint8(0)
	for i := range s.n {
		if c := s.cells[i]; (p.live|p.gone)&(1<<c.column) != 0 {
			highest = max(highest, c.value+1)
		}
	}
	return highest
}

// String formats a state with the program's names.
func (p *program) String(s rowState) string {
	var parts []string
	for i := range s.n {
		c := s.cells[i]
		parts = append(parts, fmt.Sprintf("%s:%s=%s", p.columns[c.column].family, p.columns[c.column].qualifier, brief(p.values[c.value])))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " ")
}

// brief shows a version without its padding, and other values as they are.
func brief(value string) string {
	fields := strings.Split(value, ".")
	if len(fields) < 3 {
		return value
	}
	for i, f := range fields {
		if fields[i] = strings.TrimLeft(f, "0"); fields[i] == "" {
			fields[i] = "0"
		}
	}
	return strings.Join(fields, ".")
}
