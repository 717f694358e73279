package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// saveEvery is the longest time between two saves of the progress while pages are small, and
// saveBytes is how much may be unsaved. A page of a Scan holds up to 1 MB, so a crash repeats one
// page of that size, or about a second of smaller ones.
const (
	saveEvery = time.Second
	saveBytes = 512 << 10
)

// PartSource is what a load reads its parts from: segments of a scan, or files. It may be used by
// many tasks at once.
type PartSource interface {
	// Read gives the page of a part after a position, nil being its beginning. A page that is not
	// the last moves on. A limit of items above 0 is a wish.
	Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error)
}

// Page is one page of a part. It may be empty and not the last.
type Page struct {
	Items []attribute.Item
	// Changes are, in place of items, those of a window of an incremental export: one of each item,
	// with the sequence number of a load's version at the window's end.
	Changes []cdc.Change
	// Next is the position after which the following page begins, in the source's own form; nil if
	// this page ends the part.
	Next json.RawMessage
	// At is the service's own clock when it answered, zero if it did not say.
	At time.Time
	// Bytes is about how much was read; Consumed are read capacity units, 0 if it cost none.
	Bytes    int64
	Consumed float64
}

// size is how many items the page has.
func (p Page) size() int { return len(p.Items) + len(p.Changes) }

// ErrDrained is why a part was left before its end: its worker was asked to stop.
var ErrDrained = errors.New("the part was left between two pages")

// Part loads one part of a plan, page by page. Source, Write and Save are required.
type Part struct {
	Index, Total int
	Source       PartSource
	// Write returns nil when every item of a page is durable in the target or put aside, as read at
	// the given time. It does its own retrying.
	Write func(ctx context.Context, page Page, readAt time.Time) error
	// Save stores the progress durably; it fails when the part is another worker's.
	Save func(ctx context.Context, p checkpoint.PartProgress) error
	// Retry repeats a read or a save while that may help. Nil means one attempt.
	Retry func(ctx context.Context, op func(ctx context.Context) error) error
	// Limits pace it together with the other parts of this worker; nil means no limit.
	Limits *Limits
	Events PartEvents
}

// PartEvents say how a part gets on. Any may be nil.
type PartEvents struct {
	// Copied: so many more items are durable.
	Copied func(items int)
	// Read: a page cost so many read capacity units.
	Read func(items int, consumed float64)
	// Waited: the part waited for its own limits, most of it for rows or for units.
	Waited func(rows, units time.Duration)
}

func (e PartEvents) orSilent() PartEvents {
	if e.Copied == nil {
		e.Copied = func(int) {}
	}
	if e.Read == nil {
		e.Read = func(int, float64) {}
	}
	if e.Waited == nil {
		e.Waited = func(rows, units time.Duration) {}
	}
	return e
}

// Run loads the part from where it stands to its end. The progress that it returns is always true:
// everything before its position is durable. Without an error that is the end, and the caller's to
// commit. Drain ends between two pages, with ErrDrained and the progress saved; ctx is the right to
// work on the part.
func (p *Part) Run(drain, ctx context.Context, from checkpoint.PartProgress) (checkpoint.PartProgress, error) {
	r := &running{Part: p, events: p.Events.orSilent(), at: from, savedAt: task.Mono(ctx), savedBytes: from.Bytes}
	r.meter.Add(r.savedAt, from.Items)
	p.Limits.enter()
	defer p.Limits.leave()
	err := r.read(drain, ctx)
	// After a failure this spares the next attempt some work; if ctx ended, the right to save may
	// have ended with it.
	if err != nil && r.unsaved && ctx.Err() == nil {
		err = errors.Join(err, r.save(ctx))
	}
	return r.at, err
}

// running is a run of a Part.
type running struct {
	*Part
	events     PartEvents
	at         checkpoint.PartProgress
	meter      Meter
	savedAt    time.Duration // on the monotonic clock
	savedBytes int64         // as at.Bytes was then
	unsaved    bool
}

func (r *running) read(drain, ctx context.Context) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if drain.Err() != nil {
			return ErrDrained
		}
		page, readAt, err := r.page(ctx)
		if err != nil {
			return err
		}
		if page.size() > 0 {
			if err := r.Write(ctx, page, readAt); err != nil {
				return err
			}
		}
		r.durable(ctx, page)
		due := task.Mono(ctx)-r.savedAt >= saveEvery || r.at.Bytes-r.savedBytes >= saveBytes
		if page.Next != nil && due {
			if err := r.save(ctx); err != nil {
				return err
			}
		}
		// Paid for after the write and not before it: an image waits for nothing between its read
		// and its write. The last page is paid for as well, or many small parts would cost nothing.
		rows, units, err := r.Limits.Take(drain, ctx, page.size(), page.Consumed)
		if rows+units > 0 {
			r.events.Waited(rows, units)
		}
		if err != nil && drain.Err() == nil {
			return err
		}
		if page.Next == nil {
			return nil
		}
	}
}

// durable moves the progress over a page that is durable as a whole (B1).
func (r *running) durable(ctx context.Context, page Page) {
	r.at.Position = page.Next
	r.at.Items += int64(page.size())
	r.at.Bytes += page.Bytes
	r.at.Units += page.Consumed
	r.meter.Add(task.Mono(ctx), r.at.Items)
	r.at.Rate = max(r.meter.Rate(), 0)
	r.unsaved = true
	r.events.Copied(page.size())
}

// page gets the page at the part's position, with the time that its images may claim (B3).
func (r *running) page(ctx context.Context) (page Page, readAt time.Time, err error) {
	limit := r.Limits.pageItems(r.at)
	err = r.retry(ctx, func(ctx context.Context) (err error) {
		sent, began := task.Now(ctx), task.Mono(ctx)
		page, err = r.Source.Read(ctx, r.Index, r.Total, r.at.Position, limit)
		readAt = imageTime(sent, page.At, task.Mono(ctx)-began)
		return err
	})
	if err == nil {
		r.events.Read(page.size(), page.Consumed)
	}
	return page, readAt, err
}

func (r *running) save(ctx context.Context) error {
	err := r.retry(ctx, func(ctx context.Context) error { return r.Save(ctx, r.at) })
	if err == nil {
		r.savedAt, r.savedBytes, r.unsaved = task.Mono(ctx), r.at.Bytes, false
	}
	return err
}

func (r *running) retry(ctx context.Context, op func(ctx context.Context) error) error {
	if r.Retry == nil {
		return op(ctx)
	}
	return r.Retry(ctx, op)
}

// imageTime is a time that is surely not later than when a page was read: it was asked for at sent
// on this worker's clock, and answered, took later, at the given time of the service's clock (zero
// if it did not say). The earlier of the two is taken because the worker's clock may be ahead, and
// an image that claims to be younger than it is would beat a later load.
func imageTime(sent, answered time.Time, took time.Duration) time.Time {
	if answered.IsZero() {
		return sent
	}
	if asked := answered.Add(-took); asked.Before(sent) {
		return asked
	}
	return sent
}
