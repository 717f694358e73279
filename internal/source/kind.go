package source

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// kind is one type of source.
type kind struct {
	// name is the name of the kind in the ledger.
	name string
	// noun is the name of the kind in sentences.
	noun string
	// form is a pattern of addresses in a configuration, for editors. It need not be exact.
	form string
	// written describes how an address is written in a configuration. named describes how it is
	// given to a command.
	written, named string
	// claims reports whether an address is of this kind. check returns what is wrong with an
	// address in a configuration, or "" if it is valid.
	claims func(address string) bool
	check  func(address string) (wrong string)
	// parse returns the address by which every worker finds the source. folder returns the
	// directory, or the s3:// or gs:// address, that must be opened; "" if there is none.
	parse  func(address string) (string, error)
	folder func(address string) string
	// reported is true if DynamoDB has information about such a source.
	reported bool
	// again returns the instruction to get a newer source of the kind, such as a newer export.
	again func(d backfill.Description) string
	// open opens the set at one address. An error that no retry fixes is a *Fault.
	open func(ctx context.Context, from Ends, address string) (set, error)
	// fit sorts the sets of one load into their order. It fails with a *Fault if the sets belong to
	// several tables, or if a time between them is missing.
	fit func(sets []set, of Wanted) ([]set, error)
}

// The schemes of folders in buckets.
const (
	s3  = "s3://"
	gcs = "gs://"
)

// kinds lists all kinds. An address belongs to the first kind that claims it.
var kinds = []*kind{scan, export}

// Fault is an error in the content of a source. It says what is wrong, and where. A retry would
// find the same fault. It contains no item data.
type Fault = exports.Error

// Store returns the objects of a bucket, or the files of a folder.
type Store = exports.Store

// Ends holds the functions that open and read sources.
type Ends struct {
	// Table is the source table, and Scan reads it.
	Table string
	Scan  backfill.ScanSource
	// Folders opens folders and buckets. It is nil if this worker cannot open them.
	Folders Folders
}

// Folders opens a directory, or a folder at s3:// or gs://. It returns the store that contains the
// folder, and the folder's name in the store.
type Folders func(ctx context.Context, address string) (in Store, name string, err error)

// Wanted holds the requirements on the sets of one load.
type Wanted struct {
	Table   backfill.Description
	Mapping *transform.Mapping
	// Late is the maximum time between a change and the application's own write to the target.
	Late time.Duration
	// Alone is true if the sets are only incremental exports, which repair a gap.
	Alone bool
	// Segments is the number of parts that each worker reads concurrently.
	Segments int
}

// set is the content of one address. Either all images have the same time, or each page has the
// time of its read.
type set interface {
	// Record returns the record of the set for the ledger. If each page has the time of its read,
	// the record is zero and is not stored.
	Record() checkpoint.Export
	Size() Size
	// Grouped returns the same set with at most the given number of files in each part.
	Grouped(files int) set
	// Part opens a part. Only one task may read the part, and must then close it.
	Part(index int) (part backfill.PartSource, end func() error, err error)
	// Whole fails if there is no proof that the set contains the whole table. The error is a
	// *diag.Error, or the service's error if the service cannot be asked.
	Whole(ctx context.Context, address string, p Proof) error
}

// Size is the amount of data that a load copies.
type Size struct {
	Parts        int
	Files        int   // 0 for a source without files
	Items, Bytes int64 // the service's counts, which may be hours old
}

func kindOf(address string) *kind {
	return kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.claims(address) })]
}

// Scans reports whether an address, or no address, stands for a scan of the table.
func Scans(address string) bool { return kindOf(address) == scan }

// Noun returns the name, in sentences, of the kind of source at an address.
func Noun(address string) string { return kindOf(address).noun }

// Naming describes how a source of the same kind is given to a command.
func Naming(address string) string { return kindOf(address).named }

// Check returns what is wrong with an address in a configuration, or "" if it is valid.
func Check(address string) string { return kindOf(address).check(address) }

// Form returns a pattern that matches addresses in a configuration, for editors.
func Form() *regexp.Regexp {
	var forms []string
	for _, k := range kinds {
		forms = append(forms, k.form)
	}
	return regexp.MustCompile("^(?:" + strings.Join(forms, "|") + ")$")
}

// Written describes how a source is written in a configuration.
func Written() string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.written)
	}
	return "write " + strings.Join(all, ", or ")
}

// Parse converts an address from an operator to the address by which every worker finds the source.
func Parse(address string) (string, error) { return kindOf(address).parse(address) }

// Folder returns the directory, or the s3:// or gs:// address of the folder, that is opened for an
// address; "" if there is none.
func Folder(address string) string { return kindOf(address).folder(address) }

// InS3 returns a Folder in S3 as bucket/key; false if the folder is elsewhere.
func InS3(folder string) (key string, ok bool) { return strings.CutPrefix(folder, s3) }

// InCloudStorage returns a Folder in Cloud Storage as bucket/key; false if the folder is elsewhere.
func InCloudStorage(folder string) (key string, ok bool) { return strings.CutPrefix(folder, gcs) }

// Reported reports whether DynamoDB has information about the source at an address.
func Reported(address string) bool { return kindOf(address).reported }

// Again returns the instruction to get a newer source of the same kind, such as a newer export.
func Again(address string, d backfill.Description) string { return kindOf(address).again(d) }
