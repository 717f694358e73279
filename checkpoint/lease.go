package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// ErrPositionBack is returned for a commit below the checkpoint (I3).
var ErrPositionBack = errors.New("a checkpoint never moves back")

// tenure is one holding of one row: the counter it expects, the time until which the lease may be trusted, and the write whose
// outcome is not known yet, if there is one. A tenure that is lost never writes again; taking the row again makes another one
// with another epoch (H45).
type tenure struct {
	ledger *Ledger
	store  Store
	key    string
	end    context.CancelCauseFunc

	turn    *task.Limit // one write at a time; it is held across calls of the store and guards what follows
	counter uint64
	pending *pending

	mu    sync.Mutex    // guards what follows, and the record that apply changes
	until time.Duration // how long the lease may be trusted, on the monotonic clock
	lost  error
}

// pending is a write that was begun. While its outcome is unknown nothing else is written to the row.
type pending struct {
	data  []byte
	sent  time.Duration
	apply func()
}

// write makes the row hold what encode gives, once no earlier write is in doubt. Encode runs while the row is ours; apply runs
// once the write took place.
func (t *tenure) write(ctx context.Context, encode func() ([]byte, error), apply func()) error {
	if err := t.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.turn.Release(1)
	if _, err := t.trust(); err != nil {
		return err
	}
	if t.pending != nil {
		if err := t.settle(ctx); err != nil {
			return err
		}
	}
	data, err := encode()
	if err != nil {
		return err
	}
	t.pending = &pending{data: data, sent: task.Mono(ctx), apply: apply}
	return t.settle(ctx)
}

// settle repeats the pending write, identically, until its outcome is known.
func (t *tenure) settle(ctx context.Context) error {
	done, err := t.ledger.swap(ctx, t.store, t.key, t.counter, t.pending.data)
	if err != nil {
		return err
	}
	if !done {
		t.lose(ErrLeaseLost)
		return ErrLeaseLost
	}
	p := t.pending
	t.pending = nil
	t.counter++
	t.mu.Lock()
	defer t.mu.Unlock()
	// Trusted from when the write was sent, not from when its answer came (H44): others count from when they see the counter
	// change, which is later.
	t.until = p.sent + t.ledger.lease - t.ledger.margin()
	p.apply()
	return nil
}

func (t *tenure) lose(cause error) {
	t.mu.Lock()
	if t.lost == nil {
		t.lost = cause
	}
	t.mu.Unlock()
	t.end(cause)
}

// Abandon ends the lease without a word to the ledger: others wait until it is over. After the last write of a lease it changes
// nothing.
func (t *tenure) Abandon() { t.lose(ErrLeaseLost) }

// trust is until when the lease holds, or why it does not.
func (t *tenure) trust() (time.Duration, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until, t.lost
}

// keep renews until ctx ends or the lease is lost. The context of the lease ends when it can no longer be trusted, however the
// renewals fare.
func (t *tenure) keep(ctx context.Context, renew func(ctx context.Context) error) error {
	third := t.ledger.lease / 3
	for {
		if err := task.Sleep(ctx, third); err != nil {
			return nil
		}
		for {
			until, lost := t.trust()
			if lost != nil {
				return lost
			}
			left := until - task.Mono(ctx)
			if left <= 0 {
				t.lose(ErrLeaseLost)
				return ErrLeaseLost
			}
			if left > t.ledger.lease-t.ledger.margin()-third {
				break // a commit has renewed it meanwhile
			}
			limited, cancel := task.WithTimeout(ctx, left)
			err := renew(limited)
			cancel()
			if err == nil {
				break
			}
			if task.Sleep(ctx, min(left, third/4)) != nil {
				return nil // lost, or given up
			}
		}
	}
}

// begin is the first write of a tenure: the row is taken from the counter it was seen with.
func (l *Ledger) begin(ctx context.Context, store Store, key string, counter uint64, encode func() ([]byte, error), apply func()) (*tenure, context.Context, error) {
	held, end := context.WithCancelCause(ctx)
	t := &tenure{ledger: l, store: store, key: key, turn: task.NewLimit(1), counter: counter, end: end}
	if err := t.write(ctx, encode, apply); err != nil {
		end(err)
		if errors.Is(err, ErrLeaseLost) {
			return nil, nil, ErrTaken
		}
		return nil, nil, err
	}
	return t, held, nil
}

// Lease is the right to move one shard's checkpoint, for as long as its context lives.
type Lease struct {
	*tenure
	ctx   context.Context
	shard Shard
}

// Progress is how far a shard is applied. The zero value of a time says nothing new.
type Progress struct {
	Position  cdc.Position
	EventTime time.Time // latest event time applied
	CellTime  time.Time // latest cell time used
	// FirstRead is when the shard's first successful read was sent.
	FirstRead time.Time
	ReadAt    time.Time // when the last read was sent
	CaughtUp  bool      // and it gave an empty page
	Dropping  bool
}

