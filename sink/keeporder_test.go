package sink_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// writing is one process that writes mutations one after the other, each with reads and requests.
type writing struct {
	name string
	rows []transform.RowMutation
	// mayEnd: it may end or stall at any point.
	mayEnd bool
}

// progressOf is the progress of a process: its mutation and, after a read, its next request.
type progressOf struct {
	at     int
	looked bool
	sent   sink.Request
}

// everyOrder tries every order of all reads and requests of some processes, and of one late
// repetition of each request.
type everyOrder struct {
	t         *testing.T
	processes []writing
	want      string
	seen      map[string]bool
	complete  int
}

// tried is the state that a sequence of steps has reached.
type tried struct {
	table *sinktest.Memory
	done  []progressOf
	late  []sink.Request // sent requests that may be executed once more
	path  []string
}

func (w *tried) after(step string) *tried {
	return &tried{table: w.table.Clone(), done: slices.Clone(w.done), late: slices.Clone(w.late), path: append(slices.Clip(w.path), step)}
}

// step makes a process read the row, or send the request that it made from its last read.
func (o *everyOrder) step(w *tried, process int) {
	p := &w.done[process]
	m := o.processes[process].rows[p.at]
	if m.Remove {
		p.sent, p.looked = sink.Guard(m), true
	}
	if !p.looked {
		row, err := w.table.Look(context.Background(), &m, 0)
		if err != nil {
			o.t.Fatal(err)
		}
		if p.sent, p.looked = sink.KeepOlder(row, m); !p.looked {
			p.at++
		}
		return
	}
	w.late = append(w.late, p.sent)
	if o.apply(w, &p.sent) || m.Remove {
		p.at++
	}
	p.looked = false // a refused request is followed by another read
}

func (o *everyOrder) apply(w *tried, r *sink.Request) bool {
	applied, err := w.table.Apply(context.Background(), r)
	if err != nil {
		o.t.Fatal(err)
	}
	return applied
}

// requestName distinguishes requests of one version by the row's version for which they were made.
func requestName(r *sink.Request) string {
	return fmt.Sprintf("%s>%s/%d", r.Ops[len(r.Ops)-1].Value, r.Refuse.AtLeast, len(r.Ops))
}

// key is equal for states with the same future.
func (o *everyOrder) key(w *tried) string {
	var b strings.Builder
	for _, row := range readAll(o.t, w.table, "t") {
		b.WriteString(row.Key + " " + string(row.Version) + " " + string(row.Gone))
		for _, c := range row.Cells {
			fmt.Fprintf(&b, " %s=%s@%d", c.Qualifier, c.Value, c.Timestamp)
		}
		b.WriteByte('\n')
	}
	for i := range w.done {
		if p := &w.done[i]; p.looked {
			fmt.Fprintf(&b, "%d %s\n", p.at, requestName(&p.sent))
		} else {
			fmt.Fprintf(&b, "%d\n", p.at)
		}
	}
	var late []string
	for i := range w.late {
		late = append(late, requestName(&w.late[i]))
	}
	slices.Sort(late) // a third execution of a request changes nothing
	return b.String() + strings.Join(slices.Compact(late), "\n")
}

func (o *everyOrder) search(w *tried) {
	key := o.key(w)
	if o.seen[key] || o.t.Failed() {
		return
	}
	o.seen[key] = true
	finished := true
	for i, p := range w.done {
		if p.at < len(o.processes[i].rows) {
			finished = finished && o.processes[i].mayEnd
			next := w.after(o.processes[i].name)
			o.step(next, i)
			o.search(next)
		}
	}
	if finished {
		o.complete++
		if got := liveRows(o.t, w.table); got != o.want {
			o.t.Errorf("after %q:\n got %s\nwant %s", w.path, got, o.want)
		}
	}
	for i := range w.late {
		next := w.after("again " + requestName(&w.late[i]))
		next.late = slices.Delete(next.late, i, i+1)
		o.apply(next, &w.late[i])
		o.search(next)
	}
}

func liveRows(t testing.TB, table sink.Reader) string {
	var out []string
	for _, r := range readAll(t, table, "t") {
		if r.Version != "" {
			out = append(out, r.Key+": "+cellsOf(t, table, r.Key))
		}
	}
	return strings.Join(out, "; ")
}

