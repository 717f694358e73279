// Package bucket opens the folders and buckets that hold exports.
package bucket

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dynamodb-bigtable/replicator/exports"
)

// Scheme is the kind of storage of an export.
type Scheme string

// The schemes.
const (
	Files        Scheme = ""
	S3           Scheme = "s3"
	CloudStorage Scheme = "gs"
)

// Place is the location of one export.
type Place struct {
	Scheme Scheme
	Bucket string // "" for files
	Root   string // root of the store: a directory or key prefix that ends with a slash; "" for a whole bucket
	Folder string // folder of the export, below Root
}

// Parse parses the address of an export. The address is the export's folder, or the
// manifest-summary.json in it. Its form is a directory, s3://bucket/key or gs://bucket/key.
func Parse(address string) (Place, error) {
	scheme, rest, remote := strings.Cut(address, "://")
	if !remote {
		if address == "" {
			return Place{}, errors.New("it is empty")
		}
		whole, err := filepath.Abs(address)
		if err != nil {
			return Place{}, err
		}
		root, folder := exports.Split(filepath.ToSlash(whole))
		return Place{Root: filepath.FromSlash(root), Folder: folder}, nil
	}
	p := Place{Scheme: Scheme(scheme)}
	if p.Scheme != S3 && p.Scheme != CloudStorage {
		return Place{}, fmt.Errorf("exports are read from directories, s3:// and gs://, not from %s://", scheme)
	}
	bucket, key, _ := strings.Cut(rest, "/")
	p.Bucket = bucket
	p.Root, p.Folder = exports.Split(key)
	if bucket == "" || p.Folder == "" || p.Folder == "." || p.Folder == ".." {
		return Place{}, fmt.Errorf("it does not name a folder: %s://bucket/prefix/AWSDynamoDB/export-id is expected", scheme)
	}
	return p, nil
}

// String returns the address of the place.
func (p Place) String() string {
	if p.Scheme == Files {
		return filepath.Join(p.Root, p.Folder)
	}
	return string(p.Scheme) + "://" + p.Bucket + "/" + p.Root + p.Folder
}
