package sink_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Any write between the read and the repair's write wins: changes, removes, loads, and other
// repairs.
func TestConcurrentChangesWinOverARepair(t *testing.T) {
	loaded := func(value string) transform.RowMutation {
		m := put(0, cellsR(value)...)
		m.Version = transform.NewVersion(1, transform.LoadHop, cdc.SequenceOf(uint64(firstSecond)), transform.CountExact)
		return m
	}
	repaired := func(sequence uint64, value string) transform.RowMutation {
		m := put(sequence, cellsR(value)...)
		m.Version = transform.NewVersion(1, 500_000, cdc.SequenceOf(sequence), 2)
		return m
	}
	for name, c := range map[string]struct {
		before []transform.RowMutation
		during transform.RowMutation
		image  attribute.Item // the item in the source after during has run
		want   string
	}{
		"change over change":           {[]transform.RowMutation{put(10, "a=0")}, put(11, cellsR("new")...), itemR("new"), "r live@11.1 a=new pk=r"},
		"change over nothing":          {nil, put(11, cellsR("new")...), itemR("new"), "r live@11.1 a=new pk=r"},
		"change over tombstone":        {[]transform.RowMutation{remove(10)}, put(11, cellsR("new")...), itemR("new"), "r live@11.1 a=new pk=r"},
		"remove over change":           {[]transform.RowMutation{put(10, "a=0")}, remove(11), attribute.Item{}, "r gone@11.1"},
		"remove over nothing":          {nil, remove(11), attribute.Item{}, "r gone@11.1"},
		"load over nothing":            {nil, loaded("new"), itemR("new"), "r live@load.1 a=new pk=r"},
		"another repair":               {[]transform.RowMutation{put(10, "a=0")}, repaired(10, "new"), itemR("new"), "r live@10.2 a=new pk=r"},
		"another repair, of tombstone": {[]transform.RowMutation{remove(10)}, repaired(10, "new"), itemR("new"), "r live@10.2 a=new pk=r"},
	} {
		for _, when := range []string{"before the read", "after the read"} {
			t.Run(name+" "+when, func(t *testing.T) {
				onBoth(t, func(t *testing.T, table target) {
					for _, m := range c.before {
						apply(t, table, m)
					}
					r := newRepairs(table)
					r.image = itemR("stale")
					once := func() {
						apply(t, table, c.during)
						r.image = c.image
						r.between, r.after = func() {}, func() {}
					}
					if when == "before the read" {
						r.between = once
					} else {
						r.after = once
					}
					if done, err := r.Repair(context.Background(), itemR("any")); err != nil || done.Written != 0 {
						t.Errorf("%+v, %v", done, err)
					}
					if got := content(t, table); got != c.want {
						t.Errorf("%s\nwant %s", got, c.want)
					}
				})
			})
		}
	}
}

// An item that changes during every attempt is not repaired; its changes follow.
func TestRepairGivesUpOnAnItemThatKeepsChanging(t *testing.T) {
	table := memory()
	r := newRepairs(table)
	r.image = itemR("stale")
	n := uint64(100)
	r.after = func() { n++; apply(t, table, put(n, "a=new")) }
	if done, err := r.Repair(context.Background(), itemR("any")); !errors.Is(err, sink.ErrOvertaken) || done.Written != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	expect(t, table, fmt.Sprintf("r live@%d d:a=new@1000000", n))
}

// H04, H26, H72: items are written, moved, deleted and recreated. Their changes are applied late,
// lost, repeated and late again, and so are the requests of parallel repairs. In the end the target
// equals the source, and no row's version ever fell.
func TestH04_H26_H72_RepairsBesideTheStream(t *testing.T) {
	tenantFirst, err := transform.NewMapping("Orders", "t", "d", orders.PrimaryKey, "tenant", "pk")
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for seed := range uint64(200) {
		mapping := []*transform.Mapping{orders, tenantFirst}[seed%2]
		w := virtual.NewWorld(seed, time.Unix(firstSecond, 0), false)
		table := memory()
		changes, want := history(w, mapping, 60)
		source, committed := map[string]attribute.Item{}, 0
		through := rising(t, &network{w, table}, table)
		err := w.Run(time.Hour, func(ctx context.Context) {
			w.Go("application", func(ctx context.Context) {
				for i, c := range changes {
					_ = task.Sleep(ctx, time.Duration(w.Rand().IntN(2000))*time.Millisecond)
					source[mapping.ItemKey(c.Keys)], committed = c.New, i+1
				}
			})
			w.Go("replicator", func(ctx context.Context) {
				rows := sink.NewWriter(sink.Options{Table: through, Parking: newLot(), InFlight: 4})
				for from := 0; from < len(changes); {
					_ = task.Sleep(ctx, time.Duration(w.Rand().IntN(10_000))*time.Millisecond)
					to := min(committed, from+w.Rand().IntN(15))
					b := transform.Fold(mapping, changes[from:to], transform.Stamp{Generation: 1, Hop: 500_000})
					for rows.Write(ctx, sink.Unfenced(), &b) != nil {
						_ = task.Sleep(ctx, 100*time.Millisecond)
					}
					from = to
				}
			})
			for range 2 {
				w.Go("repairer", func(ctx context.Context) {
					r := sink.Repairer{Mapping: mapping, Rows: table, Table: through,
						Current:    func(context.Context) (uint32, error) { return 1, nil },
						Prove:      sinktest.NoFence,
						Generation: func(context.Context, time.Time) (uint32, error) { return 1, nil },
						Item: func(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
							_ = task.Sleep(ctx, time.Duration(w.Rand().IntN(1000))*time.Millisecond)
							image := source[mapping.ItemKey(keys)]
							_ = task.Sleep(ctx, time.Duration(w.Rand().IntN(3000))*time.Millisecond)
							return image, image.Exists(), nil
						}}
					for range 40 {
						keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(fmt.Sprint("k", w.Rand().IntN(4)))}})
						var former []attribute.Item
						for tenant := range 3 {
							former = append(former, attribute.NewItem(append([]attribute.Attribute{{Name: "tenant", Value: attribute.String(fmt.Sprint("t", tenant))}}, keys.Attributes()...)))
						}
						done, err := r.Repair(ctx, keys, former...)
						if err != nil && !errors.Is(err, sink.ErrOvertaken) && !sink.Is(err, sink.Unknown) {
							t.Errorf("seed %d: %v", seed, err)
						}
						written += done.Written
						_ = task.Sleep(ctx, time.Duration(w.Rand().IntN(2000))*time.Millisecond)
					}
				})
			}
			_ = task.Sleep(ctx, 50*time.Minute) // all have ended, and the last late request was executed
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := map[string]string{}
		for _, r := range readAll(t, table, "t") {
			if r.Version != "" {
				got[r.Key] = cellText(r.Cells)
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d:\ntarget %v\nsource %v", seed, got, want)
		}
	}
	if written < 1000 {
		t.Errorf("%d rows were repaired: too few to show anything", written)
	}
}
