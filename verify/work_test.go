package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// counting counts the reads of a target.
type counting struct {
	Target
	scans, asked int
	since        int64
}

func (c *counting) ReadRows(ctx context.Context, table string, r sink.Range, f func(sink.Row) error) error {
	c.scans++
	return c.Target.ReadRows(ctx, table, r, f)
}

func (c *counting) ReadSet(ctx context.Context, table string, rows []string, f func(sink.Row) error) error {
	c.asked += len(rows)
	return c.Target.ReadSet(ctx, table, rows, f)
}

func (c *counting) ReadSince(ctx context.Context, table string, r sink.Range, micros int64, f func(string) error) error {
	c.since = micros
	return c.Target.ReadSince(ctx, table, r, micros, f)
}

// equal returns a world with a number of equal items, and one without an address.
func equal(t *testing.T, n int, rules ...string) *world {
	w := newWorld(t, mapping(t, nil, rules...))
	for i := range n {
		one := item(name(i), "c=1", "v=1")
		w.source.put(one)
		w.load(noon, one)
	}
	w.source.put(item("nowhere", "v=1"))
	return w
}

// A comparison counts and paces what it reads: each item and row once, in both ways, and the read
// units of every pass.
func TestCountsOfAComparison(t *testing.T) {
	for _, way := range []Way{Quiet, Live} {
		for _, differs := range []bool{false, true} {
			w := equal(t, 30, "{c}#{id} > d")
			if differs {
				w.damage("t", "1#i07", set("d", "w", "2"))
			}
			c := w.comparison()
			target := &counting{Target: w.target}
			c.Target = target
			var items, rows int
			var units float64
			c.Pace = func(_ context.Context, i int, u float64, r int) error {
				items, units, rows = items+i, units+u, rows+r
				return nil
			}
			result, err := w.compare(c, way)
			if err != nil || result.Items != 31 || result.Unmapped != 1 || result.Compared != 30 || result.Rows != 30 || result.Different != map[bool]int64{true: 1}[differs] {
				t.Errorf("%s: %+v, %v", way, result.Counts, err)
			}
			switch {
			case !differs && way == Quiet:
				if items != 31 || units != result.Units || rows != 30 || result.Units != float64(w.source.scans) || result.Bytes != int64(4096*w.source.scans) || target.asked != 0 {
					t.Errorf("paced %d items, %g units, %d rows; %+v; asked for %d rows", items, units, rows, result.Counts, target.asked)
				}
			case differs && way == Quiet && (target.asked != 4 || w.source.scans%2 != 0): // both directions, items again, and the second check
				t.Errorf("of one row that differs %d were looked at, after %d scans", target.asked, w.source.scans)
			case way == Live && (units > result.Units != differs || items > 31 != differs || rows > 60 != differs): // single reads, too
				t.Errorf("live: paced %d items, %g units, %d rows", items, units, rows)
			}
			failed := errors.New("no")
			c.Pace = func(context.Context, int, float64, int) error { return failed }
			if result, err := w.compare(c, way); !errors.Is(err, failed) || result.Clean() {
				t.Errorf("a pace that ends: %v", err)
			}
		}
	}
}

