package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const repairGeneration = 7

// repairAt is the second at which repairs in these tests read.
var repairAt = time.Unix(firstSecond+1000, 0)

func at(count uint16) transform.Version {
	return transform.NewVersion(1, 500_000, cdc.SequenceOf(10), count)
}

// seenRow returns a row with these versions and cells, as a read returns it.
func seenRow(live, gone transform.Version, cells ...string) sink.Row {
	return sink.Row{Key: "r", Version: live, Gone: gone, Cells: put(1, cells...).Cells}
}

// H112: a row at count 0 is to be asserted exactly, at count 1. A repair, or a retry of a parked
// item, would use that count, and the assertion would be refused as equal.
func TestH112_ARepairLeavesWhatIsToBeSettled(t *testing.T) {
	want := put(10, "a=1")
	for _, version := range []transform.Version{at(transform.CountTimestamped), at(transform.CountExact)} {
		_, needed, err := sink.Mend(seenRow(version, ""), want, repairGeneration, repairAt)
		if pending := version.Count() == transform.CountTimestamped; pending != errors.Is(err, sink.ErrPending) || needed == pending {
			t.Errorf("count %d: needed %v, %v", version.Count(), needed, err)
		}
	}
}

func TestMend(t *testing.T) {
	fresh := transform.NewVersion(repairGeneration, 0, cdc.SequenceOf(uint64(repairAt.Unix())), 1)
	present, absent := put(99, "a=1", "b="), remove(99)
	for name, c := range map[string]struct {
		seen sink.Row
		want transform.RowMutation
		// set is the version that is written, "" if none is; expected is what must not be in the
		// row, "" for any version.
		set, expected transform.Version
	}{
		"equal":                              {seenRow(at(1), "", "a=1", "b="), present, "", ""},
		"equal at a high count":              {seenRow(at(9999), "", "a=1", "b="), present, "", ""},
		"equal, an older cell below":         {seenRow(at(1), "", "a=1", "a=0", "b="), present, "", ""},
		"other value":                        {seenRow(at(1), "", "a=2", "b="), present, at(2), at(2)},
		"surplus column":                     {seenRow(at(1), "", "a=1", "b=", "c="), present, at(2), at(2)},
		"missing column":                     {seenRow(at(3), "", "a=1"), present, at(4), at(4)},
		"removed, but present":               {seenRow("", at(1)), present, at(2), at(2)},
		"removed, though cells are there":    {seenRow("", at(1), "a=1", "b="), present, at(2), at(2)},
		"live and removed":                   {seenRow(at(1), at(2), "a=1", "b="), present, at(3), at(3)},
		"no row":                             {seenRow("", ""), present, fresh, ""},
		"no version, but the cells":          {seenRow("", "", "a=1", "b="), present, fresh, ""},
		"live, but absent":                   {seenRow(at(1), "", "a=1"), absent, at(2), at(2)},
		"live without cells, but absent":     {seenRow(at(1), ""), absent, at(2), at(2)},
		"cells without version, but absent":  {seenRow("", "", "a=1"), absent, fresh, ""},
		"cells with a tombstone, but absent": {seenRow("", at(1), "a=1"), absent, at(2), at(2)},
		"no row, and absent":                 {seenRow("", ""), absent, "", ""},
		"removed, and absent":                {seenRow("", at(1)), absent, "", ""},
	} {
		r, needed, err := sink.Mend(c.seen, c.want, repairGeneration, repairAt)
		if err != nil || needed != (c.set != "") {
			t.Errorf("%s: needed %v, %v", name, needed, err)
		}
		if !needed {
			continue
		}
		last := r.Ops[len(r.Ops)-1]
		if string(last.Value) != string(c.set) || (last.Family == sink.GoneFamily) != c.want.Remove {
			t.Errorf("%s: sets %s in %s", name, last.Value, last.Family)
		}
		if r.Refuse.AtLeast != c.expected {
			t.Errorf("%s: refuses from %q", name, r.Refuse.AtLeast)
		}
	}
	if _, _, err := sink.Mend(seenRow(at(transform.MaxCount), ""), present, 1, repairAt); !errors.Is(err, sink.ErrRepairs) {
		t.Error("a count wrapped around: ", err)
	}
}

