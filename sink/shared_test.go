package sink_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// folded returns a mutation of an item that shares row r with others. It owns column e:<item> and
// counter n:<item>.
func folded(owner string, sequence uint64, value string) transform.RowMutation {
	m := transform.RowMutation{Item: owner, Owner: owner, Table: "t", Row: "r", Version: version(sequence),
		Columns: []transform.Column{{Family: "e", Qualifier: owner}}}
	if m.Remove = value == ""; !m.Remove {
		m.Cells = []transform.Cell{{Family: "e", Qualifier: owner, Timestamp: 1_000_000, Value: []byte(value)}}
	}
	return m
}

// withCounters adds to table t the family n, whose cells are sums.
func withCounters(t *testing.T, f func(t *testing.T, table target)) {
	t.Run("memory", func(t *testing.T) {
		m := &sinktest.Memory{}
		m.Create("t", "d", "e", "n:intsum")
		f(t, m)
	})
	t.Run("bttest", func(t *testing.T) {
		e := startEmulator(t).create(t)
		n, err := transform.ParseFamily("n", "never:intsum")
		if err != nil {
			t.Fatal(err)
		}
		spec := sink.TableSpec{Name: "t", Families: sink.DataFamilies([]transform.Family{n})}
		for range 2 { // the second time it exists
			if _, err := e.admin.Prepare(context.Background(), []sink.TableSpec{spec}, true); err != nil {
				t.Fatal(err)
			}
		}
		f(t, e)
	})
}

// H74: items of one row have their own versions. None refuses or deletes another's cells, whatever
// their names look like.
func TestH74_ItemsOfOneRowDoNotDisturbEachOther(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		row := put(50, "a=row")
		for i, s := range []struct {
			m       transform.RowMutation
			applied bool
			want    string
		}{
			{row, true, "r live@50 d:a=row@1000000"},
			{folded("a.c", 10, "1"), true, "r live@50 d:a=row@1000000 e:a.c=1@1000000"},
			{folded("abc", 5, "2"), true, "r live@50 d:a=row@1000000 e:a.c=1@1000000 e:abc=2@1000000"},
			{folded("a.c", 9, "old"), false, "r live@50 d:a=row@1000000 e:a.c=1@1000000 e:abc=2@1000000"},
			{folded("a.c", 11, ""), true, "r live@50 d:a=row@1000000 e:abc=2@1000000"},
			{folded("a.c", 10, "1"), false, "r live@50 d:a=row@1000000 e:abc=2@1000000"},
			{folded("abc", 6, "3"), true, "r live@50 d:a=row@1000000 e:abc=3@1000000"},
			{remove(51), true, "r gone@51 e:abc=3@1000000"},
			{put(50, "a=row"), false, "r gone@51 e:abc=3@1000000"},
			{folded("a.c", 12, "4"), true, "r gone@51 e:a.c=4@1000000 e:abc=3@1000000"},
			{folded("a.c:v", 1, "5"), true, "r gone@51 e:a.c=4@1000000 e:a.c:v=5@1000000 e:abc=3@1000000"},
		} {
			if applied := apply(t, table, s.m); applied != s.applied {
				t.Errorf("step %d: applied %v", i, applied)
			}
			expect(t, table, s.want)
		}
		rows := readAll(t, table, "t")
		for owner, want := range map[string]uint64{"a.c": 12, "abc": 6, "": 51, "a.c:v": 1} {
			if held := rows[0].HeldBy(owner); held != version(want) {
				t.Errorf("%q holds %s", owner, held)
			}
		}
		if rows[0].HeldBy("other") != "" {
			t.Error("an item that never was holds a version")
		}
	})
}

// Items of one row have their own versions, even if their names differ only at the end.
func TestH74_LongNamesAreToldApart(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		prefix := strings.Repeat("0123456789abcdef-", 60)
		for i, m := range []transform.RowMutation{folded(prefix+"a", 9, "1"), folded(prefix+"b", 3, "2"), folded(prefix, 1, "3")} {
			if !apply(t, table, m) {
				t.Errorf("item %d is refused", i)
			}
		}
	})
}

