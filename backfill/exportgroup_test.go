package backfill

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
)

// Some parts have several files of one export, and a part continues in any of them at any line.
// Files without records, and exports without files, end like others.
func TestPartsOfSeveralFiles(t *testing.T) {
	table := exportstest.Table{ARN: "arn:aws:dynamodb:eu-west-1:1:table/T", ID: "id"}
	var o exportstest.Objects
	items := newMemory(8).items
	change := exportstest.Change{Keys: items[7], New: items[7], Written: day.Add(time.Minute)}
	if err := errors.Join(
		o.Full(table, "1", day, items[:3], nil, items[3:4], items[4:6], items[6:7]),
		o.Window(table, "2", day, day.Add(time.Hour), "NEW_AND_OLD_IMAGES", []exportstest.Change{change})); err != nil {
		t.Fatal(err)
	}
	var steps []exports.Step
	for _, id := range []string{"1", "2"} {
		e, err := exports.Read(t.Context(), &o, id)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, exports.Step{Export: e, Version: e.At})
	}
	steps = append(steps, exports.Step{Export: &exports.Export{Incremental: true}}) // nothing was changed
	text := func(i attribute.Item) string {
		json, err := attribute.MarshalItem(i)
		if err != nil {
			t.Fatal(err)
		}
		return string(json)
	}
	for part, want := range []int{4, 3, 1, 0} {
		for _, fresh := range []bool{false, true} {
			source := &Exported{Steps: steps, Group: 3, Verify: true}
			found, after := map[string]int{}, json.RawMessage(nil)
			for pages := 0; ; pages++ {
				if fresh { // a successor
					source = &Exported{Steps: steps, Group: 3}
				}
				page, err := source.Read(t.Context(), part, 4, after, 2)
				if err != nil || pages > 9 {
					t.Fatalf("part %d: %v after %d pages", part, err, pages)
				}
				for _, item := range page.Items {
					found[text(item)]++
				}
				for _, c := range page.Changes {
					found[text(c.New)]++
				}
				if after = page.Next; after == nil {
					break
				}
			}
			from := []int{0, 4, 7, 8}[part]
			for _, item := range items[from : from+want] {
				found[text(item)]--
			}
			if len(found) != want {
				t.Errorf("part %d: %d items, want %d", part, len(found), want)
			}
			for _, n := range found {
				if n != 0 {
					t.Errorf("part %d: items are missing or read twice", part)
				}
			}
			if source.reader != nil {
				t.Errorf("part %d: a file is open", part)
			}
		}
	}
	source := &Exported{Steps: steps, Group: 3}
	if page, err := source.Read(t.Context(), 0, 4, json.RawMessage(`{"file":2,"line":0}`), 9); err != nil || len(page.Items) != 1 || !attribute.Item.Equal(page.Items[0], items[3]) {
		t.Errorf("from the beginning of a file: %v", err)
	}
	for _, position := range []string{`{"line":0}`, `{"file":-1,"line":1}`, `{"file":1,"line":-1}`, `1`} {
		if _, err := source.Read(t.Context(), 0, 4, json.RawMessage(position), 9); !errors.Is(err, ErrProgress) {
			t.Errorf("%s: %v", position, err)
		}
	}
}
