package exports

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"
)

// objects is a Store in memory.
type objects map[string][]byte

func (o objects) Open(_ context.Context, name string) (io.ReadCloser, error) {
	content, ok := o[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

const (
	tableARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/Shop"
	tableID  = "11991185-e7ab-4da5-8bab-03f0db0b7bfd"
	began    = 1_700_000_000 // time of full exports, in seconds
)

func at(second int64) time.Time { return time.Unix(began+second, 0).UTC() }

func base64MD5(b []byte) string {
	sum := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// draft is an export before it is written.
type draft struct {
	id      string
	summary map[string]any
	files   []string // the text of each
	edit    func(o objects, list []map[string]any)
}

func full(id string, files ...string) *draft {
	return &draft{id: id, files: files, summary: map[string]any{"version": fullVersion, "exportTime": stamp(at(0))}}
}

func window(id string, from, to int64, files ...string) *draft {
	return &draft{id: id, files: files, summary: map[string]any{"version": incrementalVersion, "exportType": incrementalType,
		"exportFromTime": stamp(at(from)), "exportToTime": stamp(at(to)), "outputView": string(ViewNewAndOld)}}
}

// write writes the export into o like the service, below the folder AWSDynamoDB.
func (d *draft) write(t testing.TB, o objects) {
	t.Helper()
	var list []map[string]any
	items, data := 0, d.id+"/data/"
	if d.summary["exportType"] == incrementalType {
		data = "data/"
	}
	for i, text := range d.files {
		n := strings.Count(text, "\n")
		items += n
		name := fmt.Sprintf("%s%s-%d.json.gz", data, d.id, i)
		o[name] = packed(t, text)
		list = append(list, map[string]any{"itemCount": n, "md5Checksum": base64MD5(o[name]), "etag": "x-1", "dataFileS3Key": "a/b/AWSDynamoDB/" + name})
	}
	for name, v := range map[string]any{"exportArn": tableARN + "/export/" + d.id, "tableArn": tableARN, "tableId": tableID, "itemCount": items,
		"outputFormat": "DYNAMODB_JSON", "manifestFilesS3Key": "a/b/AWSDynamoDB/" + d.id + "/manifest-files.json", "s3SseKmsKeyId": nil} {
		if _, set := d.summary[name]; !set {
			d.summary[name] = v
		}
	}
	if d.edit != nil {
		d.edit(o, list)
	}
	var lines []byte
	for _, l := range list {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, text...), '\n')
	}
	text, err := json.Marshal(d.summary)
	if err != nil {
		t.Fatal(err)
	}
	o[d.id+"/manifest-files.json"], o[d.id+"/manifest-summary.json"] = lines, text
	o[d.id+"/manifest-files.md5"], o[d.id+"/manifest-summary.md5"] = []byte(base64MD5(lines)), []byte(base64MD5(text)+"\n")
}

func read(t testing.TB, o objects, d *draft) *Export {
	t.Helper()
	d.write(t, o)
	e, err := Read(t.Context(), o, d.id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// records reads all files of an export.
func records(t testing.TB, e *Export) (all []Record, err error) {
	t.Helper()
	for i := range e.Files {
		r, err := e.Open(t.Context(), i)
		if err != nil {
			return all, err
		}
		for {
			var record Record
			if record, err = r.Next(); err != nil {
				break
			}
			all = append(all, record)
		}
		if closed := r.Close(); closed != nil {
			t.Fatal(closed)
		}
		if err != io.EOF {
			return all, err
		}
	}
	return all, nil
}
