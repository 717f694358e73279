package follow

import (
	"context"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// If the application also writes the target, its write may arrive after the last change of an item
// was applied. No guard rejects such a write (H39). So every page is applied twice. The first
// application uses timestamps, and happens when the page is read. The second application writes the
// exact image. It happens when the application's own writes for these changes can no longer be in
// flight. Between the two, the page waits in a queue. Each shard has its own queue:
//
//   - Pages are settled in their order, each as it was folded. Pages of one item are not merged: an
//     item that moves from row a to b to c must be removed from a and from b (H111).
//   - The second application is due a delay after the first application was acknowledged, on the
//     monotonic clock. So it comes after all writes that the application made for these changes. It
//     is due at once if the application promised in a cutover that those writes have ended.
//   - The checkpoint is the queue's front. If another worker acquires the shard, it reads from there,
//     finds some changes stale, and waits for the whole delay again.
//   - The queue is bounded by bytes, over all shards of the process. A page beyond that bound is
//     dropped, and read again when it is due.

const (
	// stretches is the maximum number of stretches of dropped pages that begin within one delay. A
	// stretch is a series of dropped pages that are read again together. Dropped pages use no
	// memory, so their number needs a limit of its own.
	stretches = 16
)

// SettleRoom is the memory that queued pages may use, over all shards of the process.
type SettleRoom struct {
	mu   sync.Mutex
	left int64
}

func NewSettleRoom(bytes int64) *SettleRoom { return &SettleRoom{left: bytes} }

func (r *SettleRoom) take(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.left {
		return false
	}
	r.left -= n
	return true
}

func (r *SettleRoom) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += n
}

// settler makes the second application of one shard's pages, a delay after the first application,
// and moves the shard's checkpoint. If no other program writes the table, there is no settler. Then
// each page is applied once, with the exact image.
type settler struct {
	*follower
	lease  *checkpoint.Lease
	right  *engine.Right
	source cdc.Source
	state  checkpoint.TableState
	owns   bool // the target may have rows that are older than the generation
	// recheck compares settled rows again. It is nil if no cutover needs that.
	recheck *rechecking
	wake    task.Wakeup

	mu      sync.Mutex
	queue   []appliedPage
	pending uint64              // number of changes in the queue
	settled checkpoint.Progress // progress up to the front of the queue
	read    checkpoint.Progress // progress up to the end of the queue
	reading bool                // the loop that reads the shard is running
	ended   bool                // the shard was read to its end
	dirty   bool                // some progress is not committed yet
	urgent  bool                // this progress must be committed at once
}

// appliedPage is a page that was applied for the first time.
type appliedPage struct {
	batch    *transform.Batch // nil if the page was dropped and must be read again
	bytes    int64
	changes  uint64
	from, to checkpoint.Progress
	begun    time.Duration // when the first page of a dropped stretch was due
	due      time.Duration
	written  time.Time // of the last change by the application; zero if there is none
	expired  time.Time // of the last removal by TTL; zero if there is none
}

// extend adds a dropped page to the stretch of dropped pages before it. The whole stretch is read
// again when its last page is due. It returns false if the first page would then be too late, or if
// one of the two pages was not dropped.
func (p *appliedPage) extend(next appliedPage, most time.Duration) bool {
	if p.batch != nil || next.batch != nil || next.due-p.begun > most {
		return false
	}
	p.changes, p.to, p.due = p.changes+next.changes, next.to, next.due
	p.written, p.expired = latest(p.written, next.written), latest(p.expired, next.expired)
	return true
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// work reads a shard. If the application writes the target too, work also settles the shard's pages
// concurrently. A recheck of the shard's changes runs as a task of g.
func (f *follower) work(g *task.Group, life engine.Lifecycle, lease *checkpoint.Lease, right *engine.Right, reader *cdc.Reader, state *checkpoint.TableState) error {
	recheck := f.startRecheck(g, life, lease, state)
	defer recheck.end()
	if f.late == 0 {
		return f.follow(life, lease, right, reader, state, nil, recheck)
	}
	return f.settling(life, lease, right, reader, state, recheck)
}

// settling reads a shard, and settles its pages.
func (f *follower) settling(life engine.Lifecycle, lease *checkpoint.Lease, right *engine.Right, reader *cdc.Reader, state *checkpoint.TableState, recheck *rechecking) error {
	shard := lease.Shard()
	s := &settler{
		recheck: recheck, follower: f, lease: lease, right: right, source: reader.Source, state: *state, reading: true,
		owns: inherits(state, &shard), settled: shard.Progress(), read: shard.Progress(),
	}
	defer s.abandon()
	if recheck != nil {
		recheck.Notify(s.hurry)
	}
	both := task.NewGroup(life.Work, 0)
	both.Go("read "+shard.ID, func(ctx context.Context) error {
		defer s.stopReading()
		return f.follow(life.Within(ctx), lease, right, reader, state, s, recheck)
	})
	both.Go("settle "+shard.ID, func(ctx context.Context) error { return s.run(life.Within(ctx)) })
	return both.Wait()
}

// timestampedBatch returns the batch for the first application of a page.
func (s *settler) timestampedBatch(b *transform.Batch) *transform.Batch {
	if s == nil {
		return b
	}
	first := b.Timestamped()
	return &first
}

// add queues a page after its first application was acknowledged. It returns false if pages are not
// settled. Then the caller must commit.
func (s *settler) add(ctx context.Context, b *transform.Batch, changes int, from, to checkpoint.Progress, end bool) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	begins := len(s.queue) == 0
	if begins {
		s.settled = from // no page waits, so all pages before this one are settled
	}
	s.urgent = s.urgent || end || s.read.FirstRead.IsZero() && !to.FirstRead.IsZero() || to.Cutover.Since(s.read.Cutover)
	s.read, s.ended = to, end
	if changes > 0 {
		s.hold(b, changes, from, to, task.Mono(ctx)+s.late)
	}
	if begins && changes > 0 || s.urgent {
		s.wake.Signal()
	}
	s.report()
	return true
}

