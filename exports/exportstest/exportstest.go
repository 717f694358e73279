// Package exportstest writes exports in DynamoDB's format, for tests.
package exportstest

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
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Objects holds the objects below AWSDynamoDB/ in a bucket, by name. It implements exports.Store.
type Objects struct {
	mu    sync.Mutex
	known map[string][]byte
	// Fail, if set, is called at each opening, and can make it fail.
	Fail func(name string) error
}

// Put stores an object.
func (o *Objects) Put(name string, content []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[string][]byte{}
	}
	o.known[name] = content
}

// Open reads an object.
func (o *Objects) Open(_ context.Context, name string) (io.ReadCloser, error) {
	if o.Fail != nil {
		if err := o.Fail(name); err != nil {
			return nil, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	content, ok := o.known[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Table is a table as its exports describe it.
type Table struct{ ARN, ID string }

// Full writes a full export with the given items in each file. Its folder has the name of its id.
func (o *Objects) Full(t Table, id string, at time.Time, files ...[]attribute.Item) error {
	lines := make([][]string, len(files))
	for i, file := range files {
		for _, item := range file {
			lines[i] = append(lines[i], fmt.Sprintf("{\"Item\":%s}\n", attribute.AppendItem(nil, item)))
		}
	}
	return o.write(t, id, id+"/data/", lines, map[string]any{"version": "2020-06-30", "exportTime": at.UTC().Format(time.RFC3339Nano)})
}

// Change holds an item's image before a window, its image at the end of the window, and the time of
// its last write in the window.
type Change struct {
	Keys, Old, New attribute.Item
	Written        time.Time
}

// Window writes an incremental export from one time to another, with the given changes in each
// file. With the view NEW_IMAGE it leaves out old images.
func (o *Objects) Window(t Table, id string, from, to time.Time, view string, files ...[]Change) error {
	lines := make([][]string, len(files))
	for i, file := range files {
		for _, c := range file {
			line := fmt.Appendf(nil, `{"Metadata":{"WriteTimestampMicros":{"N":"%d"}},"Keys":%s`, c.Written.UnixMicro(), attribute.AppendItem(nil, c.Keys))
			if c.Old.Exists() && view != "NEW_IMAGE" {
				line = attribute.AppendItem(append(line, `,"OldImage":`...), c.Old)
			}
			if c.New.Exists() {
				line = attribute.AppendItem(append(line, `,"NewImage":`...), c.New)
			}
			lines[i] = append(lines[i], string(line)+"}\n")
		}
	}
	return o.write(t, id, "data/", lines, map[string]any{"version": "2023-08-01", "exportType": "INCREMENTAL_EXPORT", "outputView": view,
		"exportFromTime": from.UTC().Format(time.RFC3339Nano), "exportToTime": to.UTC().Format(time.RFC3339Nano)})
}

// write writes files and manifests. The argument `summary` has the members of the summary that
// differ between the kinds of exports.
func (o *Objects) write(t Table, id, data string, files [][]string, summary map[string]any) error {
	items, list := 0, []byte(nil)
	for i, file := range files {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		for _, line := range file {
			if _, err := io.WriteString(z, line); err != nil {
				return err
			}
		}
		if err := z.Close(); err != nil {
			return err
		}
		name := fmt.Sprintf("%s%s-%d.json.gz", data, id, i)
		o.Put(name, packed.Bytes())
		sum := md5.Sum(packed.Bytes())
		line, err := json.Marshal(map[string]any{"itemCount": len(file), "md5Checksum": base64.StdEncoding.EncodeToString(sum[:]), "etag": "-1",
			"dataFileS3Key": "AWSDynamoDB/" + name})
		if err != nil {
			return err
		}
		items += len(file)
		list = append(append(list, line...), '\n')
	}
	for name, value := range map[string]any{"exportArn": t.ARN + "/export/" + id, "tableArn": t.ARN, "tableId": t.ID, "outputFormat": "DYNAMODB_JSON", "itemCount": items,
		"billedSizeBytes": 0, "manifestFilesS3Key": "AWSDynamoDB/" + id + "/manifest-files.json"} {
		summary[name] = value
	}
	text, err := json.Marshal(summary)
	if err != nil {
		return err
	}
	o.Put(id+"/manifest-files.json", list)
	o.Put(id+"/manifest-summary.json", text)
	return nil
}
