package exports

import (
	"errors"
	"testing"
)

// The service documents that it creates an empty file for an empty partition. A file of no bytes
// has no records, if the manifest says so.
func TestAFileOfNoBytesHasNoRecords(t *testing.T) {
	const name = "01-a/data/01-a-1.json.gz"
	for _, c := range []struct {
		what  string
		items int
		md5   string
		fails bool
	}{
		{"as the manifest says", 0, base64MD5(nil), false},
		{"of another checksum", 0, base64MD5([]byte("x")), true},
		{"of records", 1, base64MD5(nil), true},
	} {
		d := full("01-a", hat, "")
		d.summary["itemCount"] = 1 + c.items
		d.edit = func(o objects, list []map[string]any) {
			o[name] = nil
			list[1]["itemCount"], list[1]["md5Checksum"] = c.items, c.md5
		}
		all, err := records(t, read(t, objects{}, d))
		var fault *Error
		if errors.As(err, &fault) != c.fails || (err != nil) != c.fails || len(all) != 1 {
			t.Errorf("%s: %d records, %v", c.what, len(all), err)
		}
	}
}

// A window without changes may list no file. A full export lists at least one.
func TestAWindowWithoutFilesHasNoChanges(t *testing.T) {
	for _, d := range []*draft{window("02-b", 0, 900), full("01-a")} {
		o := objects{}
		d.write(t, o)
		e, err := Read(t.Context(), o, d.id)
		if d.id == "02-b" && (err != nil || len(e.Files) > 0 || e.Items > 0) || d.id == "01-a" && err == nil {
			t.Errorf("%s: %+v, %v", d.id, e, err)
		}
	}
}
