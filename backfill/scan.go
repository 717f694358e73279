package backfill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// MaxSegments is the most segments a Scan may be divided into.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Scan.html (TotalSegments).
const MaxSegments = 1_000_000

// maxParallel bounds the pages in memory: each is 1 MB on the wire and several decoded.
const maxParallel = 64

// saveEvery is the shortest time between two saves of the progress. It is also about what a crash repeats.
const saveEvery = time.Second

// ScanSource is what a load reads from; *Tables is one. Reads must be strongly consistent (B4).
type ScanSource interface {
	Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (ScanPage, error)
}

// Scan is the load of one table in one generation. Only Table, Source, Write and Save are required.
type Scan struct {
	Table string
	// Generation is what the images will be stamped with. Progress of another generation is not resumed: what that one wrote
	// does not assert anything in this one.
	Generation uint32
	// Segments is into how many parts the table is divided, 1 to MaxSegments; 0 means 1. A load that goes on keeps the number
	// it began with, because a segment's key means nothing under another division.
	Segments int
	// Parallel is how many segments are read at once; 0 means all, but at most 64 in any case.
	Parallel int
	Source   ScanSource
	// Write returns nil when every one of the items is durable in the target or put aside, as read at the given time. It does
	// its own retrying, and it is called by many segments at once.
	Write func(ctx context.Context, items []attribute.Item, readAt time.Time) error
	// Save stores the progress durably; it fails when this load is not the table's any more. It is never called twice at once.
	Save func(ctx context.Context, p Progress) error
	// Retry repeats a read or a save while that may help. Nil means one attempt.
	Retry func(ctx context.Context, op func(ctx context.Context) error) error
	// Rows paces the load; nil means no limit.
	Rows   *Throttle
	Events Events
}

// Events tell how a load goes. Any may be nil; all may be called by many segments at once.
type Events struct {
	// Copied: so many more items are durable.
	Copied func(items int)
	// Read: a page cost so many read capacity units.
	Read func(items int, consumed float64)
	// Throttled: the load waited for its own limit.
	Throttled func(waited time.Duration)
	// SegmentDone: a segment was read to its end.
	SegmentDone func(segment, total int)
}

// orSilent fills what is nil, so that callers need not look.
func (e Events) orSilent() Events {
	if e.Copied == nil {
		e.Copied = func(int) {}
	}
	if e.Read == nil {
		e.Read = func(int, float64) {}
	}
	if e.Throttled == nil {
		e.Throttled = func(time.Duration) {}
	}
	if e.SegmentDone == nil {
		e.SegmentDone = func(int, int) {}
	}
	return e
}

// errUnfinished is why a load is not complete in which every segment ended without an error, and not all to their ends. That would be a
// mistake of this package, and must not pass for a copy of everything.
var errUnfinished = errors.New("backfill: segments were left before their ends")

// Run loads what from leaves to load and returns how far it came, with the first error. Both after an error and after nil the
// returned progress is true; after nil it is Done, and saved.
func (s *Scan) Run(ctx context.Context, from Progress) (Progress, error) {
	from, err := s.begin(from)
	if err != nil {
		return from, err
	}
	l := &loading{
		scan: s, events: s.Events.orSilent(), total: from.Total, parallel: from.parallel(s.Parallel),
		progress: from.clone(), savedAt: task.Mono(ctx),
	}
	g := task.NewGroup(ctx, l.parallel)
	for _, o := range from.Open {
		g.Go(fmt.Sprintf("segment %d", o.Segment), func(ctx context.Context) error { return l.segment(ctx, o) })
	}
	for segment := from.Next; segment < from.Total && g.Context().Err() == nil; segment++ {
		g.Go(fmt.Sprintf("segment %d", segment), func(ctx context.Context) error {
			return l.segment(ctx, Open{Segment: segment})
		})
	}
	err = g.Wait()
	// All segments are gone, so this is the last word. After a failure it spares the next attempt some work; if ctx ended, the
	// right to save may have ended with it.
	if ctx.Err() == nil {
		if saveErr := s.save(ctx, l.progress); saveErr != nil {
			err = errors.Join(err, saveErr)
		}
	}
	if err == nil && !l.progress.Done() {
		if err = context.Cause(ctx); err == nil { // else segments were not begun because ctx ended
			err = errUnfinished
		}
	}
	return l.progress, err
}

