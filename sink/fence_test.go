package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// fenced is a target with a fence's families, and the ledger's mark of them.
type fenced interface {
	target
	sink.Looker
	raise(t *testing.T, family string)
	drop(t *testing.T, family string)
}

type fencedMemory struct{ *sinktest.Memory }

func (f fencedMemory) raise(_ *testing.T, family string) { f.Raise("t", family) }
func (f fencedMemory) drop(_ *testing.T, family string)  { f.Drop("t", family) }

type fencedEmulator struct{ *emulator }

func (f fencedEmulator) raise(t *testing.T, family string) {
	t.Helper()
	if err := f.admin.CreateFamily(t.Context(), "t", family); err != nil {
		t.Fatal(err)
	}
}

func (f fencedEmulator) drop(t *testing.T, family string) {
	t.Helper()
	if err := f.admin.DropFamily(t.Context(), "t", family); err != nil {
		t.Fatal(err)
	}
}

func onFenced(t *testing.T, f func(t *testing.T, table fenced)) {
	t.Run("memory", func(t *testing.T) { f(t, fencedMemory{memory()}) })
	t.Run("bttest", func(t *testing.T) { f(t, fencedEmulator{startEmulator(t).create(t)}) })
}

// published is a ledger's mark, for tests that change it.
type published struct{ mark sink.Mark }

func (p *published) read(context.Context, string) (sink.Mark, error) { return p.mark, nil }

func (p *published) is(n uint64) string {
	p.mark = sink.Mark{Family: sink.FenceFamily("ledger", n), Number: n}
	return p.mark.Family
}

