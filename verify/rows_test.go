package verify

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Rows with one key in two target tables are two rows. A row of one table is not missing in the
// other, and if one of them differs, that says nothing about the other.
func TestRowsOfOneKeyInTwoTables(t *testing.T) {
	m := mapping(t, func(s *transform.Spec) { s.Rules[0].Writes[1].Table = "u" }, "k = 'a' | {id} > d & {id} > e")
	w := newWorld(t, m)
	i := item("r", "k=a", "v=1")
	w.source.put(i)
	w.load(noon, i)
	places := []Place{{Table: "t", Row: "r"}, {Table: "u", Row: "r", Keys: []attribute.Item{i}}}
	for _, damaged := range []string{"", "t", "u"} {
		if damaged != "" {
			w.damage(damaged, "r", set(map[string]string{"t": "d", "u": "e"}[damaged], "v", "2"))
		}
		looks, err := w.comparison().Look(t.Context(), places...)
		if err != nil {
			t.Fatal(err)
		}
		for _, look := range looks {
			if (len(look.Findings) > 0) != (damaged != "" && (look.Table == damaged || damaged == "u")) {
				t.Errorf("%q damaged: in %s %v", damaged, look.Table, brief(look.Findings))
			}
		}
		got, err := w.comparison().Check(t.Context(), nil, places...)
		if want := map[string]int{"": 2, "t": 1, "u": 0}[damaged]; err != nil || len(got.Equal) != want || len(got.Findings) != 2-want || want == 1 && got.Equal[0].Table != "u" {
			t.Errorf("%q damaged: equal %+v, found %v, %v", damaged, got.Equal, brief(got.Findings), err)
		}
	}
	// One of them changes before every check; the other is still equal.
	w.load(noon.Add(time.Second), i)
	w.apply(transform.Load(m, []attribute.Item{item("r", "k=a", "v=0")}, 8, noon).Rows[0])
	c := w.comparison()
	version := uint32(8)
	c.Applied = func(context.Context, time.Time) (bool, error) {
		version++
		w.apply(transform.Load(m, []attribute.Item{item("r", "k=a", "v=0")}, version, noon).Rows[0])
		return true, nil
	}
	w.apply(transform.Load(m, []attribute.Item{i}, 8, noon).Rows[1])
	if got, err := c.Check(t.Context(), nil, places...); err != nil || len(got.Equal) != 1 || got.Equal[0].Table != "u" || got.Differing() != 0 || got.InFlight != 0 {
		t.Errorf("equal %+v, %+v, %v", got.Equal, got.Counts, err)
	}
}

// Each item is read once for all rows that need it. An item that cannot be mapped is reported,
// whatever else the row holds.
func TestWhatALookReads(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{c}#{id} > d"))
	whole, bare := item("a", "c=1", "v=1"), item("b", "v=1")
	w.source.put(whole, bare)
	w.load(noon, whole)
	reads := 0
	w.source.fail = func(op string) error {
		if op == "Get" {
			reads++
		}
		return nil
	}
	for _, keys := range [][]attribute.Item{{whole, bare}, {bare, whole}, {bare, whole, bare, whole, {}}} {
		reads = 0
		looks, err := w.comparison().Look(t.Context(), Place{Table: "t", Row: "1#a", Keys: keys}, Place{Table: "t", Row: "1#a", Keys: keys[:1]})
		if err != nil || !looks[0].Unmapped || len(looks[0].Findings) > 0 || reads != 2 {
			t.Errorf("%d keys: %+v after %d reads, %v", len(keys), looks, reads, err)
		}
	}
}

// slowly is a source whose reads of single items take a while.
type slowly struct {
	*source
	read func(ctx context.Context) error
}

func (s slowly) Get(ctx context.Context, table string, keys attribute.Item) (attribute.Item, bool, error) {
	if err := s.read(ctx); err != nil {
		return attribute.Item{}, false, err
	}
	return s.source.Get(ctx, table, keys)
}

