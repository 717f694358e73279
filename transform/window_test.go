package transform

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// at returns the items after n changes.
func (s *source) at(n int) map[string]attribute.Item {
	items := map[string]attribute.Item{}
	for _, c := range s.changes[:n] {
		if items[s.m.ItemKey(c.Keys)] = c.New; !c.New.Exists() {
			delete(items, s.m.ItemKey(c.Keys))
		}
	}
	return items
}

// window returns an incremental export of the changes from one to another: one record per item, and
// none for an item that exists neither before nor after.
func (s *source) window(from, to int, end time.Time) []cdc.Change {
	before, after, seen := s.at(from), s.at(to), map[string]bool{}
	var records []cdc.Change
	for i := to - 1; i >= from; i-- {
		c := s.changes[i]
		key := s.m.ItemKey(c.Keys)
		c.Event, c.Sequence, c.Old, c.New = cdc.Modify, LoadVersion(0, end).Sequence(), before[key], after[key]
		if seen[key] || !c.Old.Exists() && !c.New.Exists() {
			continue
		}
		seen[key] = true
		switch {
		case !c.New.Exists():
			c.Event = cdc.Remove
		case !c.Old.Exists():
			c.Event = cdc.Insert
		}
		records = append(records, c)
	}
	return records
}

// TestH36_AFullExportItsWindowsAndTheStream: executed in any order, they leave what the source
// holds. There are moves, inserts and removes inside a window, and the stream may begin within the
// last one.
func TestH36_AFullExportItsWindowsAndTheStream(t *testing.T) {
	for name, m := range foldMappings(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s, second := drawHistory(t, m), time.Unix(1_795_170_000, 0)
				full := rapid.IntRange(0, len(s.changes)).Draw(t, "full")
				var images []attribute.Item
				there := s.at(full)
				for _, key := range slices.Sorted(maps.Keys(there)) {
					images = append(images, there[key])
				}
				rows, end := Load(m, images, 3, second).Rows, full
				for n := range rapid.IntRange(0, 3).Draw(t, "windows") {
					from := end
					end = rapid.IntRange(from, len(s.changes)).Draw(t, "end")
					rows = append(rows, LoadWindow(m, s.window(from, end, second.Add(time.Duration(n+1)*time.Hour)), 3).Rows...)
				}
				for _, c := range s.changes[rapid.IntRange(0, end).Draw(t, "stream"):] {
					rows = append(rows, Fold(m, []cdc.Change{c}, stamp).Rows...)
				}
				target := model{}
				for _, r := range rapid.Permutation(rows).Draw(t, "order") {
					target.apply(r)
				}
				if got, want := target.live(), s.want(); !maps.Equal(got, want) {
					t.Fatalf("target %v, source %v", got, want)
				}
			})
		})
	}
}

// TestCellsOfAWindow: cells have the time of each item's own write, in any order of the file.
func TestCellsOfAWindow(t *testing.T) {
	m := foldMappings(t)["default"]
	var changes []cdc.Change
	for i, pk := range []string{"late", "early"} {
		key := item("pk", attribute.String(pk))
		changes = append(changes, cdc.Change{Event: cdc.Insert, Keys: key, New: key, Time: time.Unix(int64(9-i), 0), Sequence: LoadVersion(0, time.Unix(10, 0)).Sequence()})
	}
	for i, r := range LoadWindow(m, changes, 3).Rows {
		if got, want := r.Cells[0].Timestamp, cellTime(changes[i].Time); got != want || r.Version != LoadVersion(3, time.Unix(10, 0)) {
			t.Errorf("row %s: cells of %d, want %d, at %s", r.Row, got, want, r.Version)
		}
	}
}
