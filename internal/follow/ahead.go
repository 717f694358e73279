package follow

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// pageReader returns the pages of one shard in their order. If the shard has a backlog, it reads
// the next page while the current page is written. The next page is still applied and committed
// after the current page. It takes its own page slot, and only if a slot is free, so that no other
// shard waits for it. A read ahead is not retried. If it fails, the page is read again later, with
// the usual retries. From one request to the next passes at least Timing.Soon.
type pageReader struct {
	*follower
	reader *cdc.Reader
	slot   *engine.PageSlot // the slot of the page that is being written
	behind int              // number of consecutive pages with changes
	asked  time.Duration    // when the last page was requested, on the monotonic clock
	traced pageTrace        // of the page that is being written

	reading *task.Group // task that reads ahead; nil if there is none
	cancel  context.CancelFunc
	held    bool // it has a page slot
	from    cdc.Position
	ahead   readPage
	failed  error
}

// errNoSlot is the error of a read ahead for which no page slot is free.
var errNoSlot = errors.New("no page slot is free")

// readPage is a page, with the times at which it was requested and answered.
type readPage struct {
	cdc.Page
	sent     time.Time
	asked    time.Duration // the same moment, on the monotonic clock
	answered time.Duration // when the answer arrived, on the monotonic clock
	// appliedTo is the time up to which all changes are applied, as the reader's empty pages prove.
	appliedTo time.Time
}

// next returns the page after a position.
func (p *pageReader) next(life engine.Lifecycle, at checkpoint.Progress) (readPage, error) {
	page, ready := p.taken(life.Work, at.Position)
	if !ready {
		p.reader.Changed = at.EventTime
		read, asked, err := p.Read(life, p.reader, at.Position, p.slot)
		if err != nil {
			return readPage{}, err
		}
		page = readPage{read, p.TimeOf(life.Work, asked), asked, task.Mono(life.Work), p.reader.AppliedTo}
	}
	p.asked = page.asked
	if p.behind++; len(page.Changes) == 0 {
		p.behind = 0
	}
	if p.behind > 1 && !page.End && !life.Draining() {
		p.begin(life, Advance(at, page.Page, time.Time{}, page.sent))
	}
	return page, nil
}

// begin starts a task that reads the page after a position as soon as it may be requested, if a
// slot is free then. A drain ends the task's wait.
func (p *pageReader) begin(life engine.Lifecycle, at checkpoint.Progress) {
	limited, cancel := context.WithCancel(life.Work)
	p.reading, p.cancel, p.from = task.NewGroup(limited, 0), cancel, at.Position
	p.reading.Go("read ahead "+p.reader.Shard, func(ctx context.Context) error {
		if p.failed = life.Within(ctx).Rest(p.asked + p.Timing.Soon - task.Mono(ctx)); p.failed != nil {
			return nil
		}
		if p.held = p.slots != nil && p.slots.TryAcquire(1); p.slots != nil && !p.held {
			p.failed = errNoSlot
			return nil
		}
		p.reader.Changed = at.EventTime
		asked := task.Mono(ctx)
		page, err := p.reader.Read(ctx, at.Position)
		p.ahead, p.failed = readPage{page, p.TimeOf(ctx, asked), asked, task.Mono(ctx), p.reader.AppliedTo}, err
		return nil
	})
}

// rest waits until the next page may be requested, which is the given time after the last request.
// A page that is read ahead needs no wait. A drain ends the wait. The error reports that the lease
// is lost.
func (p *pageReader) rest(life engine.Lifecycle, between time.Duration) error {
	if p.reading == nil {
		_ = task.Sleep(life.Drain, p.asked+between-task.Mono(life.Work))
	}
	return context.Cause(life.Work)
}

// taken waits for the page that is read ahead, and returns it if it follows the given position. The
// page keeps its slot. An empty page proves nothing about changes after its read. So an empty page
// older than Timing.Soon is dropped.
func (p *pageReader) taken(ctx context.Context, at cdc.Position) (readPage, bool) {
	if p.reading == nil {
		return readPage{}, false
	}
	_ = p.reading.Wait()
	stale := len(p.ahead.Changes) == 0 && !p.ahead.End && task.Mono(ctx)-p.ahead.answered > p.Timing.Soon
	if p.failed != nil || p.from != at || stale {
		p.drop()
		return readPage{}, false
	}
	p.cancel()
	p.slot.Held, p.held, p.reading = p.held, false, nil
	p.Events.PageRead(p.Source, engine.Count(p.ahead.Changes))
	return p.ahead, true
}

// drop cancels a read ahead, drops its page and releases its slot.
func (p *pageReader) drop() {
	if p.reading == nil {
		return
	}
	p.cancel()
	_ = p.reading.Wait()
	if p.held {
		p.slots.Release(1)
	}
	p.reading, p.held, p.ahead, p.failed = nil, false, readPage{}, nil
}