func (p *published) prove(t testing.TB) sink.Stamps {
	t.Helper()
	stamps, err := sink.Prove(t.Context(), sink.ApplicationGate(), []string{"t"}, p.read, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return stamps
}

func batchOf(rows ...transform.RowMutation) *transform.Batch {
	return &transform.Batch{Source: "S", Rows: rows}
}

func TestFenceNames(t *testing.T) {
	family := sink.FenceFamily("ledger", 29_000_000)
	if !strings.HasPrefix(family, "_cdc_w") || len(family) > 64 || !sink.IsOwn(family) || family == sink.FenceFamily("other", 29_000_000) {
		t.Error(family)
	}
	for _, c := range []struct {
		ledger, family string
		want           string
	}{
		{"ledger", family, "29000000 true true"},
		{"other", family, "29000000 false true"},
		{"ledger", "_cdc", "0 false false"},
		{"ledger", "_cdc_gone", "0 false false"},
		{"ledger", "_cdc_w1234", "0 false false"},
		{"ledger", "_cdc_w1234_x", "0 false false"},
		{"ledger", family + "_1", "0 false false"},
	} {
		n, own, ok := sink.ParseFence(c.ledger, c.family)
		if got := fmt.Sprint(n, own, ok); got != c.want {
			t.Errorf("%s of %s: %s, wanted %s", c.family, c.ledger, got, c.want)
		}
	}
	for _, c := range []struct {
		last    uint64
		now     time.Time
		present []string
		want    uint64
	}{
		{0, time.Unix(600, 0), nil, 10},                                      // a recreated ledger outranks the lost one
		{10, time.Unix(600, 0), nil, 11},                                     // no number is used twice
		{10, time.Unix(-600, 0), nil, 11},                                    // whatever the clock shows
		{0, time.Unix(600, 0), []string{"d", sink.FenceFamily("x", 70)}, 71}, // nor one of another pipeline
	} {
		if got := sink.NextFence(c.last, c.now, c.present); got != c.want {
			t.Errorf("after %d at %v beside %v: %d, wanted %d", c.last, c.now, c.present, got, c.want)
		}
	}
}

// The number is read before the right is proved, and without both there is no stamp.
func TestProveReadsTheNumberFirst(t *testing.T) {
	var order []string
	mark := sink.Mark{Family: "_cdc_w_1", Number: 1}
	read := func(_ context.Context, table string) (sink.Mark, error) {
		order = append(order, "read "+table)
		return mark, nil
	}
	lost := errors.New("lost")
	_, err := sink.Prove(t.Context(), sink.ApplicationGate(), []string{"t", "u"}, read, func(context.Context) error { order = append(order, "prove"); return lost })
	if !errors.Is(err, lost) || strings.Join(order, ", ") != "read t, read u, prove" {
		t.Error(order, err)
	}
	mark = sink.Mark{}
	if _, err := sink.Prove(t.Context(), sink.ApplicationGate(), []string{"t"}, read, func(context.Context) error { return nil }); !errors.Is(err, sink.ErrNoFence) {
		t.Error(err)
	}
	table := memory()
	for name, stamps := range map[string]sink.Stamps{"none": {}, "of another table": (&published{sink.Mark{Family: "f", Number: 1}}).prove(t)} {
		b := batchOf(put(1, "a=1"))
		if name != "none" {
			b.Rows[0].Table = "u"
		}
		err := sink.NewWriter(sink.Options{Table: table, Parking: newLot()}).Write(t.Context(), stamps, b)
		if !errors.Is(err, sink.ErrUnproved) || sink.Repeatable(err) || len(b.Rows) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// H35: a request that was stamped before the fence was raised is rejected as a whole after the
// drop, whatever kind of write it is, and leaves nothing. A writer that proves its right again
// writes the same batch under the new number. Under an unchanged number, the refusal counts as the
// table's.
func TestH35_DroppedFenceRejectsLateWrites(t *testing.T) {
	kept := put(9, "a=late")
	kept.Keep = true
	for name, late := range map[string]transform.RowMutation{"put": put(9, "a=late"), "remove": remove(9), "kept": kept} {
		t.Run(name, func(t *testing.T) {
			onFenced(t, func(t *testing.T, table fenced) {
				ledger := &published{}
				table.raise(t, ledger.is(7))
				w := sink.NewWriter(sink.Options{Table: table, Rows: table, Parking: newLot()})
				if err := w.Write(t.Context(), ledger.prove(t), batchOf(put(1, "a=1"))); err != nil {
					t.Fatal(err)
				}
				before := readAll(t, table, "t")
				if len(before) != 1 || len(before[0].Own) != 0 || len(before[0].Cells) != 1 {
					t.Fatalf("a stamped write leaves %+v", before)
				}
				old := ledger.prove(t)
				table.raise(t, ledger.is(8))
				table.drop(t, sink.FenceFamily("ledger", 7))
				b := batchOf(late)
				err := w.Write(t.Context(), old, b)
				if !errors.Is(err, sink.ErrRefenced) || sink.Repeatable(err) || len(b.Rows) != 1 || len(b.Parked) != 0 {
					t.Fatalf("under the dropped number: %v, %+v", err, b)
				}
				if after := readAll(t, table, "t"); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("the rejected write leaves %+v", after)
				}
				if err := w.Write(t.Context(), ledger.prove(t), b); err != nil || len(b.Rows) != 0 {
					t.Errorf("under the new number: %v", err)
				}
				if fmt.Sprint(readAll(t, table, "t")) == fmt.Sprint(before) {
					t.Error("nothing is written under the new number")
				}
				table.drop(t, sink.FenceFamily("ledger", 8))
				if err := w.Write(t.Context(), ledger.prove(t), batchOf(put(10, "a=2"))); !sink.Is(err, sink.Permanent) {
					t.Errorf("with the number's own family gone: %v", err)
				}
			})
		})
	}
}

// If no fence can be kept, requests carry no stamp. A ledger that cannot be read proves nothing.
func TestWithheldFence(t *testing.T) {
	table := &scripted{Memory: memory()}
	ledger := &published{sink.Mark{Withheld: true, Number: 7, Family: "gone"}}
	w := sink.NewWriter(sink.Options{Table: table, Parking: newLot()})
	withheld := ledger.prove(t)
	if err := w.Write(t.Context(), withheld, batchOf(put(1, "a=1"))); err != nil {
		t.Fatal(err)
	}
	family := ledger.is(8)
	if outdated, err := withheld.Outdated(t.Context()); err != nil || !outdated || !withheld.Below(map[string]sink.Mark{"t": ledger.mark}) {
		t.Error("stamps of a withheld fence are in force still after a number was published", err)
	}
	stamps := ledger.prove(t)
	if outdated, err := stamps.Outdated(t.Context()); err != nil || outdated || stamps.Below(map[string]sink.Mark{"t": ledger.mark, "u": {Number: 9}}) {
		t.Error("stamps are outdated at once", err)
	}
	table.Raise("t", family)
	table.Drop("t", family)
	ledger.mark = sink.Mark{Withheld: true, Number: 8}
	if err := w.Write(t.Context(), stamps, batchOf(put(2, "a=1"))); !errors.Is(err, sink.ErrRefenced) {
		t.Errorf("a fence that was given up: %v", err)
	}
	asked := false
	unsure, err := sink.Prove(t.Context(), sink.ApplicationGate(), []string{"t"}, func(context.Context, string) (sink.Mark, error) {
		if asked {
			return sink.Mark{}, errors.New("no answer")
		}
		asked = true
		return sink.Mark{Family: family, Number: 8}, nil
	}, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), unsure, batchOf(put(2, "a=1"))); !sink.Is(err, sink.Unknown) {
		t.Errorf("the ledger does not answer: %v", err)
	}
}

// The stamp comes first, and its cell is set before anything else: bttest keeps operations that
// precede an unknown family, and accepts a delete in one.
func TestFenceStandsFirst(t *testing.T) {
	table := &scripted{Memory: memory()}
	ledger := &published{}
	table.Raise("t", ledger.is(7))
	w := sink.NewWriter(sink.Options{Table: table, Parking: newLot()})
	if err := w.Write(t.Context(), ledger.prove(t), batchOf(put(1, "a=1"))); err != nil {
		t.Fatal(err)
	}
	sent := table.log[0]
	if sent.Ops[0].Kind != sink.SetCell || sent.Ops[0].Family != ledger.mark.Family || sent.Ops[0].Timestamp != 0 || len(sent.Ops[0].Value) != 0 ||
		sent.Ops[1].Kind != sink.DeleteFamily || sent.Ops[1].Family != ledger.mark.Family || slices.ContainsFunc(sent.Refuse.Families, sink.IsFence) {
		t.Errorf("%+v", sent)
	}
	e := startEmulator(t).create(t)
	raw := func(ops ...func(*bigtable.Mutation)) {
		m := bigtable.NewMutation()
		for _, op := range ops {
			op(m)
		}
		if err := e.Open("t").Apply(t.Context(), "r", bigtable.NewCondMutation(bigtable.PassAllFilter(), nil, m)); err == nil {
			t.Fatal("an unknown family is taken")
		}
	}
	data := func(m *bigtable.Mutation) { m.Set("d", "a", 0, []byte("x")) }
	fence := func(m *bigtable.Mutation) { m.Set("_cdc_w_9", "f", 0, nil) }
	raw(fence, data)
	if rows := readAll(t, e, "t"); len(rows) != 0 {
		t.Errorf("behind an unknown family there is %+v", rows)
	}
	raw(data, fence)
	if rows := readAll(t, e, "t"); len(rows) != 1 {
		t.Error("the emulator has learnt to refuse as a whole: the order of operations may be of no matter now")
	}
}

// Only families of the fence are created and dropped.
func TestFenceFamiliesOfAdmin(t *testing.T) {
	admin := startEmulator(t).create(t).admin
	family := sink.FenceFamily("ledger", 7)
	if err := admin.CreateFamily(t.Context(), "t", family); err != nil {
		t.Fatal(err)
	}
	var failed *sink.Error
	if err := admin.CreateFamily(t.Context(), "t", family); !errors.As(err, &failed) || failed.Code != "AlreadyExists" || failed.Reason != sink.Permanent {
		t.Errorf("a second time: %v", err)
	}
	if names, err := admin.ListFamilies(t.Context(), "t"); err != nil || !slices.Contains(names, family) || !slices.Contains(names, "d") {
		t.Error(names, err)
	}
	for _, name := range []string{"d", sink.LiveFamily, sink.GoneFamily} {
		if err := admin.DropFamily(t.Context(), "t", name); !sink.Is(err, sink.Permanent) {
			t.Errorf("%s is dropped: %v", name, err)
		}
	}
	if err := admin.DropFamily(t.Context(), "t", family); err != nil {
		t.Fatal(err)
	}
	if names, err := admin.ListFamilies(t.Context(), "t"); err != nil || slices.Contains(names, family) || len(names) != 4 {
		t.Error(names, err)
	}
	if _, err := admin.ListFamilies(t.Context(), "none"); !sink.Is(err, sink.Permanent) {
		t.Error(err)
	}
}

// Replicator's cells are not item data: rows and views do not show them.
func TestFenceIsNoData(t *testing.T) {
	family := sink.FenceFamily("ledger", 7)
	row := sink.NewRow("r", []transform.Cell{{Family: family, Qualifier: "f"}, {Family: "_cdc_x", Qualifier: "y"}, {Family: "d", Qualifier: "a"}})
	if len(row.Cells) != 1 || row.Cells[0].Family != "d" || len(row.Own) != 0 {
		t.Errorf("%+v", row)
	}
	spec := sink.TargetSpec("t", time.Hour, "d", family)
	if got := spec.MappedFamilies(); !slices.Equal(got, []string{"d"}) {
		t.Error(got)
	}
}

// A repair whose number was dropped starts again under the next one, once generation and mapping
// are proved again.
func TestH35_RepairProvesItsRightAgain(t *testing.T) {
	table := fencedMemory{memory()}
	ledger := &published{}
	table.raise(t, ledger.is(7))
	m := mappingOf(t)
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("k")}, {Name: "a", Value: attribute.String("now")}})
	asked, overtaken := 0, errors.New("the mapping was changed")
	prove := func(ctx context.Context, tables []string, right func(context.Context) error) (sink.Stamps, error) {
		return sink.Prove(ctx, sink.ApplicationGate(), tables, ledger.read, right)
	}
	r := sink.Repairer{Mapping: m, Rows: table, Table: table, Prove: prove,
		Item: func(context.Context, attribute.Item) (attribute.Item, bool, error) { return item, true, nil },
		Current: func(context.Context) (uint32, error) {
			if asked++; asked == 1 { // between the proof and the write
				table.raise(t, ledger.is(8))
				table.drop(t, sink.FenceFamily("ledger", 7))
			}
			if asked == 3 {
				return 0, overtaken
			}
			return 1, nil
		},
		Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil }}
	if done, err := r.Repair(t.Context(), m.Keys(item)); err != nil || done.Written != 1 || asked != 2 {
		t.Fatalf("%+v after %d proofs: %v", done, asked, err)
	}
	if _, err := r.Repair(t.Context(), m.Keys(item)); !errors.Is(err, overtaken) {
		t.Errorf("without the right: %v", err)
	}
}

func mappingOf(t *testing.T) *transform.Mapping {
	t.Helper()
	m, err := transform.NewMapping("S", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// An emulator refuses requests with a dropped family immediately. For Bigtable no bound is
// documented.
func TestDropDelay(t *testing.T) {
	e := startEmulator(t)
	if delay := e.admin.DropDelay(); delay != sink.DefaultTimeout {
		t.Errorf("a service: %v", delay)
	}
	t.Setenv("BIGTABLE_EMULATOR_HOST", "127.0.0.1:1")
	emulated, err := sink.ConnectAdmin(t.Context(), instance)
	if err != nil {
		t.Fatal(err)
	}
	defer emulated.Close()
	if delay := emulated.DropDelay(); delay != 0 {
		t.Errorf("an emulator: %v", delay)
	}
}