// repairs is a source of one item, "r", and a repairer of its row in table t.
type repairs struct {
	sink.Repairer
	image attribute.Item
	// between runs after the row was read and before the item is read.
	between func()
	// after runs after the item was read.
	after func()
}

func newRepairs(table target) *repairs {
	r := &repairs{between: func() {}, after: func() {}}
	r.Repairer = sink.Repairer{Mapping: orders, Rows: table, Table: table,
		Item: func(context.Context, attribute.Item) (attribute.Item, bool, error) {
			r.between()
			defer r.after()
			return r.image, r.image.Exists(), nil
		},
		Current:    func(context.Context) (uint32, error) { return 1, nil },
		Prove:      sinktest.NoFence,
		Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil },
	}
	return r
}

// itemR returns the image of item r with the given attribute, which gives the columns pk and a.
func itemR(value string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("r")}, {Name: "a", Value: attribute.String(value)}})
}

// cellsR returns the cells of itemR.
func cellsR(value string) []string { return []string{"a=" + value, "pk=r"} }

// content returns table t without cell times: state, version's hop, sequence number and count,
// cells.
func content(t testing.TB, table sink.Reader) string {
	t.Helper()
	var lines []string
	for _, r := range readAll(t, table, "t") {
		line := r.Key
		for _, v := range []struct {
			state   string
			version transform.Version
		}{{"live", r.Version}, {"gone", r.Gone}} {
			if v.version == "" {
				continue
			}
			sequence := v.version.Sequence().String()
			if v.version.Hop() == transform.LoadHop {
				sequence = "load"
			}
			line += fmt.Sprintf(" %s@%s.%d", v.state, sequence, v.version.Count())
		}
		for _, c := range r.Cells {
			line += fmt.Sprintf(" %s=%s", c.Qualifier, c.Value)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// H60: a repair that runs while another mapping begins, before or after the row is read, leaves
// rows that the new mapping wrote. If the new mapping is already known, nothing is read.
func TestH60_RepairUnderAFormerMapping(t *testing.T) {
	other := put(10, "renamed=1")
	other.Version = transform.NewVersion(2, 500_000, cdc.SequenceOf(10), 1)
	fails := errors.New("another mapping")
	onBoth(t, func(t *testing.T, table target) {
		r := newRepairs(table)
		r.image = itemR("1")
		r.Generation = func(context.Context, time.Time) (uint32, error) { return 2, nil }
		if done, err := r.Repair(context.Background(), itemR("any")); !errors.Is(err, sink.ErrOvertaken) || done.Written > 0 {
			t.Errorf("of a row without a version: %+v, %v", done, err)
		}
		r.between = func() { apply(t, table, other) }
		for range 2 {
			if done, err := r.Repair(context.Background(), itemR("any")); !errors.Is(err, sink.ErrOvertaken) || done.Written > 0 {
				t.Errorf("%+v, %v", done, err)
			}
			if got := content(t, table); got != "r live@10.1 renamed=1" {
				t.Errorf("the row is %s", got)
			}
			r.between = func() {}
		}
		r.Current = func(context.Context) (uint32, error) { return 0, fails }
		r.between = func() { t.Error("the item is read") }
		if _, err := r.Repair(context.Background(), itemR("any")); !errors.Is(err, fails) {
			t.Error(err)
		}
	})
}

func TestRepair(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		r := newRepairs(table)
		steps := []struct {
			name    string
			change  func()
			image   attribute.Item
			written int
			want    string
		}{
			{"nothing on either side", nil, attribute.Item{}, 0, ""},
			{"a row that was never written", nil, itemR("1"), 1, "r live@load.1 a=1 pk=r"},
			{"again", nil, itemR("1"), 0, "r live@load.1 a=1 pk=r"},
			{"a loaded row differs", nil, itemR("2"), 1, "r live@load.2 a=2 pk=r"},
			{"a changed row differs", func() { apply(t, table, put(10, "a=old", "x=surplus")) }, itemR("3"), 1, "r live@10.2 a=3 pk=r"},
			{"and once more", nil, itemR("4"), 1, "r live@10.3 a=4 pk=r"},
			{"it is gone in the source", nil, attribute.Item{}, 1, "r gone@10.4"},
			{"and stays", nil, attribute.Item{}, 0, "r gone@10.4"},
			{"tombstoned but present", nil, itemR("5"), 1, "r live@10.5 a=5 pk=r"},
			{"the next change wins", func() { apply(t, table, put(11, "a=6", "pk=r")) }, itemR("6"), 0, "r live@11.1 a=6 pk=r"},
			{"a removed row", func() { apply(t, table, remove(12)) }, itemR("7"), 1, "r live@12.2 a=7 pk=r"},
		}
		for _, s := range steps {
			if s.change != nil {
				s.change()
			}
			r.image = s.image
			done, err := r.Repair(context.Background(), itemR("any"))
			if err != nil || done.Written != s.written || done.Present != s.image.Exists() {
				t.Errorf("%s: %+v, %v", s.name, done, err)
			}
			if got := content(t, table); got != s.want {
				t.Errorf("%s: %s\nwant %s", s.name, got, s.want)
			}
		}
	})
}

// An image is dated at the moment before its read was sent. A generation may admit it from a little
// later on, and nothing that was read before that.
func TestRepairDatesAnImageBeforeItsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, asked := time.Now(), time.Time{}
		r := newRepairs(memory())
		r.image, r.after = itemR("1"), func() { time.Sleep(3 * time.Second) }
		r.Generation = func(_ context.Context, at time.Time) (uint32, error) { asked = at; return 1, nil }
		if done, err := r.Repair(t.Context(), itemR("any")); err != nil || done.Written != 1 || !asked.Equal(start) {
			t.Errorf("%+v, %v; a generation for %s was asked for, and the read began at %s", done, err, asked, start)
		}
	})
}

