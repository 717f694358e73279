package sink_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// expiring returns a mapping of orders whose attribute "a" is a time to live.
func expiring(t *testing.T, e transform.Expire) *transform.Mapping {
	t.Helper()
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "t", PrimaryKey: orders.PrimaryKey, Families: []transform.Family{{Name: "d"}},
		TTL: transform.TTL{Attribute: "a", Expire: e}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// H57, H54, H112: a row is repaired only in the state in which it was seen, with the present item.
// Otherwise it is left, with a reason.
func TestH57_H54_H112_RepairSeen(t *testing.T) {
	pending := put(10, "a=0")
	pending.Version = transform.NewVersion(1, 500_000, cdc.SequenceOf(10), transform.CountTimestamped)
	last := put(10, "a=0")
	last.Version = transform.NewVersion(1, 500_000, cdc.SequenceOf(10), transform.MaxCount)
	gone, over := attribute.Item{}, itemN("1700000000")
	for name, c := range map[string]struct {
		before []transform.RowMutation
		bare   bool // the version is lost
		seen   transform.Version
		image  attribute.Item
		expire transform.Expire
		owned  bool
		theirs bool // the ledger never had the row's generation
		row    string
		out    sink.Outcome
		want   string
	}{
		"different":                        {before: []transform.RowMutation{put(10, "a=0", "x=foreign")}, seen: at(1), image: itemR("1"), out: sink.Mended, want: "r live@10.2 a=1 pk=r"},
		"missing":                          {image: itemR("1"), out: sink.Mended, want: "r live@load.1 a=1 pk=r"},
		"extra":                            {before: []transform.RowMutation{put(10, "a=0")}, seen: at(1), image: gone, out: sink.Mended, want: "r gone@10.2"},
		"extra, of another migration":      {before: []transform.RowMutation{put(10, "a=0")}, seen: at(1), image: gone, theirs: true, out: sink.Foreign, want: "r live@10.1 a=0"},
		"different, of another migration":  {before: []transform.RowMutation{put(10, "a=0")}, seen: at(1), image: itemR("1"), theirs: true, out: sink.Mended, want: "r live@10.2 a=1 pk=r"},
		"removed, but present":             {before: []transform.RowMutation{remove(10)}, seen: at(1), image: itemR("1"), out: sink.Mended, want: "r live@10.2 a=1 pk=r"},
		"equal by now":                     {before: []transform.RowMutation{put(10, cellsR("1")...)}, seen: at(1), image: itemR("1"), out: sink.Equal, want: "r live@10.1 a=1 pk=r"},
		"moved on":                         {before: []transform.RowMutation{put(11, "a=0")}, seen: at(1), image: itemR("1"), out: sink.MovedOn, want: "r live@11.1 a=0"},
		"repaired meanwhile":               {before: []transform.RowMutation{last}, seen: at(1), image: itemR("1"), out: sink.MovedOn, want: "r live@10.9999 a=0"},
		"written meanwhile":                {before: []transform.RowMutation{put(10, "a=0")}, image: itemR("1"), out: sink.MovedOn, want: "r live@10.1 a=0"},
		"no count left":                    {before: []transform.RowMutation{last}, seen: last.Version, image: itemR("1"), out: sink.Exhausted, want: "r live@10.9999 a=0"},
		"at count 0":                       {before: []transform.RowMutation{pending}, seen: pending.Version, image: itemR("1"), out: sink.InFlight, want: "r live@10.0 a=0"},
		"without a version, present":       {before: []transform.RowMutation{put(10, "a=0")}, bare: true, image: itemR("1"), out: sink.Mended, want: "r live@load.1 a=1 pk=r"},
		"without a version, absent":        {before: []transform.RowMutation{put(10, "a=0")}, bare: true, image: gone, out: sink.Foreign, want: "r a=0"},
		"without a version, absent, owned": {before: []transform.RowMutation{put(10, "a=0")}, bare: true, image: gone, owned: true, out: sink.Mended, want: "r gone@load.1"},
		"another item's row":               {row: "s", image: itemR("1"), owned: true, out: sink.Foreign, want: ""},
		"a witness":                        {row: orders.WitnessKey(), image: itemR("1"), owned: true, out: sink.Foreign, want: ""},
		"unmappable":                       {before: []transform.RowMutation{put(10, "a=0")}, seen: at(1), image: page("bad")[0].New, out: sink.Unmappable, want: "r live@10.1 a=0"},
		"expired, and collected":           {before: []transform.RowMutation{put(10, "pk=r")}, seen: at(1), image: over, out: sink.Expired, want: "r live@10.1 pk=r"},
		"expired, and another value":       {before: []transform.RowMutation{put(10, "a=0", "pk=r")}, seen: at(1), image: over, out: sink.Mended, want: "r live@10.2 a=1700000000 pk=r"},
		"expired, and removed":             {before: []transform.RowMutation{remove(10)}, seen: at(1), image: over, out: sink.Expired, want: "r gone@10.1"},
		"expired, and missing":             {image: over, out: sink.Expired, want: ""},
		"expired, which stays":             {before: []transform.RowMutation{put(10, "a=0")}, seen: at(1), image: over, expire: transform.KeepExpired, out: sink.Mended, want: "r live@10.2 a=1700000000 pk=r"},
		"removed by its time, which stays": {before: []transform.RowMutation{put(10, "a=0")}, seen: at(1), image: gone, expire: transform.KeepExpired, out: sink.KeptAlive, want: "r live@10.1 a=0"},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, table target) {
				for _, m := range c.before {
					apply(t, table, m)
				}
				if c.bare {
					loseVersion(t, table, "r")
				}
				r := newRepairs(table)
				r.image, r.Owned, r.Now = c.image, c.owned, func(context.Context) time.Time { return repairAt }
				r.Had = func(generation uint32) bool { return !c.theirs && generation == 1 }
				r.Mapping = expiring(t, c.expire)
				row := "r"
				if c.row != "" {
					row = c.row
				}
				before := content(t, table)
				sighting := []sink.Sighting{{Table: "t", Row: row, Held: c.seen}}
				r.DryRun = true
				if got, err := r.RepairSeen(t.Context(), itemR("any"), sighting); err != nil || got[0] != c.out || content(t, table) != before {
					t.Errorf("a dry run: %s, %v: %s", got, err, content(t, table))
				}
				r.DryRun = false
				if got, err := r.RepairSeen(t.Context(), itemR("any"), sighting); err != nil || got[0] != c.out {
					t.Errorf("%s, %v", got, err)
				}
				if got := content(t, table); got != c.want {
					t.Errorf("%s\nwant %s", got, c.want)
				}
			})
		})
	}
}

