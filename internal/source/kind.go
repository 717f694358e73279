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

// kind is one sort of source.
type kind struct {
	// name is what the ledger calls it.
	name string
	// noun names one in sentences.
	noun string
	// form matches addresses in a configuration, as far as editors can tell.
	form string
	// written tells how one is written in a configuration, and named how it is named to a command.
	written, named string
	// claims reports whether an address is of this kind; check says what is wrong with it in a
	// configuration, "" if nothing is.
	claims func(address string) bool
	check  func(address string) (wrong string)
	// parse gives the address by which every worker finds it, and folder the directory or s3:// or
	// gs:// that is opened for that; "" if none is.
	parse  func(address string) (string, error)
	folder func(address string) string
	// reported: DynamoDB is asked what it knows of one.
	reported bool
	// again says how to get one that shows a later time.
	again func(d backfill.Description) string
	// open opens what one address holds. An error that no repetition mends is a *Fault.
	open func(ctx context.Context, from Ends, address string) (set, error)
	// fit puts the sets of one load into their order, and fails with a *Fault if they are not of one
	// table, or leave a hole.
	fit func(sets []set, of Wanted) ([]set, error)
}

// kinds are all of them. The first that claims an address has it.
var kinds = []*kind{scan, export}

// Fault says what is wrong with a source, and where. Another attempt finds the same. It holds nothing
// of the items.
type Fault = exports.Error

// Store gives the objects of a bucket, or the files of a folder.
type Store = exports.Store

// Ends are what sources are read through.
type Ends struct {
	// Table is the source table, and Scan reads it.
	Table string
	Scan  backfill.ScanSource
	// Folders opens folders and buckets; nil: this worker opens none.
	Folders Folders
}

// Folders opens a directory, or s3:// or gs:// of a folder: the store that holds it, and its name in
// there.
type Folders func(ctx context.Context, address string) (in Store, name string, err error)

// Wanted is what the sets of one load have to fit.
type Wanted struct {
	Table   backfill.Description
	Mapping *transform.Mapping
	// Late is how long after its change an application may write the target by itself.
	Late time.Duration
	// Alone: they mend a gap, and consist of windows.
	Alone bool
	// Segments is how many parts each worker reads at once.
	Segments int
}

// set is what one address holds: images of one time, or those of each page's own.
type set interface {
	// Record is what the ledger keeps of it. Zero: each page is as of its read, and nothing is kept.
	Record() checkpoint.Export
	Size() Size
	// Grouped gives so many of its files at most to each part.
	Grouped(files int) set
	// Part opens a part. It is read by one task at a time, which closes it.
	Part(index int) (part backfill.PartSource, end func() error, err error)
	// Whole fails unless it shows the whole table: with a *diag.Error, or as the service does that
	// cannot be asked.
	Whole(ctx context.Context, address string, p Proof) error
}

// Size is how much a load has to copy.
type Size struct {
	Parts        int
	Files        int   // 0 of what has none
	Items, Bytes int64 // as the service counts them, maybe hours old
}

func kindOf(address string) *kind {
	return kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.claims(address) })]
}

// Scans reports whether an address, or none, stands for a scan of the table.
func Scans(address string) bool { return kindOf(address) == scan }

// Noun names in sentences what lies at an address.
func Noun(address string) string { return kindOf(address).noun }

// Naming tells how what lies at an address is named to a command.
func Naming(address string) string { return kindOf(address).named }

// Check says what is wrong with an address in a configuration; "" if nothing is.
func Check(address string) string { return kindOf(address).check(address) }

// Form matches addresses in a configuration, as far as editors can tell.
func Form() *regexp.Regexp {
	var forms []string
	for _, k := range kinds {
		forms = append(forms, k.form)
	}
	return regexp.MustCompile("^(?:" + strings.Join(forms, "|") + ")$")
}

// Written tells how a source is written in a configuration.
func Written() string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.written)
	}
	return "write " + strings.Join(all, ", or ")
}

// Parse gives the address by which every worker finds what somebody has named.
func Parse(address string) (string, error) { return kindOf(address).parse(address) }

// Folder is the directory, or s3:// or gs:// of the folder, that is opened for an address; "" if none
// is.
func Folder(address string) string { return kindOf(address).folder(address) }

// Reported reports whether DynamoDB is asked what it knows of an address.
func Reported(address string) bool { return kindOf(address).reported }

// Again says how to get a source of the kind of an address that shows a later time.
func Again(address string, d backfill.Description) string { return kindOf(address).again(d) }
