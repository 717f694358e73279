package scope

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// generation is the first generation. A raise leads to the next.
const generation = 29_000_000

// requester turns the pages and loads of one setting into requests, each only once.
type requester struct {
	setting
	places [changesOf + 1]place

	rows   []string
	wants  []want
	byText map[string]int // requests by their content
	known  []demand       // without least and most
	rowOf  []int          // by request
	pages  map[page][]int
	loads  [2][changesOf + 1][]int

	local map[string]int // problems of the setting's rows
	// conflict describes two requests of the stream for one row and version that differ, or is "".
	conflict string
	versions map[string]int
}

func newRequester(s setting) *requester {
	q := &requester{
		setting: s, places: s.places(), byText: map[string]int{}, pages: map[page][]int{}, local: map[string]int{}, versions: map[string]int{},
	}
	if key, cells := s.row(changesOf); cells != nil {
		q.rows, q.wants = []string{key}, []want{{cells: cells}}
	}
	for g := range q.loads {
		for n := range q.loads[g] {
			if image := s.image(n); image.Exists() {
				rows := transform.Load(s.mapping, []attribute.Item{image}, generation+uint32(g), loadTime(n)).Rows
				q.loads[g][n] = q.requests(rows, fmt.Sprintf("load %s of the item after %d changes", generationName(g), n), false)
			}
		}
	}
	return q
}

func generationName(g int) string {
	return [...]string{"of the first generation", "of the raised generation"}[g]
}

// read returns the requests of a page.
func (q *requester) read(p page) []int {
	p.committed = false
	ids, ok := q.pages[p]
	if !ok {
		stamp := transform.Stamp{Generation: generation + uint32(p.generation), Hop: q.places[p.to].hop}
		var changes []cdc.Change
		for n := 1; n <= p.to; n++ {
			if q.places[n].shard != q.places[p.to].shard {
				continue
			}
			c := q.change(n)
			c.Sequence = q.places[n].sequence
			if n > p.from {
				changes = append(changes, c)
			} else if c.Time.After(stamp.NotBefore) {
				stamp.NotBefore = c.Time // the checkpoint stores it
			}
		}
		ids = q.requests(transform.Fold(q.mapping, changes, stamp).Rows, fmt.Sprintf("page %d-%d %s", p.from+1, p.to, generationName(p.generation)), true)
		q.pages[p] = ids
	}
	return ids
}

// requests guards mutations, and numbers the requests.
func (q *requester) requests(rows []transform.RowMutation, origin string, ofStream bool) []int {
	var ids []int
	for _, m := range rows {
		r := sink.Guard(m)
		text := contentOf(r)
		id, ok := q.byText[text]
		if !ok {
			id = len(q.known)
			q.byText[text] = id
			verb := "put"
			if m.Remove {
				verb = "remove"
			}
			q.known = append(q.known, demand{id: id, request: r, label: fmt.Sprintf("%s: %s %q at %s", origin, verb, r.Row, brief(string(m.Version)))})
			q.rowOf = append(q.rowOf, q.row(r.Row))
		}
		ids = append(ids, id)
		if at := r.Row + "\x00" + string(m.Version); ofStream {
			if other, ok := q.versions[at]; ok && other != id && q.conflict == "" {
				q.conflict = fmt.Sprintf("%s and %s differ", q.known[other].label, q.known[id].label)
			}
			q.versions[at] = id
		}
	}
	return ids
}

// contentOf returns equal texts for exactly equal requests.
func contentOf(r sink.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %q %q", r.Table, r.Row, r.Refuse.Families, r.Refuse.Qualifier, r.Refuse.AtLeast)
	for _, op := range r.Ops {
		fmt.Fprintf(&b, " %d %q %q %d %q", op.Kind, op.Family, op.Qualifier, op.Timestamp, op.Value)
	}
	return b.String()
}

func (q *requester) row(key string) int {
	i := slices.Index(q.rows, key)
	if i < 0 {
		i = len(q.rows)
		q.rows, q.wants = append(q.rows, key), append(q.wants, want{})
	}
	return i
}

// scenario is one plan with its loads.
type scenario struct {
	plan  plan
	loads []loaded
}

// loaded is an image that a load read after n changes.
type loaded struct {
	generation, n int
	least         int // 1 if the table needs it
}

func (s scenario) String() string {
	text := "pages " + s.plan.String()
	for _, l := range s.loads {
		text += fmt.Sprintf("; load %s after %d", generationName(l.generation), l.n)
	}
	return text
}

