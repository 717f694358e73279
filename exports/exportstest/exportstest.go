// Package exportstest writes exports as DynamoDB does, for tests.
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

// Objects are what lies below AWSDynamoDB/ in a bucket, by name. They are an exports.Store.
type Objects struct {
	mu    sync.Mutex
	known map[string][]byte
	// Fail, if it is set, fails an opening.
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

// Full writes a full export, whose folder is called as its id, with the given items in each file.
func (o *Objects) Full(t Table, id string, at time.Time, files ...[]attribute.Item) error {
	items, list := 0, []byte(nil)
	for i, file := range files {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		for _, item := range file {
			if _, err := fmt.Fprintf(z, "{\"Item\":%s}\n", attribute.AppendItem(nil, item)); err != nil {
				return err
			}
		}
		if err := z.Close(); err != nil {
			return err
		}
		name := fmt.Sprintf("%s/data/%s-%d.json.gz", id, id, i)
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
	summary, err := json.Marshal(map[string]any{"version": "2020-06-30", "exportArn": t.ARN + "/export/" + id, "tableArn": t.ARN, "tableId": t.ID,
		"exportTime": at.UTC().Format(time.RFC3339Nano), "outputFormat": "DYNAMODB_JSON", "itemCount": items, "billedSizeBytes": 0,
		"manifestFilesS3Key": "AWSDynamoDB/" + id + "/manifest-files.json"})
	if err != nil {
		return err
	}
	o.Put(id+"/manifest-files.json", list)
	o.Put(id+"/manifest-summary.json", summary)
	return nil
}