// A counter has an absolute value, however often and in whatever order it is written.
func TestCountersAreAbsolute(t *testing.T) {
	withCounters(t, func(t *testing.T, table target) {
		counter := func(sequence uint64, value int64) transform.RowMutation {
			m := put(sequence)
			m.Families = []string{"d", "n"}
			m.Cells = []transform.Cell{{Family: "n", Qualifier: "views", Value: binary.BigEndian.AppendUint64(nil, uint64(value)), Add: true}}
			return m
		}
		read := func() string {
			var words []string
			for _, c := range readAll(t, table, "t")[0].Cells {
				words = append(words, fmt.Sprintf("%s:%s=%d@%d", c.Family, c.Qualifier, int64(binary.BigEndian.Uint64(c.Value)), c.Timestamp))
			}
			return strings.Join(words, " ")
		}
		for _, s := range []struct {
			sequence uint64
			value    int64
			want     string
		}{{1, 12, "n:views=12@0"}, {1, 12, "n:views=12@0"}, {3, -5, "n:views=-5@0"}, {2, 99, "n:views=-5@0"}, {4, 12, "n:views=12@0"}} {
			apply(t, table, counter(s.sequence, s.value))
			if got := read(); got != s.want {
				t.Errorf("@%d: %s, want %s", s.sequence, got, s.want)
			}
		}
		one := sink.Request{Table: "t", Row: "r", Refuse: sink.Predicate{Families: []string{"d"}, Qualifier: "none", AtLeast: "x"},
			Ops: []sink.Op{{Kind: sink.AddToCell, Family: "n", Qualifier: "views", Value: binary.BigEndian.AppendUint64(nil, 1)}}}
		if applied, err := table.Apply(context.Background(), &one); !applied || err != nil {
			t.Fatal(applied, err)
		}
		if got := read(); got != "n:views=13@0" {
			t.Errorf("the application goes on counting: %s", got)
		}
		apply(t, table, remove(3))
		if got := read(); got != "n:views=13@0" {
			t.Errorf("a late removal: %s", got)
		}
	})
}

// The row names its item if its key does not.
func TestOriginOfRows(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		m := put(1, "a=1")
		m.Origin = "Orders/S:cA"
		other := folded("x", 1, "1")
		other.Origin = "Orders/x"
		apply(t, table, m)
		apply(t, table, other)
		own := func() string {
			var words []string
			for _, c := range readAll(t, table, "t")[0].Own {
				if strings.HasPrefix(c.Qualifier, sink.OriginColumn) {
					words = append(words, fmt.Sprintf("%s:%s=%s@%d", c.Family, c.Qualifier, c.Value, c.Timestamp))
				}
			}
			return strings.Join(words, " ")
		}
		if got := own(); got != "_cdc:k=Orders/S:cA@0 _cdc:k:x=Orders/x@0" {
			t.Error(got)
		}
		gone := m
		gone.Remove, gone.Cells, gone.Version = true, nil, version(2)
		apply(t, table, gone)
		if got := own(); got != "_cdc:k:x=Orders/x@0" {
			t.Error(got)
		}
		if rows := readAll(t, table, "t"); rows[0].Gone != version(2) || rows[0].Version != "" {
			t.Error(rows[0])
		}
	})
}

// The reference and the emulator agree on rows that several items and counters share.
func TestMemoryEqualsEmulatorOnSharedRows(t *testing.T) {
	emulated := startEmulator(t).create(t)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		reference := memory()
		prefix := fmt.Sprintf("%06d/", run)
		for range rapid.IntRange(1, 25).Draw(t, "requests") {
			m := put(rapid.Uint64Range(8, 13).Draw(t, "version"), "a=1")
			if rapid.IntRange(0, 3).Draw(t, "folded") > 0 {
				m = folded(rapid.SampledFrom([]string{"a.c", "abc", "a"}).Draw(t, "owner"), rapid.Uint64Range(8, 13).Draw(t, "version"),
					rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value"))
				m.Origin = rapid.SampledFrom([]string{"", "T/k"}).Draw(t, "origin")
			}
			m.Row = prefix + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "row")
			r := sink.Guard(m)
			a, errA := reference.Apply(context.Background(), &r)
			b, errB := emulated.Apply(context.Background(), &r)
			if a != b || errA != nil || errB != nil {
				t.Fatalf("applied %v (%v) here, %v (%v) there: %+v", a, errA, b, errB, r)
			}
		}
		// The servers set the times of tombstones, and dump does not recognise their columns here.
		strip := func(text string) string {
			var lines []string
			for word := range strings.FieldsSeq(text) {
				if !strings.HasPrefix(word, "_cdc_gone:") {
					lines = append(lines, word)
				}
			}
			return strings.Join(lines, " ")
		}
		if got, want := strip(dump(t, emulated, prefix)), strip(dump(t, reference, prefix)); got != want {
			t.Fatalf("emulator:\n%s\nreference:\n%s", got, want)
		}
	})
}

