package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
)

// If the application writes the target too, a scan and an export wait until its earlier writes have
// arrived. The images of a chain are those of its end.
func TestARequestedLoadWaitsForTheApplication(t *testing.T) {
	full := checkpoint.Export{Address: "/e", At: noon}
	for name, c := range map[string]struct {
		load checkpoint.Load
		late time.Duration
		yet  bool
	}{
		"a scan":                  {checkpoint.Load{}, time.Hour, false},
		"a scan, too early":       {checkpoint.Load{}, 3 * time.Hour, true},
		"an export":               {checkpoint.Load{Export: full}, 30 * time.Minute, false},
		"an export, too early":    {checkpoint.Load{Export: full}, 90 * time.Minute, true},
		"the window is later":     {checkpoint.Load{Export: full, Windows: []checkpoint.Export{{From: noon, At: noon.Add(time.Hour)}}}, 90 * time.Minute, false},
		"the window is too early": {checkpoint.Load{Export: full, Windows: []checkpoint.Export{{From: noon, At: noon.Add(time.Hour)}}}, 3 * time.Hour, true},
	} {
		s := checkpoint.TableState{Source: "Orders", Label: "L", Generation: 7, Adopted: 7, Listed: 7, Base: 6, GapCount: 1, AdoptedAt: noon.Add(-time.Hour), NeedsLoad: true, Load: c.load}
		if yet, err := Admissible(s, nil, noon.Add(time.Hour), c.late); yet != c.yet || err != nil {
			t.Errorf("%s: yet %v, %v", name, yet, err)
		}
	}
}

// The exports that are missing between two times begin at the first and end at the second.
func TestMissingExportsCoverTheTimeBetween(t *testing.T) {
	zone := time.FixedZone("zone", 7200)
	if got := Missing(noon.Add(-2*time.Hour).In(zone), noon.In(zone)); got != "request an incremental export from 2026-11-24T10:00:00Z to 2026-11-24T12:00:00Z" {
		t.Error(got)
	}
}

// The plan of a chain counts every item and byte of its exports, and the record of each export has
// its own address.
func TestThePlanOfAChain(t *testing.T) {
	o := &exportstest.Objects{}
	change := exportstest.Change{Keys: item("c"), New: item("c"), Written: noon}
	err := errors.Join(o.Full(orders, "full", noon, []attribute.Item{item("a")}, []attribute.Item{item("b")}),
		o.Window(orders, "window", noon, noon.Add(time.Hour), "NEW_AND_OLD_IMAGES", []exportstest.Change{change}))
	if err != nil {
		t.Fatal(err)
	}
	for name, bytes := range map[string]string{"full": "700", "window": "30"} {
		edit(t, o, name+"/manifest-summary.json", `"billedSizeBytes":0`, `"billedSizeBytes":`+bytes)
	}
	folders := func(_ context.Context, address string) (Store, string, error) { return o, path.Base(address), nil }
	full := checkpoint.Export{Address: "/e/full", ARN: ordersARN + "/export/full", At: noon, Files: 2}
	window := checkpoint.Export{Address: "/e/window", ARN: ordersARN + "/export/window", From: noon, At: noon.Add(time.Hour), Files: 1}
	r := Opener{From: Ends{Table: "Orders", Folders: folders}}
	load := checkpoint.Load{Export: full, Windows: []checkpoint.Export{window}}
	plan, err := r.Plan(t.Context(), load, wanted(t), time.Time{}, 0)
	if err != nil || plan.Source != "export" || plan.Parts != 3 || plan.Estimate != 3 || plan.EstimateBytes != 730 || strings.Join(plan.ExportARNs, " ") != full.ARN+" "+window.ARN {
		t.Errorf("%v, %+v", err, plan)
	}
	if records := r.known.Records(); len(records) != 2 || records[0] != full || records[1] != window {
		t.Errorf("%+v", records)
	}
}

// edit replaces text of an object.
func edit(t *testing.T, o *exportstest.Objects, name, old, text string) {
	t.Helper()
	in, err := o.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(in)
	if err != nil || !bytes.Contains(content, []byte(old)) {
		t.Fatalf("%s: %v, %s", name, err, content)
	}
	o.Put(name, bytes.ReplaceAll(content, []byte(old), []byte(text)))
}

// A window without old images fits a mapping of keys only if the application writes nothing late.
func TestAWindowWithoutOldImages(t *testing.T) {
	o := &exportstest.Objects{}
	change := exportstest.Change{Keys: item("c"), New: item("c"), Written: noon}
	if err := errors.Join(o.Full(orders, "full", noon, []attribute.Item{item("a")}), o.Window(orders, "window", noon, noon.Add(time.Hour), "NEW_IMAGE", []exportstest.Change{change})); err != nil {
		t.Fatal(err)
	}
	folders := func(_ context.Context, address string) (Store, string, error) { return o, path.Base(address), nil }
	for _, late := range []time.Duration{0, time.Minute} {
		images, err := Open(t.Context(), Ends{Folders: folders}, "/e/full", "/e/window")
		if err != nil {
			t.Fatal(err)
		}
		of := wanted(t)
		of.Late = late
		var fault *Fault
		if _, err := images.Fit(of); (err != nil) != (late > 0) || err != nil && (!errors.As(err, &fault) || !strings.Contains(fault.What, "no old images")) {
			t.Errorf("late by %s: %v", late, err)
		}
	}
}