// If both sides are equal, so are their sums. Neither side includes tombstones, witnesses, rows
// outside the sample or, in the live way, rows that another source shares.
func TestEqualSidesHaveEqualSums(t *testing.T) {
	for shape, rules := range shapes {
		for _, merged := range []bool{false, true} {
			w := newWorld(t, mapping(t, func(s *transform.Spec) { s.Merged = merged }, rules...))
			for n := range 20 {
				i := item(name(n), "k="+[]string{"a", "b"}[n%2], "c=1", "v=1")
				w.load(noon, i)
				if n < 5 {
					w.change(uint64(n+1), i, attribute.Item{})
				} else {
					w.source.put(i)
				}
			}
			witness := []sink.Op{set(sink.LiveFamily, "v", "1")}
			if !merged {
				witness = append(witness, set("d", "v", "1"))
			}
			w.damage("t", transform.WitnessPrefix+"S", witness...)
			shared := merged && (shape == "folded" || shape == "several")
			if shared {
				other := &world{T: t, source: w.source, target: w.target, m: mapping(t, func(s *transform.Spec) { s.Source, s.Merged = "Other", true }, rules...)}
				other.load(noon, item("other", "k=b", "c=1"), item("other2", "k=a", "c=1"))
			}
			for _, way := range []Way{Quiet, Live} {
				for _, share := range []float64{0, 0.5} {
					c := w.comparison()
					if c.Scope.Sample = share; way == Quiet && (share > 0 || shared) {
						continue // samples and shared rows are checked one by one
					}
					p, err := c.NewPlan(t.Context(), way, "", 0, []byte("key"))
					if err != nil {
						t.Fatal(err)
					}
					sums := NewSums(p.Key)
					for index := range p.Parts(1, 0) {
						work := p.Work(c, 1, nil)
						if _, found, err := p.Run(t.Context(), work, 1, index, Progress{}); err != nil || len(found) > 0 {
							t.Fatal(brief(found), err)
						}
						if p.subtracts(index) {
							sums.Subtract(work.Sums)
						} else {
							sums.Add(work.Sums)
						}
					}
					if n := sums.Differing(way == Live).Len(); n != 0 {
						t.Errorf("%s, merged %t, %s of %g: %d buckets differ", shape, merged, way, share, n)
					}
				}
			}
		}
	}
}

// Each row of a range is read once, whatever bytes follow its key. A page ends after fifty times
// its rows even if no row needs a check.
func TestPagesOfARange(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	for n := range 30 {
		i := item("a"+string(slices.Repeat([]byte{0}, n)), "v=1")
		w.source.put(i)
		w.load(noon, i)
	}
	for _, rows := range []int{1, 7} {
		c := w.comparison()
		c.Bounds.PageRows = rows
		end, _, err := (&Work{Comparison: c, Look: true}).target(t.Context(), "t", sink.Range{}, Progress{})
		if err != nil || end.Position != nil {
			t.Errorf("%+v, %v", end, err)
		}
		c.Scope.Since = noon.Add(-time.Hour)
		if end, _, err = (&Work{Comparison: c, Look: true}).target(t.Context(), "t", sink.Range{}, Progress{}); err != nil || end.Rows != 30 || end.Compared != 30 {
			t.Errorf("pages of %d: %+v, %v", rows, end, err)
		}
	}
	c := w.comparison()
	target := &counting{Target: w.target}
	c.Target, c.Bounds.PageRows = target, 1
	work := &Work{Comparison: c, Sums: NewSums(nil)}
	for n := range 100 {
		w.load(noon, item(fmt.Sprint("b", n)))
	}
	end, _, err := work.target(t.Context(), "t", sink.Range{}, Progress{})
	if err != nil || end.Rows != 130 || target.scans != 3 {
		t.Errorf("%d reads, %+v, %v", target.scans, end, err)
	}
	for since, want := range map[time.Time]int64{noon.Add(1999 * time.Microsecond): noon.UnixMicro() + 1000, time.UnixMicro(-5000): 0} {
		c.Scope.Since = since // cells are dated in milliseconds
		if _, _, err := (&Work{Comparison: c, Look: true}).target(t.Context(), "t", sink.Range{}, Progress{}); err != nil || target.since != want {
			t.Errorf("since %s: read since %d, %v", since, target.since, err)
		}
	}
}

// in runs a test in virtual time.
func in(t *testing.T, play func(ctx context.Context)) {
	t.Helper()
	if err := virtual.NewWorld(1, noon, false).Run(1000*time.Hour, play); err != nil {
		t.Fatal(err)
	}
}

