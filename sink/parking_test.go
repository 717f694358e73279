package sink_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func TestParkingInMemory(t *testing.T) { testParking(t, &sinktest.Records{}) }

// testParking parks items of three tables, one of which has a name that begins like another's, and of another migration.
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

// A later good change heals the row, and the record is forgotten; what nothing healed stays.
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
			image := func(key, tenant, name string) cdc.Item {
				return cdc.NewItem([]cdc.Attribute{{Name: "pk", Value: cdc.String(key)}, {Name: "tenant", Value: cdc.String(tenant)}, {Name: name, Value: cdc.Null()}})
			}
			bad := strings.Repeat("n", transform.MaxQualifierBytes+1)
			change := func(sequence uint64, key string, old, image cdc.Item) cdc.Change {
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
				if err := w.Write(ctx, &b); err != nil {
					t.Fatal(err)
				}
			}
			for i, key := range []string{"changed", "moved", "removed", "left"} {
				write(change(uint64(10+i), key, cdc.Item{}, image(key, "t1", bad)))
			}
			if resolved, left, err := parking.Resolve(ctx, m, table); resolved != 0 || left != 4 || err != nil {
				t.Fatal(resolved, left, err)
			}
			write(change(20, "changed", image("changed", "t1", bad), image("changed", "t1", "ok")))
			write(change(21, "moved", image("moved", "t1", bad), image("moved", "t2", "ok")))
			write(change(22, "removed", image("removed", "t1", bad), cdc.Item{}))
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
