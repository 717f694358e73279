package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Reads tracks the calls to the source that are in progress. A clean stop finishes writes and
// commits, but it cancels these calls, because their answers would only cause more writes. Calls
// that begin after the cancel are allowed, because a step that must be finished may need them.
type Reads struct {
	mu      sync.Mutex
	last    uint64
	cancels map[uint64]context.CancelCauseFunc
}

// begin returns the context for one call. The caller must call end when the call has returned.
func (r *Reads) begin(ctx context.Context) (reading context.Context, end func()) {
	reading, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	call := r.last
	if r.cancels == nil {
		r.cancels = map[uint64]context.CancelCauseFunc{}
	}
	r.cancels[call] = cancel
	return reading, func() {
		cancel(context.Canceled)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.cancels, call)
	}
}

// Cancel cancels all calls that are in progress.
func (r *Reads) Cancel(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cancel := range r.cancels {
		cancel(cause)
	}
}

// stoppableSource is a client of a stream. A clean stop cancels its calls. It also passes the times
// in answers to the ledger.
type stoppableSource struct {
	cdc.Source
	reads    *Reads
	heard    func(ctx context.Context, at time.Time)
	canaries *canary.Set // nil if there can be no canaries
}

func (s stoppableSource) ListPage(ctx context.Context, parent, after string) (cdc.ListingPage, error) {
	ctx, end := s.reads.begin(ctx)
	defer end()
	page, err := s.Source.ListPage(ctx, parent, after)
	s.heard(ctx, page.At)
	return page, err
}

func (s stoppableSource) Seek(ctx context.Context, shard string, from cdc.Position) (cdc.Iterator, error) {
	ctx, end := s.reads.begin(ctx)
	defer end()
	return s.Source.Seek(ctx, shard, from)
}

func (s stoppableSource) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	ctx, end := s.reads.begin(ctx)
	defer end()
	var page cdc.Page
	var err error
	task.Call(ctx, func() { page, err = s.Source.Read(ctx, at) })
	s.heard(ctx, page.At)
	if s.canaries != nil {
		page = s.canaries.Strip(page)
	}
	return page, err
}

// StoppableDiscover wraps discover, so that a clean stop cancels it. The argument `discover` may
// make many calls. If discover is nil, the result is nil.
func StoppableDiscover(discover func(context.Context, func(string) bool) (Discovery, error), calls *Reads) func(context.Context, func(string) bool) (Discovery, error) {
	if discover == nil {
		return nil
	}
	return func(ctx context.Context, followed func(string) bool) (Discovery, error) {
		ctx, end := calls.begin(ctx)
		defer end()
		return discover(ctx, followed)
	}
}

// stoppableDatabase is a client of DynamoDB. A clean stop cancels its calls. It hides a cutover's
// canaries from its callers.
type stoppableDatabase struct {
	Database
	reads    *Reads
	heard    func(ctx context.Context, at time.Time)
	canaries *canary.Set // nil if there can be no canaries
	key      []string
}

func (d stoppableDatabase) Describe(ctx context.Context, table string) (backfill.Description, error) {
	ctx, end := d.reads.begin(ctx)
	defer end()
	description, err := d.Database.Describe(ctx, table)
	d.heard(ctx, description.At)
	return description, err
}

func (d stoppableDatabase) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	ctx, end := d.reads.begin(ctx)
	defer end()
	page, err := d.Database.Scan(ctx, table, segment, total, after, limit)
	d.heard(ctx, page.At)
	if d.canaries != nil {
		page.Items = slices.DeleteFunc(page.Items, func(item attribute.Item) bool { return d.canaries.Has(item, d.key...) })
	}
	return page, err
}

func (d stoppableDatabase) Get(ctx context.Context, table string, key attribute.Item) (attribute.Item, bool, error) {
	ctx, end := d.reads.begin(ctx)
	defer end()
	return d.Database.Get(ctx, table, key)
}

// Read returns the next page, and the monotonic time of the request. It returns errors that a retry
// cannot fix (trimmed, not found), and retries others.
func (r *Retrier) Read(life Lifecycle, reader *cdc.Reader, from cdc.Position, slot *PageSlot) (page cdc.Page, asked time.Duration, err error) {
	err = r.Retry(life, "read a shard (GetRecords)", func(ctx context.Context) (err error) {
		if err = slot.take(ctx); err != nil {
			return err
		}
		asked = task.Mono(ctx)
		if page, err = reader.Read(ctx, from); err != nil {
			slot.Drop(true)
		}
		return err
	})
	if err == nil {
		r.Events.PageRead(r.Source, Count(page.Changes))
	}
	return page, asked, err
}

// TimeOf converts a moment of the monotonic clock to a time. It uses the service's clock, if an
// answer has shown the service's time. So a jump of this host's clock does not change the age of a
// read.
func (r *Retrier) TimeOf(ctx context.Context, moment time.Duration) time.Time {
	now := task.Now
	if r.now != nil {
		now = r.now
	}
	return now(ctx).Add(moment - task.Mono(ctx))
}
