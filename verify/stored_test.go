package verify

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// keeping returns a ledger with a verify of table S.
func keeping(t *testing.T) (*checkpoint.Ledger, checkpoint.TableState) {
	t.Helper()
	l, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "default", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	table := checkpoint.TableState{Source: "S"}
	table.Verify.Number = 3
	return l, table
}

// H56: the sums of both sides are combined from the data of each part's last owner. A lost piece or
// set of buckets is an error, and never counts as equal.
func TestH56_KeptSumsAreCombined(t *testing.T) {
	l, table := keeping(t)
	p := Plan{Way: Quiet, Segments: 1, Ranges: []Range{{Table: "t"}}, Key: []byte("k")}
	sums := func(rows ...string) *Sums {
		s := NewSums(p.Key)
		for _, row := range rows {
			s.put(&transform.RowMutation{Table: "t", Row: row, Cells: []transform.Cell{{Family: "d", Value: []byte(row)}}}, false)
		}
		return s
	}
	keep := func(index int, epoch uint64, s *Sums) checkpoint.Part {
		part := checkpoint.Part{Index: index, Epoch: epoch, Phase: "first"}
		names, err := Kept{l, table, part}.sums(t.Context(), 0, s)
		if err != nil {
			t.Fatal(err)
		}
		part.Kept = append(names, "found/other")
		return part
	}
	source := keep(0, 7, sums("a", "b"))
	keep(0, 6, sums("late")) // from an earlier owner
	for _, c := range []struct {
		rows []string
		want int
	}{{[]string{"a", "b"}, 0}, {[]string{"a"}, 1}, {[]string{"a", "b", "c", "d"}, 2}} {
		l, table = keeping(t)
		source = keep(0, 7, sums("a", "b"))
		picked, err := Combine(t.Context(), l, table, p, []checkpoint.Part{source, keep(1, 9, sums(c.rows...))})
		if err != nil || picked.Len() != c.want {
			t.Fatalf("%v: %d buckets, %v", c.rows, picked.Len(), err)
		}
		again, err := LoadPicked(t.Context(), l, table)
		if c.want == 0 && !errors.Is(err, checkpoint.ErrConflict) || c.want > 0 && (err != nil || *again != *picked) {
			t.Errorf("%v: the buckets are kept as %d, %v", c.rows, again.Len(), err)
		}
	}
	large := NewSums(p.Key)
	for n := range uint32(pieceBytes/entryBytes + 1) {
		large.at(n).cells = total{1}
	}
	l, table = keeping(t)
	if picked, err := Combine(t.Context(), l, table, p, []checkpoint.Part{keep(0, 7, large)}); err != nil || picked.Len() != pieceBytes/entryBytes+1 {
		t.Errorf("sums of two pieces: %d buckets, %v", picked.Len(), err)
	}
	source.Kept[0] = "sums/0000/8-000"
	if _, err := Combine(t.Context(), l, table, p, []checkpoint.Part{source}); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a piece that is lost: %v", err)
	}
}

// Findings go into as many cells as they need, each of bounded size, and are read one by one.
func TestCellsOfFindingsAreBounded(t *testing.T) {
	l, table := keeping(t)
	var found []Finding
	for n := range 100 {
		found = append(found, Finding{Table: "t", Row: name(n) + strings.Repeat("r", 30_000), Kind: Missing})
	}
	part := checkpoint.Part{Epoch: 1, Phase: "first"}
	names, err := Kept{l, table, part}.findings(t.Context(), 0, found)
	if err != nil || len(names) != 4 {
		t.Fatalf("%d cells, %v", len(names), err)
	}
	for _, name := range names {
		if data, err := l.VerifyData(t.Context(), "S", 3, name); err != nil || len(data) != 1 || len(data[0].Data) > foundBytes+50_000 {
			t.Errorf("%s: %d cells, %v", name, len(data), err)
		}
	}
	part.Kept = names
	if err := Index(t.Context(), l, table, []checkpoint.Part{part}); err != nil {
		t.Fatal(err)
	}
	if back, err := Findings(t.Context(), l, "S", checkpoint.VerifyResult{Number: 3}); err != nil || len(back) != 100 || back[99].Row != found[99].Row {
		t.Errorf("%d are read, %v", len(back), err)
	}
}

