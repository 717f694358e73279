package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// shapes are mappings of every kind: one row per item, folded items, several addresses, and rules
// between which an item may move.
var shapes = map[string][]string{
	"plain":   {"{id} > d"},
	"merged":  {"{c}#{id} > d"},
	"folded":  {"k = 'a' | {id} > d", "k = 'b' | p{c} > e:{id}"},
	"several": {"k = 'a' | {id} > d & p{c} > e:{id}", "k = 'b' | q#{id} > e"},
}

// wrongRows returns the true result, computed naively: the rows that differ from the mapping of all
// items.
func (w *world) wrongRows() []string {
	type content struct {
		cells  map[string]string
		owners map[string]bool
	}
	want := map[string]content{}
	for _, i := range w.source.items {
		placed, err := w.m.Map(i, noon)
		if err != nil {
			continue
		}
		for _, r := range placed.Rows {
			if want[r.Row].cells == nil {
				want[r.Row] = content{map[string]string{}, map[string]bool{}}
			}
			want[r.Row].owners[r.Owner] = true
			for _, c := range r.Cells {
				want[r.Row].cells[c.Family+":"+c.Qualifier] = string(c.Value)
			}
		}
	}
	var wrong []string
	err := w.target.ReadRows(context.Background(), "t", sink.Range{}, func(row sink.Row) error {
		have := content{map[string]string{}, map[string]bool{}}
		for _, c := range row.Cells {
			if at := c.Family + ":" + c.Qualifier; c.Family != "x" && have.cells[at] == "" && slices.Contains(w.m.Managed("t"), c.Family) {
				have.cells[at] = string(c.Value)
			}
		}
		for _, owner := range sink.Alive(row) {
			have.owners[owner] = true
		}
		if !maps.Equal(have.cells, want[row.Key].cells) || !maps.Equal(have.owners, want[row.Key].owners) {
			wrong = append(wrong, row.Key)
		}
		delete(want, row.Key)
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	for key := range want {
		wrong = append(wrong, key)
	}
	slices.Sort(wrong)
	return wrong
}

// hurt damages the target without a change in the source.
func (w *world) hurt(r *rand.Rand) {
	var rows []sink.Row
	_ = w.target.ReadRows(context.Background(), "t", sink.Range{}, func(row sink.Row) error { rows = append(rows, row); return nil })
	row := rows[r.IntN(len(rows))]
	remove := func(family string) sink.Op { return sink.Op{Kind: sink.DeleteFamily, Family: family} }
	switch r.IntN(7) {
	case 0: // a row is removed
		w.damage("t", row.Key, remove("d"), remove("e"), remove(sink.LiveFamily), remove(sink.GoneFamily))
	case 1: // a family is emptied
		w.damage("t", row.Key, remove([]string{"d", "e"}[r.IntN(2)]))
	case 2: // versions are removed
		w.damage("t", row.Key, remove(sink.LiveFamily))
	case 3, 4: // a cell is changed, or appears
		if len(row.Cells) > 0 && r.IntN(2) == 0 {
			c := row.Cells[r.IntN(len(row.Cells))]
			c.Timestamp++
			w.damage("t", row.Key, sink.Op{Kind: sink.DeleteColumn, Family: c.Family, Qualifier: c.Qualifier}, set(c.Family, c.Qualifier, "hurt"))
		} else {
			w.damage("t", row.Key, set([]string{"d", "e", "x"}[r.IntN(3)], "new", "hurt"))
		}
	case 5: // an item that does not exist
		id := name(90 + r.IntN(9))
		w.load(noon, item(id, "k="+[]string{"a", "b"}[r.IntN(2)], "c=1", "v=9"))
	case 6: // an older image
		w.load(noon.Add(time.Hour), item(name(r.IntN(20)), "k="+[]string{"a", "b"}[r.IntN(2)], "c="+fmt.Sprint(r.IntN(3)), "v=old"))
	}
}

// Both ways find exactly the rows that differ from the mapping of all items, for mappings of every
// kind.
func TestFindsTheTruth(t *testing.T) {
	for shape, rules := range shapes {
		t.Run(shape, func(t *testing.T) {
			m := mapping(t, nil, rules...)
			for seed := range uint64(60) {
				r := random(seed)
				w := newWorld(t, m)
				for n := range 20 {
					i := item(name(n), "k="+[]string{"a", "b"}[r.IntN(2)], fmt.Sprintf("c=%d", r.IntN(3)), fmt.Sprintf("v=%d", r.IntN(3)))
					w.source.put(i)
					w.load(noon, i)
				}
				for range r.IntN(3) {
					keys := item(name(r.IntN(20)))
					id, _ := keys.Get("id")
					change := cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(9), Keys: keys, Old: w.source.items[id.Text()], Time: noon}
					if !change.Old.Exists() {
						continue
					}
					for _, row := range transform.Fold(m, []cdc.Change{change}, transform.Stamp{Generation: 7, Hop: 500000}).Rows {
						w.apply(row)
					}
					delete(w.source.items, id.Text())
				}
				for range r.IntN(4) {
					w.hurt(r)
				}
				want := w.wrongRows()
				for _, way := range []Way{Quiet, Live} {
					result, err := w.compare(w.comparison(), way)
					if err != nil {
						t.Fatal(err)
					}
					var rows []string
					seen := map[string]bool{}
					for _, f := range result.Findings {
						rows = append(rows, f.Row)
						if seen[f.ID()] {
							t.Errorf("seed %d, %s: found twice: %v", seed, way, brief([]Finding{f}))
						}
						seen[f.ID()] = true
					}
					slices.Sort(rows)
					if got := slices.Compact(rows); !slices.Equal(got, want) || result.Clean() != (len(want) == 0) || int(result.Differing()) != len(result.Findings) {
						t.Fatalf("seed %d, %s: %d differ in %v, want %v:\n%s", seed, way, result.Differing(), got, want, strings.Join(brief(result.Findings), "\n"))
					}
				}
			}
		})
	}
}

func TestKindsOfFindings(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	for _, id := range []string{"changed", "foreign", "gone", "surplus", "unversioned"} {
		w.load(noon, item(id, "v=1"))
		w.source.put(item(id, "v=1"))
	}
	w.source.put(item("lost", "v=1"))
	delete(w.source.items, "gone")
	w.damage("t", "changed", sink.Op{Kind: sink.DeleteColumn, Family: "d", Qualifier: "v"}, set("d", "v", "2"))
	w.damage("t", "surplus", set("d", "w", "2"))
	w.damage("t", "unversioned", sink.Op{Kind: sink.DeleteFamily, Family: sink.LiveFamily})
	w.damage("t", "somebody's", set("d", "v", "2"))
	w.damage("t", "elsewhere", set("x", "v", "2"))
	want := []string{"different changed d:v", "different surplus d:w", "different unversioned", "extra gone d:id,d:v", "foreign somebody's d:v", "missing lost d:id,d:v"}
	for _, way := range []Way{Quiet, Live} {
		result, err := w.compare(w.comparison(), way)
		if got := brief(result.Findings); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", way, err, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	owned := w.comparison()
	owned.Owned = true
	if result, err := w.compare(owned, Quiet); err != nil || result.Extra != 2 || result.Foreign != 0 {
		t.Errorf("where every row is ours: %v, %+v", err, result.Counts)
	}
}

// A read that fails midway is an error. The result names the part that was not read, and is never
// clean.
func TestH55BrokenReadIsNotTheEnd(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	for n := range 30 {
		w.source.put(item(name(n)))
		w.load(noon, item(name(n)))
	}
	for _, way := range []Way{Quiet, Live} {
		for broken := range 40 {
			reads := 0
			w.source.fail = func(string) error {
				if reads++; reads > broken {
					return errBroken
				}
				return nil
			}
			result, err := w.compare(w.comparison(), way)
			if reads > broken && (!errors.Is(err, errBroken) || result.Clean() || len(result.Unread) == 0) {
				t.Fatalf("%s, broken after %d reads: %v, clean %v, unread %v", way, broken, err, result.Clean(), result.Unread)
			}
			if reads <= broken && !result.Clean() {
				t.Fatalf("%s: %v, %+v", way, err, result)
			}
		}
	}
}

// record is what a part has saved, as the ledger would hold it.
type record struct {
	*testing.T
	at      Progress
	found   []Finding
	waiting []json.RawMessage
	sums    [][]byte
}

func (r *record) save(_ context.Context, p Progress, since News) error {
	r.at, r.found = p, append(r.found, since.Found...)
	if since.Instead {
		r.waiting = nil
	}
	for _, c := range since.Waiting {
		text, err := json.Marshal(c)
		if err != nil {
			r.Fatal(err)
		}
		r.waiting = append(r.waiting, text)
	}
	if since.Sums != nil {
		r.sums = since.Sums.Pieces(1 << 20)
	}
	return nil
}

// resume returns where another owner begins.
func (r *record) resume(w *Work) Progress {
	p := r.at
	for _, text := range r.waiting {
		var c Candidate
		if err := json.Unmarshal(text, &c); err != nil {
			r.Fatal(err)
		}
		p.Waiting = append(p.Waiting, c)
	}
	for _, piece := range r.sums {
		if err := w.Sums.AddPiece(piece, false); err != nil {
			r.Fatal(err)
		}
	}
	return p
}

// A part that is interrupted at any read, once or at every tenth read, counts nothing twice and loses
// nothing, whichever rows wait for another check. Its sums are those of one run.
func TestH56ResumedPartCountsOnce(t *testing.T) {
	for _, c := range []struct {
		sums       bool
		candidates int
	}{{false, 2}, {false, 9}, {true, 2}, {true, 100}} {
		play := func(broken, each int) (end Counts, found []string, sums [][]byte, reads int) {
			in(t, func(ctx context.Context) {
				w := newWorld(t, mapping(t, nil, "{id} > d"))
				for n := range 40 {
					w.source.put(item(name(n), "v=1"))
					if n%3 > 0 {
						w.load(noon, item(name(n), "v=1"))
					}
				}
				kept := &record{T: t}
				for number := uint64(5); ; {
					part := &Work{Comparison: w.comparison(), Look: true, Save: kept.save}
					if c.sums {
						part.Sums = NewSums([]byte("key"))
					}
					part.Bounds.Candidates = c.candidates
					part.Pace = func(ctx context.Context, items int, units float64, _ int) error {
						return task.Sleep(ctx, 90*time.Second)
					}
					part.Applied = func(context.Context, time.Time) (bool, error) {
						if reads++; reads == broken || reads > broken && each > 0 && (reads-broken)%each == 0 {
							return false, errBroken
						}
						number++
						w.change(number, item("i03", "v=0"), item("i03", "v="+fmt.Sprint(number))) // its version rises
						return true, nil
					}
					w.source.fail = func(string) error {
						if reads++; reads == broken || reads > broken && each > 0 && (reads-broken)%each == 0 {
							return errBroken
						}
						return nil
					}
					done, more, err := part.source(ctx, 0, 1, kept.resume(part))
					if err != nil {
						continue
					}
					if end, found = done.Counts, brief(append(kept.found, more...)); c.sums {
						sums = part.Sums.Pieces(1 << 20)
					}
					return
				}
			})
			return end, found, sums, reads
		}
		whole, all, sums, reads := play(0, 0)
		if len(all) != 13 || whole.Missing != 13 || reads < 40 {
			t.Fatalf("%+v: %+v, %d found, %d reads", c, whole, len(all), reads)
		}
		for broken := 1; broken <= reads; broken++ {
			for _, each := range []int{0, 10 * c.candidates} {
				end, found, again, _ := play(broken, each)
				if end != whole || !slices.Equal(found, all) || !slices.EqualFunc(again, sums, bytes.Equal) {
					t.Errorf("%+v, broken at read %d, each %d: %+v, want %+v; found %v", c, broken, each, end, whole, found)
				}
			}
		}
	}
}

// Checksums do not depend on the order of rows, do not cancel out, and have many bits.
func TestH96SumsOfCells(t *testing.T) {
	put := func(s *Sums, row string, cells ...transform.Cell) {
		s.put(&transform.RowMutation{Table: "t", Row: row, Cells: cells}, false)
	}
	a := transform.Cell{Family: "d", Qualifier: "a", Timestamp: 2, Value: []byte("1")}
	b := transform.Cell{Family: "d", Qualifier: "b", Timestamp: 1, Value: []byte("2")}
	one, other := NewSums([]byte("k")), NewSums([]byte("k"))
	put(one, "r", a, b)
	put(one, "s", b)
	put(other, "s", b)
	put(other, "r", b, a)
	other.Subtract(one)
	if n := other.Differing(false).Len(); n != 0 {
		t.Errorf("another order makes %d buckets differ", n)
	}
	for _, cells := range [][]transform.Cell{{a, a}, {}, {{Family: "da", Value: []byte("1")}}, {{Family: "d", Qualifier: "a1"}}, {{Family: "d", Qualifier: "a", Value: []byte("12")}}} {
		doubled, single := NewSums([]byte("k")), NewSums([]byte("k"))
		put(doubled, "r", append(cells, a)...)
		put(single, "r", a)
		doubled.Subtract(single)
		if want := min(len(cells), 1); doubled.Differing(false).Len() != want || doubled.Differing(true).Len() != 0 {
			t.Errorf("%v beside the cell: %d buckets differ, want %d", cells, doubled.Differing(false).Len(), want)
		}
	}
	pieces := one.Pieces(entryBytes)
	back := NewSums([]byte("k"))
	for _, piece := range pieces {
		if err := back.AddPiece(piece, true); err != nil {
			t.Fatal(err)
		}
	}
	back.Add(one)
	if n := back.Differing(false).Len(); n != 0 || len(pieces) != 2 {
		t.Errorf("%d pieces leave %d buckets", len(pieces), n)
	}
	picked := one.Differing(false)
	data, _ := picked.MarshalBinary()
	var read Picked
	if err := read.UnmarshalBinary(data); err != nil || read != *picked {
		t.Errorf("the buckets do not survive: %v", err)
	}
}
