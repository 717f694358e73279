package follow

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// pageReader gives the pages of one shard, one after the other. Of a shard that is behind the next one is
// read while the one before is written. It is applied and committed after that one all the same, and
// it is held in a place of its own for which no other shard waits. It is asked for once: what fails
// is read again when its turn has come, with all that belongs to a read that fails.
type pageReader struct {
	*follower
	reader *cdc.Reader
	slot   *engine.PageSlot // of the page that is written
	behind int              // pages with changes in a row

	reading *task.Group // nil: nothing is read ahead
	cancel  context.CancelFunc
	from    cdc.Position
	ahead   readPage
	failed  error
}

// readPage is a page with what is known of when it was read.
type readPage struct {
	cdc.Page
	sent      time.Time
	answered  time.Duration // on the monotonic clock
	appliedTo time.Time     // what the reader's empty pages prove
}

// next gives the page after a position.
func (p *pageReader) next(life engine.Lifecycle, at checkpoint.Progress) (readPage, error) {
	page, ready := p.taken(life.Work, at.Position)
	if !ready {
		p.reader.Changed = at.EventTime
		read, sent, err := p.Read(life, p.reader, at.Position, p.slot)
		if err != nil {
			return readPage{}, err
		}
		page = readPage{read, sent, task.Mono(life.Work), p.reader.AppliedTo}
	}
	if p.behind++; len(page.Changes) == 0 {
		p.behind = 0
	}
	if p.behind > 1 && !page.End && !life.Draining() {
		p.begin(life.Work, Advance(at, page.Page, time.Time{}, page.sent))
	}
	return page, nil
}

// begin reads the page after a position, unless its place is needed.
func (p *pageReader) begin(ctx context.Context, at checkpoint.Progress) {
	if p.slots != nil && !p.slots.TryAcquire(1) {
		return
	}
	limited, cancel := context.WithCancel(ctx)
	p.reading, p.cancel, p.from = task.NewGroup(limited, 0), cancel, at.Position
	p.reading.Go("read ahead "+p.reader.Shard, func(ctx context.Context) error {
		p.reader.Changed = at.EventTime
		sent := task.Mono(ctx)
		page, err := p.reader.Read(ctx, at.Position)
		p.ahead, p.failed = readPage{page, p.TimeOf(ctx, sent), task.Mono(ctx), p.reader.AppliedTo}, err
		return nil
	})
}

// taken waits for what is read ahead and gives it, with its place, if it is what follows a position.
// An empty page says nothing of what came since: it must be as young as if it was asked for now.
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
	p.slot.Held, p.reading = p.slots != nil, nil
	p.Events.PageRead(p.Source, engine.Count(p.ahead.Changes))
	return p.ahead, true
}

// drop lets go of what is read ahead, and of its place.
func (p *pageReader) drop() {
	if p.reading == nil {
		return
	}
	p.cancel()
	_ = p.reading.Wait()
	p.reading, p.ahead = nil, readPage{}
	if p.slots != nil {
		p.slots.Release(1)
	}
}
