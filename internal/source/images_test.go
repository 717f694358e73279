package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const ordersARN = "arn:aws:dynamodb:eu-west-1:1:table/Orders"

var (
	noon   = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	orders = exportstest.Table{ARN: ordersARN, ID: "id"}
)

func item(pk string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}})
}

// archive holds a full export of two files at noon, followed by two windows of one file.
func archive(t *testing.T) Ends {
	t.Helper()
	o := &exportstest.Objects{}
	change := exportstest.Change{Keys: item("c"), New: item("c"), Written: noon}
	err := errors.Join(
		o.Full(orders, "full", noon, []attribute.Item{item("a")}, []attribute.Item{item("b"), item("c")}),
		o.Window(orders, "window", noon, noon.Add(time.Hour), "NEW_AND_OLD_IMAGES", []exportstest.Change{change}),
		o.Window(orders, "later", noon.Add(time.Hour), noon.Add(2*time.Hour), "NEW_AND_OLD_IMAGES", []exportstest.Change{change}))
	if err != nil {
		t.Fatal(err)
	}
	return Ends{Table: "Orders", Folders: func(_ context.Context, address string) (exports.Store, string, error) {
		return o, path.Base(address), nil
	}}
}

func wanted(t *testing.T) Wanted {
	t.Helper()
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	return Wanted{Table: backfill.Description{ARN: ordersARN, ID: "id", Items: 9, Bytes: 9, At: noon.Add(2 * time.Hour)}, Mapping: m, Segments: 4}
}

// Parts are numbered across all exports of a load, in the order of their times, whatever the
// exports are called. Each part is read from its own export, and has that export's time.
func TestPartsOfAChain(t *testing.T) {
	images, err := Open(t.Context(), archive(t), "s3://b/window", "s3://b/full")
	if err == nil {
		images, err = images.Fit(wanted(t))
	}
	if err != nil || images.Size() != (Size{Parts: 3, Files: 3, Items: 4}) || images.kind != export || images.Windows() {
		t.Fatalf("%v, %+v", err, images)
	}
	for index, want := range []struct {
		items, changes int
		at             time.Time
	}{{1, 0, noon}, {2, 0, noon}, {0, 1, noon.Add(time.Hour)}} {
		part, err := images.Part(index)
		if err != nil {
			t.Fatal(err)
		}
		page, err := part.Read(t.Context(), index, 3, nil, 0)
		if err != nil || len(page.Items) != want.items || len(page.Changes) != want.changes || !part.At.Equal(want.at) {
			t.Errorf("part %d: %v, %+v of %s", index, err, page, part.At)
		}
		if err := part.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := images.Part(3); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a part that there is not: %v", err)
	}
}

// The files of a large export are grouped into as many parts as the ledger may have rows, across
// all exports of a load. An export without files is a part too. A load that an earlier version
// sealed has one part per file.
func TestPartsOfManyFiles(t *testing.T) {
	of := func(files ...int) (i Images) {
		i.kind = export
		for _, n := range files {
			i.sets = append(i.sets, exported{Export: &exports.Export{Files: make([]exports.File, n)}})
		}
		return i
	}
	for _, c := range []struct {
		files []int
		load  int // its parts; 0: not planned yet
		parts int // 0: impossible
	}{
		{[]int{1024}, 0, 1024}, {[]int{1025}, 0, 513}, {[]int{100_000}, 0, 1021}, {[]int{100_000, 3, 0}, 0, 1023},
		{[]int{0}, 0, 1}, {[]int{3, 0, 2}, 0, 6}, {[]int{1_000_000, 1_000_000}, 0, 1024},
		{[]int{100_000}, 1021, 1021}, {[]int{100_000}, 100_000, 100_000}, {[]int{100_000}, 1022, 0}, {[]int{90_000}, 1021, 0},
	} {
		images, ok := of(c.files...).divided(c.load)
		if n := images.Size().Parts; ok != (c.parts > 0) || ok && n != c.parts {
			t.Errorf("%v of a load of %d parts: %d parts, %t", c.files, c.load, n, ok)
		}
		if _, err := images.Part(c.parts); ok && !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("%v: part %d: %v", c.files, c.parts, err)
		}
		if _, err := images.Part(c.parts - 1); ok && err != nil {
			t.Errorf("%v: part %d: %v", c.files, c.parts-1, err)
		}
	}
	if n := of(7).Size().Files; n != 7 {
		t.Errorf("%d files", n)
	}
}

type table struct{ asked int }

func (s *table) Scan(context.Context, string, int, int, attribute.Item, int) (backfill.ScanPage, error) {
	s.asked++
	return backfill.ScanPage{Items: []attribute.Item{item("a")}}, nil
}

// A scan has as many parts as its table needs, and no time of its own. Any part can be read before
// the number is known.
func TestAScan(t *testing.T) {
	scanned := &table{}
	o := Opener{From: Ends{Table: "Orders", Scan: scanned}}
	part, err := openedPart(t.Context(), &o, checkpoint.Load{Parts: 16}, 15)
	if err != nil || !part.At.IsZero() {
		t.Fatal(err, part.At)
	}
	if page, err := part.Read(t.Context(), 15, 16, json.RawMessage(nil), 0); err != nil || len(page.Items) != 1 || scanned.asked != 1 {
		t.Errorf("%v, %+v", err, page)
	}
	of := wanted(t)
	of.Table.Bytes = 1 << 30
	plan, err := o.Plan(t.Context(), checkpoint.Load{}, of, time.Time{}, time.Hour)
	if err != nil || plan.Source != "scan" || plan.Parts != backfill.NumberOfParts(1<<30, 4) || plan.Estimate != 9 || plan.ExportARNs != nil {
		t.Errorf("%v, %+v", err, plan)
	}
}