// The time of a look is the source's time after the last read of an item, however long the read,
// its repetition or its limit takes.
func TestTheTimeOfALook(t *testing.T) {
	const skew = time.Hour
	for name, slow := range map[string]func(c *Comparison, source *slowly){
		"read": func(_ *Comparison, source *slowly) {
			source.read = func(ctx context.Context) error { return task.Sleep(ctx, time.Minute) }
		},
		"read again": func(c *Comparison, source *slowly) {
			tries := 0
			source.read = func(context.Context) error {
				if tries++; tries == 1 {
					return errBroken
				}
				return nil
			}
			c.Retry = func(ctx context.Context, op func(context.Context) error) error {
				if op(ctx) == nil {
					return nil
				}
				return errors.Join(task.Sleep(ctx, time.Minute), op(ctx))
			}
		},
		"limited": func(c *Comparison, _ *slowly) {
			c.Pace = func(ctx context.Context, items int, _ float64, _ int) error {
				if items == 0 {
					return nil
				}
				return task.Sleep(ctx, time.Minute)
			}
		},
	} {
		in(t, func(ctx context.Context) {
			w := newWorld(t, mapping(t, nil, "{id} > d"))
			w.source.put(item("a"), item("b"))
			c := w.comparison()
			c.Now = func(ctx context.Context) time.Time { return task.Now(ctx).Add(skew) }
			source := &slowly{w.source, func(context.Context) error { return nil }}
			slow(c, source)
			c.Source = source
			var places []Place
			for _, id := range []string{"a", "b"} {
				places = append(places, Place{Table: "t", Row: id, Keys: []attribute.Item{item(id)}})
			}
			looks, err := c.Look(ctx, places...)
			if err != nil || len(looks) != 2 {
				t.Fatalf("%s: %d looks, %v", name, len(looks), err)
			}
			for _, look := range looks {
				if !look.At.Equal(noon.Add(skew + time.Minute)) {
					t.Errorf("%s: row %s was looked at at %s", name, look.Row, look.At)
				}
			}
		})
	}
}

// A change that is committed while a check reads its item is waited for. The row is not a
// difference, in whichever check that is.
func TestAChangeDuringALookIsWaitedFor(t *testing.T) {
	const single = Way("a check of the place")
	for _, during := range [][]int{{1}, {2}, {1, 2}, {1, 2, 3}} {
		for _, way := range []Way{Quiet, Live, single} {
			if way == single && during[0] != 1 {
				continue // its first look finds no difference
			}
			in(t, func(ctx context.Context) {
				w := newWorld(t, mapping(t, nil, "{id} > d"))
				image := func(n int) attribute.Item { return item("a", "v="+name(n)) }
				w.load(noon, image(0))
				var committed []time.Time
				applied, reads := 0, 0
				change := func(ctx context.Context) {
					w.source.put(image(len(committed) + 1))
					committed = append(committed, task.Now(ctx))
				}
				apply := func() {
					w.change(uint64(5+applied), image(applied), image(applied+1))
					applied++
				}
				if way != single {
					change(ctx) // in flight when the comparison begins
				}
				began := len(committed)
				c := w.comparison()
				c.Source = slowly{w.source, func(ctx context.Context) error {
					err := task.Sleep(ctx, time.Second)
					if reads++; slices.Contains(during, reads) {
						change(ctx)
					}
					return errors.Join(err, task.Sleep(ctx, time.Second))
				}}
				c.Applied = func(_ context.Context, to time.Time) (bool, error) {
					for applied < len(committed) && !committed[applied].After(to) {
						apply()
					}
					return true, nil
				}
				var counts Counts
				if way == single {
					got, err := c.Check(ctx, nil, Place{Table: "t", Row: "a", Keys: []attribute.Item{item("a")}})
					if counts = got.Counts; err != nil {
						t.Fatal(err)
					}
				} else {
					p, err := c.NewPlan(ctx, way, "", 0, []byte("key"))
					if err != nil {
						t.Fatal(err)
					}
					result, err := c.Compare(ctx, p, 1)
					if counts = result.Counts; err != nil {
						t.Fatal(err)
					}
				}
				if counts.Differing() != 0 || counts.InFlight != 0 || applied != began+len(during) {
					t.Errorf("%s, changed in looks %v: %+v, %d changes applied", way, during, counts, applied)
				}
			})
		}
	}
}