// A source that cannot be read shows nothing about the item, and a missing table does not mean a
// missing item.
func TestRepairWithoutASource(t *testing.T) {
	for reason := range cdc.Malformed + 1 {
		table := memory()
		apply(t, table, put(7, "a=1"))
		r := newRepairs(table)
		r.Item = func(context.Context, attribute.Item) (attribute.Item, bool, error) {
			return attribute.Item{}, false, &cdc.Error{Op: "GetItem", Reason: reason, Err: errors.New("no")}
		}
		if done, err := r.Repair(context.Background(), itemR("any")); !cdc.Is(err, reason) || done.Written != 0 {
			t.Errorf("%s: %+v, %v", reason, done, err)
		}
		expect(t, table, "r live@7 d:a=1@1000000")
	}
}

func TestRepairTellsWhatItCannotStore(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		apply(t, table, remove(10))
		r := newRepairs(table)
		r.image = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("r")}, {Name: strings.Repeat("n", transform.MaxQualifierBytes+1), Value: attribute.Null()}})
		var bad *sink.BadItem
		if _, err := r.Repair(context.Background(), itemR("any")); !errors.As(err, &bad) || bad.Source != "Orders" {
			t.Error(err)
		}
		if got := content(t, table); got != "r gone@10.1" {
			t.Error("the row was touched: ", got)
		}
	})
	table := memory()
	r := newRepairs(table)
	r.image = itemR("1")
	for name, c := range map[string]struct {
		answer error
		is     func(error) bool
	}{
		"rejected": {&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}, func(err error) bool { var bad *sink.BadItem; return errors.As(err, &bad) }},
		"unknown":  {unknown(), func(err error) bool { return sink.Is(err, sink.Unknown) }},
	} {
		r.Table = tableFunc(func(context.Context, *sink.Request) (bool, error) { return false, c.answer })
		if _, err := r.Repair(context.Background(), itemR("any")); !c.is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A remove holds no item data, so its rejection concerns the table, not an item.
	stale, gone := memory(), newRepairs(table)
	apply(t, stale, put(1, "a=1"))
	gone.Rows, gone.Table = stale, tableFunc(func(context.Context, *sink.Request) (bool, error) {
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
	})
	if _, err := gone.Repair(context.Background(), itemR("any")); !sink.Is(err, sink.Rejected) {
		t.Error(err)
	}
	refused := errors.New("not admissible")
	r.Table = table
	r.Generation = func(context.Context, time.Time) (uint32, error) { return 1, refused }
	if _, err := r.Repair(context.Background(), itemR("any")); !errors.Is(err, refused) {
		t.Error(err)
	}
	apply(t, table, remove(10)) // a row with a version needs no generation
	if done, err := r.Repair(context.Background(), itemR("any")); err != nil || done.Written != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// An item whose row depends on other attributes is removed from the rows of its former images.
func TestRepairOfAMovedItem(t *testing.T) {
	tenantFirst, err := transform.NewMapping("Orders", "t", "d", orders.PrimaryKey, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	of := func(tenant string) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("r")}, {Name: "tenant", Value: attribute.String(tenant)}})
	}
	onBoth(t, func(t *testing.T, table target) {
		live := put(10, "pk=r", "tenant=a")
		live.Row = "a#r"
		apply(t, table, live)
		r := newRepairs(table)
		r.Mapping, r.image = tenantFirst, of("b")
		if done, err := r.Repair(context.Background(), of("any"), of("a")); err != nil || done.Written != 2 {
			t.Errorf("%+v, %v", done, err)
		}
		if got, want := content(t, table), "a#r gone@10.2\nb#r live@load.1 pk=r tenant=b"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

// A repair of an item in a shared row touches neither cells nor versions of the others.
func TestRepairOfOneItemOfARow(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		for _, m := range []transform.RowMutation{put(50, "a=row"), folded("a.c", 10, "old"), folded("abc", 5, "2")} {
			apply(t, table, m)
		}
		for owner, want := range map[string]transform.Version{
			"a.c": at(2), "new": transform.NewVersion(repairGeneration, 0, cdc.SequenceOf(uint64(repairAt.Unix())), 1), "abc": version(5),
		} {
			value := owner
			if owner == "abc" {
				value = "2" // the present value
			}
			r, needed, err := sink.Mend(readAll(t, table, "t")[0], folded(owner, 99, value), repairGeneration, repairAt)
			if err != nil || needed != (owner != "abc") {
				t.Fatalf("%s: needed %v, %v", owner, needed, err)
			}
			if needed {
				if applied, err := table.Apply(context.Background(), &r); !applied || err != nil {
					t.Fatalf("%s: applied %v, %v", owner, applied, err)
				}
			}
			if held := readAll(t, table, "t")[0].HeldBy(owner); held != want {
				t.Errorf("%s is at %s, want %s", owner, held, want)
			}
		}
		expect(t, table, "r live@50 d:a=row@1000000 e:a.c=a.c@1000000 e:abc=2@1000000 e:new=new@1000000")
		r, needed, err := sink.Mend(readAll(t, table, "t")[0], folded("a.c", 99, ""), repairGeneration, repairAt)
		if applied, applyErr := table.Apply(context.Background(), &r); !needed || err != nil || !applied || applyErr != nil {
			t.Fatal(needed, err, applied, applyErr)
		}
		expect(t, table, "r live@50 d:a=row@1000000 e:abc=2@1000000 e:new=new@1000000")
	})
}
