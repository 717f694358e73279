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

// saveEvery is the longest time between two saves of the progress while pages are small. saveBytes
// bounds the unsaved bytes. A page of a Scan holds up to 1 MB. So a crash repeats one page of that
// size, or about a second of smaller pages.
const (
	saveEvery = time.Second
	saveBytes = 512 << 10
)

// PartSource reads the parts of a load: segments of a scan, or files. It is safe for concurrent
// use.
type PartSource interface {
	// Read returns the page of a part after a position. A nil position is the beginning of the
	// part. Unless the page is the last, its Next differs from the position. A limit of items above
	// 0 is a hint.
	Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error)
}

// Page is one page of a part. A page may be empty although it is not the last.
type Page struct {
	Items []attribute.Item
	// Changes replaces Items in a page of an incremental export. It has one change per item. Each
	// change must have the sequence number of a load's version at the end of the window.
	Changes []cdc.Change
	// Next is the position after which the following page begins, in the source's own form. It is
	// nil if this page ends the part.
	Next json.RawMessage
	// At is the service's own clock when it answered; zero if the answer had no time.
	At time.Time
	// Bytes is the approximate size of the read. Consumed is the cost of the read in read capacity
	// units; 0 if it was free.
	Bytes    int64
	Consumed float64
}

// size returns how many items the page has.
func (p Page) size() int { return len(p.Items) + len(p.Changes) }

// ErrDrained is returned for a part that ended early because its worker was asked to stop.
var ErrDrained = errors.New("the part was left between two pages")

// Part loads one part of a plan, page by page. Source, Write and Save are required.
type Part struct {
	Index, Total int
	Source       PartSource
	// Write returns nil if every item of a page, read at readAt, is durable in the target or
	// parked. It retries by itself.
	Write func(ctx context.Context, page Page, readAt time.Time) error
	// Save stores the progress durably. It fails if another worker has taken the part over.
	Save func(ctx context.Context, p checkpoint.PartProgress) error
	// Retry repeats a read or a save if a retry may help. Nil means one attempt.
	Retry func(ctx context.Context, op func(ctx context.Context) error) error
	// Limits pace the part together with the other parts of this worker. Nil means no limit.
	Limits *Limits
	Events PartEvents
}

// PartEvents are callbacks that report a part's progress. Any callback may be nil.
type PartEvents struct {
	// Copied is called with a number of items after these items have become durable.
	Copied func(items int)
	// Read is called with the items and the cost of a page in read capacity units.
	Read func(items int, consumed float64)
	// Waited is called after the part waited for its limits, with the time attributed to each.
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

// Run loads the part from its progress to its end. The returned progress is always correct, even
// with an error: everything before its position is durable. Without an error, it is the end of the
// part, and the caller must commit it. If drain ends, Run stops between two pages, saves the
// progress and returns ErrDrained. Ctx ends when the right to work on the part ends.
func (p *Part) Run(drain, ctx context.Context, from checkpoint.PartProgress) (checkpoint.PartProgress, error) {
	r := &running{Part: p, events: p.Events.orSilent(), at: from, savedAt: task.Mono(ctx), savedBytes: from.Bytes}
	r.meter.Add(r.savedAt, from.Items)
	p.Limits.enter()
	defer p.Limits.leave()
	err := r.read(drain, ctx)
	// A save after a failure spares the next attempt some work. If ctx ended, the right to save may
	// have ended too.
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
	savedBytes int64         // at.Bytes at the last save
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
		// The part pays for its reads after the write, so that an image does not wait between its
		// read and its write. The part also pays for its last page. Otherwise many small parts
		// would cost nothing.
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

// durable advances the progress past a page after all rows of the page are durable (B1).
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

// page reads the page at the part's position. The result `readAt` is not later than the read of the
// page, so the page's images may have this time (B3).
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

// imageTime returns a time that is certainly not later than the read of a page. The argument `sent`
// is when the request was sent, on this worker's clock. The argument `took` is how long the request
// took. The argument `answered` is the service's time of the answer; zero if the answer had no
// time. The earlier of the two times counts, because the worker's clock may be ahead. An image with
// a time later than its read could outrank a later load.
func imageTime(sent, answered time.Time, took time.Duration) time.Time {
	if answered.IsZero() {
		return sent
	}
	if asked := answered.Add(-took); asked.Before(sent) {
		return asked
	}
	return sent
}