// Progress is where the shard stands according to its record.
func (s *Shard) Progress() Progress {
	return Progress{Position: cdc.Position{After: s.Position}, EventTime: s.EventTime, CellTime: s.CellTime, FirstRead: s.FirstRead,
		ReadAt: s.ReadAt, CaughtUp: s.CaughtUp, Dropping: s.Dropping}
}

// Take leases a shard that Free gave. Parent is its parent's row, nil if there is none: what the parent covers is inherited now,
// when it is finished. It fails with ErrTaken when another worker was faster.
func (l *Ledger) Take(ctx context.Context, s Shard, parent *Shard) (*Lease, error) {
	lease := &Lease{}
	encode := func() ([]byte, error) {
		// Read as late as can be: if the generation rises after this, the raise finds the row as it is written now, or this
		// write fails.
		table, _, err := l.Table(ctx, s.Source)
		if err != nil {
			return nil, err
		}
		if err := l.checkHash(table); err != nil {
			return nil, err
		}
		if s.Label != table.Label {
			return nil, ErrTaken // the stream was replaced since the row was read
		}
		s.Generation = max(s.Generation, table.Generation)
		s.State, s.Owner = Reading, l.worker
		s.Epoch++
		if parent != nil {
			if s.FirstRead.IsZero() && s.Position.IsZero() {
				open, err := l.SeenOpen(ctx, s.Source, s.Label)
				if err != nil {
					return nil, err
				}
				s.CoveredTo = later(s.CoveredTo, parent.Covers(open[parent.ID]))
				// Two keepers that overlap may have ranked it from different listings. Nothing of it has been read yet, so that its
				// hop may still rise above its parent's (H66).
				s.Hop = max(s.Hop, parent.Hop+1)
				s.Dropping = parent.Dropping
				s.CellTime = later(s.CellTime, parent.CellTime)
			}
		}
		return l.stamp(&s.header, &s), nil
	}
	t, held, err := l.begin(ctx, l.store, s.key(l), s.Counter, encode, func() { lease.shard = s })
	if err != nil {
		return nil, err
	}
	lease.tenure, lease.ctx = t, held
	return lease, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Shard is the record as last written.
func (l *Lease) Shard() Shard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shard
}

// Context ends, with the cause ErrLeaseLost, when the lease can no longer be trusted. Work under the lease runs in it.
func (l *Lease) Context() context.Context { return l.ctx }

// Keep renews the lease until its context ends; run it as a task beside the work.
func (l *Lease) Keep() error {
	return l.keep(l.ctx, func(ctx context.Context) error { return l.change(ctx, func(*Shard) error { return nil }) })
}

// Commit moves the checkpoint: everything up to it must be durable (I3). It refuses to move back.
func (l *Lease) Commit(ctx context.Context, p Progress) error {
	return l.change(ctx, func(s *Shard) error { return s.advance(p) })
}

// Finish commits the last page of the shard: it is done.
func (l *Lease) Finish(ctx context.Context, p Progress) error {
	return l.conclude(ctx, func(s *Shard) error {
		s.State, s.DoneAt = Done, task.Now(ctx).UTC()
		return s.advance(p)
	})
}

// Declare makes the shard a gap. The caller raises the generation next; if it cannot, whoever sees the row does (Undeclared).
func (l *Lease) Declare(ctx context.Context, loss Loss, reason string) error {
	return l.conclude(ctx, func(s *Shard) error {
		s.State, s.Loss, s.Reason, s.DoneAt = Lost, loss, reason, task.Now(ctx).UTC()
		return nil
	})
}

// Release gives the shard up after a clean stop: another worker may take it at once.
func (l *Lease) Release(ctx context.Context) error {
	return l.conclude(ctx, func(*Shard) error { return nil })
}

// conclude is the last write of a lease.
func (l *Lease) conclude(ctx context.Context, change func(*Shard) error) error {
	err := l.change(ctx, func(s *Shard) error {
		s.Owner = ""
		return change(s)
	})
	if err == nil {
		l.lose(ErrLeaseLost)
	}
	return err
}

func (l *Lease) change(ctx context.Context, change func(*Shard) error) error {
	var next Shard
	return l.write(ctx, func() ([]byte, error) {
		next = l.Shard()
		if err := change(&next); err != nil {
			return nil, err
		}
		return l.ledger.stamp(&next.header, &next), nil
	}, func() { l.shard = next })
}

func (s *Shard) advance(p Progress) error {
	if p.Position.After.Compare(s.Position) < 0 {
		return fmt.Errorf("%w: shard %s", ErrPositionBack, s.ID)
	}
	s.Position = p.Position.After
	s.EventTime, s.CellTime = later(s.EventTime, p.EventTime), later(s.CellTime, p.CellTime)
	s.ReadAt, s.CaughtUp, s.Dropping = later(s.ReadAt, p.ReadAt), p.CaughtUp, p.Dropping
	if s.FirstRead.IsZero() {
		s.FirstRead = p.FirstRead
	}
	return nil
}
