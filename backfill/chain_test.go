package backfill

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// chainMapping is a mapping of Orders, whose rows follow from the key unless rules say otherwise.
func chainMapping(t *testing.T, more string) *transform.Mapping {
	t.Helper()
	text := "version: 1\nsource: { region: us-east-1 }\ntarget: { project: p, instance: i }\ntables:\n  - from: Orders\n    families: { d: maxversions=1 }\n" + more
	cfg, err := config.Parse("c.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	m, err := cfg.Tables[0].Mapping([]transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// H107: windows without old images do only where the key alone says what an item left behind and no
// application writes beside the stream; where expired items are kept, no window shows which those are;
// and exports of another table, of the same name too, are none.
func TestH107_WindowsThatALoadAccepts(t *testing.T) {
	const moves, keeps = "    rules: [{ row_key: \"{c}#{pk}\", columns: { \"*\": d } }]\n", "    ttl: { attribute: ttl, expire: keep }\n"
	full := func(id string) *exports.Export {
		return &exports.Export{ARN: "arn:1/export/" + id, TableARN: "arn:1", TableID: "id", At: day}
	}
	window := func(view exports.View) *exports.Export {
		return &exports.Export{ARN: "arn:1/export/w", TableARN: "arn:1", TableID: "id", Incremental: true, From: day, At: day.Add(time.Hour), View: view}
	}
	for name, c := range map[string]struct {
		mapping string
		d       Description
		late    time.Duration
		windows bool
		chain   []*exports.Export
		want    string // of the refusal; "" is none
	}{
		"new images":                    {chain: []*exports.Export{window(exports.ViewNew), full("f")}},
		"new images, settled":           {late: time.Minute, chain: []*exports.Export{full("f"), window(exports.ViewNew)}, want: "no old images"},
		"new images, numbered":          {mapping: "dual_writes: { version_attribute: rev }\n", chain: []*exports.Export{full("f"), window(exports.ViewNew)}, want: "no old images"},
		"new images of items that move": {mapping: moves, chain: []*exports.Export{full("f"), window(exports.ViewNew)}, want: "no old images"},
		"both images":                   {mapping: moves, late: time.Minute, chain: []*exports.Export{full("f"), window(exports.ViewNewAndOld)}},
		"kept, full alone":              {mapping: keeps, chain: []*exports.Export{full("f")}},
		"kept, with a window":           {mapping: keeps, chain: []*exports.Export{full("f"), window(exports.ViewNewAndOld)}, want: "expire: keep"},
		"kept, a window alone":          {mapping: keeps, windows: true, chain: []*exports.Export{window(exports.ViewNewAndOld)}, want: "expire: keep"},
		"a window alone":                {windows: true, chain: []*exports.Export{window(exports.ViewNewAndOld)}},
		"a full one for a gap":          {windows: true, chain: []*exports.Export{full("f")}, want: "windows repair a gap"},
		"a window for everything":       {chain: []*exports.Export{window(exports.ViewNewAndOld)}, want: "no full export"},
		"of another table":              {d: Description{ARN: "arn:2"}, chain: []*exports.Export{full("f")}, want: "it belongs to table"},
		"of a table created anew":       {d: Description{ID: "new"}, chain: []*exports.Export{full("f")}, want: "to another table of the same name"},
	} {
		steps, err := Chain(c.chain, c.d, chainMapping(t, c.mapping), c.late, c.windows)
		var refused *exports.Error
		if c.want == "" && (err != nil || len(steps) != len(c.chain)) || c.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || refused.Fix == "") {
			t.Errorf("%s: %d steps, %v", name, len(steps), err)
		}
	}
}

// Parts are the files of all steps one after the other. One source reads several in turn, from any
// line, about a megabyte at once, and opens a file anew after a failure.
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
	if n := Files(steps); n != 3 {
		t.Fatalf("%d files", n)
	}
	for part, want := range map[int]string{-1: "", 0: "1 0", 1: "1 1", 2: "2 0", 3: ""} {
		got := ""
		if step, file, ok := FileOf(steps, part); ok {
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
	once := read(0, "", 2) // a position that is older
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