// hold appends a page to the queue. If there is no room for its batch, the batch is dropped, and
// the page is read again later.
func (s *settler) hold(b *transform.Batch, changes int, from, to checkpoint.Progress, due time.Duration) {
	page := appliedPage{batch: b, bytes: engine.PageBytes + b.Size(), changes: uint64(changes), from: from, to: to, begun: due, due: due}
	page.written, page.expired = b.Times()
	if !s.room.take(page.bytes) {
		page.batch, page.bytes = nil, 0
	}
	// The front page must not change, because run may be settling it.
	if n := len(s.queue); n < 2 || !s.queue[n-1].extend(page, s.late/stretches) {
		s.queue = append(s.queue, page)
	}
	s.pending += page.changes
	s.dirty = true
}

// report passes the number of waiting changes to the tracker.
func (s *settler) report() {
	if id := s.lease.Shard().ID; s.ended {
		s.tracker.End(id, s.pending)
	} else {
		s.tracker.Settling(id, s.pending)
	}
}

func (s *settler) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	s.wake.Signal()
}

// abandon drops all queued pages and releases their room.
func (s *settler) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.queue {
		s.room.give(s.queue[i].bytes)
	}
	s.queue, s.pending = nil, 0
}

// progress returns the progress that may be committed. Its position is the end of the settled
// pages. Its other members, such as the time of the first read and figures for people, describe the
// pages that were read.
func (s *settler) progress() checkpoint.Progress {
	p := s.settled
	p.Rechecked = s.recheck.state()
	if len(s.queue) == 0 {
		p = s.read
		p.Ended, p.Rechecked = s.ended, s.recheck.state()
		return p
	}
	p.FirstRead, p.ReadAt, p.Shown, p.CaughtUp = s.read.FirstRead, s.read.ReadAt, s.read.Shown, false
	p.Cutover = s.settled.Cutover.Ahead(s.read.Cutover)
	p.Settling = checkpoint.Settling{Changes: s.pending, EventTime: s.read.EventTime, CellTime: s.read.CellTime, CaughtUp: s.read.CaughtUp}
	p.Ended = s.ended
	return p
}

// settleStep is the next step of a settler: settle the front page, finish the shard, stop, or wait.
type settleStep struct {
	front    *appliedPage // a page that is due, or nil
	finished bool         // the shard was read to its end, and all its pages are settled
	stopped  bool         // the loop that reads the shard has ended
	commit   bool
	wait     time.Duration
	progress checkpoint.Progress
}

func (s *settler) next(now, committed time.Duration) settleStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := settleStep{progress: s.progress(), stopped: !s.reading, finished: s.ended && !s.reading && len(s.queue) == 0}
	every := s.Ledger.Lease() / 3
	if s.dirty {
		every = min(every, s.Timing.Commit)
	}
	step.commit = s.urgent || now-committed >= every
	step.wait = max(0, committed+every-now)
	if len(s.queue) > 0 {
		front := &s.queue[0]
		if until := front.due - now; until <= 0 || s.tracker.Quiet().Covers(front.written, front.expired) {
			step.front = front
		} else {
			step.wait = min(step.wait, until)
		}
		if s.tracker.Near() { // the application may promise at any moment that its writes have ended
			step.wait = min(step.wait, s.Timing.Soon)
		}
	}
	if step.commit {
		s.dirty, s.urgent = false, false
	}
	return step
}