func TestPrepareChecksAggregates(t *testing.T) {
	e := startEmulator(t).create(t)
	wrong := sink.TableSpec{Name: "t", Families: []sink.FamilySpec{{Name: "d", Aggregate: transform.IntSum}}}
	_, err := e.admin.Prepare(context.Background(), []sink.TableSpec{wrong}, true)
	if s, ok := err.(*sink.SchemaError); !ok || s.Problem != sink.WrongAggregate || s.Have != "not an aggregate" || s.Want != "intsum" {
		t.Error(err)
	}
	f, err := transform.ParseFamily("gc", "(maxversions=2 && maxage=36h) || maxage=400d")
	if err != nil {
		t.Fatal(err)
	}
	made, err := e.admin.Prepare(context.Background(), []sink.TableSpec{{Name: "t", Families: sink.DataFamilies([]transform.Family{f})}}, true)
	if err != nil || fmt.Sprint(made.Families) != "[t:gc]" {
		t.Error(made, err)
	}
}

// A change without an address is healed by a write to the row that the item left with this change.
func TestResolveLooksAtTheRowThatWasLeft(t *testing.T) {
	m, err := transform.NewMapping("Orders", "t", "d", orders.PrimaryKey, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	ctx, table := context.Background(), memory()
	parking := sink.NewParking(&sinktest.Records{}, "default")
	w := sink.NewWriter(sink.Options{Table: table, Parking: parking})
	lacking := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("k")}})
	whole := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("k")}, {Name: "tenant", Value: attribute.String("t")}})
	for i, step := range []struct {
		old, new attribute.Item
		resolved int
	}{{attribute.Item{}, whole, 0}, {whole, lacking, 0}, {attribute.Item{}, whole, 1}} {
		b := transform.Fold(m, []cdc.Change{{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: time.Unix(1000, 0), Keys: lacking, Old: step.old, New: step.new}},
			transform.Stamp{Generation: 1, Hop: 500_000})
		if i != 1 { // a load does not know the previous image
			b = transform.Load(m, []attribute.Item{whole}, uint32(i+1), time.Unix(900, 0))
		}
		if err := w.Write(ctx, sink.Unfenced(), &b); err != nil {
			t.Fatal(err)
		}
		if resolved, _, err := parking.Resolve(ctx, m, table); err != nil || resolved != step.resolved {
			t.Errorf("step %d: %d resolved, %v", i, resolved, err)
		}
	}
}

// A parked item with several addresses is healed once all of them hold a newer version, whoever
// wrote it. A change reaches all of them in the end, but a repair that ends between two of them
// does not.
func TestResolveLooksAtEveryAddress(t *testing.T) {
	ctx := context.Background()
	table := memory()
	keys := []transform.KeyAttribute{{Name: "a", Type: attribute.KindS}, {Name: "b", Type: attribute.KindS}}
	cell := func(row, column string) transform.Write {
		rowKey, err := transform.ParseTemplate(row)
		if err != nil {
			t.Fatal(err)
		}
		qualifier, err := transform.ParseTemplate(column)
		if err != nil {
			t.Fatal(err)
		}
		return transform.Write{RowKey: rowKey, Cell: &transform.CellRule{Family: "d", Qualifier: qualifier, As: transform.AsJSON}}
	}
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "t", PrimaryKey: keys, Families: []transform.Family{{Name: "d"}},
		Rules: []transform.Rule{{Writes: []transform.Write{cell("x#{a}", "{b}"), cell("y#{b}", "{a}")}}}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(sequence uint64, a, b string) transform.Batch {
		image := attribute.NewItem([]attribute.Attribute{{Name: "a", Value: attribute.String(a)}, {Name: "b", Value: attribute.String(b)}})
		return transform.Fold(m, []cdc.Change{{Event: cdc.Modify, Sequence: cdc.SequenceOf(sequence), Time: time.Unix(1000, 0), Keys: image, Old: image, New: image}},
			transform.Stamp{Generation: 1, Hop: 500_000})
	}
	parked, newer := at(5, "1", "2"), at(6, "1", "2")
	for _, other := range []transform.Batch{at(7, "1", "3"), at(7, "3", "2")} { // items that share the rows
		for _, row := range other.Rows {
			apply(t, table, row)
		}
	}
	records := &sinktest.Records{}
	parking := sink.NewParking(records, "default")
	if err := parking.Park(ctx, parked.Park(parked.Rows[0], "why")); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 0, 1} {
		if i > 0 {
			apply(t, table, newer.Rows[2-i])
		}
		if resolved, _, err := parking.Resolve(ctx, m, table); err != nil || resolved != want {
			t.Errorf("after row %d: %d resolved, %v", i, resolved, err)
		}
	}
}