// The error for a folder that cannot be opened has its address, wherever it is in the list.
func TestTheAddressThatCannotBeOpened(t *testing.T) {
	broken := errors.New("no permission")
	from := archive(t)
	folders := from.Folders
	from.Folders = func(ctx context.Context, address string) (exports.Store, string, error) {
		if address == "/e/window" {
			return nil, "", broken
		}
		return folders(ctx, address)
	}
	var failed *OpenError
	if _, err := Open(t.Context(), from, "/e/full", "/e/window", "/e/later"); !errors.As(err, &failed) || failed.Address != "/e/window" || !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// The refusal of an export without a proof keeps the service's answer, from which a worker decides
// whether to ask again.
func TestARefusalKeepsTheAnswerOfTheService(t *testing.T) {
	for _, answer := range []error{&backfill.ExportRefusal{Code: "ExportNotFoundException"}, &cdc.Error{Reason: cdc.Denied}} {
		e := exported{Export: &exports.Export{ARN: "arn"}, address: "s3://b/AWSDynamoDB/1"}
		if err := e.Whole(t.Context(), e.address, Proof{exportAnswer{err: answer}, false, "say so"}); !errors.Is(err, answer) {
			t.Errorf("%v does not wrap %v", err, answer)
		}
	}
}

// A fault of a folder with another export says which export belongs there.
func TestAnotherExportInTheFolder(t *testing.T) {
	wants := checkpoint.Export{Address: "/e/full", ARN: ordersARN + "/export/other", At: noon}
	var fault *Fault
	o := Opener{From: archive(t)}
	if _, err := o.Open(t.Context(), checkpoint.Load{Export: wants}); !errors.As(err, &fault) || fault.Place != "/e/full" ||
		fault.Fix != "put "+wants.ARN+" there again, or request the load again" {
		t.Errorf("%+v", fault)
	}
}

// segmented records what is read of a table.
type segmented struct {
	table string
	total int
}

func (s *segmented) Scan(_ context.Context, table string, _, total int, _ attribute.Item, _ int) (backfill.ScanPage, error) {
	s.table, s.total = table, total
	return backfill.ScanPage{Items: []attribute.Item{item("a")}}, nil
}

// A scan reads the source table, in parts that follow its size and the segments of a worker.
func TestWhatAScanReads(t *testing.T) {
	for segments, parts := range map[int]int{1: 4, 3: 12, 8: 32} {
		scanned := &segmented{}
		o := Opener{From: Ends{Table: "Orders", Scan: scanned}}
		of := wanted(t)
		of.Table.Bytes, of.Segments = 8<<20, segments
		plan, err := o.Plan(t.Context(), checkpoint.Load{}, of, time.Time{}, 0)
		if err != nil || plan.Source != "scan" || plan.Parts != parts || plan.Estimate != 9 || plan.EstimateBytes != 8<<20 {
			t.Errorf("%d segments: %v, %+v", segments, err, plan)
		}
		part, err := openedPart(t.Context(), &o, checkpoint.Load{Parts: parts}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part.Read(t.Context(), 1, parts, nil, 0); err != nil || scanned.table != "Orders" || scanned.total != parts {
			t.Errorf("%d segments: %v, %+v", segments, err, scanned)
		}
	}
}

// No item of a damaged file is copied, although its first lines are sound.
func TestADamagedFileIsNotCopied(t *testing.T) {
	o := &exportstest.Objects{}
	if err := o.Full(orders, "full", noon, []attribute.Item{item("a"), item("b")}); err != nil {
		t.Fatal(err)
	}
	edit(t, o, "full/manifest-files.json", `"md5Checksum":"`, `"md5Checksum":"AAAAAAAAAAAAAAAAAAAAAA==","was":"`)
	images, err := Open(t.Context(), Ends{Folders: func(context.Context, string) (Store, string, error) { return o, "full", nil }}, "/e/full")
	if err != nil {
		t.Fatal(err)
	}
	part, err := images.Part(0)
	if err != nil {
		t.Fatal(err)
	}
	var fault *Fault
	if page, err := part.Read(t.Context(), 0, 1, nil, 1); !errors.As(err, &fault) || len(page.Items) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// A part of several files reads all of them.
func TestAPartOfSeveralFiles(t *testing.T) {
	images, err := Open(t.Context(), archive(t), "/e/full", "/e/window")
	if err != nil {
		t.Fatal(err)
	}
	images = images.grouped(2)
	part, err := images.Part(0)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for page := (backfill.Page{}); ; {
		if page, err = part.Read(t.Context(), 0, images.Size().Parts, page.Next, 1); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			v, _ := i.Get("pk")
			keys = append(keys, v.Text())
		}
		if page.Next == nil {
			break
		}
	}
	if strings.Join(keys, " ") != "a b c" || images.Size() != (Size{Parts: 2, Files: 3, Items: 4}) {
		t.Errorf("%q of %+v", keys, images.Size())
	}
}

// All slashes at the end of a destination are left out.
func TestADestinationEndsWithItsPrefix(t *testing.T) {
	if got, err := Destination("s3://b/p//"); got != "s3://b/p" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