// Progress is saved between pages, and before each check of waiting rows. Waiting rows are judged
// after five minutes at the latest, and saved findings are not returned again. Few sums are saved as
// often, and many every five minutes.
func TestH56_SavesOfAPart(t *testing.T) {
	for every, want := range map[int]struct{ saves, saved, left int }{0: {9, 0, 0}, 70: {9, 1, 0}, 7: {10, 5, 5}} {
		in(t, func(ctx context.Context) {
			w := newWorld(t, mapping(t, nil, "{id} > d"))
			for n := range 70 {
				if w.source.put(item(name(n), "v=1")); every == 0 || n%every > 0 {
					w.load(noon, item(name(n), "v=1"))
				}
			}
			c := w.comparison()
			c.Pace = func(_ context.Context, items int, units float64, _ int) error {
				if items == 7 && units == 1 { // a page of the scan
					return task.Sleep(ctx, time.Minute)
				}
				return nil
			}
			saves, saved := 0, 0
			work := &Work{Comparison: c, Look: true}
			work.Save = func(_ context.Context, p Progress, since News) error {
				if saves, saved = saves+1, saved+len(since.Found); (p.Position == nil) != p.Read || int(p.Missing) != saved || since.Sums != work.Sums {
					t.Errorf("every %d: saved %+v with %d findings in all", every, p.Counts, saved)
				}
				return nil
			}
			_, found, err := work.source(ctx, 0, 1, Progress{})
			if err != nil || saves != want.saves || saved != want.saved || len(found) != want.left {
				t.Errorf("every %d: %d saves with %d findings, %d left, %v", every, saves, saved, len(found), err)
			}
			saves, saved = 0, 0
			work.Sums = NewSums(nil)
			if _, _, err := work.source(ctx, 0, 1, Progress{}); err != nil || saves != want.saves {
				t.Errorf("every %d: sums were saved %d times, %v", every, saves, err)
			}
			saves, saved = 0, 0
			from := Progress{Counts: Counts{Compared: 2 * Buckets}}
			if _, _, err := work.source(ctx, 0, 1, from); err != nil || saves != map[int]int{0: 1, 70: 1, 7: 2}[every] {
				t.Errorf("every %d: many sums were saved %d times, %v", every, saves, err)
			}
		})
	}
}

