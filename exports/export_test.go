package exports

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// TestARealExport reads an export that the service wrote, from a folder with another prefix.
func TestARealExport(t *testing.T) {
	root, folder := Split("testdata/full/AWSDynamoDB/01715685260608-c488b4e1/manifest-summary.json")
	e, err := Read(t.Context(), Folder(root), folder)
	if err != nil {
		t.Fatal(err)
	}
	if e.Kind() != "the full export 01715685260608-c488b4e1 of 2024-05-14T11:14:20.608Z" || e.Items != 3 || e.Bytes != 19 ||
		e.TableID != "11991185-e7ab-4da5-8bab-03f0db0b7bfd" || len(e.Files) != 1 {
		t.Errorf("%s: %+v", e.Kind(), e)
	}
	all, err := records(t, e)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	want := `{"a":{"BOOL":false},"b":{"NULL":true},"c":{"SS":["8gfX8dh0xa","fRjHZJ2Ce9"]},"d":{"NS":["2","3"]},"e":{"L":[{"N":"1"},{"S":"Dsb87qc6Es"}]},` +
		`"f":{"M":{"g":{"N":"9"},"h":{"NULL":true},"i":{"BOOL":true}}},"id":{"S":"K3TXQk84Si"},"j":{"B":"aGVsbG8="},"k":{"BS":["aXMgZmFzdA==","c2N5bGxhZGI="]}}`
	text, err := attribute.MarshalItem(all[1].New)
	if diff := cmp.Diff(want, string(text)); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

const (
	hat     = `{"Item":{"id":{"S":"fedora"},"n":{"N":"1"}}}` + "\n"
	scarf   = `{"Item":{"id":{"S":"scarf"}}}` + "\n"
	changed = `{"Metadata":{"WriteTimestampMicros":{"N":"1700000001000001"}},"Keys":{"id":{"S":"fedora"}},"OldImage":{"id":{"S":"fedora"},"n":{"N":"1"}},"NewImage":{"id":{"S":"fedora"},"n":{"N":"2"}}}` + "\n"
	removed = `{"Metadata":{"WriteTimestampMicros":{"N":"1700000002000001"}},"Keys":{"id":{"S":"scarf"}},"OldImage":{"id":{"S":"scarf"}}}` + "\n"
)

// TestFullAndWindow: both kinds of data folders, an empty partition, images and times.
func TestFullAndWindow(t *testing.T) {
	o := objects{}
	e := read(t, o, full("01-a", hat, "", scarf))
	all, err := records(t, e)
	if err != nil || len(all) != 2 || !all[0].New.Exists() || all[0].Old.Exists() {
		t.Errorf("full: %v %v", all, err)
	}
	w := read(t, o, window("02-b", 0, 900, changed, removed))
	if !w.Incremental || w.View != ViewNewAndOld || !w.From.Equal(at(0)) || !w.At.Equal(at(900)) {
		t.Errorf("%+v", w)
	}
	all, err = records(t, w)
	if err != nil || len(all) != 2 || !all[0].New.Exists() || all[1].New.Exists() || !all[1].Old.Exists() || all[1].Written.UnixMicro() != 1700000002000001 {
		t.Errorf("window: %v %v", all, err)
	}
}

// TestViewsOfWindows: the view with only new images has two names.
func TestViewsOfWindows(t *testing.T) {
	for name, want := range map[string]View{"NEW_IMAGE": ViewNew, "NEW_IMAGES": ViewNew, "NEW_AND_OLD_IMAGES": ViewNewAndOld} {
		w := window("02-b", 0, 900, changed)
		w.summary["outputView"] = name
		if got := read(t, objects{}, w).View; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// refusal is an export that is refused, by its manifests or when it is read, and where.
type refusal struct {
	draft *draft
	place string // and what
}

func refused(t *testing.T, name string, r refusal) {
	t.Helper()
	o := objects{}
	r.draft.write(t, o)
	e, err := Read(t.Context(), o, r.draft.id)
	if err == nil {
		_, err = records(t, e)
	}
	var named *Error
	if !errors.As(err, &named) || named.Fix == "" || !strings.HasPrefix(err.Error(), r.place) {
		t.Errorf("%s: %v, want %s", name, err, r.place)
	}
	if err != nil && strings.Contains(err.Error(), "fedora") {
		t.Errorf("%s: %v holds item data", name, err)
	}
}

func with(d *draft, edit func(o objects, list []map[string]any)) *draft {
	d.edit = edit
	return d
}

func saying(d *draft, name string, v any) *draft {
	d.summary[name] = v
	return d
}

// TestH89_FilteredExportsAreRefused: so is every other summary that no load can use.
func TestH89_FilteredExportsAreRefused(t *testing.T) {
	const place = "1/manifest-summary.json: "
	refused(t, "filter", refusal{saying(full("1", hat), "filterSpecification", map[string]any{"FilterExpression": "a = b"}), place + "the export is filtered"})
	refused(t, "projection", refusal{saying(full("1", hat), "ProjectionExpression", "a, b"), place + "the export is filtered"})
	refused(t, "key condition", refusal{saying(full("1", hat), "keyConditionExpression", "a = b"), place + "the export is filtered"})
	refused(t, "ion", refusal{saying(full("1", hat), "outputFormat", "ION"), place + `the export has the format "ION"`})
	refused(t, "version", refusal{saying(full("1", hat), "version", "2031-01-01"), place + "the export's summary has an unknown version"})
	refused(t, "type", refusal{saying(full("1", hat), "exportType", "NEWS"), place + "the export has an unknown type"})
	refused(t, "view", refusal{saying(window("1", 0, 9, changed), "outputView", "KEYS_ONLY"), place + "the export has an unknown output view"})
	refused(t, "time", refusal{saying(full("1", hat), "exportTime", "yesterday"), place + "exportTime is missing"})
	refused(t, "backwards", refusal{window("1", 9, 9, changed), place + "the incremental export ends before it begins"})
	refused(t, "arn", refusal{saying(full("1", hat), "tableArn", "arn:aws:dynamodb:eu-west-1:1:table/Other"), place + "the ARNs"})
	refused(t, "count", refusal{saying(full("1", hat), "itemCount", 2), "1/manifest-files.json: the files have 1 items together, but the summary counts 2"})
	if e := read(t, objects{}, saying(full("1", hat), "filterSpecification", nil)); e.Items != 1 {
		t.Error("an export without a filter is refused")
	}
}

// TestH91_TheManifestAloneDecides: data of another export, a repeated file, and files that differ
// from the written ones are refused with their place.
func TestH91_TheManifestAloneDecides(t *testing.T) {
	const data = "1/data/1-0.json.gz"
	key := func(name string) func(objects, []map[string]any) {
		return func(_ objects, list []map[string]any) { list[0]["dataFileS3Key"] = name }
	}
	content := func(b []byte) func(objects, []map[string]any) {
		return func(o objects, list []map[string]any) {
			o[data] = b
			list[0]["md5Checksum"] = base64MD5(b)
		}
	}
	whole := packed(t, hat+scarf)
	long := []byte(nil)
	for name, r := range map[string]refusal{
		"foreign file":   {with(full("1", hat), key("AWSDynamoDB/2/data/1-0.json.gz")), "1/manifest-files.json, line 1: a data file is not in"},
		"shared file":    {with(full("1", hat), key("AWSDynamoDB/data/1-0.json.gz")), "1/manifest-files.json, line 1: a data file is not in"},
		"outside":        {with(full("1", hat), key("AWSDynamoDB/1/data/../../x")), "1/manifest-files.json, line 1: the name of a data file points outside"},
		"nowhere":        {with(full("1", hat), key("x.json.gz")), "1/manifest-files.json, line 1: the name of a data file is not below"},
		"twice":          {with(full("1", hat, hat), key("AWSDynamoDB/1/data/1-1.json.gz")), "1/manifest-files.json, line 2: a data file is listed twice"},
		"missing":        {with(full("1", hat), func(o objects, _ []map[string]any) { delete(o, data) }), data + ": there is no such file"},
		"replaced":       {with(full("1", hat), func(o objects, _ []map[string]any) { o[data] = packed(t, strings.Replace(hat, "1", "2", 1)) }), data + ": its MD5"},
		"cut short":      {with(full("1", hat+scarf), content(whole[:len(whole)-9])), data + ", line 3: the file is cut short"},
		"cut at once":    {with(full("1", hat+scarf), content(nil)), data + ": the file is cut short"},
		"damaged":        {with(full("1", hat+scarf), content(append(append([]byte(nil), whole[:len(whole)-8]...), "12345678"...))), data + ", line 3: the file is damaged"},
		"not packed":     {with(full("1", hat), content([]byte(hat))), data + ": the file is damaged"},
		"fewer":          {with(full("1", hat+scarf), content(packed(t, hat))), data + ": the file has 1 records, but the manifest counts 2"},
		"more":           {with(full("1", hat), content(packed(t, hat+scarf))), data + ": the file has more records than the 1"},
		"a cut line":     {full("1", scarf+hat[:25]+"\n"), data + ", line 2: the line cannot be read: the line is not a JSON object"},
		"no JSON":        {full("1", "fedora\n"), data + ", line 1: the line cannot be read: the line is not a JSON object"},
		"other kind":     {full("1", changed), data + ", line 1: the line cannot be read: the line has a member of unknown name"},
		"a window's":     {window("1", 0, 9, hat), "data/1-0.json.gz, line 1: the line cannot be read: this line is an item"},
		"type":           {full("1", `{"Item":{"id":{"Q":"fedora"}}}`+"\n"), data + ", line 1: the line cannot be read: a member of the line:"},
		"member twice":   {full("1", `{"Item":{"id":{"S":"fedora"}},"Item":{"id":{"S":"x"}}}`+"\n"), data + ", line 1: the line cannot be read: a member of the line occurs twice"},
		"other old key":  {window("1", 0, 9, strings.Replace(changed, `"OldImage":{"id":{"S":"fedora"}`, `"OldImage":{"id":{"S":"x"}`, 1)), "data/1-0.json.gz, line 1: the line cannot be read: an image has another key"},
		"other new key":  {window("1", 0, 9, strings.Replace(changed, `"NewImage":{"id":{"S":"fedora"}`, `"NewImage":{"no":{"S":"fedora"}`, 1)), "data/1-0.json.gz, line 1: the line cannot be read: an image has another key"},
		"an item":        {with(full("1", `{"Keys":{"id":{"S":"x"}}}`+"\n"), nil), data + ", line 1: the line cannot be read: this line is a change"},
		"more behind it": {with(full("1", hat), content(append(append([]byte(nil), packed(t, hat)...), "fedora"...))), data},
		"other key":      {window("1", 0, 9, strings.Replace(changed, `"fedora"`, `"x"`, 1)), "data/1-0.json.gz, line 1: the line cannot be read: an image has another key"},
		"no time":        {window("1", 0, 9, strings.Replace(changed, "Micros", "Millis", 1)), "data/1-0.json.gz, line 1: the line cannot be read: the line has no"},
		"endless line":   {with(full("1", hat), func(o objects, list []map[string]any) { content(long)(o, list) }), data + ", line 1: the line has more than 16 MiB"},
		"other summary":  {with(full("1", hat), func(o objects, _ []map[string]any) { o["1/manifest-summary.checksum"] = []byte("hat") }), "1/manifest-summary.json: its checksum"},
	} {
		if name == "endless line" {
			long = packed(t, strings.Repeat("x", MaxLine+1<<20))
		}
		refused(t, name, r)
	}
}

// TestCutManifests: an export with missing or truncated manifests is not read.
func TestCutManifests(t *testing.T) {
	for name, spoil := range map[string]func(o objects){
		"1/manifest-summary.json: there is no such file": func(o objects) { delete(o, "1/manifest-summary.json") },
		"1/manifest-files.json: there is no such file":   func(o objects) { delete(o, "1/manifest-files.json") },
		"1/manifest-files.json: its checksum": func(o objects) {
			o["1/manifest-files.md5"] = []byte("x")
		},
		"1/manifest-files.json, line 2: the line does not describe": func(o objects) {
			o["1/manifest-files.json"] = o["1/manifest-files.json"][:len(o["1/manifest-files.json"])-5]
		},
		"1/manifest-summary.json: it is not a summary": func(o objects) {
			o["1/manifest-summary.json"] = []byte(`{"version":`)
			delete(o, "1/manifest-summary.md5")
		},
	} {
		o := objects{}
		full("1", hat, scarf).write(t, o)
		spoil(o)
		_, err := Read(t.Context(), o, "1")
		var named *Error
		if !errors.As(err, &named) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// spoiled returns the error for an export of one item whose manifests were changed.
func spoiled(t *testing.T, spoil func(o objects, line, summary map[string]any)) error {
	t.Helper()
	o := objects{}
	d := full("1", hat)
	d.edit = func(o objects, list []map[string]any) { spoil(o, list[0], d.summary) }
	d.write(t, o)
	_, err := Read(t.Context(), o, "1")
	return err
}

// TestWhatAManifestMustSay: counts, sums and places of files, and the export that the list of files
// belongs to.
func TestWhatAManifestMustSay(t *testing.T) {
	sum := base64MD5([]byte("x"))
	for name, c := range map[string]struct {
		of    string
		value any
		want  string
	}{
		"no count":         {"itemCount", nil, "line 1: the line does not describe a data file"},
		"a negative count": {"itemCount", -1, "line 1: the line does not describe a data file"},
		"no name":          {"dataFileS3Key", "", "line 1: the line does not describe a data file"},
		"no sum":           {"md5Checksum", "", "md5Checksum is not valid"},
		"a short sum":      {"md5Checksum", sum[:20], "md5Checksum is not valid"},
		"a long sum":       {"md5Checksum", sum[:20] + sum, "md5Checksum is not valid"},
		"more items":       {"itemCount", 2, "have 2 items together, but the summary counts 1"},
		"fewer items":      {"itemCount", 0, "have 0 items together, but the summary counts 1"},
	} {
		err := spoiled(t, func(_ objects, line, _ map[string]any) { line[c.of] = c.value })
		var named *Error
		if !errors.As(err, &named) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for value, refused := range map[string]bool{"a/b/AWSDynamoDB/2/manifest-files.json": true, "a/b/AWSDynamoDB/1/other.json": true, "": false, "c/1/manifest-files.json": false} {
		if err := spoiled(t, func(_ objects, _, summary map[string]any) { summary["manifestFilesS3Key"] = value }); (err != nil) != refused {
			t.Errorf("a summary that names %q: %v", value, err)
		}
	}
	for value, refused := range map[any]bool{nil: true, -1: true} {
		if err := spoiled(t, func(_ objects, _, summary map[string]any) { summary["itemCount"] = value }); (err != nil) != refused {
			t.Errorf("a summary of %v items: %v", value, err)
		}
	}
}

// TestChecksumsBesideManifests: a checksum may be in base64 or hex, and may be unreadable for lack
// of permission. An error of the store is not a wrong checksum.
func TestChecksumsBesideManifests(t *testing.T) {
	o := objects{}
	full("1", hat).write(t, o)
	sum := md5.Sum(o["1/manifest-files.json"])
	for _, text := range []string{hex.EncodeToString(sum[:]), strings.ToUpper(hex.EncodeToString(sum[:])), " " + base64MD5(o["1/manifest-files.json"]) + "\n"} {
		o["1/manifest-files.checksum"] = []byte(text)
		if _, err := Read(t.Context(), o, "1"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	lost := errors.New("lost")
	for from, refused := range map[error]bool{fs.ErrPermission: false, fs.ErrNotExist: false, lost: true} {
		store := openings{o, func(name string) error {
			if strings.HasSuffix(name, ".md5") {
				return from
			}
			return nil
		}}
		if _, err := Read(t.Context(), store, "1"); (err != nil) != refused || refused && !errors.Is(err, lost) {
			t.Errorf("%v: %v", from, err)
		}
	}
}

// TestTheLongestSummary: one byte more is refused, whatever it is.
func TestTheLongestSummary(t *testing.T) {
	for more, refused := range map[int]bool{0: false, 1: true} {
		o := objects{}
		full("1", hat).write(t, o)
		delete(o, "1/manifest-summary.md5")
		text := o["1/manifest-summary.json"]
		o["1/manifest-summary.json"] = append(text, bytes.Repeat([]byte{' '}, mostSummary+more-len(text))...)
		if _, err := Read(t.Context(), o, "1"); (err != nil) != refused {
			t.Errorf("%d bytes too many: %v", more, err)
		}
	}
}

// TestPlacesOfDataFiles: a full export has its own folder, and windows share one.
func TestPlacesOfDataFiles(t *testing.T) {
	for _, c := range []struct{ key, full, window string }{
		{"AWSDynamoDB/1/data/f", "copy/data/f", ""},
		{"AWSDynamoDB/data/f", "", "data/f"},
		{"a/AWSDynamoDB/b/AWSDynamoDB/1/data/f", "copy/data/f", ""},
		{"a/AWSDynamoDB/b/AWSDynamoDB/data/f", "", "data/f"},
		{"xAWSDynamoDB/1/data/f", "", ""}, {"AWSDynamoDB/2/data/f", "", ""}, {"AWSDynamoDB/1/data/g/f", "", ""}, {"AWSDynamoDB/data/g/f", "", ""}, {"AWSDynamoDB/1/f", "", ""},
	} {
		for incremental, want := range map[bool]string{false: c.full, true: c.window} {
			e := &Export{ARN: tableARN + "/export/1", Incremental: incremental, folder: "copy"}
			if got, err := e.resolve(c.key); got != want || (err == nil) != (want != "") {
				t.Errorf("%s, incremental %t: %q, %v", c.key, incremental, got, err)
			}
		}
	}
}

// TestTheEndOfAFile: a last line counts without its line end, and a reader returns nothing after an
// error.
func TestTheEndOfAFile(t *testing.T) {
	bare := strings.TrimSuffix(scarf, "\n")
	d := full("1", bare)
	d.edit = func(o objects, list []map[string]any) { list[0]["itemCount"], d.summary["itemCount"] = 1, 1 }
	if all, err := records(t, read(t, objects{}, d)); err != nil || len(all) != 1 {
		t.Errorf("%d records, %v", len(all), err)
	}
	o := objects{}
	e := read(t, o, full("1", "fedora\n", hat))
	r, err := e.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Next(); err == nil || err == io.EOF {
			t.Errorf("after a line that cannot be read: %v", err)
		}
	}
	if err := r.Skip(1); err == nil || err == io.EOF || r.Line() != 1 {
		t.Errorf("it goes on to line %d: %v", r.Line(), err)
	}
	o["1/data/1-1.json.gz"] = packed(t, scarf)
	if r, err = e.Open(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var named *Error
	if err := r.Verify(); !errors.As(err, &named) {
		t.Errorf("a file that was replaced is verified: %v", err)
	}
	if _, err := r.Next(); !errors.As(err, &named) {
		t.Errorf("and read: %v", err)
	}
}

// openings makes some openings of a store fail.
type openings struct {
	objects
	fail func(name string) error
}

func (o openings) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := o.fail(name); err != nil {
		return nil, err
	}
	return o.objects.Open(ctx, name)
}

// failing is a store whose files break off like connections.
type failing struct {
	objects
	left int64
}

func (f failing) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	in, err := f.objects.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(in, f.left), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
}

// TestAStoreThatFails: a failing store is not the export's fault, so the error is not one that
// refuses the export.
func TestAStoreThatFails(t *testing.T) {
	o := objects{}
	e := read(t, o, full("1", strings.Repeat(hat, 1000)))
	for _, left := range []int64{0, 5, 12, 60} {
		e.store = failing{o, left}
		_, err := records(t, e)
		var named *Error
		if !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &named) {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
	if _, err := Read(t.Context(), failing{o, 5}, "1"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	for left := range int64(len(o["1/manifest-files.json"]) + 1) { // within a line, and after one
		e.Files, e.store = nil, failing{o, left}
		var named *Error
		if err := e.readFiles(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &named) {
			t.Errorf("after %d bytes of the list: %v", left, err)
		}
	}
}

// TestAReaderGoesOn: a reader continues after any line, and returns the rest.
func TestAReaderGoesOn(t *testing.T) {
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, `{"Item":{"id":{"N":"%d"},"pad":{"S":%q}}}`+"\n", i, strings.Repeat("x", i*700))
	}
	e := read(t, objects{}, full("1", text.String()))
	for _, skip := range []int64{0, 1, 150, 299, 300} {
		r, err := e.Open(t.Context(), 0)
		if err == nil {
			err = r.Skip(skip)
		}
		n := skip
		for ; err == nil; n++ {
			var record Record
			if record, err = r.Next(); err == nil {
				if v, _ := record.New.Get("id"); v.Text() != fmt.Sprint(n) {
					t.Fatalf("record %d is %s", n, v.Text())
				}
			}
		}
		if err != io.EOF || r.Line() != 300 || r.Unpacked() != int64(text.Len()) {
			t.Errorf("skip %d: %v at line %d", skip, err, r.Line())
		}
		if err := r.Skip(1); err != io.EOF {
			t.Error(err)
		}
	}
	r, err := e.Open(t.Context(), 0)
	if err != nil || r.Verify() != nil || r.Verify() != nil {
		t.Error("a whole file is not found to be one", err)
	}
}

// TestFolder: names cannot leave the folder.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := Folder(filepath.Join(dir, "b"))
	for _, name := range []string{"../a", "/a", ""} {
		if _, err := store.Open(t.Context(), name); err == nil {
			t.Errorf("%q was opened", name)
		}
	}
}
