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
	// name is the name in the ledger.
	name string
	// noun is its name in sentences.
	noun string
	// form matches addresses in a configuration, for editors. It need not be complete.
	form string
	// written says how an address is written in a configuration, and named how it is given to a
	// command.
	written, named string
	// claims reports whether an address is of this kind. check returns what is wrong with it in a
	// configuration, "" if nothing is.
	claims func(address string) bool
	check  func(address string) (wrong string)
	// parse returns the address by which every worker finds the source. folder returns the
	// directory, or the s3:// or gs:// address, that is opened for it; "" if there is none.
	parse  func(address string) (string, error)
	folder func(address string) string
	// reported: DynamoDB is asked about it.
	reported bool
	// again says how to get a source of a later time.
	again func(d backfill.Description) string
	// open opens the set at one address. An error that no retry fixes is a *Fault.
	open func(ctx context.Context, from Ends, address string) (set, error)
	// fit sorts the sets of one load into their order. It fails with a *Fault if they belong to
	// several tables, or leave a hole.
	fit func(sets []set, of Wanted) ([]set, error)
}

// The schemes of folders in buckets.
const (
	s3  = "s3://"
	gcs = "gs://"
)

// kinds lists all kinds. An address belongs to the first that claims it.
var kinds = []*kind{scan, export}

// Fault says what is wrong with a source, and where. A retry gives the same fault. It contains
// nothing of the items.
type Fault = exports.Error

// Store returns the objects of a bucket, or the files of a folder.
type Store = exports.Store

// Ends holds the means to read sources.
type Ends struct {
	// Table is the source table, and Scan reads it.
	Table string
	Scan  backfill.ScanSource
	// Folders opens folders and buckets; nil: this worker cannot.
	Folders Folders
}

// Folders opens a directory, or a folder at s3:// or gs://. It returns the store that holds the
// folder, and its name there.
type Folders func(ctx context.Context, address string) (in Store, name string, err error)

// Wanted holds the requirements on the sets of one load.
type Wanted struct {
	Table   backfill.Description
	Mapping *transform.Mapping
	// Late is how long after its change an application itself may still write the target.
	Late time.Duration
	// Alone: the sets are only windows, which repair a gap.
	Alone bool
	// Segments is how many parts each worker reads concurrently.
	Segments int
}

// set is the content of one address: images of one time, or pages that each have their own time.
type set interface {
	// Record returns what the ledger stores about it. It is zero, and nothing is stored, if each
	// page has the time of its read.
	Record() checkpoint.Export
	Size() Size
	// Grouped gives at most the given number of its files to each part.
	Grouped(files int) set
	// Part opens a part. Only one task at a time reads it, and closes it.
	Part(index int) (part backfill.PartSource, end func() error, err error)
	// Whole fails unless it shows the whole table: with a *diag.Error, or with the service's error
	// if the service cannot be asked.
	Whole(ctx context.Context, address string, p Proof) error
}

// Size is the amount that a load has to copy.
type Size struct {
	Parts        int
	Files        int   // 0 for a source without files
	Items, Bytes int64 // the service's counts, perhaps hours old
}

func kindOf(address string) *kind {
	return kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.claims(address) })]
}

// Scans reports whether an address, or no address, stands for a scan of the table.
func Scans(address string) bool { return kindOf(address) == scan }

// Noun returns the name, in sentences, of the kind of source at an address.
func Noun(address string) string { return kindOf(address).noun }

// Naming says how a source of this kind is given to a command.
func Naming(address string) string { return kindOf(address).named }

// Check returns what is wrong with an address in a configuration; "" if nothing is.
func Check(address string) string { return kindOf(address).check(address) }

// Form matches addresses in a configuration, for editors.
func Form() *regexp.Regexp {
	var forms []string
	for _, k := range kinds {
		forms = append(forms, k.form)
	}
	return regexp.MustCompile("^(?:" + strings.Join(forms, "|") + ")$")
}

// Written says how a source is written in a configuration.
func Written() string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.written)
	}
	return "write " + strings.Join(all, ", or ")
}

// Parse returns the address by which every worker finds the source that an operator has named.
func Parse(address string) (string, error) { return kindOf(address).parse(address) }

// Folder returns the directory, or the s3:// or gs:// address of the folder, that is opened for an
// address; "" if there is none.
func Folder(address string) string { return kindOf(address).folder(address) }

// InS3 returns a Folder in S3 as bucket/key; false if the folder is elsewhere.
func InS3(folder string) (key string, ok bool) { return strings.CutPrefix(folder, s3) }

// InCloudStorage does the same for Cloud Storage.
func InCloudStorage(folder string) (key string, ok bool) { return strings.CutPrefix(folder, gcs) }

// Reported reports whether DynamoDB is asked about the source at an address.
func Reported(address string) bool { return kindOf(address).reported }

// Again says how to get a source of the same kind with a later time.
func Again(address string, d backfill.Description) string { return kindOf(address).again(d) }