// A save has only the news since the previous completed save. Rows of earlier saves are replaced
// once, in the save after their check. So the rows that the saves name are the waiting rows.
func TestTheNewsOfEachSave(t *testing.T) {
	in(t, func(ctx context.Context) {
		w := newWorld(t, mapping(t, nil, "{id} > d"))
		row := func(id string) Candidate {
			w.source.put(item(id, "v=1"))
			looks, err := w.comparison().Look(ctx, Place{Table: "t", Row: id, Keys: []attribute.Item{item(id)}})
			if err != nil {
				t.Fatal(err)
			}
			return Candidate{Look: looks[0], wants: everything}
		}
		failed := false
		var got string
		owned := []Candidate{row("a")} // what another owner would resume with
		work := &Work{Comparison: w.comparison(), Look: true, Sums: NewSums(nil)}
		work.Save = func(_ context.Context, _ Progress, since News) error {
			if got = fmt.Sprintf("found %q waiting %q instead %t sums %t", brief(since.Found), waiting(since.Waiting), since.Instead, since.Sums != nil); failed {
				return errBroken
			}
			if since.Instead {
				owned = nil
			}
			owned = append(owned, since.Waiting...)
			return nil
		}
		r := work.begin(ctx, Progress{Waiting: slices.Clone(owned)})
		suspect := func(ids ...string) func() error {
			return func() (err error) {
				for _, id := range ids {
					err = errors.Join(err, r.suspect(ctx, row(id)))
				}
				return err
			}
		}
		nothing := func() error { return nil }
		checks := func() error { return r.confirm(ctx, within) }
		for _, step := range []struct {
			what  string
			do    func() error
			fails bool
			want  string
		}{
			{"resumed", nothing, false, `found [] waiting "" instead false sums false`},
			{"two more rows wait", suspect("b", "c"), false, `found [] waiting "b c" instead false sums false`},
			{"another row waits", suspect("d"), false, `found [] waiting "d" instead false sums false`},
			{"the sums have changed", func() error { r.summed = true; return nil }, true, `found [] waiting "" instead false sums true`},
			{"that save failed", nothing, false, `found [] waiting "" instead false sums true`},
			{"nothing has changed", nothing, false, `found [] waiting "" instead false sums false`},
			{"all are checked", checks, true, `found ["missing a d:id,d:v" "missing b d:id,d:v" "missing c d:id,d:v" "missing d d:id,d:v"] waiting "" instead true sums false`},
			{"that save failed, and a row waits", suspect("e"), false,
				`found ["missing a d:id,d:v" "missing b d:id,d:v" "missing c d:id,d:v" "missing d d:id,d:v"] waiting "e" instead true sums false`},
			{"a row waits beside a saved one", suspect("f"), false, `found [] waiting "f" instead false sums false`},
			{"nothing follows", nothing, false, `found [] waiting "" instead false sums false`},
			{"they are checked, and a row waits", func() error { return errors.Join(checks(), suspect("g")()) }, false, `found ["missing e d:id,d:v" "missing f d:id,d:v"] waiting "g" instead true sums false`},
			{"the last row waits", suspect("h"), false, `found [] waiting "h" instead false sums false`},
		} {
			if err := step.do(); err != nil {
				t.Fatal(step.what, err)
			}
			failed = step.fails
			if err := r.store(ctx); (err != nil) != failed || got != step.want {
				t.Errorf("%s: %s, want %s; %v", step.what, got, step.want, err)
			}
			if !failed && waiting(owned) != waiting(r.waiting) {
				t.Errorf("%s: another owner resumes with %q instead of %q", step.what, waiting(owned), waiting(r.waiting))
			}
		}
	})
}

// The second check waits until changes committed before the last first check are applied, and then
// for Settle, at most for Patience. A worker that is asked to stop does not wait.
func TestTheSecondLookWaits(t *testing.T) {
	in(t, func(ctx context.Context) {
		w := newWorld(t, mapping(t, nil, "{id} > d"))
		for n := range 10 {
			w.source.put(item(name(n)))
		}
		c := w.comparison()
		c.Settle = time.Minute
		attempts := 0
		w.source.fail = func(op string) error {
			if op == "Scan" {
				if attempts++; attempts == 2 {
					return errBroken
				}
			}
			return nil
		}
		c.Retry = func(ctx context.Context, op func(ctx context.Context) error) error {
			for op(ctx) != nil {
				_ = task.Sleep(ctx, time.Hour)
			}
			return nil
		}
		var to time.Time
		var asked, applied time.Duration
		times := 0
		c.Applied = func(ctx context.Context, at time.Time) (bool, error) {
			times, to, asked = times+1, at, task.Mono(ctx)
			if times == 3 {
				applied = asked
			}
			return times == 3, nil
		}
		c.Pace = func(_ context.Context, items int, units float64, _ int) error {
			if items > 1 && units == 1 { // a page of the scan
				return task.Sleep(ctx, time.Minute)
			}
			return nil
		}
		end, found, err := (&Work{Comparison: c, Look: true}).source(ctx, 0, 1, Progress{})
		// Two pages are read, the second one in its second attempt, an hour late.
		if err != nil || len(found) != 10 || end.Missing != 10 || times != 3 || !to.Equal(noon.Add(time.Hour+time.Minute)) || task.Mono(ctx)-applied < time.Minute {
			t.Errorf("asked %d times up to %s, %d found %s later, %v", times, to, len(found), task.Mono(ctx)-applied, err)
		}
		c.Patience = time.Hour
		c.Applied = func(context.Context, time.Time) (bool, error) { return false, nil }
		began := task.Mono(ctx)
		var late *NotApplied
		if _, err := c.Check(ctx, nil, Place{Table: "t", Row: "i01", Keys: []attribute.Item{item("i01")}}); !errors.As(err, &late) || late.Waited < time.Hour || task.Mono(ctx)-began > 2*time.Hour {
			t.Errorf("after %s: %v", task.Mono(ctx)-began, err)
		}
		drain, stop := context.WithCancel(ctx)
		c.Pace = nil
		c.Applied = func(context.Context, time.Time) (bool, error) { stop(); return true, nil }
		began = task.Mono(ctx)
		if _, err := c.Check(ctx, drain, Place{Table: "t", Row: "i01", Keys: []attribute.Item{item("i01")}}); !errors.Is(err, ErrDrained) || task.Mono(ctx) != began {
			t.Errorf("drained after %s: %v", task.Mono(ctx)-began, err)
		}
	})
}

