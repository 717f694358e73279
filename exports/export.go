// Package exports reads exports of DynamoDB tables to S3. Exports are full or incremental, have
// DynamoDB JSON, and are in a folder or a bucket. The package does not depend on loads. It
// determines the files of an export, checks that several exports follow one another without a gap,
// and reads the records of a file in order.
//
// Comments cite these rules by number:
//
//   - E1: only the manifest decides which files belong to an export. Folders are never listed,
//     because incremental exports share one folder.
//   - E2: a reader ends with io.EOF only if the file's checksum and its number of records match
//     the manifest.
//   - E3: errors never contain item data or keys of an export.
//   - E4: memory does not grow with the size of a file. A line has at most MaxLine bytes.
//
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html
package exports

import (
	"fmt"
	"strings"
	"time"
)

// View determines which images the records of an incremental export have.
type View string

// The views.
const (
	ViewNew       View = "NEW_IMAGE"
	ViewNewAndOld View = "NEW_AND_OLD_IMAGES"

	// viewNewDocumented is the name of ViewNew in the API reference. Clients send the text of
	// ViewNew. Source:
	// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_IncrementalExportSpecification.html
	viewNewDocumented View = "NEW_IMAGES"
)

// Export is the content of the manifests of one export. Times are on the service's clock.
type Export struct {
	ARN      string // ARN of the export
	TableARN string
	TableID  string
	// Incremental reports that the export is a window, not a full export.
	Incremental bool
	// At is the time that a full export shows, or the exclusive end of a window.
	At time.Time
	// From is the inclusive beginning of a window; zero for a full export.
	From time.Time
	// View is the view of a window; "" for a full export.
	View View
	// Items is the number of records in all files. Bytes is their uncompressed size, as billed.
	Items, Bytes int64
	Files        []File

	store  Store
	folder string // the export's folder, below the store's root
}

// File is the manifest's description of one data file.
type File struct {
	Name  string // name below the store's root
	Items int64
	MD5   [16]byte // MD5 of the compressed file
}

// ID returns the last part of the export's ARN. The export's folder has this name.
func (e *Export) ID() string { return e.ARN[strings.LastIndexByte(e.ARN, '/')+1:] }

// Kind describes the export for messages.
func (e *Export) Kind() string {
	if e.Incremental {
		return fmt.Sprintf("the window [%s, %s) of export %s", stamp(e.From), stamp(e.At), e.ID())
	}
	return fmt.Sprintf("the full export %s of %s", e.ID(), stamp(e.At))
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.999Z") }

// Error says what is wrong with an export, and where. Another read of the same files fails in the
// same way. Errors of a store are not of this type. An Error contains no item data.
type Error struct {
	Place string // the file, or the export if the error concerns all of it
	Line  int64  // from 1; 0 means the whole file
	What  string
	Fix   string
	Err   error // the cause; may be nil
}

func (e *Error) Error() string {
	place := e.Place
	if e.Line > 0 {
		place = fmt.Sprintf("%s, line %d", e.Place, e.Line)
	}
	text := place + ": " + e.What
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

const (
	again  = "copy the export again, whole, or request a new one"
	native = "export again: aws dynamodb export-table-to-point-in-time --export-format DYNAMODB_JSON"
)
