package transform

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// An item moves a→b→c within a page. Each row names the columns of the old images there, and the
// exact rows equal those of a fold without dual writes.
func TestTimestampedNamesWhatOldImagesHad(t *testing.T) {
	m, err := NewMapping("T", "t", "d", []KeyAttribute{{"k", attribute.KindS}}, "at", "k")
	if err != nil {
		t.Fatal(err)
	}
	image := func(at string, names ...string) attribute.Item {
		list := []attribute.Attribute{{Name: "k", Value: attribute.String("x")}, {Name: "at", Value: attribute.String(at)}}
		for _, n := range names {
			list = append(list, attribute.Attribute{Name: n, Value: attribute.String("1")})
		}
		return attribute.NewItem(list)
	}
	a, b, c := image("a", "p"), image("b", "q"), image("c")
	second := time.Unix(100, 0)
	changes := []cdc.Change{
		{Event: cdc.Modify, Sequence: cdc.SequenceOf(1), Time: second, Keys: m.Keys(a), Old: a, New: b},
		{Event: cdc.Modify, Sequence: cdc.SequenceOf(2), Time: second, Keys: m.Keys(a), Old: b, New: c},
	}
	stamp := Stamp{Generation: 1, Hop: 1}
	plain := Fold(m, changes, stamp)
	stamp.DualWrites = true
	exact := Fold(m, changes, stamp)
	first := exact.Timestamped()
	want := []string{"a#x: at k p", "b#x: at k q", "c#x: "}
	for i, row := range first.Rows {
		var names []string
		for _, cell := range row.Named {
			names = append(names, cell.Qualifier)
		}
		slices.Sort(names)
		if got := row.Row + ": " + strings.Join(names, " "); got != want[i] {
			t.Errorf("row names %q, want %q", got, want[i])
		}
		if row.Version.Count() != CountTimestamped || !row.Timestamped || row.Second != 100_000_000 || row.Remove != (i < 2) {
			t.Errorf("first row %+v", row)
		}
		if e, p := exact.Rows[i], plain.Rows[i]; e.Version != p.Version || e.Timestamped || e.Named != nil || e.Remove != p.Remove || !slices.Equal(e.Families, p.Families) {
			t.Errorf("exact row %+v, want %+v", e, p)
		}
	}
	if small, large := (&Batch{}).Size(), exact.Size(); small != 0 || large < 500 {
		t.Errorf("sizes %d, %d", small, large)
	}
}

// The times of a batch are the latest of the application's changes and of the removals by TTL. A
// change without a time counts as one of the far future.
func TestTimesOfABatch(t *testing.T) {
	m, err := NewMapping("T", "t", "d", []KeyAttribute{{"k", attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	item := attribute.NewItem([]attribute.Attribute{{Name: "k", Value: attribute.String("x")}})
	at := func(second int64, expired bool) cdc.Change {
		c := cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(uint64(second)), Expired: expired, Keys: item, Old: item}
		if second > 0 {
			c.Time = time.Unix(second, 0)
		}
		return c
	}
	for _, c := range []struct {
		changes          []cdc.Change
		written, expired int64
	}{
		{nil, 0, 0}, {[]cdc.Change{at(5, false), at(9, true), at(7, false), at(8, true)}, 7, 9}, {[]cdc.Change{at(5, false)}, 5, 0}, {[]cdc.Change{at(5, true)}, 0, 5},
		{[]cdc.Change{at(5, false), at(0, false), at(6, false)}, 1 << 40, 0},
	} {
		b := Fold(m, c.changes, Stamp{Generation: 1, Hop: 1})
		second := func(at time.Time) int64 {
			if at.IsZero() {
				return 0
			}
			return at.Unix()
		}
		if written, expired := b.Times(); second(written) != c.written || second(expired) != c.expired {
			t.Errorf("%+v: %s, %s", c.changes, written, expired)
		}
	}
}