// H04, H31, H70: a worker lost its lease, another one took over from an older checkpoint, a load is
// ahead of the stream, and the network repeats requests. In any order of their reads and requests,
// once the newer worker and the load are done, the row holds each value at its time, and keeps
// doing so.
func TestH04_H31_H70_KeptInEveryOrder(t *testing.T) {
	m, err := transform.New(transform.Spec{Source: "S", Table: "t", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "k"}}, KeepVersions: true, Drop: []string{"pk"}})
	if err != nil {
		t.Fatal(err)
	}
	image := func(text string) attribute.Item { // "": no item; a=1 b=2
		if text == "" {
			return attribute.Item{}
		}
		list := []attribute.Attribute{{Name: "pk", Value: attribute.String("p")}}
		for word := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(word, "=")
			list = append(list, attribute.Attribute{Name: name, Value: attribute.String(value)})
		}
		return attribute.NewItem(list)
	}
	for name, c := range map[string]struct {
		images  []string // after each change
		seconds []int64
		raise   bool
		want    string
	}{
		"values change":            {[]string{"a=1 b=1", "a=2 b=1", "a=2 b=2"}, []int64{100, 101, 102}, false, "p: a=2@101 a=1@100 b=2@102 b=1@100"},
		"within a second":          {[]string{"a=1 b=1", "a=2", "a=1 b=2"}, []int64{100, 101, 101}, false, "p: a=1@100 b=2@101"},
		"removed and made again":   {[]string{"a=1", "", "a=2 b=1"}, []int64{100, 101, 102}, false, "p: a=2@102 b=1@102"},
		"removed":                  {[]string{"a=1", "a=2", ""}, []int64{100, 101, 102}, false, ""},
		"there and back":           {[]string{"a=1 b=1", "a=2 c=1", "a=1 b=1"}, []int64{100, 101, 102}, false, "p: a=1@102 a=2@101 a=1@100 b=1@102"},
		"the generation is raised": {[]string{"a=1 b=1", "a=2 c=1", "a=3 c=1"}, []int64{100, 101, 102}, true, "p: a=3@102 a=2@101 a=1@100 c=1@101"},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []cdc.Change
			before := ""
			for i, after := range c.images {
				x := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: time.Unix(c.seconds[i], 0),
					Keys: attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("p")}}), Old: image(before), New: image(after)}
				switch {
				case before == "":
					x.Event = cdc.Insert
				case after == "":
					x.Event = cdc.Remove
				}
				changes, before = append(changes, x), after
			}
			generation := uint32(1)
			if c.raise {
				generation = 2
			}
			pages := func(generation uint32, cuts ...int) (rows []transform.RowMutation) {
				for i := 1; i < len(cuts); i++ {
					rows = append(rows, transform.Fold(m, changes[cuts[i-1]:cuts[i]], transform.Stamp{Generation: generation, Hop: 500_000}).Rows...)
				}
				return rows
			}
			states, complete := 0, 0
			cutsOf := [][]int{{0, 1, 3}, {0, 2, 3}} // and {0, 3}, and {0, 1, 2, 3}, which take a minute with all loads
			if c.raise {
				cutsOf = cutsOf[1:]
			}
			for ahead, found := range c.images[1:] {
				ahead++
				load := writing{name: "load"}
				if found != "" {
					load.rows = transform.Load(m, []attribute.Item{image(found)}, generation, time.Unix(c.seconds[ahead]-2, 0)).Rows
				}
				for _, cuts := range cutsOf {
					o := &everyOrder{t: t, want: c.want, seen: map[string]bool{}, processes: []writing{
						{name: "old worker", rows: pages(1, 0, 1, 2), mayEnd: true}, {name: "worker", rows: pages(generation, cuts...)}, load,
					}}
					begin := &tried{table: &sinktest.Memory{}, done: make([]progressOf, len(o.processes))}
					begin.table.Create("t", "k")
					o.search(begin)
					states, complete = states+len(o.seen), complete+o.complete
				}
			}
			t.Logf("%d states, %d of them complete", states, complete)
		})
	}
}
