package sink_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func TestParkingInMemory(t *testing.T) { testParking(t, &sinktest.Records{}) }

// testParking parks items of another migration and of three tables, one of which has another's name
// as its prefix.
func testParking(t *testing.T, records sink.Records) {
	ctx := context.Background()
	parking, other := sink.NewParking(records, "m"), sink.NewParking(records, "m2")
	record := func(source, key string, sequence uint64) transform.Parked {
		change := page(key)[0]
		change.Old, change.Expired = change.New, true
		return transform.Parked{Source: source, Key: "S:" + key, Version: version(sequence), Reason: "why <" + key + ">", Change: change}
	}
	a9, a10, b, dotted := record("A", "a", 9), record("A", "a", 10), record("A", "b", 1), record("A.b", "a", 1)
	for _, p := range []transform.Parked{a9, a10, b, dotted, a9} { // one of them twice
		if err := parking.Park(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Park(ctx, a9); err != nil {
		t.Fatal(err)
	}
	list := func(source string) (refs []sink.Ref) {
		t.Helper()
		err := parking.List(ctx, source, func(ref sink.Ref, p transform.Parked) error {
			if sink.RefOf(p) != ref || !strings.HasPrefix(p.Reason, "why <") || !p.Change.Expired {
				t.Errorf("%s: %+v", ref, p)
			}
			refs = append(refs, ref)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return refs
	}
	if all, ofA := list(""), list("A"); len(all) != 4 || len(ofA) != 3 {
		t.Errorf("%d records, %d of A", len(all), len(ofA))
	}
	for limit, want := range map[int]int{100: 3, 2: 2} {
		if n, err := parking.Count(ctx, limit); n != want || err != nil {
			t.Errorf("%d items with a limit of %d: %v", n, limit, err)
		}
	}
	if items, err := parking.ItemsOf(ctx, "A"); len(items) != 2 || len(items[0]) != 32 || err != nil {
		t.Errorf("items %v: %v", items, err)
	}
	if n, err := parking.CountOf(ctx, "A"); n != 2 || err != nil {
		t.Error(n, err)
	}
	got, err := parking.Get(ctx, sink.RefOf(a10))
	if err != nil || got.Version != a10.Version || !got.Change.New.Equal(a10.Change.New) || !got.Change.Old.Equal(a10.Change.Old) || !got.Change.Time.Equal(a10.Change.Time) || got.Key != "S:a" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, ref := range []sink.Ref{"A/none/1", "A", sink.RefOf(a10)[:20]} {
		if _, err := parking.Get(ctx, ref); !errors.Is(err, sink.ErrNotParked) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for range 2 {
		if err := parking.Remove(ctx, sink.RefOf(a10)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(list("")); n != 3 {
		t.Errorf("%d records after one was removed", n)
	}
	if _, err := other.Get(ctx, sink.RefOf(a9)); err != nil {
		t.Error("another migration's record is gone: ", err)
	}
}

func TestParkedRecordOfANewerFormatIsRefused(t *testing.T) {
	ctx := context.Background()
	for _, data := range []string{`{"format":2}`, `not JSON customer-4711`, `{"format":1,"version":"x"}`, `{"format":1,"version":"` + string(version(1)) + `","change":{}}`} {
		records := &sinktest.Records{}
		_ = records.Put(ctx, "m/parked/A/x/y", []byte(data))
		err := sink.NewParking(records, "m").List(ctx, "", func(sink.Ref, transform.Parked) error { return nil })
		if err == nil || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// A later good change heals the row, and its record is removed. Records that nothing healed stay.
func TestResolveForgetsWhatALaterChangeHealed(t *testing.T) {
	ctx := context.Background()
	tenantFirst, err := transform.NewMapping("Orders", "t", "d", orders.PrimaryKey, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*transform.Mapping{"default": orders, "tenant first": tenantFirst} {
		t.Run(name, func(t *testing.T) {
			table, records := memory(), &sinktest.Records{}
			parking := sink.NewParking(records, "m")
			w := sink.NewWriter(sink.Options{Table: table, Parking: parking})
			image := func(key, tenant, name string) attribute.Item {
				return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "tenant", Value: attribute.String(tenant)}, {Name: name, Value: attribute.Null()}})
			}
			bad := strings.Repeat("n", transform.MaxQualifierBytes+1)
			change := func(sequence uint64, key string, old, image attribute.Item) cdc.Change {
				c := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(sequence), Keys: page(key)[0].Keys, Old: old, New: image}
				if !old.Exists() {
					c.Event = cdc.Insert
				} else if !image.Exists() {
					c.Event = cdc.Remove
				}
				return c
			}
			write := func(c cdc.Change) {
				t.Helper()
				b := transform.Fold(m, []cdc.Change{c}, transform.Stamp{Generation: 1, Hop: 500_000})
				if err := w.Write(ctx, sink.Unfenced(), &b); err != nil {
					t.Fatal(err)
				}
			}
			for i, key := range []string{"changed", "moved", "removed", "left"} {
				write(change(uint64(10+i), key, attribute.Item{}, image(key, "t1", bad)))
			}
			if resolved, left, err := parking.Resolve(ctx, m, table); resolved != 0 || left != 4 || err != nil {
				t.Fatal(resolved, left, err)
			}
			write(change(20, "changed", image("changed", "t1", bad), image("changed", "t1", "ok")))
			write(change(21, "moved", image("moved", "t1", bad), image("moved", "t2", "ok")))
			write(change(22, "removed", image("removed", "t1", bad), attribute.Item{}))
			if resolved, left, err := parking.Resolve(ctx, m, table); resolved != 3 || left != 1 || err != nil {
				t.Fatal(resolved, left, err)
			}
			_ = parking.List(ctx, "", func(_ sink.Ref, p transform.Parked) error {
				if v, _ := p.Change.Keys.Get("pk"); v.Text() != "left" {
					t.Error("the wrong record is left")
				}
				return nil
			})
		})
	}
}

// cutShort is a table whose n-th write from now fails.
type cutShort struct {
	*sinktest.Memory
	n    int
	with error
}

func (c *cutShort) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if c.n--; c.n == 0 {
		return false, c.with
	}
	return c.Memory.Apply(ctx, r)
}

// A parked item of several rows stays parked if its retry fails between two of them. It is resolved
// once all are repaired, or by its next change.
func TestH38_ARetryThatIsCutShortLeavesTheItemParked(t *testing.T) {
	ctx := context.Background()
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "t", PrimaryKey: orders.PrimaryKey, Families: []transform.Family{{Name: "d"}},
		Rules: []transform.Rule{{Writes: []transform.Write{{}, {Table: "u"}, {Table: "w"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	item := itemR("1")
	insert := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(7), Time: time.Unix(1000, 0), Keys: m.Keys(item), New: item}
	for end, with := range map[string]error{"killed": context.Canceled, "no answer": unknown(), "rejected": &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}} {
		for row := 1; row <= 3; row++ {
			table, parking := &cutShort{Memory: memory()}, sink.NewParking(&sinktest.Records{}, "m")
			table.Create("u", "d")
			table.Create("w", "d")
			// MaxImageAge makes the writer park the whole item.
			w := sink.NewWriter(sink.Options{Table: table.Memory, Parking: parking, MaxImageAge: time.Hour})
			page := transform.Fold(m, []cdc.Change{insert}, transform.Stamp{Generation: 1, Hop: 500_000})
			if err := w.Write(ctx, sink.Unfenced(), &page); err != nil {
				t.Fatal(err)
			}
			expect := func(when string, want int) {
				t.Helper()
				if resolved, left, err := parking.Resolve(ctx, m, table.Memory); resolved != 1-want || left != want || err != nil {
					t.Errorf("%s at row %d, %s: %d resolved, %d left, %v", end, row, when, resolved, left, err)
				}
			}
			expect("parked", 1)
			r := newRepairs(table)
			r.Mapping, r.image = m, item
			table.n, table.with = row, with
			if _, err := r.Repair(ctx, m.Keys(item), item); err == nil {
				t.Fatal("it was not cut short")
			}
			expect("cut short", 1)
			if done, err := r.Repair(ctx, m.Keys(item), item); done.Written != 4-row || err != nil {
				t.Errorf("%s at row %d: %d rows are written then, %v", end, row, done.Written, err)
			}
			expect("retried", 0)
		}
	}
}

// If a row rejected the put of a change, the change's other rows hold what they should and never
// get a higher version. They do not keep the item parked.
func TestResolveOfOneRejectedRow(t *testing.T) {
	ctx := context.Background()
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "t", PrimaryKey: orders.PrimaryKey, Families: []transform.Family{{Name: "d"}},
		Rules: []transform.Rule{{Writes: []transform.Write{{}, {Table: "u"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for rejected := 1; rejected <= 2; rejected++ {
		table, parking := memory(), sink.NewParking(&sinktest.Records{}, "m")
		table.Create("u", "d")
		item := itemR("1")
		page := transform.Fold(m, []cdc.Change{{Event: cdc.Insert, Sequence: cdc.SequenceOf(7), Time: time.Unix(1000, 0), Keys: m.Keys(item), New: item}},
			transform.Stamp{Generation: 1, Hop: 500_000})
		rejecting := &cutShort{Memory: table, n: rejected, with: &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}}
		if err := sink.NewWriter(sink.Options{Table: rejecting, Parking: parking, InFlight: 1}).Write(ctx, sink.Unfenced(), &page); err != nil {
			t.Fatal(err)
		}
		if resolved, left, err := parking.Resolve(ctx, m, table); resolved != 0 || left != 1 || err != nil {
			t.Error(rejected, resolved, left, err)
		}
		r := newRepairs(table)
		r.Mapping, r.image = m, item
		if done, err := r.Repair(ctx, m.Keys(item), item); done.Written != 1 || err != nil {
			t.Error(rejected, done, err)
		}
		if resolved, left, err := parking.Resolve(ctx, m, table); resolved != 1 || left != 0 || err != nil {
			t.Error(rejected, resolved, left, err)
		}
	}
}

// A load that is killed between a parked item's tombstone and its record reads the item again,
// perhaps by a clock that is behind. Its own tombstone, which outranks the record, does not heal
// it. One of a later generation does.
func TestResolveOfAnItemThatALoadReadTwice(t *testing.T) {
	ctx, start := context.Background(), time.Unix(1_000_000, 0)
	item := itemR("1")
	for name, c := range map[string]struct {
		generation uint32
		after      time.Duration
		left       int
	}{"the same, by a clock that is ahead": {1, time.Hour, 1}, "the same second": {1, 0, 1}, "a later load": {2, -time.Hour, 0}} {
		table, parking := memory(), sink.NewParking(&sinktest.Records{}, "m")
		record := transform.Load(orders, []attribute.Item{item}, 1, start)
		if err := parking.Park(ctx, record.Park(record.Rows[0], "rejected")); err != nil {
			t.Fatal(err)
		}
		tombstone := transform.Load(orders, []attribute.Item{item}, c.generation, start.Add(c.after)).Rows[0]
		tombstone.Remove, tombstone.Cells = true, nil
		apply(t, table, tombstone)
		if resolved, left, err := parking.Resolve(ctx, orders, table); resolved != 1-c.left || left != c.left || err != nil {
			t.Errorf("%s: %d resolved, %d left, %v", name, resolved, left, err)
		}
	}
}