// Unreadable findings are counted, one by one if their cell can be read, and hide no others.
func TestFindingsThatCannotBeRead(t *testing.T) {
	l, table := keeping(t)
	part := checkpoint.Part{Epoch: 1, Phase: "first"}
	names, err := Kept{l, table, part}.findings(t.Context(), 0, []Finding{{Table: "t", Row: "a", Kind: Missing}})
	if err != nil {
		t.Fatal(err)
	}
	for name, cell := range map[string]string{"found/first-0000/1-000001.000": `[{"row":7},{"table":"t","row":"Yg==","kind":"extra"},"x"]`, "found/first-0000/1-000002.000": `{`} {
		if err := l.PutVerifyData(t.Context(), table, name, []byte(cell)); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := l.PutVerifyData(t.Context(), table, names[0]+"1", []byte(`["another cell, whose name begins alike"]`)); err != nil {
		t.Fatal(err)
	}
	part.Kept = names
	if err := Index(t.Context(), l, table, []checkpoint.Part{part}); err != nil {
		t.Fatal(err)
	}
	found, err := Findings(t.Context(), l, "S", checkpoint.VerifyResult{Number: 3})
	var unread *UnreadableError
	if !errors.As(err, &unread) || unread.Findings != 3 || len(found) != 2 || found[1].Row != "b" {
		t.Errorf("%+v, %v", found, err)
	}
}

// H56: the findings of a verify are those that the last owners of its parts named, in order.
func TestH56_KeptFindings(t *testing.T) {
	l, table := keeping(t)
	keep := func(index int, epoch uint64, number int, rows ...string) checkpoint.Part {
		part := checkpoint.Part{Index: index, Epoch: epoch, Phase: "second"}
		var found []Finding
		for _, row := range rows {
			found = append(found, Finding{Table: "t", Row: row, Kind: Missing})
		}
		names, err := Kept{l, table, part}.findings(t.Context(), number, found)
		if err != nil {
			t.Fatal(err)
		}
		part.Kept = append([]string{"sums/0000/1-000"}, names...)
		return part
	}
	result := checkpoint.VerifyResult{Number: 3}
	keep(0, 6, 0, "late")
	if found, err := Findings(t.Context(), l, "S", result); err != nil || len(found) != 0 {
		t.Errorf("before there is an index: %v, %v", brief(found), err)
	}
	one, two := keep(0, 7, 0, "c", "a"), keep(1, 7, 0, "b")
	more := keep(1, 7, 1, "d")
	two.Kept = append(two.Kept, more.Kept...)
	if err := Index(t.Context(), l, table, []checkpoint.Part{one, two}); err != nil {
		t.Fatal(err)
	}
	found, err := Findings(t.Context(), l, "S", result)
	var rows []string
	for _, f := range found {
		rows = append(rows, f.Row)
	}
	if err != nil || strings.Join(rows, " ") != "a b c d" {
		t.Errorf("%v, %v", rows, err)
	}
	data, err := l.VerifyData(t.Context(), "S", 3, indexData)
	if err != nil || len(data) != 1 || bytes.Contains(data[0].Data, []byte("sums/")) {
		t.Errorf("the index: %s, %v", data, err)
	}
	empty, state := keeping(t)
	if err := Index(t.Context(), empty, state, []checkpoint.Part{{}}); err != nil {
		t.Fatal(err)
	}
	if data, err := empty.VerifyData(t.Context(), "S", 3, ""); err != nil || len(data) != 0 {
		t.Errorf("an index of nothing: %d rows, %v", len(data), err)
	}
}

// Everything that the ledger stores is read back unchanged.
func TestWhatIsKeptComesBack(t *testing.T) {
	f := Finding{Source: "S", Table: "t", Row: "\xff\x00", Owner: "S:x", Keys: item("é"), Kind: Extra, Version: "7", Live: true, Reason: "r",
		Columns: []Column{{Family: "d", Qualifier: "\xfe", Want: "w", Have: "h"}}}
	data, err := f.MarshalJSON()
	var back Finding
	if err := errors.Join(err, back.UnmarshalJSON(data)); err != nil || !reflect.DeepEqual(f, back) {
		t.Errorf("%+v, %v", back, err)
	}
	for _, d := range []sink.Difference{{Want: []byte("w")}, {Have: []byte("h")}} {
		if _, _, known := columnOf(d).Values(); !known {
			t.Errorf("%+v is not known", d)
		}
	}
	for _, text := range []string{"secret", `{"keys":"secret"}`} {
		if err := back.UnmarshalJSON([]byte(text)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
	p := Plan{Way: Live, Why: "w", Segments: 2, Ranges: []Range{{"t", sink.Range{From: "\xff", To: "\xff\x00"}}}, Key: []byte{1}, Scope: Scope{Sample: 0.5, Since: noon}}
	data, err = p.MarshalJSON()
	var read Plan
	if err := errors.Join(err, read.UnmarshalJSON(data)); err != nil || !reflect.DeepEqual(p, read) {
		t.Errorf("%+v, %v", read, err)
	}
	if err := read.UnmarshalJSON([]byte("secret")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	r := Result{Source: "S", Way: Quiet, Why: "w", Scope: Scope{Sample: 0.5, Since: noon}, Began: noon, Ended: noon.Add(1), Counts: Counts{Missing: 1}}
	r.Blind = r.Scope.Blind()
	if got := ResultOf("S", r.Stored()); !reflect.DeepEqual(got, r) {
		t.Errorf("%+v", got)
	}
	// The set of buckets is stored as a list if it is small, and otherwise as bits.
	for _, n := range []uint32{0, 1, Buckets/8/3 - 1, Buckets / 8 / 3, Buckets/8/3 + 1, Buckets} {
		picked := &Picked{}
		for i := range n {
			picked.add((i*7 + Buckets - 1) % Buckets)
			picked.add((i*7 + Buckets - 1) % Buckets)
		}
		data, err := picked.MarshalBinary()
		var back Picked
		if err := errors.Join(err, back.UnmarshalBinary(data)); err != nil || back != *picked || back.Len() != int(n) || len(data) > Buckets/8 || len(data) > 3*int(n) && n > 0 && n < Buckets/8/3 {
			t.Errorf("%d buckets in %d bytes are %d: %v", n, len(data), back.Len(), err)
		}
	}
	var broken Picked
	for _, data := range [][]byte{{1}, {0, 0, 1, 2}, {0x10, 0, 0}} {
		if err := broken.UnmarshalBinary(data); err == nil {
			t.Errorf("%v is taken for buckets", data)
		}
	}
}

// A result is clean if everything in scope was read to its end and nothing differs.
func TestClean(t *testing.T) {
	for name, c := range map[string]struct {
		r    Result
		want bool
	}{
		"clean":     {Result{Ended: noon}, true},
		"no end":    {Result{}, false},
		"unread":    {Result{Ended: noon, Unread: []string{"segment 1 of 1"}}, false},
		"missing":   {Result{Ended: noon, Counts: Counts{Missing: 1}}, false},
		"different": {Result{Ended: noon, Counts: Counts{Different: 1}}, false},
		"extra":     {Result{Ended: noon, Counts: Counts{Extra: 1}}, false},
		"foreign":   {Result{Ended: noon, Counts: Counts{Foreign: 1}}, false},
	} {
		if c.r.Clean() != c.want {
			t.Error(name)
		}
	}
}

// A plan has up to sixteen parts per side, divided among the target tables. Way and scope determine
// the parts of a phase and their names.
func TestPlans(t *testing.T) {
	m := mapping(t, func(s *transform.Spec) { s.Rules[1].Writes[0].Table = "u" }, "k = 'a' | {id} > d", "k = 'b' | {id} > e")
	w := newWorld(t, m)
	for n := range 2000 {
		w.damage("t", name(n), set("d", "v", "1"))
		w.damage("u", name(n), set("d", "v", "1"))
	}
	for _, c := range []struct {
		bytes            int64
		since            time.Time
		segments, ranges int
	}{{0, time.Time{}, 4, 8}, {1 << 50, time.Time{}, 16, 16}, {1 << 50, noon, 0, 16}} {
		comparison := w.comparison()
		comparison.Scope.Since = c.since
		p, err := comparison.NewPlan(t.Context(), Live, "why", c.bytes, []byte("k"))
		if err != nil || p.Segments != c.segments || len(p.Ranges) != c.ranges || p.Scope != comparison.Scope || p.Why != "why" {
			t.Errorf("%d bytes: %d segments, %d ranges, %v", c.bytes, p.Segments, len(p.Ranges), err)
		}
		if first, last := p.Ranges[0], p.Ranges[len(p.Ranges)-1]; first.Table != "t" || first.From != "" || last.Table != "u" || last.To != "" {
			t.Errorf("from %+v to %+v", first, last)
		}
	}
	failed := errors.New("no")
	comparison := w.comparison()
	comparison.Retry = func(context.Context, func(context.Context) error) error { return failed }
	if _, err := comparison.NewPlan(t.Context(), Live, "", 0, nil); !errors.Is(err, failed) {
		t.Error(err)
	}
	ranges := []Range{{Table: "t"}, {Table: "t"}, {Table: "u"}}
	for name, c := range map[string]struct {
		p       Plan
		parts   []int // of the first phase; of the second without and with buckets; of no phase
		summing bool
		second  string // name of the first part of the second phase
	}{
		"quiet":   {Plan{Way: Quiet, Segments: 2, Ranges: ranges}, []int{5, 0, 5, 0}, true, "segment 1 of 2 of the source"},
		"live":    {Plan{Way: Live, Segments: 2, Ranges: ranges}, []int{5, 0, 3, 0}, true, "range 1 of 3 of target table t"},
		"changed": {Plan{Way: Live, Ranges: ranges, Scope: Scope{Since: noon}}, []int{3, 0, 0, 0}, false, "range 1 of 3 of target table t"},
	} {
		got := []int{c.p.Parts(1, 0), c.p.Parts(2, 0), c.p.Parts(2, 1), c.p.Parts(3, 1)}
		if !slices.Equal(got, c.parts) || c.p.Summing(1) != c.summing || c.p.Summing(2) || c.p.name(2, 0) != c.second || c.p.name(1, c.parts[0]-1) != "range 3 of 3 of target table u" {
			t.Errorf("%s: %v, %q, %q", name, got, c.p.name(2, 0), c.p.name(1, c.parts[0]-1))
		}
		first, second := c.p.Work(comparison, 1, nil), c.p.Work(comparison, 2, &Picked{})
		if (first.Sums != nil) != c.summing || first.Look != (c.p.Way == Live) || first.Addresses != (c.p.Way == Live) || second.Sums != nil || !second.Look || second.Picked == nil {
			t.Errorf("%s: %+v, then %+v", name, first, second)
		}
	}
	if p := (Plan{Segments: 2}); p.subtracts(1) || !p.subtracts(2) {
		t.Error("the sides are confused")
	}
}

// The quiet way is worthwhile while at most a sixteenth of the buckets change.
func TestWayAtItsBound(t *testing.T) {
	for changes, want := range map[float64]Way{quietChanges: Quiet, quietChanges + 1: Live} {
		if way, _ := ChooseWay(Scope{}, changes, 10, 10); way != want {
			t.Errorf("%g changes: %s", changes, way)
		}
		if way, _ := ChooseWay(Scope{}, changes, 1, 0); way != want {
			t.Errorf("%g changes at an unknown rate: %s", changes, way)
		}
	}
}

// H96: sums have 128 bits in both directions. Invalid pieces are refused. Neither attributes of
// global tables nor older cells of a mapping that keeps them count.
func TestH96_WordsAndPieces(t *testing.T) {
	for _, c := range []struct{ a, b, sum total }{
		{total{1, 0}, total{2, 0}, total{3, 0}}, {total{1<<64 - 1, 0}, total{1, 0}, total{0, 1}}, {total{1<<64 - 1, 1<<64 - 1}, total{1, 0}, total{0, 0}},
	} {
		sum, back := c.a, c.sum
		sum.add(c.b)
		back.subtract(c.b)
		if sum != c.sum || back != c.a {
			t.Errorf("%v and %v: %v, and back %v", c.a, c.b, sum, back)
		}
	}
	entry := append([]byte{0x0f, 0xff, 0xff}, make([]byte, entryBytes-3)...)
	entry[entryBytes-1] = 1
	for name, c := range map[string]struct {
		piece []byte
		ok    bool
	}{"the last bucket": {entry, true}, "beyond it": {append([]byte{0x10, 0, 0}, entry[3:]...), false}, "cut short": {entry[:entryBytes-1], false}} {
		for _, subtract := range []bool{false, true} {
			s := NewSums(nil)
			if err := s.AddPiece(c.piece, subtract); (err == nil) != c.ok || c.ok && (s.Differing(true).Len() != 1 || s.at(Buckets - 1).addresses[1] == 1 == subtract) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, c := range []struct {
		qualifier    string
		rank         int
		keeps, count bool
	}{{"v", 0, true, true}, {"v", 1, true, false}, {"v", 1, false, true}, {"aws:rep:x", 0, false, false}, {"aws:rep", 0, false, true}, {"aws:rep:", 0, true, false}, {"aws:REP:x", 0, true, true}} {
		if counted(c.qualifier, c.rank, c.keeps) != c.count {
			t.Errorf("%+v", c)
		}
	}
}
