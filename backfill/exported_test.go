package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// exported returns an export of two files, of which the first has n items, and the store that holds
// it.
func exported(t *testing.T, n int) (*exports.Export, *exportstest.Objects, []attribute.Item) {
	t.Helper()
	var o exportstest.Objects
	items := newMemory(n).items
	err := o.Full(exportstest.Table{ARN: "arn:aws:dynamodb:eu-west-1:1:table/T", ID: "id"}, "1", day, items, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := exports.Read(t.Context(), &o, "1")
	if err != nil {
		t.Fatal(err)
	}
	return e, &o, items
}

// TestExportedFiles: pages continue where the last one ended, in another process too, and no item
// is skipped or returned twice.
func TestExportedFiles(t *testing.T) {
	e, _, items := exported(t, 2500)
	for _, limit := range []int{0, 1, 7, 5000} {
		var got []attribute.Item
		source, after, pages := &Exported{Steps: []exports.Step{{Export: e, Version: e.At}}, Verify: true}, json.RawMessage(nil), 0
		for ; pages == 0 || after != nil; pages++ {
			page, err := source.Read(t.Context(), 0, 2, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if pages%5 == 4 && limit != 1 {
				source = &Exported{Steps: []exports.Step{{Export: e, Version: e.At}}} // a successor
			}
			got, after = append(got, page.Items...), page.Next
			if limit > 0 && len(page.Items) > limit || len(page.Items) > exportItems {
				t.Fatalf("%d items, and %d were asked for", len(page.Items), limit)
			}
		}
		if !slices.EqualFunc(got, items, attribute.Item.Equal) {
			t.Errorf("limit %d: %d items in %d pages", limit, len(got), pages)
		}
		if page, err := source.Read(t.Context(), 1, 2, nil, limit); err != nil || page.Next != nil || len(page.Items) != 0 {
			t.Errorf("an empty file: %+v, %v", page, err)
		}
	}
	source := &Exported{Steps: []exports.Step{{Export: e, Version: e.At}}}
	for _, after := range []string{`{"line":2501}`, `{"line":0}`, `{"line":-1}`, `{}`, `"x"`} {
		if _, err := source.Read(t.Context(), 0, 2, json.RawMessage(after), 0); !errors.Is(err, ErrProgress) {
			t.Errorf("%s: %v", after, err)
		}
	}
	if _, err := source.Read(t.Context(), 0, 3, nil, 0); !errors.Is(err, ErrProgress) {
		t.Error(err)
	}
}

// TestNothingIsReadOfAFileThatIsNotWhole: no item of such a file is returned, even if its fault
// comes last.
func TestNothingIsReadOfAFileThatIsNotWhole(t *testing.T) {
	e, o, _ := exported(t, 2500)
	in, err := o.Open(t.Context(), e.Files[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	source := &Exported{Steps: []exports.Step{{Export: e, Version: e.At}}, Verify: true}
	o.Put(e.Files[0].Name, whole[:len(whole)-1])
	var fault *exports.Error
	if page, err := source.Read(t.Context(), 0, 2, nil, 0); !errors.As(err, &fault) || len(page.Items) != 0 || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("%d items, %v", len(page.Items), err)
	}
	o.Put(e.Files[0].Name, whole)
	if page, err := source.Read(t.Context(), 0, 2, nil, 0); err != nil || len(page.Items) != exportItems {
		t.Error(fmt.Sprint(len(page.Items), " items after it was put right"), err)
	}
}

// TestH91_AReplacedFileIsNotGoneOnWith: between two pages another file with as many lines replaced
// the one that was begun. A successor writes none of it, and continues once the file is restored.
func TestH91_AReplacedFileIsNotGoneOnWith(t *testing.T) {
	e, o, items := exported(t, 40)
	var other exportstest.Objects
	if err := other.Full(exportstest.Table{ARN: e.TableARN, ID: e.TableID}, "1", day, slices.Concat(items[:10], items[:30]), nil); err != nil {
		t.Fatal(err)
	}
	content := func(from *exportstest.Objects) []byte {
		in, err := from.Open(t.Context(), e.Files[0].Name)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	whole, steps := content(o), []exports.Step{{Export: e, Version: e.At}}
	first, err := (&Exported{Steps: steps, Verify: true}).Read(t.Context(), 0, 2, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	o.Put(e.Files[0].Name, content(&other))
	successor := &Exported{Steps: steps, Verify: true}
	var fault *exports.Error
	if page, err := successor.Read(t.Context(), 0, 2, first.Next, 10); !errors.As(err, &fault) {
		t.Errorf("%d items of another file, %v", len(page.Items), err)
	}
	o.Put(e.Files[0].Name, whole)
	if page, err := successor.Read(t.Context(), 0, 2, first.Next, 10); err != nil || !slices.EqualFunc(page.Items, items[10:20], attribute.Item.Equal) {
		t.Errorf("%d items after it was put right, %v", len(page.Items), err)
	}
}

// TestLinesOfAWindowAreChanges: they have the version of the window's end. In a window without old
// images it is unknown whether an item is new.
func TestLinesOfAWindowAreChanges(t *testing.T) {
	key, end := newMemory(1).items[0], day.Add(time.Hour)
	for view, put := range map[string]cdc.Event{"NEW_AND_OLD_IMAGES": cdc.Insert, "NEW_IMAGE": cdc.Modify} {
		var o exportstest.Objects
		table := exportstest.Table{ARN: "arn:aws:dynamodb:eu-west-1:1:table/T", ID: "id"}
		written := day.Add(time.Minute)
		if err := o.Window(table, "1", day, end, view, []exportstest.Change{{Keys: key, New: key, Written: written}, {Keys: key, Old: key, Written: written}}); err != nil {
			t.Fatal(err)
		}
		e, err := exports.Read(t.Context(), &o, "1")
		if err != nil {
			t.Fatal(err)
		}
		page, err := (&Exported{Steps: []exports.Step{{Export: e, Version: e.At}}}).Read(t.Context(), 0, 1, nil, 0)
		if err != nil || page.size() != 2 || page.Changes[0].Event != put || page.Changes[1].Event != cdc.Remove {
			t.Fatalf("%s: %+v, %v", view, page.Changes, err)
		}
		for _, c := range page.Changes {
			if c.Sequence != cdc.SequenceOf(uint64(end.Unix())) || !c.Time.Equal(written) || !c.Keys.Equal(key) || c.New.Exists() != (c.Event != cdc.Remove) || c.New.Exists() && !c.New.Equal(key) {
				t.Errorf("%s: %+v", view, c)
			}
		}
	}
}

// counting is a store that counts its open files.
type counting struct {
	exports.Store
	open, opened int
}

type counted struct {
	io.ReadCloser
	c *counting
}

func (c *counting) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	in, err := c.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	c.open++
	c.opened++
	return counted{in, c}, nil
}

func (f counted) Close() error { f.c.open--; return f.ReadCloser.Close() }

// A part keeps one file open between two pages. It keeps none after its last page, after an error,
// or once it is closed, and it may be closed twice.
func TestAPartOfAnExportHasOneFileOpen(t *testing.T) {
	e, o, _ := exported(t, 2500)
	store := &counting{Store: o}
	e, err := exports.Read(t.Context(), store, e.ID())
	if err != nil || store.open != 0 {
		t.Fatalf("%d are open, %v", store.open, err)
	}
	source := &Exported{Steps: []exports.Step{{Export: e, Version: e.At}}, Verify: true}
	read := func(index int, after json.RawMessage, open int) json.RawMessage {
		t.Helper()
		page, err := source.Read(t.Context(), index, 2, after, 1000)
		if store.open != open {
			t.Errorf("%d are open, want %d: %v", store.open, open, err)
		}
		return page.Next
	}
	first := read(0, nil, 1)
	second := read(0, first, 1)
	before := store.opened
	third := read(0, second, 1)
	if store.opened != before {
		t.Error("it is opened for each page")
	}
	read(0, third, 0)
	read(0, first, 1)
	read(0, json.RawMessage(`{"line":2501}`), 0)
	read(0, first, 1)
	read(1, nil, 0)
	read(0, first, 1)
	for range 2 {
		if err := source.Close(); err != nil || store.open != 0 {
			t.Errorf("%d are open, %v", store.open, err)
		}
	}
	name := e.Files[0].Name
	in, err := o.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	o.Put(name, whole[:len(whole)-9])
	read(0, nil, 0)
	source.Verify = false
	for after := json.RawMessage(nil); ; {
		page, err := source.Read(t.Context(), 0, 2, after, 1000)
		if err != nil {
			break
		}
		after = page.Next
	}
	if store.open != 0 {
		t.Errorf("after a file that is cut short %d are open", store.open)
	}
}

// The duration of a request is subtracted on the service's clock, too. An image is as old as the
// request, even if the worker's clock is far ahead.
func TestH31_AnAnswerThatTookItsTime(t *testing.T) {
	w := virtual.NewWorld(1, day.Add(time.Hour), false)
	err := w.Run(time.Hour, func(ctx context.Context) {
		m := newMemory(1)
		m.clock = func() time.Time { return w.Now().Add(-time.Hour) }
		m.calls = func(ctx context.Context) error { return task.Sleep(ctx, 20*time.Second) }
		asked := w.Now().Add(-time.Hour)
		p := part(m, &target{}, 0, 1)
		written := 0
		p.Write = func(_ context.Context, _ Page, at time.Time) error {
			if written++; !at.Equal(asked) {
				t.Errorf("claims %s, was asked for at %s", at, asked)
			}
			return nil
		}
		if _, err := p.run(ctx, partProgress{}); err != nil || written != 1 {
			t.Error(written, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Parts are the files of all steps in order. One source reads several parts in turn, from any line,
// about a megabyte at a time, and reopens a file after a failure.
func TestFilesOfSeveralSteps(t *testing.T) {
	items := newMemory(9).items
	wide := func(i int) attribute.Item {
		return attribute.NewItem(append([]attribute.Attribute{{Name: "w", Value: attribute.String(strings.Repeat("x", 300_000))}}, items[i].Attributes()...))
	}
	for i := 3; i < 8; i++ {
		items[i] = wide(i)
	}
	table := exportstest.Table{ARN: "arn:aws:dynamodb:eu-west-1:1:table/T", ID: "id"}
	var o exportstest.Objects
	written := day.Add(30 * time.Minute)
	if err := errors.Join(o.Full(table, "1", day, items[:3], items[3:8]),
		o.Window(table, "2", day, day.Add(time.Hour), "NEW_AND_OLD_IMAGES", []exportstest.Change{{Keys: items[8], Old: items[8], New: items[8], Written: written}})); err != nil {
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
	if n := partsOf(steps, 1); n != 3 {
		t.Fatalf("%d parts", n)
	}
	for part, want := range map[int]string{-1: "", 0: "1 0", 1: "1 1", 2: "2 0", 3: ""} {
		got := ""
		if step, file, _, ok := filesOf(steps, 1, part); ok {
			got = step.ID() + " " + string(rune('0'+file))
		}
		if got != want {
			t.Errorf("part %d is %q, want %q", part, got, want)
		}
	}
	source := &Exported{Steps: steps}
	read := func(part int, after string, limit int) Page {
		t.Helper()
		var position []byte
		if after != "" {
			position = []byte(after)
		}
		page, err := source.Read(t.Context(), part, 3, position, limit)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	first := read(0, "", 2)
	other := read(1, string(first.Next), 2) // another file at the same line, and then back
	again := read(0, string(first.Next), 2)
	once := read(0, "", 2) // an older position
	if !slices.EqualFunc(slices.Concat(first.Items, other.Items, again.Items), slices.Concat(items[:2], items[5:7], items[2:3]), attribute.Item.Equal) || !slices.EqualFunc(first.Items, once.Items, attribute.Item.Equal) {
		t.Errorf("%d, %d, %d and %d items", len(first.Items), len(other.Items), len(again.Items), len(once.Items))
	}
	whole := read(1, "", 0)
	rest := read(1, string(whole.Next), 0)
	if len(whole.Items) != 4 || len(rest.Items) != 1 || whole.Bytes < exportBytes || whole.Bytes > exportBytes+310_000 || rest.Bytes > 310_000 {
		t.Errorf("%d items of %d bytes, then %d of %d", len(whole.Items), whole.Bytes, len(rest.Items), rest.Bytes)
	}
	if page := read(2, "", 0); len(page.Changes) != 1 || page.Changes[0].Event != cdc.Modify || !page.Changes[0].Time.Equal(written) || page.Changes[0].Sequence != cdc.SequenceOf(uint64(day.Add(time.Hour).Unix())) {
		t.Errorf("%+v", page)
	}
	read(0, "", 2)
	lost := errors.New("lost")
	o.Fail = func(string) error { return lost }
	if _, err := source.Read(t.Context(), 1, 3, nil, 0); !errors.Is(err, lost) {
		t.Error(err)
	}
	o.Fail = nil
	if page := read(0, string(first.Next), 0); len(page.Items) != 1 || page.Items[0].Equal(items[0]) {
		t.Errorf("after a failure: %d items", len(page.Items))
	}
	for _, part := range []int{-1, 3} {
		if _, err := source.Read(t.Context(), part, 3, nil, 0); !errors.Is(err, ErrProgress) {
			t.Errorf("part %d: %v", part, err)
		}
	}
}
