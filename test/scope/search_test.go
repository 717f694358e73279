package scope

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// demand is a request with bounds on its executions. At least least, because a committed page was
// written. At most most, because attempts may be executed late.
type demand struct {
	id          int // of the request
	request     sink.Request
	least, most int
	label       string // for failures
}

// want is what a row must hold after every complete execution.
type want struct {
	// cells holds the item's cells by column if the item finally maps to the row, otherwise nil.
	cells map[column]string
	// sweptBelow excuses rows of older generations. After a gap nothing identifies the rows that an
	// item left during the gap, until the sweep of the generation's load. It is a version, or "".
	sweptBelow string
}

// problem describes one row of a scenario completely.
type problem struct {
	program     *program
	least, most []int
	cells       []uint8 // the wanted value by column, noValue if there must be none
	lives       bool
	swept       uint8 // versions of a lower rank are excused
	labels      []string
}

const noValue = 0xff

func newProblem(demands []demand, w want) *problem {
	requests := make([]sink.Request, 0, len(demands))
	further := append(make([]string, 0, 1+len(w.cells)), w.sweptBelow)
	for _, d := range demands {
		requests = append(requests, d.request)
	}
	for _, value := range w.cells {
		further = append(further, value)
	}
	p := &problem{program: compile(requests, further...), lives: w.cells != nil}
	p.swept = p.program.rank(w.sweptBelow)
	found := 0
	for _, c := range p.program.columns {
		value, ok := w.cells[c]
		if !ok {
			p.cells = append(p.cells, noValue)
			continue
		}
		found++
		p.cells = append(p.cells, p.program.rank(value))
	}
	if found != len(w.cells) {
		// No request ever sets this column, so the row can never be right.
		p.cells = append(p.cells, 0)
	}
	for _, d := range demands {
		p.least, p.most, p.labels = append(p.least, d.least), append(p.most, d.most), append(p.labels, d.label)
	}
	return p
}

// key returns equal texts for two problems that differ only in names. Their executions are then
// equivalent.
func (p *problem) key() string {
	b := []byte{p.swept, 0, byte(len(p.cells))}
	if p.lives {
		b[1] = 1
	}
	b = append(b, p.cells...)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.program.live))
	b = binary.LittleEndian.AppendUint32(b, uint32(p.program.gone))
	for i, r := range p.program.requests {
		b = append(b, byte(p.least[i]), byte(p.most[i]), r.atLeast, byte(len(r.ops)))
		b = binary.LittleEndian.AppendUint32(b, uint32(r.refuse))
		for _, op := range r.ops {
			sets := byte(0)
			if op.sets {
				sets = 1
			}
			b = append(b, sets, op.set.column, op.set.value, op.set.at)
			b = binary.LittleEndian.AppendUint32(b, uint32(op.remove))
		}
	}
	return string(b)
}

// judge returns what is wrong with a final state, or "".
func (p *problem) judge(s *rowState) string {
	if p.lives && len(p.cells) > len(p.program.columns) {
		return "a cell of the item can never be there"
	}
	if held := p.program.held(s); !p.lives && held > 0 && held-1 < p.swept {
		return ""
	}
	var seen columnSet
	for i := range s.n {
		c := s.cells[i]
		column := columnSet(1) << c.column
		switch {
		case seen&column != 0 && column&p.program.gone == 0:
			return "a column with several cells"
		case column&p.program.gone != 0:
		case column&p.program.live != 0:
			if !p.lives {
				return "a live version where no item is"
			}
		case p.cells[c.column] == noValue:
			return "a cell that the item does not have"
		case p.cells[c.column] != c.value:
			return "an older value of the item"
		}
		seen |= column
	}
	for i, value := range p.cells {
		if value != noValue && seen&(1<<i) == 0 {
			return "a cell of the item is missing"
		}
	}
	if p.lives && seen&p.program.live == 0 {
		return "no live version"
	}
	return ""
}