// run settles due pages and commits, until the shard is done, or until a drain has ended the
// reading. It does not wait for pages that are not due yet. The next worker reads their changes
// again.
func (s *settler) run(life engine.Lifecycle) error {
	committed := task.Mono(life.Work)
	for {
		now := task.Mono(life.Work)
		s.recheck.turn(life.Work, s.settledTo())
		step := s.next(now, committed)
		switch {
		case step.finished:
			s.recheck.finish(life)
			step.progress.Rechecked = s.recheck.state()
			return s.finish(life, s.lease, step.progress)
		case step.stopped && life.Draining():
			return s.commit(life, step.progress)
		}
		if step.commit {
			if err := s.commit(life, step.progress); err != nil {
				return err
			}
			committed = now
		}
		if step.front != nil && !life.Draining() {
			if err := s.settle(life, step.front); err != nil && !life.Draining() {
				return err
			} else if err == nil {
				s.pop()
			}
			continue
		}
		waiting := life.Drain
		if life.Draining() {
			waiting = life.Work // a page is still being applied; wait for it
		}
		if err := s.wake.Wait(waiting, step.wait); err != nil && life.Work.Err() != nil {
			return context.Cause(life.Work)
		}
	}
}

func (s *settler) commit(life engine.Lifecycle, p checkpoint.Progress) error {
	return s.Retry(life.Finishing(), "commit", func(ctx context.Context) error { return s.lease.Commit(ctx, p) })
}

// settledTo returns the position up to which all changes are settled.
func (s *settler) settledTo() cdc.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return s.read.Position
	}
	return s.settled.Position
}

// hurry makes run commit at once.
func (s *settler) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urgent = true
	s.wake.Signal()
}

// pop removes the front page, which is settled, from the queue.
func (s *settler) pop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.progress().Cutover
	s.room.give(s.queue[0].bytes)
	s.settled, s.dirty = s.queue[0].to, true
	s.pending -= s.queue[0].changes
	s.queue[0] = appliedPage{} // release the batch for garbage collection
	s.queue = s.queue[1:]
	s.urgent = s.urgent || s.progress().Cutover.Since(before) // a cutover waits for this progress
	s.report()
}

// settle makes the second application of a page. Only run removes the page from the queue.
func (s *settler) settle(life engine.Lifecycle, page *appliedPage) error {
	if page.batch == nil {
		return s.rereadStretch(life, *page)
	}
	asserted := s.recheck.take(page.batch)
	err := s.applier.Write(life, s.right, page.batch, nil, &engine.PageSlot{})
	if err == nil {
		asserted(life.Work, page.to.Position.After)
	}
	return err
}

// rereadStretch reads the changes of dropped pages again and applies them for the second time.
// Items that were parked by the first application stay parked.
func (s *settler) rereadStretch(life engine.Lifecycle, page appliedPage) error {
	end := page.to.Position.After
	return s.stretch(life, s.source, s.lease.Shard(), s.state, page.from, end, func(batch *transform.Batch, to cdc.SequenceNumber) error {
		s.own(batch, s.owns)
		asserted := s.recheck.take(batch)
		err := s.applier.Write(life, s.right, batch, nil, &engine.PageSlot{})
		if err == nil {
			asserted(life.Work, to)
		}
		return err
	})
}

// stretch reads the changes of a shard from one position to another. It folds each page into a batch
// and calls the function `each` with the batch.
func (f *follower) stretch(life engine.Lifecycle, source cdc.Source, shard checkpoint.Shard, state checkpoint.TableState, at checkpoint.Progress, end cdc.SequenceNumber, each func(b *transform.Batch, to cdc.SequenceNumber) error) error {
	reader := &cdc.Reader{Source: source, Shard: shard.ID, Covered: covered(shard, state), AppliedTo: at.AppliedTo}
	slot := engine.NewPageSlot(f.slots, f.calls)
	defer slot.Drop(true)
	for at.Position.After.Compare(end) < 0 {
		reader.Changed = at.EventTime
		read, asked, err := f.Read(life, reader, at.Position, slot)
		if err != nil {
			return err
		}
		for i, c := range read.Changes {
			if c.Sequence.Compare(end) > 0 {
				read.Changes = read.Changes[:i]
				break
			}
		}
		next := at
		changes := engine.Keep(&next, engine.CutOf(shard, state), read.Changes)
		batch := transform.Fold(f.mapping, changes, transform.Stamp{Generation: shard.Generation, Hop: shard.Hop, NotBefore: at.CellTime})
		batch.Read = transform.Reading{At: read.At, Mono: task.Mono(life.Work)}
		batch.Parked, batch.Unaddressed, batch.Ignored = nil, nil, nil
		latest := batch.Latest
		at = Advance(next, read, latest, f.TimeOf(life.Work, asked))
		if err := each(&batch, at.Position.After); err != nil {
			return err
		}
		slot.Drop(true)
		if read.End {
			return nil
		}
		pause := f.Timing.Soon
		if len(read.Changes) == 0 {
			pause = f.Timing.Poll
		}
		if at.Position.After.Compare(end) < 0 && life.Rest(asked+pause-task.Mono(life.Work)) != nil {
			return context.Cause(life.Drain)
		}
	}
	return nil
}
