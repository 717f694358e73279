// Package exports reads exports of DynamoDB tables to S3. They are full or incremental, in DynamoDB
// JSON, in a folder or a bucket. It knows nothing of loads: it says which files an export consists
// of, whether several exports follow one another without a hole, and gives the records of a file
// one after the other.
//
// What it holds to:
//
//   - E1: the manifest alone decides which files an export has. Folders are never listed, because
//     incremental exports share one.
//   - E2: a reader ends with io.EOF only when the file's checksum and its number of records are
//     those of the manifest.
//   - E3: what an export holds is never part of an error, nor is a key.
//   - E4: memory does not grow with a file. A line has at most MaxLine bytes.
//
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport.Output.html
package exports

import (
	"fmt"
	"strings"
	"time"
)

// View is which images the records of an incremental export have.
type View string

// The views.
const (
	ViewNew       View = "NEW_IMAGE"
	ViewNewAndOld View = "NEW_AND_OLD_IMAGES"

	// viewNewDocumented is what the reference of the API calls ViewNew, which its clients send.
	// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_IncrementalExportSpecification.html
	viewNewDocumented View = "NEW_IMAGES"
)

// Export is what the manifests of one export say. Times are on the service's clock.
type Export struct {
	ARN      string // of the export
	TableARN string
	TableID  string
	// Incremental tells a window from a full export.
	Incremental bool
	// At is the time that a full export shows, and the end of a window, which is not part of it.
	At time.Time
	// From is the beginning of a window, which is part of it; zero for a full export.
	From time.Time
	// View is that of a window; "" for a full export.
	View View
	// Items are the records of all files; Bytes is what they had unpacked, as it was billed.
	Items, Bytes int64
	Files        []File

	store  Store
	folder string // its own, below the store's root
}

// File is one data file, as the manifest describes it.
type File struct {
	Name  string // below the store's root
	Items int64
	MD5   [16]byte // of the packed file
}

// ID returns the last part of the export's ARN, which its folder is named after.
func (e *Export) ID() string { return e.ARN[strings.LastIndexByte(e.ARN, '/')+1:] }

// Kind says for people which export it is.
func (e *Export) Kind() string {
	if e.Incremental {
		return fmt.Sprintf("the window [%s, %s) of export %s", stamp(e.From), stamp(e.At), e.ID())
	}
	return fmt.Sprintf("the full export %s of %s", e.ID(), stamp(e.At))
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.999Z") }

// Error says what is wrong with an export, and where. Another read of the same files fails in the
// same way; what a store fails with is no Error. It holds nothing of the items.
type Error struct {
	Place string // the file or, for what concerns the whole, the export
	Line  int64  // from 1; 0: the file as a whole
	What  string
	Fix   string
	Err   error // what it comes from; may be nil
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