// A row is checked at most three more times. Places whose rows changed or differ are not equal. A
// row whose version rose at every check is not judged.
func TestCheckOfPlaces(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	ids := []string{"equal", "flies", "late", "moves", "rises", "wrong"}
	for _, id := range ids {
		w.source.put(item(id, "v=1"))
	}
	w.load(noon, item("equal", "v=1"), item("wrong", "v=0"), item("moves", "v=0"), item("rises", "v=0"))
	w.timed(item("flies", "v=0"))
	w.timed(item("late", "v=0"))
	c := w.comparison()
	rounds := 0
	c.Applied = func(context.Context, time.Time) (bool, error) {
		rounds++
		w.source.put(item("moves", fmt.Sprint("v=", rounds+1)))
		w.load(noon, item("late", "v=1"))
		w.load(noon.Add(time.Duration(rounds)*time.Second), item("rises", "v=0"))
		return true, nil
	}
	var places []Place
	for _, id := range ids {
		places = append(places, Place{Table: "t", Row: id, Keys: []attribute.Item{item(id)}})
	}
	got, err := c.Check(t.Context(), nil, places...)
	var equal []string
	for _, p := range got.Equal {
		equal = append(equal, p.Row)
	}
	if err != nil || !slices.Equal(equal, []string{"equal", "late"}) || !slices.Equal(brief(got.Findings), []string{"different moves d:v", "different wrong d:v"}) || got.Compared != 6 || got.InFlight != 1 || rounds != 3 {
		t.Errorf("equal %v, found %v, %+v after %d rounds, %v", equal, brief(got.Findings), got.Counts, rounds, err)
	}
}

// A difference in both checks counts if the row kept its version, whatever the item did. It does
// not count in another owner's share of the row or for cells that replicator did not write.
func TestBothLooksMustAgree(t *testing.T) {
	first := Finding{Table: "t", Row: "r", Owner: "S:a", Kind: Different, Version: "7", image: "i", Keys: item("a")}
	for name, c := range map[string]struct {
		change func(f *Finding)
		found  bool
	}{
		"the same":        {func(*Finding) {}, true},
		"other columns":   {func(f *Finding) { f.Columns = []Column{{Family: "d"}} }, true},
		"missing by now":  {func(f *Finding) { f.Kind = Missing }, true},
		"another version": {func(f *Finding) { f.Version = "8" }, false},
		"another image":   {func(f *Finding) { f.image = "j" }, true},
		"another owner":   {func(f *Finding) { f.Owner = "S:b" }, false},
		"foreign by now":  {func(f *Finding) { f.Kind = Foreign }, false},
	} {
		r := (&Work{Comparison: &Comparison{Mapping: mapping(t, nil, "{id} > d")}}).begin(t.Context(), Progress{})
		second := first
		c.change(&second)
		look := Verdict{Findings: []Finding{second}, held: []held{{second.Owner, second.Version, second.image}}}
		next, moved := r.second(Candidate{Look: Look{Verdict: Verdict{Findings: []Finding{first}}}, wants: everything}, Look{Verdict: look})
		if moved == c.found || len(r.found) != map[bool]int{true: 1}[c.found] || r.at.Differing() != int64(len(r.found)) || len(next.Findings)+len(r.found) != 1 {
			t.Errorf("%s: moved on %t, %d found", name, moved, len(r.found))
		}
	}
}

