package scope

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The compact row behaves like sinktest.Memory, request by request, for every reading of the
// server's clock. Every state that it predicts occurs in Memory with some clock.
func TestCompactRowEqualsMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	refused, several := 0, 0
	for run := range 3000 {
		requests := make([]sink.Request, 1+random.IntN(6))
		for i := range requests {
			requests[i] = randomRequest(random)
		}
		p := compile(requests)
		var done []step
		state := rowState{}
		for range 12 {
			next := step{requests[random.IntN(len(requests))], random.Int64N(1e12)}
			if _, times, _ := replay(t, done); len(times) > 0 && random.IntN(4) == 0 {
				next.clock = times[random.IntN(len(times))]
			}
			request := slices.IndexFunc(requests, func(r sink.Request) bool { return contentOf(r) == contentOf(next.request) })
			outcomes, applied := p.execute(state, request, nil)
			got, _, gotApplied := replay(t, append(done, next))
			at := slices.IndexFunc(outcomes, func(s rowState) bool { return slices.Equal(p.show(s), got) })
			if at < 0 || applied != gotApplied {
				t.Fatalf("run %d: %s: applied %v, memory %v; memory has %v", run, contentOf(next.request), applied, gotApplied, got)
			}
			if !applied {
				refused++
			}
			if len(outcomes) > 1 {
				several++
				reachable(t, p, done, next, outcomes)
			}
			done, state = append(done, next), outcomes[at]
		}
	}
	if refused < 1000 || several < 1000 {
		t.Errorf("%d requests were refused and %d had several outcomes: too few to tell", refused, several)
	}
}

// step is one execution at a server time, in milliseconds.
type step struct {
	request sink.Request
	clock   int64
}

// reachable fails unless some clock leads to each outcome.
func reachable(t *testing.T, p *program, done []step, next step, outcomes []rowState) {
	t.Helper()
	_, times, _ := replay(t, done)
	clocks := append(slices.Clone(times), times[0]+1, times[len(times)-1]-1)
	for i := 1; i < len(times); i++ {
		clocks = append(clocks, (times[i-1]+times[i])/2)
	}
	found := map[string]bool{}
	for _, next.clock = range clocks {
		row, _, _ := replay(t, append(slices.Clone(done), next))
		found[fmt.Sprint(row)] = true
	}
	for _, s := range outcomes {
		if !found[fmt.Sprint(p.show(s))] {
			t.Fatalf("no clock leads to %v", p.show(s))
		}
	}
	// Equal values may merge two outcomes.
	if len(found) > len(outcomes) {
		t.Fatalf("clocks lead to %d states, %d are known", len(found), len(outcomes))
	}
}

// replay executes steps on a fresh Memory and returns the row, and the times of the cells that the
// server stamped, in milliseconds, the latest first. Applied belongs to the last step.
func replay(t *testing.T, steps []step) (row []string, times []int64, applied bool) {
	t.Helper()
	m, clock := memory(), int64(0)
	m.ServerTime = func(context.Context) time.Time { return time.UnixMilli(clock) }
	for _, s := range steps {
		var err error
		clock = s.clock
		if applied, err = m.Apply(t.Context(), &s.request); err != nil {
			t.Fatal(err)
		}
	}
	err := m.ReadRows(t.Context(), "t", sink.Range{}, func(r sink.Row) error {
		row = append(row, fmt.Sprintf("live %q gone %q", r.Version, r.Gone))
		for _, c := range r.Cells {
			row = append(row, fmt.Sprintf("%s:%s=%s", c.Family, c.Qualifier, c.Value))
			if c.Qualifier == serverColumn {
				times = append(times, c.Timestamp/1000)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return row, times, applied
}

func memory() *sinktest.Memory {
	m := &sinktest.Memory{}
	m.Create("t", "d", "e")
	return m
}

// randomRequest returns a guarded mutation, or any other request.
func randomRequest(random *rand.Rand) sink.Request {
	version := func() transform.Version {
		return transform.NewVersion(1, cdc.RootHop, cdc.SequenceOf(8+random.Uint64N(5)), transform.CountExact)
	}
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	if random.IntN(3) == 0 {
		m := transform.RowMutation{Table: "t", Row: "r", Version: version(), Families: []string{"d"}, Remove: random.IntN(2) == 0}
		for n := random.IntN(3); n > 0 && !m.Remove; n-- {
			m.Cells = append(m.Cells, transform.Cell{Family: "d", Qualifier: pick("x", "y"), Timestamp: random.Int64N(3) * 1000, Value: []byte(pick("1", "2"))})
		}
		return sink.Guard(m)
	}
	r := sink.Request{Table: "t", Row: "r", Refuse: sink.Predicate{
		Families: []string{pick("d", "e", sink.LiveFamily), pick(sink.GoneFamily, "none")}, Qualifier: pick("v", "x", serverColumn), AtLeast: version(),
	}}
	for range 1 + random.IntN(4) {
		family := pick("d", "e", sink.LiveFamily)
		op := sink.Op{Kind: sink.SetCell, Family: family, Qualifier: pick("v", "x"), Timestamp: random.Int64N(3) * 1000, Value: []byte(version())}
		if family == sink.LiveFamily {
			op.Qualifier = sink.VersionColumn
		}
		if family == "e" && random.IntN(2) == 0 && !slices.ContainsFunc(r.Ops, func(o sink.Op) bool { return o.Qualifier == serverColumn }) {
			op.Qualifier, op.Timestamp = serverColumn, sink.ServerTime
		}
		switch random.IntN(8) {
		case 0:
			op = sink.Op{Kind: sink.DeleteFamily, Family: family}
		case 1:
			op = sink.Op{Kind: sink.DeleteColumn, Family: family, Qualifier: op.Qualifier}
		}
		r.Ops = append(r.Ops, op)
	}
	return r
}

// serverColumn is the column in family e whose cells are all stamped by the server. Memory shows
// only the highest version, so the order of cells is only visible in other columns.
const serverColumn = "s"

// show lists the cells of a state as replay does.
func (p *program) show(s rowState) []string {
	if s.n == 0 {
		return nil
	}
	var live, gone string
	var row []string
	for i := range s.n {
		c := s.cells[i]
		switch at, value := p.columns[c.column], p.values[c.value]; {
		case p.live&(1<<c.column) != 0:
			live = max(live, value)
		case p.gone&(1<<c.column) != 0:
			gone = max(gone, value)
		default:
			row = append(row, fmt.Sprintf("%s:%s=%s", at.family, at.qualifier, value))
		}
	}
	return append([]string{fmt.Sprintf("live %q gone %q", live, gone)}, row...)
}
