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

// Images holds what a load copies: the sets of its source, in order.
type Images struct {
	kind *kind
	sets []set
}

// ErrNone is returned by a worker that cannot open sources.
var ErrNone = errors.New("this worker does not read exports")

// OpenError names the address that could not be opened.
type OpenError struct {
	Address string
	Err     error
}

func (e *OpenError) Error() string { return e.Err.Error() }

func (e *OpenError) Unwrap() error { return e.Err }

// Open opens the source of one load. Without addresses, or with the address of a scan, that is the
// table itself. The error is an *OpenError.
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

// Records returns what the ledger stores about the sets, in order. Sets without a common time, as
// of a scan, have none.
func (i Images) Records() (all []checkpoint.Export) {
	for _, s := range i.sets {
		if r := s.Record(); r != (checkpoint.Export{}) {
			all = append(all, r)
		}
	}
	return all
}

// Windows reports whether they hold only changes within some time.
func (i Images) Windows() bool {
	return !slices.ContainsFunc(i.sets, func(s set) bool { return s.Record().From.IsZero() })
}

// Size returns how much there is to copy.
func (i Images) Size() (all Size) {
	for _, s := range i.sets {
		size := s.Size()
		all.Parts, all.Files, all.Items, all.Bytes = all.Parts+size.Parts, all.Files+size.Files, all.Items+size.Items, all.Bytes+size.Bytes
	}
	return all
}

// grouped gives at most the given number of files to each part.
func (i Images) grouped(files int) Images {
	out := Images{kind: i.kind}
	for _, s := range i.sets {
		out.sets = append(out.sets, s.Grouped(files))
	}
	return out
}

// divided makes the given number of parts of them, or the default number if the load has none yet.
// A load that an earlier version sealed has a part for each file. False if that number is
// impossible.
func (i Images) divided(parts int) (Images, bool) {
	var files []int
	for _, s := range i.sets {
		files = append(files, s.Size().Files)
	}
	for _, group := range []int{backfill.GroupOf(files), 1} {
		out := i.grouped(group)
		if n := out.Size().Parts; n == 0 || parts == 0 || n == parts {
			return out, true
		}
	}
	return i, false
}

// Fit sorts them into the order of a load of the table, and fails with a *Fault if they cannot make
// one.
func (i Images) Fit(of Wanted) (Images, error) {
	sets, err := i.kind.fit(i.sets, of)
	return Images{i.kind, sets}, err
}

// Whole fails unless they show the whole table. Items that a filtered export lacks would otherwise
// stay missing in the target (H89). The error is an *OpenError, which wraps a *diag.Error if the
// source is refused.
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
	// At is the time of all images; zero: each page has the time of its read.
	At time.Time
	// Close closes the part.
	Close func() error
}

// Part opens a part by its number in the load. The error is checkpoint.ErrConflict if there is none.
func (i Images) Part(index int) (Part, error) {
	local := index
	for _, s := range i.sets {
		if n := s.Size().Parts; n > 0 && local >= n { // the load determines the number of a scan's parts
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

// within reads a part by its number in its set.
type within struct {
	backfill.PartSource
	index, total int
}

func (w within) Read(ctx context.Context, _, _ int, after json.RawMessage, limit int) (backfill.Page, error) {
	return w.PartSource.Read(ctx, w.index, w.total, after, limit)
}

// Opener opens the sources of the loads of a table. It keeps the last one, which all parts of a
// load share.
type Opener struct {
	From Ends

	mu    sync.Mutex
	known Images
	of    []checkpoint.Export
}

// Open opens what a load copies. It checks that it is the requested source: a folder may have been
// replaced, or may be a different one on this machine.
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
		return Images{}, &Fault{Place: load.Export.Address, What: fmt.Sprintf("the %ss have %d files, from which the %d parts of the load cannot be made", images.kind.noun, images.Size().Files, load.Parts),
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

// Plan returns the plan with which a load would be sealed, after checking that its images belong to
// this table, are whole and are young enough. It sets source and size; the caller sets the rest.
// Oldest is the maximum age of the images; 0 means no limit.
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
			return checkpoint.Plan{}, &Fault{Place: load.Export.Address, What: "the " + images.kind.noun + "s are not named in the order of their times", Fix: "request the load again"}
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