// scenarios visits the plans of the setting, each with every possible set of loads.
func (q *requester) scenarios(visit func(scenario) (goOn bool)) bool {
	for _, plan := range q.plans() {
		for _, loads := range q.loadings(plan.lost) {
			if !visit(scenario{plan, loads}) {
				return false
			}
		}
	}
	return true
}

// loadings lists the possible images of loads. A load of the first generation may read at every
// point of the history, and after a raise one of the raised generation at every point from its
// adoption on. In the final generation a load that resumed after a crash may read the item again.
// If a gap needs the load, the image read last is executed at least once. All others may never be
// executed, which covers scenarios without a load.
func (q *requester) loadings(lost bool) [][]loaded {
	var all [][]loaded
	if q.raised == never {
		return twoReads(all, nil, 0, 0, 0)
	}
	from, least := q.raised, 0
	if lost {
		least = 1
	}
	for before := 0; before <= changesOf; before++ {
		all = twoReads(all, []loaded{{0, before, 0}}, 1, from, least)
	}
	return all
}

// twoReads appends others with one or two reads of a generation, at any points from one point on.
func twoReads(all [][]loaded, others []loaded, generation, from, least int) [][]loaded {
	for last := from; last <= changesOf; last++ {
		all = append(all, append(slices.Clip(others), loaded{generation, last, least}))
		for first := from; first < last; first++ {
			all = append(all, append(slices.Clip(others), loaded{generation, first, 0}, loaded{generation, last, least}))
		}
	}
	return all
}

// twice is how often a request may be executed each time it is sent.
const twice = 2

// demands returns the requests of a scenario with the number of their executions, by row.
func (q *requester) demands(s scenario) [][]demand {
	// Rows are known once all pages are read, and several pages may lead to the same request.
	least, most := map[int]int{}, map[int]int{}
	add := func(ids []int, n int) {
		for _, id := range ids {
			least[id] += n
			most[id] += twice
		}
	}
	for _, p := range s.plan.pages {
		n := 0
		if p.committed {
			n = 1
		}
		add(q.read(p), n)
	}
	for _, l := range s.loads {
		add(q.loads[l.generation][l.n], l.least)
	}
	rows := make([][]demand, len(q.rows))
	for _, id := range slices.Sorted(maps.Keys(most)) {
		d := q.known[id]
		d.least, d.most = least[id], most[id]
		rows[q.rowOf[id]] = append(rows[q.rowOf[id]], d)
	}
	return rows
}

func (q *requester) wantOf(row int, p plan) want {
	w := q.wants[row]
	if p.lost {
		w.sweptBelow = fmt.Sprintf("%08d", generation+1)
	}
	return w
}

// explorer visits scenarios and stores what it found.
type explorer struct {
	problems  map[string]int
	verdicts  []verdict
	settings  int
	scenarios int
	states    int
	wrong     string // the first violation, with its scenario
}

func newExplorer() *explorer {
	return &explorer{problems: map[string]int{}}
}

// explore runs every execution of every scenario of a setting, with equal ones merged. It returns
// false if something is wrong.
func (e *explorer) explore(s setting) bool {
	q := newRequester(s)
	e.settings++
	return q.scenarios(func(sc scenario) bool {
		rows := q.demands(sc)
		if q.conflict != "" {
			e.wrong = fmt.Sprintf("%s: %s", s, q.conflict)
			return false
		}
		for row, demands := range rows {
			if len(demands) == 0 && q.wants[row].cells == nil {
				continue
			}
			id := e.problem(q, row, demands, q.wantOf(row, sc.plan))
			if v := e.verdicts[id]; v.wrong != "" {
				e.wrong = fmt.Sprintf("%s; %s: row %q: %s", s, sc, q.rows[row], v.wrong)
				return false
			}
		}
		e.scenarios++
		return true
	})
}

// problem returns the number of a row's problem, and solves it if it is new.
func (e *explorer) problem(q *requester, row int, demands []demand, w want) int {
	local := []byte{byte(row), byte(len(w.sweptBelow))}
	for _, d := range demands {
		local = append(local, byte(d.id), byte(d.least), byte(d.most))
	}
	id, ok := q.local[string(local)]
	if ok {
		return id
	}
	p := newProblem(demands, w)
	key := p.key()
	if id, ok = e.problems[key]; !ok {
		id = len(e.verdicts)
		e.problems[key] = id
		v := p.merged()
		e.states += v.states
		e.verdicts = append(e.verdicts, v)
	}
	q.local[string(local)] = id
	return id
}
