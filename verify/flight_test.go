package verify

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// change folds a change of an item as the stream brings it.
func (w *world) change(number uint64, old, image attribute.Item) {
	w.Helper()
	c := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(number), Keys: w.m.Keys(old), Old: old, New: image, Time: noon}
	if !image.Exists() {
		c.Event = cdc.Remove
	}
	for _, row := range transform.Fold(w.m, []cdc.Change{c}, transform.Stamp{Generation: 7, Hop: 500000}).Rows {
		w.apply(row)
	}
}

// A change that is in flight at a row's first check is no difference, whatever follows. Damage is
// one, even beside changes.
func TestInFlightIsNotDifferent(t *testing.T) {
	before, after, later := item("a", "v=1"), item("a", "v=2"), item("a", "v=3")
	for name, c := range map[string]struct {
		applied func(w *world, asked int) bool // answers each query of the ledger
		want    []string
		flying  int64
	}{
		"applied late": {func(w *world, asked int) bool {
			if asked == 2 {
				w.change(5, before, after)
			}
			return asked > 2
		}, nil, 0},
		"changed again": {func(w *world, asked int) bool {
			if asked == 1 {
				w.source.put(later)
				w.change(5, before, after)
			} else if asked == 2 {
				w.change(6, after, later)
			}
			return true
		}, nil, 0},
		"changes all the time": {func(w *world, asked int) bool {
			w.change(uint64(5+asked), before, item("a", "v="+strings.Repeat("x", asked)))
			w.source.put(item("a", "v="+strings.Repeat("x", asked+1)))
			return true
		}, nil, 0},
		"lost": {func(*world, int) bool { return true }, []string{"different a d:v"}, 0},
		"changed at the source alone": {func(w *world, asked int) bool {
			w.source.put(item("a", "v="+strings.Repeat("y", asked)))
			return true
		}, []string{"different a d:v"}, 0},
		"as the row is at the second look": {func(w *world, _ int) bool { w.source.put(before); return true }, []string{"different a d:v"}, 0},
		"put right by a hand":              {func(w *world, _ int) bool { w.damage("t", "a", set("d", "v", "2")); return true }, nil, 0},
	} {
		for _, way := range []Way{Quiet, Live} {
			world := virtual.NewWorld(1, noon, false)
			err := world.Run(24*time.Hour, func(ctx context.Context) {
				w := newWorld(t, mapping(t, nil, "{id} > d"))
				w.load(noon, before)
				w.source.put(after) // the change is not applied yet
				comparison := w.comparison()
				comparison.Settle = time.Minute
				asked := 0
				comparison.Applied = func(context.Context, time.Time) (bool, error) { asked++; return c.applied(w, asked), nil }
				p, err := comparison.NewPlan(ctx, way, "", 0, []byte("key"))
				if err != nil {
					t.Fatal(err)
				}
				result, err := comparison.Compare(ctx, p, 1)
				if got := brief(result.Findings); err != nil || !slices.Equal(got, c.want) || result.InFlight != c.flying {
					t.Errorf("%s, %s: %v, %v in flight %d, want %v and %d", name, way, err, got, result.InFlight, c.want, c.flying)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The lost row of an item that is removed and put all the time is found, whatever the item's state
// is at a check.
func TestALostRowOfAnItemThatComesAndGoes(t *testing.T) {
	for _, present := range []int{0, 1} {
		w := newWorld(t, mapping(t, nil, "{id} > d"))
		w.load(noon, item("a", "v=1"))
		w.source.put(item("a", "v=2"))
		c, asked := w.comparison(), 0
		c.Applied = func(context.Context, time.Time) (bool, error) {
			if w.source.remove("a"); asked%2 == present {
				w.source.put(item("a", "v=3"))
			}
			asked++
			return true, nil
		}
		for _, way := range []Way{Quiet, Live} {
			if result, err := w.compare(c, way); err != nil || result.Clean() || result.Differing() == 0 || result.InFlight != 0 {
				t.Errorf("%s: %v, %+v", way, err, result.Counts)
			}
		}
	}
}

// A row that stayed in flight is listed with its item.
func TestWhatStaysInFlightIsNamed(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	w.timed(item("a", "v=1"))
	w.timed(item("left", "v=1"))
	w.source.put(item("a", "v=2"))
	for _, way := range []Way{Quiet, Live} {
		result, err := w.compare(w.comparison(), way)
		if got := brief(result.Findings); err != nil || result.InFlight != 2 || !slices.Equal(got, []string{"in_flight a d:v", "in_flight left d:id,d:v"}) || !result.Findings[0].Keys.Exists() {
			t.Errorf("%s: %v, %v, %+v", way, err, got, result.Counts)
		}
	}
}

// Foreign cells in a row whose item is written all the time are found: the row's versions do not
// concern them.
func TestForeignCellsOfAHotRowAreFound(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d & x{id} > e"))
	hot := item("a", "v=1")
	w.source.put(hot)
	w.load(noon, hot)
	w.damage("t", "a", set("e", "w", "2"))
	c, number := w.comparison(), uint64(5)
	c.Applied = func(context.Context, time.Time) (bool, error) { number++; w.change(number, hot, hot); return true, nil }
	for _, way := range []Way{Quiet, Live} {
		if result, err := w.compare(c, way); err != nil || result.Foreign != 1 || result.InFlight != 0 {
			t.Errorf("%s: %v, %+v", way, err, result.Counts)
		}
	}
}

// No row is judged while earlier changes are not applied.
func TestNotAppliedIsAnError(t *testing.T) {
	world := virtual.NewWorld(1, noon, false)
	err := world.Run(24*time.Hour, func(ctx context.Context) {
		w := newWorld(t, mapping(t, nil, "{id} > d"))
		w.source.put(item("a"))
		c := w.comparison()
		c.Applied = func(context.Context, time.Time) (bool, error) { return false, nil }
		began := task.Mono(ctx)
		p, err := c.NewPlan(ctx, Quiet, "", 0, []byte("key"))
		if err != nil {
			t.Fatal(err)
		}
		result, err := c.Compare(ctx, p, 1)
		var late *NotApplied
		if waited := task.Mono(ctx) - began; !errors.As(err, &late) || result.Clean() || waited < appliedWithin || waited > 2*appliedWithin {
			t.Errorf("%v, clean %v, after %s", err, result.Clean(), waited)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// H112: a row at count 0 waits for its second assertion, and is not judged.
func TestH112_CountZeroIsInFlight(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	rows := transform.Load(w.m, []attribute.Item{item("a", "v=1")}, 7, noon).Rows
	rows[0].Version = rows[0].Version.WithoutCount()
	w.apply(rows[0])
	w.source.put(item("a", "v=2"))
	if result, err := w.compare(w.comparison(), Quiet); err != nil || result.InFlight != 1 || result.Clean() || result.Differing() != 0 {
		t.Errorf("%v, %+v", err, result.Counts)
	}
}

// If the time to live removed an item on one side, it counts as removed on both, also between two
// checks.
func TestH54ExpiredCountsOnBothSides(t *testing.T) {
	old, fresh := "ttl#"+"1793620700", "ttl#"+"1893620700"
	for expire, want := range map[transform.Expire][]string{
		transform.ExpireByGC:    {"different stays d:v", "missing live d:id,d:ttl"},
		transform.FollowDeletes: {"different gone d:v", "different stays d:v", "missing live d:id,d:ttl"},
	} {
		m := mapping(t, func(s *transform.Spec) {
			s.TTL = transform.TTL{Attribute: "ttl", Expire: expire}
			s.Families[0].GC.Age = 1000 * time.Hour
		}, "{id} > d")
		w := newWorld(t, m)
		w.source.put(item("gone", old, "v=1"), item("lost", old), item("stays", old, "v=1"), item("live", fresh))
		w.load(noon, item("gone", old), item("stays", old, "v=2"))
		for _, way := range []Way{Quiet, Live} {
			c := w.comparison()
			c.Now = func(context.Context) time.Time { return noon }
			result, err := w.compare(c, way)
			if got := brief(result.Findings); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, %s: %v %v, want %v", expire, way, err, got, want)
			}
		}
	}
	kept := mapping(t, func(s *transform.Spec) { s.TTL = transform.TTL{Attribute: "ttl", Expire: transform.KeepExpired} }, "{id} > d")
	w := newWorld(t, kept)
	w.load(noon, item("outlives", old))
	if result, err := w.compare(w.comparison(), Quiet); err != nil || !result.Clean() || result.Kept != 1 {
		t.Errorf("expire: keep: %v, %+v", err, result.Counts)
	}
}

// With expire: keep, the row of a missing item stays, because the item may have expired. Cells
// beside a tombstone were written after a removal that the stream brought; an expired item would
// have no tombstone.
func TestCellsBesideATombstoneAreNeverKept(t *testing.T) {
	m := mapping(t, func(s *transform.Spec) { s.TTL = transform.TTL{Attribute: "ttl", Expire: transform.KeepExpired} }, "{id} > d")
	for name, c := range map[string]struct {
		removed, written bool
		kept, extra      int64
	}{
		"it may have expired":                {false, false, 1, 0},
		"cells beside what may have expired": {false, true, 1, 0},
		"a tombstone":                        {true, false, 0, 0},
		"cells beside a tombstone":           {true, true, 0, 1},
	} {
		for _, way := range []Way{Quiet, Live} {
			w := newWorld(t, m)
			a := item("a", "v=1")
			w.load(noon, a)
			if c.removed {
				w.change(5, a, attribute.Item{})
			}
			if c.written {
				w.damage("t", "a", set("d", "v", "another"))
			}
			result, err := w.compare(w.comparison(), way)
			if err != nil || result.Kept != c.kept || result.Extra != c.extra || result.Clean() != (c.extra == 0) {
				t.Errorf("%s, %s: %v, %+v", name, way, err, result.Counts)
			}
			if c.extra > 0 && result.Findings[0].Reason != "cells were written after the item was removed" {
				t.Errorf("%s, %s: %+v", name, way, result.Findings)
			}
		}
	}
}

// An item that expires between the two checks, and whose row is removed meanwhile, is no
// difference.
func TestH54ExpiresBetweenTheLooks(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	a := item("a", "v=1")
	w.source.put(a)
	w.load(noon, a)
	// The time to live's delete is applied; the scan came before it.
	w.change(5, a, attribute.Item{})
	c := w.comparison()
	w.source.fail = func(op string) error {
		if op == "Get" {
			delete(w.source.items, "a")
		}
		return nil
	}
	if result, err := w.compare(c, Live); err != nil || !result.Clean() || result.InFlight != 0 {
		t.Errorf("%v, %+v", err, result.Counts)
	}
}

// Attributes that global tables write on their own are no difference.
func TestH61AttributesOfReplicationAreNoise(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	w.source.put(item("a", "v=1", "aws:rep:updatetime=2", "aws:rep:deleting=0"), item("b", "v=1", "aws:rep:updatetime=2"))
	w.load(noon, item("a", "v=1", "aws:rep:updatetime=1"), item("b", "v=2", "aws:rep:updatetime=1"))
	for _, way := range []Way{Quiet, Live} {
		result, err := w.compare(w.comparison(), way)
		if got := brief(result.Findings); err != nil || !slices.Equal(got, []string{"different b d:v"}) {
			t.Errorf("%s: %v, %v", way, err, got)
		}
	}
}

// A sample finds incorrect rows of its items. A comparison since a time finds changed rows by the
// times of cells and tombstones.
func TestScopes(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	for n := range 40 {
		w.source.put(item(name(n), "v=1"))
		w.load(noon, item(name(n), "v=1"))
	}
	w.load(noon, item("extra", "v=1"))
	for n := range 20 {
		w.damage("t", name(n), set("d", "w", "hurt"))
	}
	for _, share := range []float64{0.3, 0.7} {
		c := w.comparison()
		c.Scope.Sample = share
		result, err := w.compare(c, Live)
		want := 0
		for n := range 20 {
			if c.sampled(w.m.ItemKey(item(name(n)))) {
				want++
			}
		}
		if err != nil || int(result.Different) != want || want == 0 || len(result.Blind) == 0 {
			t.Errorf("a sample of %g: %v, %d differ, want %d", share, err, result.Different, want)
		}
	}
	since := w.comparison()
	since.Scope.Since = noon.Add(time.Second)
	w.damage("t", name(3), sink.Op{Kind: sink.SetCell, Family: "d", Qualifier: "v", Timestamp: noon.Add(time.Minute).UnixMicro(), Value: []byte("hurt")})
	result, err := w.compare(since, Live)
	if got := brief(result.Findings); err != nil || !slices.Equal(got, []string{"different i03 d:v,d:w"}) || len(result.Blind) == 0 {
		t.Errorf("changed since: %v, %v", err, got)
	}
}

// Findings beyond the bounds are counted.
func TestFindingsAreBounded(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	for n := range 30 {
		w.source.put(item(name(n)))
	}
	for _, way := range []Way{Quiet, Live} {
		c := w.comparison()
		c.Bounds = Bounds{Findings: 5, Candidates: 2}
		result, err := w.compare(c, way)
		if err != nil || result.Missing != 30 || int64(len(result.Findings))+result.LeftOut != 30 || len(result.Findings) > 20 {
			t.Errorf("%s: %v, %d missing, %d kept, %d left out", way, err, result.Missing, len(result.Findings), result.LeftOut)
		}
	}
}

func TestChooseWay(t *testing.T) {
	for _, c := range []struct {
		scope   Scope
		changes float64
		items   int64
		want    Way
	}{
		{Scope{}, 0, 1_000_000_000, Quiet}, {Scope{}, 500, 1_000_000, Quiet}, {Scope{}, 500, 100_000_000, Live}, {Scope{}, 10_000, 1_000, Quiet},
		{Scope{Sample: 0.1}, 0, 10, Live}, {Scope{Since: noon}, 0, 10, Live},
	} {
		if way, why := ChooseWay(c.scope, c.changes, c.items, 10_000); way != c.want || why == "" {
			t.Errorf("%+v: %s, %q", c, way, why)
		}
	}
}

// A finding and a plan survive storage in the ledger, with keys of any bytes; values are not
// stored.
func TestStoredFindings(t *testing.T) {
	f := Finding{Source: "S", Table: "t", Row: "\xff\x00", Owner: "S:x", Keys: item("é"), Kind: Different, Version: "7", Live: true, Reason: "r",
		Columns: []Column{columnOf(sink.Difference{Family: "d", Qualifier: "\xfe", Want: []byte{}, Have: []byte("secret")})}}
	data, err := f.MarshalJSON()
	if err != nil || strings.Contains(string(data), "secret") {
		t.Fatalf("%v, %s", err, data)
	}
	var back Finding
	if err := back.UnmarshalJSON(data); err != nil || back.ID() != f.ID() || !back.Keys.Equal(f.Keys) || back.Version != f.Version || back.Columns[0].Have != f.Columns[0].Have {
		t.Errorf("%v, %+v", err, back)
	}
	if _, have, known := f.Columns[0].Values(); !known || string(have) != "secret" {
		t.Error("the values of a fresh finding are not known")
	}
	if _, _, known := back.Columns[0].Values(); known {
		t.Error("values of a stored finding are known")
	}
	p := Plan{Way: Live, Segments: 2, Ranges: []Range{{"t", sink.Range{From: "\xff", To: ""}}}, Key: []byte{1}, Scope: Scope{Sample: 0.5}}
	data, err = p.MarshalJSON()
	var read Plan
	if err != nil || read.UnmarshalJSON(data) != nil || read.Ranges[0] != p.Ranges[0] || read.Way != Live || read.Scope != p.Scope {
		t.Errorf("%v, %+v", err, read)
	}
}

func TestResultIsStaleAfterADay(t *testing.T) {
	r := Result{Ended: noon}
	if r.Stale(noon.Add(StaleAfter)) || !r.Stale(noon.Add(StaleAfter+time.Second)) {
		t.Error("a result is stale after a day, not before")
	}
}

// A row that differed because its change was in flight is not waited for once the change is
// applied. A row that still differs is checked again after Settle.
func TestOnlyDifferencesSettle(t *testing.T) {
	before, after := item("a", "v=1"), item("a", "v=2")
	for applied, want := range map[bool]time.Duration{true: 0, false: time.Minute} {
		for _, way := range []Way{Quiet, Live} {
			in(t, func(ctx context.Context) {
				w := newWorld(t, mapping(t, nil, "{id} > d"))
				w.load(noon, before)
				w.source.put(after)
				c := w.comparison()
				c.Settle = time.Minute
				c.Applied = func(context.Context, time.Time) (bool, error) {
					if applied {
						w.change(5, before, after)
					}
					return true, nil
				}
				p, err := c.NewPlan(ctx, way, "", 0, []byte("key"))
				if err != nil {
					t.Fatal(err)
				}
				began := task.Mono(ctx)
				result, err := c.Compare(ctx, p, 1)
				if took := task.Mono(ctx) - began; err != nil || result.Clean() != applied || took != want {
					t.Errorf("%s, applied %v: %+v after %s, %v", way, applied, result.Counts, took, err)
				}
			})
		}
	}
}
