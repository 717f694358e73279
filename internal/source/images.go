package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Images holds the images that a load copies: the sets of its source, in order.
type Images struct {
	kind *kind
	sets []set
}

// ErrNone is returned by a worker that cannot read exports.
var ErrNone = errors.New("this worker does not read exports")

// OpenError is the error for an address that could not be opened.
type OpenError struct {
	Address string
	Err     error
}

func (e *OpenError) Error() string { return e.Err.Error() }

func (e *OpenError) Unwrap() error { return e.Err }

// Open opens the source of one load. Without addresses, or with the address of a scan, the source
// is the table itself. The error is an *OpenError.
func Open(ctx context.Context, from Ends, addresses ...string) (Images, error) {
	if len(addresses) == 0 {
		addresses = []string{""}
	}
	out := Images{kind: kindOf(addresses[0])}
	for _, address := range addresses {
		set, err := out.kind.open(ctx, from, address)
		if err != nil {
			return Images{}, &OpenError{address, err}
		}
		out.sets = append(out.sets, set)
	}
	return out, nil
}

// Records returns the records of the sets that the ledger stores, in order. A set without a common
// time, such as a scan, has no record.
func (i Images) Records() (all []checkpoint.Export) {
	for _, s := range i.sets {
		if r := s.Record(); r != (checkpoint.Export{}) {
			all = append(all, r)
		}
	}
	return all
}

// Windows reports whether the images are only those of incremental exports.
func (i Images) Windows() bool {
	return !slices.ContainsFunc(i.sets, func(s set) bool { return s.Record().From.IsZero() })
}

// Size returns the amount of data to copy.
func (i Images) Size() (all Size) {
	for _, s := range i.sets {
		size := s.Size()
		all.Parts, all.Files, all.Items, all.Bytes = all.Parts+size.Parts, all.Files+size.Files, all.Items+size.Items, all.Bytes+size.Bytes
	}
	return all
}

// grouped returns the same images with at most the given number of files in each part.
func (i Images) grouped(files int) Images {
	out := Images{kind: i.kind}
	for _, s := range i.sets {
		out.sets = append(out.sets, s.Grouped(files))
	}
	return out
}

// divided returns the same images with the given number of parts. If the number is 0, it is the
// default number. The number that a load was sealed with determines the files of each part, whatever
// the default number was then. It returns false if the number is impossible.
func (i Images) divided(parts int) (Images, bool) {
	var files []int
	for _, s := range i.sets {
		files = append(files, s.Size().Files)
	}
	if parts == 0 || i.Size().Parts == 0 {
		return i.grouped(backfill.GroupOf(files, i.Size().Bytes)), true
	}
	group, ok := backfill.GroupFor(files, parts)
	return i.grouped(group), ok
}

// Fit returns the images in the order in which a load of the table copies them. It fails with a
// *Fault if the images cannot be loaded together.
func (i Images) Fit(of Wanted) (Images, error) {
	sets, err := i.kind.fit(i.sets, of)
	return Images{i.kind, sets}, err
}

// Whole fails if there is no proof that the images contain the whole table. Items that a filtered
// export lacks would stay missing in the target (H89). The error is an *OpenError, which wraps a
// *diag.Error if the source is refused.
func (i Images) Whole(ctx context.Context, p Proof) error {
	for _, s := range i.sets {
		address := s.Record().Address
		if err := s.Whole(ctx, address, p); err != nil {
			return &OpenError{address, err}
		}
	}
	return nil
}

// Part is one opened part of a load.
type Part struct {
	backfill.PartSource
	// At is the time of all images. If it is zero, each page has the time of its read.
	At time.Time
	// Close closes the part.
	Close func() error
}

