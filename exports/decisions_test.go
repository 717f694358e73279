package exports

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// counting is a store that counts its open files.
type counting struct {
	objects
	open, opened int
	fail         error // the first read of a data file fails with it, once
}

type opened struct {
	io.ReadCloser
	c    *counting
	data bool
}

func (c *counting) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	in, err := c.objects.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	c.open++
	c.opened++
	return opened{in, c, strings.HasSuffix(name, ".gz")}, nil
}

func (o opened) Read(b []byte) (int, error) {
	if err := o.c.fail; err != nil && o.data {
		o.c.fail = nil
		return 0, err
	}
	return o.ReadCloser.Read(b)
}

func (o opened) Close() error { o.c.open--; return o.ReadCloser.Close() }

// Every opened file is closed. Each manifest and its checksum are closed after reading, a file that
// is not an archive immediately, and any other by its opener. A load opens thousands.
func TestWhatIsOpenedIsClosed(t *testing.T) {
	for name, spoil := range map[string]func(o objects){
		"whole":          func(objects) {},
		"no archive":     func(o objects) { o["01-a/data/01-a-0.json.gz"] = []byte("{}") },
		"no list":        func(o objects) { delete(o, "01-a/manifest-files.json") },
		"a torn list":    func(o objects) { o["01-a/manifest-files.json"] = []byte("{}") },
		"a torn summary": func(o objects) { o["01-a/manifest-summary.json"] = []byte("{}") },
		"a large one":    func(o objects) { o["01-a/manifest-summary.json"] = make([]byte, mostSummary+1) },
	} {
		c := &counting{objects: objects{}}
		full("01-a", hat, scarf).write(t, c.objects)
		spoil(c.objects)
		if e, err := Read(t.Context(), c, "01-a"); err == nil {
			_, _ = records(t, e)
		}
		if c.open != 0 || c.opened == 0 {
			t.Errorf("%s: %d of %d are open", name, c.open, c.opened)
		}
	}
}

// After an error the reader returns nothing more, whatever the store does then: records after a
// hole must not seem to follow the ones before it.
func TestAReaderThatFailedStaysSo(t *testing.T) {
	down := errors.New("connection reset")
	c := &counting{objects: objects{}}
	d := full("01-a", hat, `{"Item":{"id":{"S":"a"}}}`+"\nnonsense\n"+scarf)
	d.write(t, c.objects)
	e, err := Read(t.Context(), c, "01-a")
	if err != nil {
		t.Fatal(err)
	}
	torn, err := e.Open(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.Next(); err != nil || torn.Line() != 1 {
		t.Errorf("line %d, %v", torn.Line(), err)
	}
	_, first := torn.Next()
	for range 3 {
		if _, err := torn.Next(); err == nil || err != first || torn.Line() != 2 || torn.Skip(1) != first || torn.Verify() != first {
			t.Errorf("line %d, %v", torn.Line(), err)
		}
	}
	if err := torn.Close(); err != nil {
		t.Error(err)
	}
	c.fail = down
	if _, err := e.Open(t.Context(), 0); !errors.Is(err, down) || c.open != 0 {
		t.Errorf("%v, %d are open", err, c.open)
	}
}

// The writer's version of the manifest determines the kind of export, in any of its forms. An
// export of a table without items is complete. An unknown kind, table or time is refused.
func TestWhatASummaryMayBe(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s map[string]any)
		ok   bool
	}{
		"as it is":                 {func(map[string]any) {}, true},
		"its type said":            {func(s map[string]any) { s["exportType"] = fullType }, true},
		"of another type":          {func(s map[string]any) { s["exportType"] = "PARTIAL" }, false},
		"the newer version":        {func(s map[string]any) { s["version"] = incrementalVersion }, true},
		"another version":          {func(s map[string]any) { s["version"] = "2031-01-01" }, false},
		"of no export":             {func(s map[string]any) { s["exportArn"] = tableARN + "/export/"; s["manifestFilesS3Key"] = "" }, false},
		"of an index":              {func(s map[string]any) { s["tableArn"] = "arn:aws:x"; s["exportArn"] = "arn:aws:x/export/01-a" }, false},
		"at the beginning of time": {func(s map[string]any) { s["exportTime"] = "1970-01-01T00:00:00Z" }, false},
		"at no time":               {func(s map[string]any) { s["exportTime"] = "0001-01-01T00:00:00Z" }, false},
		"a second later":           {func(s map[string]any) { s["exportTime"] = "1970-01-01T00:00:01Z" }, true},
		"a name that is a number":  {func(s map[string]any) { s["tableId"] = 7 }, false},
		"fewer than none":          {func(s map[string]any) { s["itemCount"] = -1 }, false},
		"without its list's name":  {func(s map[string]any) { s["manifestFilesS3Key"] = "" }, true},
		"the list of another":      {func(s map[string]any) { s["manifestFilesS3Key"] = "AWSDynamoDB/02-b/" + filesName }, false},
		"no list at all":           {func(s map[string]any) { s["manifestFilesS3Key"] = "AWSDynamoDB/01-a/other.json" }, false},
	} {
		d, o := full("01-a", hat), objects{}
		c.edit(d.summary)
		d.write(t, o)
		var fault *Error
		if _, err := Read(t.Context(), o, "01-a"); (err == nil) != c.ok || err != nil && !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e := read(t, objects{}, full("01-a", "", "")); e.Items != 0 || len(e.Files) != 2 {
		t.Errorf("of a table without items %+v", e)
	}
}