// An extra row is in the sample if its item is, whatever its own key is. A row without an item is
// sampled by its key. A pass for missing rows finds no extra ones, not even of its own items.
func TestSamplesOfFindings(t *testing.T) {
	c := &Comparison{Mapping: mapping(t, nil, "{id} > d"), Scope: Scope{Sample: 0.5}}
	r := (&Work{Comparison: c}).begin(t.Context(), Progress{})
	for n := range 40 {
		keys := item(name(n))
		for _, f := range []Finding{{Kind: Extra, Table: "t", Row: "same", Keys: keys}, {Kind: Foreign, Table: "t", Row: name(n)}} {
			want := c.sampled("t\x00" + name(n))
			if f.Keys.Exists() {
				want = c.sampled(c.Mapping.ItemKey(keys))
			}
			v := Verdict{Findings: []Finding{f}}
			if r.narrow(&v, Candidate{wants: backwards}); (len(v.Findings) == 1) != want {
				t.Errorf("%s of %d is in the sample: %t", f.Kind, n, !want)
			}
		}
		v := Verdict{Findings: []Finding{{Kind: Extra, Keys: keys}, {Kind: Missing, Keys: keys}}}
		r.narrow(&v, Candidate{Look: Look{Place: Place{Keys: []attribute.Item{keys}}}, wants: forwards})
		if len(v.Findings) != 1 || v.Findings[0].Kind != Missing {
			t.Errorf("forwards: %v", brief(v.Findings))
		}
	}
}

// An absent cell has no hash, unlike an empty one. A scope without a sample and a time is full.
func TestHashesAndScopes(t *testing.T) {
	if hashOf(nil) != "" || len(hashOf([]byte{})) != 16 || hashOf([]byte("a")) == hashOf([]byte{}) {
		t.Errorf("%q, %q", hashOf(nil), hashOf([]byte{}))
	}
	got := []bool{Scope{}.Full(), Scope{Sample: 0.1}.Full(), Scope{Since: noon}.Full(), Scope{Sample: 0.1, Since: noon}.Full()}
	if !slices.Equal(got, []bool{true, false, false, false}) {
		t.Errorf("%v", got)
	}
}

// A result says what was compared, how and why, and when, by the source's clock. Its findings are
// sorted, however many parts ran concurrently.
func TestWhatAResultSays(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	for n := range 20 {
		w.source.put(item(name(n)))
	}
	for _, atOnce := range []int{0, 8} {
		c := w.comparison()
		now := noon
		c.Now = func(context.Context) time.Time { now = now.Add(time.Second); return now }
		c.Scope.Sample = 0.999999
		p, err := c.NewPlan(t.Context(), Live, "why", 1<<50, []byte("key"))
		if err != nil || p.Way != Live || string(p.Key) != "key" {
			t.Fatalf("%+v, %v", p, err)
		}
		r, err := c.Compare(t.Context(), p, atOnce)
		if err != nil || r.Source != "S" || r.Scope != c.Scope || r.Way != Live || r.Why != "why" || !r.Began.Equal(noon.Add(time.Second)) || !r.Ended.Equal(now) || len(r.Blind) != 1 {
			t.Errorf("%d at once: %+v, %v", atOnce, r, err)
		}
		if len(r.Findings) != 20 || !slices.IsSortedFunc(r.Findings, func(a, b Finding) int { return strings.Compare(a.ID(), b.ID()) }) {
			t.Errorf("%d at once: %v", atOnce, brief(r.Findings))
		}
	}
}
