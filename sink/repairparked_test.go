package sink_test

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// If the mapping keeps items that the time to live removes, an item that the source does not hold
// may have expired. A repair leaves its row alone, unless the row lacks the parked change.
// Otherwise it removes the row.
func TestRepairOfAnItemThatIsGone(t *testing.T) {
	expiring := func(e transform.Expire) *transform.Mapping {
		m, err := transform.New(transform.Spec{Source: "Orders", Table: "t", PrimaryKey: orders.PrimaryKey, Families: []transform.Family{{Name: "d"}},
			TTL: transform.TTL{Attribute: "until", Expire: e}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	parked := func(sequences ...uint64) (records []transform.Parked) {
		for _, n := range sequences {
			records = append(records, transform.Parked{Version: version(n), Change: cdc.Change{Keys: orders.Keys(itemR("")), New: itemR("1")}})
		}
		return records
	}
	const row = "r live@10.1 a=1 pk=r"
	tombstone := func(after string) string { return "r gone@" + after }
	for name, c := range map[string]struct {
		expire  transform.Expire
		records []transform.Parked // nil: it is repaired without any
		removed bool               // a tombstone exists as well, from a partly applied remove
		image   attribute.Item     // the item in the source
		want    string
	}{
		"kept, newer than what is parked":      {expire: transform.KeepExpired, records: parked(9, 8), want: row},
		"kept, older than what is parked":      {expire: transform.KeepExpired, records: parked(11, 8), want: tombstone("10.2")},
		"kept, older than what is parked last": {expire: transform.KeepExpired, records: parked(8, 11), want: tombstone("10.2")},
		"kept, as old as what is parked":       {expire: transform.KeepExpired, records: parked(10), want: row},
		"kept, and nothing is parked":          {expire: transform.KeepExpired, want: row},
		"kept, but removed, with cells left":   {expire: transform.KeepExpired, removed: true, want: tombstone("20.2")},
		"not kept, newer than what is parked":  {expire: transform.FollowDeletes, records: parked(9), want: tombstone("10.2")},
		"kept, and there":                      {expire: transform.KeepExpired, image: itemR("2"), records: parked(9), want: "r live@10.2 a=2 pk=r"},
		"not kept, and nothing is parked":      {expire: transform.FollowDeletes, want: tombstone("10.2")},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, table target) {
				apply(t, table, put(10, cellsR("1")...))
				if c.removed {
					request := sink.Guard(remove(20))
					request.Ops = request.Ops[len(request.Ops)-1:]
					if _, err := table.Apply(context.Background(), &request); err != nil {
						t.Fatal(err)
					}
				}
				r := newRepairs(table)
				r.Mapping, r.image = expiring(c.expire), c.image
				var done sink.Repaired
				var err error
				if c.records == nil {
					done, err = r.Repair(context.Background(), itemR("any"))
				} else {
					done, err = r.RepairParked(context.Background(), c.records...)
				}
				written := 1
				if c.want == row {
					written = 0
				}
				if err != nil || done != (sink.Repaired{Present: c.image.Exists(), Written: written}) {
					t.Errorf("%+v, %v", done, err)
				}
				if got := content(t, table); got != c.want {
					t.Errorf("%s\nwant %s", got, c.want)
				}
			})
		})
	}
}

// A repair counts the rows that it wrote before a change overtook it, and those that it wrote
// afterwards.
func TestARepairCountsTheRowsOfAllItsAttempts(t *testing.T) {
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "t", PrimaryKey: orders.PrimaryKey, Families: []transform.Family{{Name: "d"}},
		Rules: []transform.Rule{{Writes: []transform.Write{{}, {Table: "u"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	table := memory()
	table.Create("u", "d")
	r := newRepairs(table)
	r.Mapping, r.image = m, itemR("1")
	r.after = func() {
		r.after = func() {}
		overtaking := put(10, "a=0")
		overtaking.Table = "u"
		apply(t, table, overtaking)
	}
	if done, err := r.Repair(context.Background(), itemR("any")); err != nil || done.Written != 2 {
		t.Errorf("%+v, %v", done, err)
	}
}
