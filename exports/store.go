package exports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Store opens the objects of a bucket, or the files of a folder. It is safe for concurrent use.
type Store interface {
	// Open reads an object from its beginning. A name consists of parts separated by slashes. No
	// part is "." or "..". The error is fs.ErrNotExist if there is no such object.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
}

// Folder is a Store of the files below a directory.
type Folder string

// Open opens a file.
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return os.Open(filepath.Join(string(f), local))
}

// Names of an export's files.
const (
	summaryName = "manifest-summary.json"
	filesName   = "manifest-files.json"
	common      = "AWSDynamoDB/" // the folder in which the service stores exports
)

// Split splits the place of an export into the root of its Store and the folder below the root. The
// place is the export's folder, or the manifest-summary.json in it. The root ends with the slash
// before the folder. The root is outside the export's folder, because a window's data is stored
// beside that folder. The root is not normalized, because a//b, a/./b and a/b are three different
// keys in a bucket.
func Split(place string) (root, folder string) {
	return path.Split(strings.TrimRight(strings.TrimSuffix(place, summaryName), "/"))
}

// resolve returns the name, below the store's root, of an object that a manifest names. The
// manifest has the names in the original bucket, but a copy may be stored in another place. The
// part after AWSDynamoDB/ is the same in the original and in the copy.
func (e *Export) resolve(key string) (string, error) {
	i := strings.LastIndex(key, common)
	if i < 0 || i > 0 && key[i-1] != '/' {
		return "", errors.New("the name of a data file is not below AWSDynamoDB/")
	}
	name := key[i+len(common):]
	if !fs.ValidPath(name) {
		return "", errors.New("the name of a data file points outside the folder")
	}
	own, inOwn := strings.CutPrefix(name, e.ID()+"/data/")
	shared, inShared := strings.CutPrefix(name, "data/")
	switch {
	case inOwn && !e.Incremental && !strings.Contains(own, "/"):
		return path.Join(e.folder, "data", own), nil
	case inShared && e.Incremental && !strings.Contains(shared, "/"):
		return name, nil
	}
	return "", errors.New("a data file is not in the folder of its kind of export")
}