// begin decides what is resumed.
func (s *Scan) begin(from Progress) (Progress, error) {
	if from.Total == 0 || from.Generation != s.Generation {
		from = Progress{Generation: s.Generation, Total: max(s.Segments, 1)}
	}
	if err := from.check(); err != nil {
		return from, fmt.Errorf("load of table %s: %w", s.Table, err)
	}
	return from.clone(), nil
}

func (s *Scan) retry(ctx context.Context, op func(ctx context.Context) error) error {
	if s.Retry == nil {
		return op(ctx)
	}
	return s.Retry(ctx, op)
}

func (s *Scan) save(ctx context.Context, p Progress) error {
	return s.retry(ctx, func(ctx context.Context) error { return s.Save(ctx, p) })
}

// loading is a run of a Scan.
type loading struct {
	scan     *Scan
	events   Events
	total    int
	parallel int

	mu       sync.Mutex // never held across a wait
	progress Progress
	saving   bool
	savedAt  time.Duration // on the monotonic clock
}

// segment loads one segment from where it stands to its end.
func (l *loading) segment(ctx context.Context, o Open) error {
	s := l.scan
	l.open(o)
	for {
		page, readAt, err := l.read(ctx, o)
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			if err := s.Write(ctx, page.Items, readAt); err != nil {
				return err
			}
		}
		o.After = page.Next
		l.durable(o, len(page.Items))
		if err := l.saveIfDue(ctx); err != nil {
			return err
		}
		if !o.After.Exists() {
			l.events.SegmentDone(o.Segment, l.total)
			return nil
		}
		// Paid for after the write and not before it: an image waits for nothing between its read and its write.
		waited, err := s.Rows.Take(ctx, len(page.Items))
		if waited > 0 {
			l.events.Throttled(waited)
		}
		if err != nil {
			return err
		}
	}
}

// read gets the page after the segment's key, with the time that its images may claim (B3).
func (l *loading) read(ctx context.Context, o Open) (page ScanPage, readAt time.Time, err error) {
	s := l.scan
	limit := s.Rows.pageLimit(l.parallel)
	err = s.retry(ctx, func(ctx context.Context) (err error) {
		sent, began := task.Now(ctx), task.Mono(ctx)
		page, err = s.Source.Scan(ctx, s.Table, o.Segment, l.total, o.After, limit)
		if err == nil && page.Next.Exists() && page.Next.Equal(o.After) {
			err = &cdc.Error{Op: "Scan", Reason: cdc.Malformed, Err: errors.New("the page ends where it began")}
		}
		readAt = imageTime(sent, page.At, task.Mono(ctx)-began)
		return err
	})
	if err == nil {
		l.events.Read(len(page.Items), page.Consumed)
	}
	return page, readAt, err
}

func (l *loading) open(o Open) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress.open(o)
}

// durable notes that everything of the segment up to o.After is durable, to its end if that does not exist (B1).
func (l *loading) durable(o Open, items int) {
	l.mu.Lock()
	l.progress.advance(o, items)
	l.mu.Unlock()
	l.events.Copied(items)
}

// saveIfDue saves if the last save is long enough ago and no other segment is at it. So saves never overlap, and an older
// progress never overwrites a newer one.
func (l *loading) saveIfDue(ctx context.Context) error {
	l.mu.Lock()
	if l.saving || task.Mono(ctx)-l.savedAt < saveEvery {
		l.mu.Unlock()
		return nil
	}
	l.saving = true
	snapshot := l.progress.clone()
	l.mu.Unlock()

	err := l.scan.save(ctx, snapshot)
	l.mu.Lock()
	l.saving, l.savedAt = false, task.Mono(ctx)
	l.mu.Unlock()
	return err
}