// verdict is the result of all executions of a problem.
type verdict struct {
	states int // distinct ones, with what was executed until then
	// wrong describes the first violation found, or is "".
	wrong string
}

// progress is a state with the first way in which it was reached.
type progress struct {
	state    uint32
	from, at int32
	by       int8
}

// merged runs all executions of one row. It merges those that have executed the same requests and
// left the same state.
func (p *problem) merged() verdict {
	radix, total := make([]int, len(p.most)), 1
	for i, most := range p.most {
		radix[i], total = total, total*(most+1)
	}
	m := merger{problem: p, radix: radix, layers: make([][]progress, total), known: map[rowState]uint32{}}
	m.layers[0] = []progress{{state: m.intern(rowState{})}}
	counts := make([]int, len(p.most))
	for index := range total {
		m.visit(index, counts)
		// The counts of the next index: a number with a digit for each request.
		for i := range counts {
			if counts[i]++; counts[i] <= p.most[i] {
				break
			}
			counts[i] = 0
		}
	}
	return m.verdict
}

// merger holds the work of merged. Executing one more request raises one digit, so ascending
// indexes visit every cause before its effect.
type merger struct {
	*problem
	radix   []int
	layers  [][]progress // by index: the states reachable with those counts
	known   map[rowState]uint32
	states  []rowState
	next    [][][]uint32 // by state and request: the possible next states; nil if not tried yet
	falls   [][]bool     // by state and request: whether the version fell
	verdict verdict
	scratch []rowState
}

func (m *merger) intern(s rowState) uint32 {
	id, ok := m.known[s]
	if !ok {
		id = uint32(len(m.states))
		m.known[s] = id
		m.states = append(m.states, s)
		m.next = append(m.next, make([][]uint32, len(m.most)))
		m.falls = append(m.falls, make([]bool, len(m.most)))
	}
	return id
}

func (m *merger) visit(index int, counts []int) {
	finished := true
	for i, n := range counts {
		finished = finished && n >= m.least[i]
	}
	for at := range m.layers[index] {
		here := m.layers[index][at]
		m.verdict.states++
		if finished {
			if wrong := m.judge(&m.states[here.state]); wrong != "" {
				m.fail(index, at, wrong)
			}
		}
		for i := range counts {
			if counts[i] == m.most[i] {
				continue
			}
			for _, after := range m.execute(here.state, i) {
				m.reach(index+m.radix[i], after, progress{from: int32(index), at: int32(at), by: int8(i)})
			}
			if m.falls[here.state][i] {
				m.fail(index, at, "the version falls with "+m.labels[i])
			}
		}
	}
}

func (m *merger) reach(index int, state uint32, p progress) {
	if layer := m.layers[index]; !slices.ContainsFunc(layer, func(q progress) bool { return q.state == state }) {
		p.state = state
		m.layers[index] = append(layer, p)
	}
}

// execute runs a request on a state once, and remembers the result.
func (m *merger) execute(state uint32, request int) []uint32 {
	if known := m.next[state][request]; known != nil {
		return known
	}
	before := m.states[state]
	m.scratch, _ = m.program.execute(before, request, m.scratch[:0])
	var after []uint32
	for _, s := range m.scratch {
		if m.program.held(&s) < m.program.held(&before) {
			m.falls[state][request] = true
		}
		after = append(after, m.intern(s))
	}
	m.next[state][request] = after
	return after
}

// fail records the first violation and the way to it.
func (m *merger) fail(index, at int, wrong string) {
	if m.verdict.wrong != "" {
		return
	}
	var lines []string
	for index > 0 {
		p := m.layers[index][at]
		lines = append(lines, fmt.Sprintf("    %-60s leaves %s", m.labels[p.by], m.program.String(m.states[p.state])))
		index, at = int(p.from), int(p.at)
	}
	slices.Reverse(lines)
	m.verdict.wrong = wrong + " after\n" + strings.Join(lines, "\n")
}