// H57, H54: a write between the second read and the repair's write wins: a change, a removal by the
// time to live, another repair.
func TestH57_H54_RepairSeenRacesTheStream(t *testing.T) {
	for name, during := range map[string]transform.RowMutation{"change": put(11, "a=new"), "removal": remove(11)} {
		for _, seen := range []transform.Version{"", at(1)} {
			t.Run(fmt.Sprintf("%s over %q", name, seen), func(t *testing.T) {
				onBoth(t, func(t *testing.T, table target) {
					if seen != "" {
						apply(t, table, put(10, "a=0"))
					}
					r := newRepairs(table)
					r.image = itemR("stale")
					r.after = func() { apply(t, table, during); r.after = func() {} }
					got, err := r.RepairSeen(t.Context(), itemR("any"), []sink.Sighting{{Table: "t", Row: "r", Held: seen}})
					if err != nil || got[0] != sink.MovedOn {
						t.Errorf("%s, %v", got, err)
					}
					want := "r live@11.1 a=new"
					if during.Remove {
						want = "r gone@11.1"
					}
					if got := content(t, table); got != want {
						t.Errorf("%s\nwant %s", got, want)
					}
				})
			})
		}
	}
}

// A row with a version of another program is left alone as a whole.
func TestRepairOfAForeignVersion(t *testing.T) {
	table := memory()
	foreign := put(10, "a=0")
	foreign.Version = "zzz"
	apply(t, table, foreign)
	r := newRepairs(table)
	r.image = itemR("1")
	if got, err := r.RepairSeen(t.Context(), itemR("any"), []sink.Sighting{{Table: "t", Row: "r", Held: "zzz"}}); err != nil || got[0] != sink.Unreadable {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := r.Repair(t.Context(), itemR("any")); !errors.Is(err, sink.ErrVersion) {
		t.Error(err)
	}
	if rows := readAll(t, table, "t"); len(rows) != 1 || rows[0].Version != "zzz" {
		t.Errorf("%+v", rows)
	}
}

// Several rows are judged separately, and an error leaves the earlier ones repaired.
func TestRepairSeenOfSeveralRows(t *testing.T) {
	m, err := transform.NewMapping("Orders", "t", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, "a", "pk")
	if err != nil {
		t.Fatal(err)
	}
	table := memory()
	rows := []string{"0#r", "1#r", "2#r"}
	for _, row := range rows {
		left := put(10, "a=old")
		left.Row = row
		apply(t, table, left)
	}
	r := newRepairs(table)
	r.Mapping, r.image = m, itemR("1")
	var seen []sink.Sighting
	for _, row := range append(rows, "x#s") {
		seen = append(seen, sink.Sighting{Table: "t", Row: row, Held: at(1)})
	}
	seen[2].Held = at(2)
	got, err := r.RepairSeen(t.Context(), itemR("any"), seen)
	if err != nil || fmt.Sprint(got) != "[repaired repaired moved_on foreign]" {
		t.Errorf("%s, %v", got, err)
	}
	if got := content(t, table); got != "0#r gone@10.2\n1#r live@10.2 a=1 pk=r\n2#r live@10.1 a=old" {
		t.Error(got)
	}
	down := errors.New("down")
	r.Item = func(context.Context, attribute.Item) (attribute.Item, bool, error) {
		return attribute.Item{}, false, down
	}
	if _, err := r.RepairSeen(t.Context(), itemR("any"), seen); !errors.Is(err, down) {
		t.Error(err)
	}
}

// Cells with correct values keep their times, because an age rule counts from there.
func TestRepairedCellsKeepTheirTimes(t *testing.T) {
	onBoth(t, func(t *testing.T, table target) {
		apply(t, table, put(10, "a=0", "pk=r"))
		r := newRepairs(table)
		r.image = itemR("1")
		r.Now = func(context.Context) time.Time { return repairAt }
		if got, err := r.RepairSeen(t.Context(), itemR("any"), []sink.Sighting{{Table: "t", Row: "r", Held: at(1)}}); err != nil || got[0] != sink.Mended {
			t.Errorf("%s, %v", got, err)
		}
		for _, c := range readAll(t, table, "t")[0].Cells {
			if want := map[string]int64{"a": repairAt.UnixMicro(), "pk": 1_000_000}[c.Qualifier]; c.Timestamp != want {
				t.Errorf("%s is at %d, not %d", c.Qualifier, c.Timestamp, want)
			}
		}
	})
}

// itemN is like itemR, with a number.
func itemN(value string) attribute.Item {
	n, err := attribute.Number(value)
	if err != nil {
		panic(err)
	}
	return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("r")}, {Name: "a", Value: n}})
}

// loseVersion removes a row's versions, as another program might.
func loseVersion(t *testing.T, table sink.Table, row string) {
	t.Helper()
	r := sink.Request{Table: "t", Row: row, Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "0"},
		Ops: []sink.Op{{Kind: sink.DeleteFamily, Family: sink.LiveFamily}, {Kind: sink.DeleteFamily, Family: sink.GoneFamily}}}
	if _, err := table.Apply(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
}