// Each pass reports only its own kinds, of its own items in the sample, so nothing is found twice.
func TestPassesShareTheKinds(t *testing.T) {
	a, b := item("a"), item("b")
	all := []Finding{{Kind: Missing, Keys: a}, {Kind: Different, Keys: a}, {Kind: Different, Keys: b}, {Kind: Extra, Live: true, Keys: b}, {Kind: Extra, Keys: b}, {Kind: Foreign, Live: true}}
	for wants, want := range map[direction][]int{forwards: {0, 1}, backwards: {3, 4, 5}, living: {3}, loose: {4, 5}, everything: {0, 1, 2, 3, 4, 5}} {
		c := &Comparison{Mapping: mapping(t, nil, "{id} > d")}
		r := (&Work{Comparison: c}).begin(t.Context(), Progress{})
		v := Verdict{Findings: all}
		r.narrow(&v, Candidate{Look: Look{Place: Place{Keys: []attribute.Item{a}}}, wants: wants})
		var expected []Finding
		for _, n := range want {
			expected = append(expected, all[n])
		}
		if got := brief(v.Findings); !slices.Equal(got, brief(expected)) {
			t.Errorf("%d: %v, want %v", wants, got, brief(expected))
		}
		v = Verdict{pending: all}
		r.narrow(&v, Candidate{Look: Look{Place: Place{Keys: []attribute.Item{a}}}, wants: wants})
		if got := brief(v.pending); !slices.Equal(got, brief(expected)) {
			t.Errorf("%d, in flight: %v, want %v", wants, got, brief(expected))
		}
	}
	c := &Comparison{Mapping: mapping(t, nil, "{id} > d"), Scope: Scope{Sample: 1e-9}}
	v := Verdict{Findings: all}
	(&Work{Comparison: c}).begin(t.Context(), Progress{}).narrow(&v, Candidate{wants: everything})
	if len(v.Findings) != 0 {
		t.Errorf("outside the sample: %v", brief(v.Findings))
	}
}

// The kept findings are bounded within a part, also across its runs. Waiting rows hold no values.
func TestRoomOfAPart(t *testing.T) {
	if got, want := (Bounds{}).orDefault(), (Bounds{2000, 1000, 200}); got != want {
		t.Errorf("%+v", got)
	}
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	for n := range 30 {
		w.source.put(item(name(n)))
	}
	asked := 0
	c := w.comparison()
	c.Bounds = Bounds{Findings: 20, Candidates: 4}
	c.Applied = func(context.Context, time.Time) (bool, error) { asked++; return true, nil }
	for before, want := range map[Counts]struct{ found, asked int }{{}: {20, 5}, {Missing: 18}: {2, 1}, {Missing: 15, Extra: 10, LeftOut: 10}: {5, 2}, {Missing: 20}: {0, 0}, {InFlight: 18}: {2, 1}} {
		asked = 0
		end, found, err := (&Work{Comparison: c, Look: true}).source(t.Context(), 0, 1, Progress{Counts: before})
		if err != nil || len(found) != want.found || end.Missing != before.Missing+30 || end.LeftOut != before.LeftOut+30-int64(want.found) || asked != want.asked {
			t.Errorf("after %+v: %d found, %+v, %d second looks, %v", before, len(found), end.Counts, asked, err)
		}
	}
	r := (&Work{Comparison: c}).begin(t.Context(), Progress{})
	if err := r.suspect(t.Context(), Candidate{Look: Look{Verdict: Verdict{Findings: []Finding{{Columns: []Column{{have: []byte("secret")}}}}}}, wants: everything}); err != nil || r.waiting[0].Findings[0].Columns[0].have != nil {
		t.Errorf("%+v, %v", r.waiting, err)
	}
}