// Part opens a part by its number in the load. It fails with checkpoint.ErrConflict if there is no
// such part.
func (i Images) Part(index int) (Part, error) {
	local := index
	for _, s := range i.sets {
		// A set with a fixed number of parts is an export. The parts of a scan are those of the
		// load.
		if n := s.Size().Parts; n > 0 && local >= n {
			local -= n
			continue
		}
		in, end, err := s.Part(local)
		if err != nil || local == index && len(i.sets) == 1 {
			return Part{in, s.Record().At, end}, err
		}
		return Part{within{in, local, s.Size().Parts}, s.Record().At, end}, nil
	}
	return Part{}, fmt.Errorf("%w: no file for part %d of the load", checkpoint.ErrConflict, index)
}

// within reads a part of a set. It converts the part's number in the load to its number in the set.
type within struct {
	backfill.PartSource
	index, total int
}

func (w within) Read(ctx context.Context, _, _ int, after json.RawMessage, limit int) (backfill.Page, error) {
	return w.PartSource.Read(ctx, w.index, w.total, after, limit)
}

// Opener opens the sources of the loads of a table. It keeps the last opened source, because all
// parts of a load share it.
type Opener struct {
	From Ends

	mu    sync.Mutex
	known Images
	of    []checkpoint.Export
}

// Open opens the source that a load copies. It checks that the source is the requested one, because
// a folder may have been replaced, or may have other content on this machine.
func (o *Opener) Open(ctx context.Context, load checkpoint.Load) (Images, error) {
	wanted := load.Exports()
	o.mu.Lock()
	images, of := o.known, o.of
	o.mu.Unlock()
	if images.kind == nil || !slices.Equal(of, wanted) {
		var err error
		if images, err = Open(ctx, o.From, addresses(wanted)...); err != nil {
			return Images{}, err
		}
		for i, is := range images.Records() {
			if w := wanted[i]; is.ARN != w.ARN || !is.At.Equal(w.At) || !is.From.Equal(w.From) {
				return Images{}, &Fault{Place: w.Address, What: "it is not the requested " + images.kind.noun, Fix: "put " + w.ARN + " there again, or request the load again"}
			}
		}
	}
	divided, ok := images.divided(load.Parts)
	if !ok {
		return Images{}, &Fault{Place: load.Export.Address, What: fmt.Sprintf("the %ss have %d files, which do not fit the %d parts of the load", images.kind.noun, images.Size().Files, load.Parts),
			Fix: "restore their files"}
	}
	o.mu.Lock()
	o.known, o.of = images, wanted
	o.mu.Unlock()
	return divided, nil
}

func addresses(records []checkpoint.Export) (all []string) {
	for _, r := range records {
		all = append(all, r.Address)
	}
	return all
}

// Plan returns the plan with which a load would be sealed. It fails if the load's images do not
// belong to this table, are not complete, or are too old. It sets only the source and the size in
// the plan. The caller must set the other members. The argument `oldest` is the maximum age of the
// images; 0 means no limit.
func (o *Opener) Plan(ctx context.Context, load checkpoint.Load, of Wanted, adopted time.Time, oldest time.Duration) (checkpoint.Plan, error) {
	images, err := o.Open(ctx, load)
	if err != nil {
		return checkpoint.Plan{}, err
	}
	of.Alone = load.MendsGap()
	fitting, err := images.Fit(of)
	if err != nil {
		return checkpoint.Plan{}, err
	}
	asked := load.Exports()
	for i, r := range fitting.Records() {
		if r.ARN != asked[i].ARN {
			return checkpoint.Plan{}, &Fault{Place: load.Export.Address, What: "the " + images.kind.noun + "s are not named in chronological order", Fix: "request the load again"}
		}
	}
	if len(asked) > 0 {
		if err := YoungEnough(images.kind.noun, checkpoint.Aged(asked[0].At, adopted), of.Table.At, oldest); err != nil {
			return checkpoint.Plan{}, err
		}
	}
	size := fitting.Size()
	return checkpoint.Plan{Source: images.kind.name, ExportARNs: load.ExportARNs(), Parts: size.Parts, Estimate: size.Items, EstimateBytes: size.Bytes}, nil
}