func openedPart(ctx context.Context, o *Opener, load checkpoint.Load, index int) (Part, error) {
	images, err := o.Open(ctx, load)
	if err != nil {
		return Part{}, err
	}
	return images.Part(index)
}

// A plan is refused if its images differ from the requested ones or are too old.
func TestPlansAreRefused(t *testing.T) {
	full := checkpoint.Export{Address: "/e/full", ARN: ordersARN + "/export/full", At: noon}
	window := checkpoint.Export{Address: "/e/window", ARN: ordersARN + "/export/window", From: noon, At: noon.Add(time.Hour)}
	later := checkpoint.Export{Address: "/e/later", ARN: ordersARN + "/export/later", From: window.At, At: noon.Add(2 * time.Hour)}
	for text, c := range map[string]struct {
		load   checkpoint.Load
		oldest time.Duration
	}{
		"":                                 {checkpoint.Load{Export: full, Windows: []checkpoint.Export{window}}, 3 * time.Hour},
		"it is not the requested export":   {checkpoint.Load{Export: checkpoint.Export{Address: "/e/full", ARN: full.ARN, At: noon.Add(1)}}, 0},
		"not named in chronological order": {checkpoint.Load{Export: full, Windows: []checkpoint.Export{later, window}}, 0},
		"are in no export":                 {checkpoint.Load{Export: full, Windows: []checkpoint.Export{later}}, 0},
		"have 2 files, which do not fit the 3 parts": {checkpoint.Load{Export: full, Parts: 3}, 0},
		"the export is 2h0m0s old":                   {checkpoint.Load{Export: full}, time.Hour},
	} {
		o := Opener{From: archive(t)}
		plan, err := o.Plan(t.Context(), c.load, wanted(t), time.Time{}, c.oldest)
		if text == "" {
			if err != nil || plan.Source != "export" || plan.Parts != 3 || plan.Estimate != 4 || fmt.Sprint(plan.ExportARNs) != fmt.Sprint([]string{full.ARN, window.ARN}) {
				t.Errorf("%v, %+v", err, plan)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The table of kinds claims every address, and says how each is written.
func TestAddresses(t *testing.T) {
	if !Scans("") || !Scans("scan") || Scans("/scan") || Scans("s3://b/scan") {
		t.Error("which addresses are scans")
	}
	form := Form()
	for address, ok := range map[string]bool{"scan": true, "/e": true, "s3://bucket/f": true, "gs://bucket/f": true, "ftp://b/f": false, "e": false, "s3://b": false} {
		if form.MatchString(address) != ok || (Check(address) == "") != ok {
			t.Errorf("%s: matches %t, %q", address, form.MatchString(address), Check(address))
		}
	}
	got := Written()
	if !strings.HasPrefix(got, "write scan, or ") || !strings.HasSuffix(got, "the folder of one export: s3://BUCKET/AWSDynamoDB/EXPORT, gs://BUCKET/FOLDER, or an absolute directory") {
		t.Error(got)
	}
	if Folder("scan") != "" || Folder("/e") != "/e" || Reported("scan") || !Reported("/e") {
		t.Error("what is opened for an address")
	}
}

// The manifests are read once for all parts of a load, and again for the next load, which may have
// other exports. After a failed read, earlier manifests are not used.
func TestManifestsAreReadOncePerLoad(t *testing.T) {
	ctx := t.Context()
	opened, objects := 0, &exportstest.Objects{}
	load := func(id string) checkpoint.Load {
		if err := objects.Full(orders, id, noon, []attribute.Item{item(id)}, nil); err != nil {
			t.Fatal(err)
		}
		e, err := exports.Read(ctx, objects, id)
		if err != nil {
			t.Fatal(err)
		}
		return checkpoint.Load{Export: checkpoint.Export{Address: id, ARN: e.ARN, At: e.At}}
	}
	r := &Opener{From: Ends{Folders: func(_ context.Context, address string) (Store, string, error) {
		opened++
		return objects, address, nil
	}}}
	first, second := load("1"), load("2")
	read := func(l checkpoint.Load, id string, opens int) {
		t.Helper()
		before := opened
		images, err := r.Open(ctx, l)
		if err != nil || len(images.sets) != 1 || images.Records()[0].ARN != ordersARN+"/export/"+id || !images.Records()[0].At.Equal(l.Export.At) || opened-before != opens {
			t.Errorf("%+v, %v, opened %d times", images, err, opened-before)
		}
	}
	read(first, "1", 1)
	first.Parts = 2
	read(first, "1", 0)
	torn := second
	torn.Export.ARN = "another"
	if _, err := r.Open(ctx, torn); err == nil {
		t.Error("another export is taken for it")
	}
	first.Parts = 3
	var fault *Fault
	if _, err := r.Open(ctx, first); !errors.As(err, &fault) || !strings.Contains(fault.What, "2 files") {
		t.Errorf("it had another number of files: %v", err)
	}
	first.Parts = 2
	read(first, "1", 0)
	read(second, "2", 1)
	read(first, "1", 1)
	for name, edit := range map[string]func(e *checkpoint.Export){
		"another time":   func(e *checkpoint.Export) { e.At = e.At.Add(time.Second) },
		"another window": func(e *checkpoint.Export) { e.From = e.At.Add(-time.Second) },
	} {
		l := second
		edit(&l.Export)
		if _, err := r.Open(ctx, l); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