// A fault names its file, so that the operator can copy that file again.
func TestAFaultNamesItsFile(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(o objects)
		place string
	}{
		"a count": {func(o objects) {
			delete(o, "01-a/manifest-files.md5")
			o["01-a/manifest-files.json"] = o["01-a/manifest-files.json"][:0]
		}, "01-a/manifest-files.json"},
		"a large summary": {func(o objects) { o["01-a/manifest-summary.json"] = make([]byte, mostSummary+1) }, "01-a/manifest-summary.json"},
		"no list":         {func(o objects) { delete(o, "01-a/manifest-files.json") }, "01-a/manifest-files.json"},
	} {
		o := objects{}
		full("01-a", hat).write(t, o)
		c.spoil(o)
		var fault *Error
		if _, err := Read(t.Context(), o, "01-a"); !errors.As(err, &fault) || fault.Place != c.place || fault.What == "" || fault.Fix == "" {
			t.Errorf("%s: %+v", name, fault)
		}
	}
	twice := chained("b", 900, 1800)
	twice.Files = []File{{Name: "data/a"}}
	_, err := Chain([]*Export{whole("f", 0), chained("a", 0, 900), twice}, Wanted{})
	var fault *Error
	if !errors.As(err, &fault) || fault.Place != "data/a" {
		t.Errorf("%v", err)
	}
	_, err = Chain([]*Export{whole("f", 0), chained("b", 901, 1801)}, Wanted{})
	if !errors.As(err, &fault) || !strings.Contains(fault.Place, stamp(at(901))) || !strings.Contains(fault.Place, stamp(at(1801))) || fault.Place == whole("b", 1801).Kind() {
		t.Errorf("%v", err)
	}
}

// Two tables differ if their ARNs or their IDs differ. A restored table has the other's name, and a
// copy's ID may be missing.
func TestExportsOfTwoTablesAreNoChain(t *testing.T) {
	for name, edit := range map[string]func(e *Export){
		"another ID":  func(e *Export) { e.TableID = "another" },
		"another ARN": func(e *Export) { e.TableARN += "2" },
	} {
		other := chained("a", 0, 900)
		edit(other)
		if _, err := Chain([]*Export{whole("f", 0), other}, Wanted{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Nested windows overlap, and the advice names the time at which the next one must begin. Only a
// window that ends before a full export is contained in it.
func TestWhatIsToldOfWindowsWithinWindows(t *testing.T) {
	_, err := Chain([]*Export{whole("f", 0), chained("a", 0, 1800), chained("b", 100, 900)}, Wanted{})
	var fault *Error
	if !errors.As(err, &fault) || !strings.Contains(fault.Fix, stamp(at(1800))) {
		t.Errorf("%+v", fault)
	}
	odd := chained("a", 0, 900) // a window that ends within a second: no full export repairs that
	odd.At = odd.At.Add(5e8)
	if _, err := Chain([]*Export{whole("f", 0), odd, chained("b", 900, 1800)}, Wanted{}); !errors.As(err, &fault) || strings.Contains(fault.Fix, "full export") {
		t.Errorf("%+v", fault)
	}
}

// A line that does not have exactly the form of its kind of export is not a record. Examples are
// text after an item, an invalid time, or an image with another key.
func TestWhatALineMustBe(t *testing.T) {
	item, change := strings.TrimSpace(hat), strings.TrimSpace(changed)
	micros := `{"N":"1700000001000001"}`
	for line, ok := range map[string]bool{
		item: true, item + " ": true, item + "{}": false, item + "x": false, item[:len(item)-1]: false, "": false, "[]": false, `"x"`: false, "null": false, "{": false,
		`{"Item":`: false, `{"Item":{"id":{"S":"a"}},"Item":{"id":{"S":"b"}}}`: false, `{"Item":{"id":{"S":"a"}},"It\u0065m":{"id":{"S":"b"}}}`: false,
		`{"Item":{"id":{"X":"a"}}}`: false, `{"Item":{"id":{"S":"a"}},"More":{"id":{"S":"b"}}}`: false, change: false,
	} {
		if _, err := ParseItem([]byte(line)); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
	for line, ok := range map[string]bool{
		change: true, item: false,
		strings.Replace(change, micros, `{"S":"1700000001000001"}`, 1):                                     false,
		strings.Replace(change, micros, `{"N":"0"}`, 1):                                                    false,
		strings.Replace(change, micros, `{"N":"-1"}`, 1):                                                   false,
		strings.Replace(change, micros, `{"N":"1"}`, 1):                                                    true,
		strings.Replace(change, micros, `{"N":"1.5"}`, 1):                                                  false,
		strings.Replace(change, `"n":{"N":"2"}`, `"n":{"N":"2"},"m":{"N":"2"}`, 1):                         true,
		strings.Replace(change, `"NewImage":{"id":{"S":"fedora"},`, `"NewImage":{"id":{"S":"scarf"},`, 1):  false,
		strings.Replace(change, `"OldImage":{"id":{"S":"fedora"},`, `"OldImage":{"di":{"S":"fedora"},`, 1): false,
		strings.Replace(change, `"NewImage":{"id":{"S":"fedora"},`, `"NewImage":{"id":{"N":"7"},`, 1):      false,
	} {
		if _, err := ParseChange([]byte(line)); (err == nil) != ok {
			t.Errorf("%s: %v", line, err)
		}
	}
}
