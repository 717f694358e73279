package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// ErrPositionBack is returned for a commit below the checkpoint (I3).
var ErrPositionBack = errors.New("a checkpoint never moves back")

// Lease is the right to move one shard's checkpoint while its context is not done.
type Lease struct {
	*rowLease
	ctx   context.Context
	shard Shard
	note  Trouble   // guarded by mu, like offer
	offer *Progress // for the next write
}

// Progress is the progress of a shard. A zero time keeps the recorded time.
type Progress struct {
	Position  cdc.Position
	EventTime time.Time // latest event time applied
	CellTime  time.Time // latest cell time used
	// FirstRead is when the response to the shard's first successful read was sent, on the
	// service's clock.
	FirstRead time.Time
	AppliedTo time.Time // see Shard.AppliedTo
	ReadAt    time.Time // when the last read was sent, on the service's clock
	CaughtUp  bool      // the last read returned an empty page
	Dropping  bool
	Applied   uint64 // changes at or before the position
	Shown
	// Settling counts the changes after the position that were applied once. Ended reports that the
	// changes read reach the end of the shard.
	Settling Settling
	Ended    bool
	Cutover  Sighted
	// Rechecked says how far the rows of the changes up to Position were compared again.
	Rechecked Rechecked
}

// Progress returns the shard's progress according to its record.
func (s *Shard) Progress() Progress {
	return Progress{Position: cdc.Position{After: s.Position}, EventTime: s.EventTime, CellTime: s.CellTime, FirstRead: s.FirstRead,
		AppliedTo: s.AppliedTo, ReadAt: s.ReadTime(), CaughtUp: s.CaughtUp, Dropping: s.Dropping, Applied: s.Applied, Shown: s.Shown, Cutover: s.Sighted, Rechecked: s.Rechecked}
}

// Take leases a shard that Look returned. The argument `parent` is the row of the shard's parent,
// or nil if there is no such row. If the shard was never read, Take also records what its finished
// parent covers. Take fails with ErrTaken if another worker was faster.
func (l *Ledger) Take(ctx context.Context, s Shard, parent *Shard) (*Lease, error) {
	lease := &Lease{}
	encode := func() ([]byte, error) {
		// Read the table as late as possible. If the generation rises after this read, the raise
		// finds the row that is written below, or that write fails.
		table, _, err := l.Table(ctx, s.Source)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(l.checkHash(table), l.checkMode(table)); err != nil {
			return nil, err
		}
		if table.Halted() {
			return nil, ErrHalted
		}
		if s.Label != table.Label {
			return nil, ErrTaken // the stream was replaced since the row was read
		}
		s.number(table.Apply, s.Generation < table.Generation)
		s.Generation = max(s.Generation, table.Generation)
		s.State, s.Owner = Reading, l.worker
		s.beat(l.heartbeat(ctx, Trouble{}))
		s.Shown = Shown{}
		s.Epoch++
		if parent != nil {
			if s.FirstRead.IsZero() && s.Position.IsZero() {
				listed, err := l.Listings(ctx, s.Source, s.Label)
				if err != nil {
					return nil, err
				}
				s.CoveredTo = later(s.CoveredTo, parent.Covers(listed.Open[parent.ID], table.Owed()))
				s.Inherited = true
				// Two overlapping coordinators may have ranked the shard from different listings.
				// No worker has read it yet, so its hop may still rise above its parent's (H66).
				s.Hop = max(s.Hop, parent.Hop+1)
				if !parent.Cut.Before(s.Cut) {
					s.Dropping, s.Cut = parent.Dropping, parent.Cut
				}
				if parent.State == Gap {
					s.cutAt(parent.DoneAt)
				}
				s.CellTime = later(s.CellTime, later(parent.CellTime, parent.Settling.CellTime))
			}
		}
		return l.stamp(&s.header, &s), nil
	}
	t, held, err := l.begin(ctx, l.store, s.key(l), s.Counter, encode, func() bool { lease.shard = s; return false })
	if err != nil {
		return nil, err
	}
	lease.rowLease, lease.ctx = t, held
	return lease, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Shard returns the record as last written.
func (l *Lease) Shard() Shard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shard
}

// Context returns a context that ends, with the cause ErrLeaseLost, when the lease can no longer be
// trusted. All work under the lease must use it.
func (l *Lease) Context() context.Context { return l.ctx }

// Keep renews the lease until its context ends. Run it as a task in parallel with the work.
func (l *Lease) Keep() error {
	return l.keep(l.ctx, l.Renew)
}

// Renew writes the lease's row now. If it returns nil, this worker still held the row at the time
// of that write, and no raise had adopted the row.
func (l *Lease) Renew(ctx context.Context) error {
	return l.change(ctx, func(*Shard) error { return nil })
}

// Commit moves the checkpoint: every change up to it must be durable (I3). Commit fails if the
// checkpoint would move back.
func (l *Lease) Commit(ctx context.Context, p Progress) error {
	return l.change(ctx, func(s *Shard) error {
		if p.Ended && s.EndedAt.IsZero() {
			s.EndedAt = l.ledger.ServiceTime(ctx)
		}
		return s.advance(p)
	})
}

// Offer is like Commit, but for progress that is not urgent. The next write of the lease's row,
// usually a renewal, includes it.
func (l *Lease) Offer(p Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offer = &p
}

// offered returns and clears the progress offered since the last write; nil if there is none.
func (l *Lease) offered() *Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.offer
	l.offer = nil
	return p
}

// Note records why the shard makes no progress. The zero value clears the note. The next renewal or
// commit writes it.
func (l *Lease) Note(t Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note = t
}

// Finish commits the last page of the shard and marks the shard as done.
func (l *Lease) Finish(ctx context.Context, p Progress) error {
	return l.conclude(ctx, Done, func(s *Shard) error {
		s.DoneAt = l.ledger.ServiceTime(ctx)
		return s.advance(p)
	})
}

// Declare makes the shard a gap. The caller must raise the generation next. If the caller fails,
// the next process that sees the row raises it (Undeclared).
func (l *Lease) Declare(ctx context.Context, loss Loss, reason string) error {
	return l.conclude(ctx, Gap, func(s *Shard) error {
		s.EndedAt, s.Settling = time.Time{}, Settling{}
		s.Loss, s.Reason, s.Noted, s.DoneAt = loss, reason, false, l.ledger.ServiceTime(ctx)
		return nil
	})
}

// Release returns the shard after a clean stop, so that another worker may take it immediately.
func (l *Lease) Release(ctx context.Context) error {
	return l.conclude(ctx, Reading, func(*Shard) error { return nil })
}

// conclude makes the last write of a lease. It leaves the shard in the given state without an owner
// and ends the context of the lease. It may be repeated after an unknown outcome, even if a renewal
// has settled that outcome meanwhile.
func (l *Lease) conclude(ctx context.Context, state State, change func(*Shard) error) error {
	err := l.change(ctx, func(s *Shard) error {
		s.State, s.Owner = state, ""
		s.beat(l.ledger.unowned(ctx))
		s.Shown = Shown{}
		return change(s)
	})
	if s := l.Shard(); errors.Is(err, ErrLeaseLost) && s.Owner == "" && s.State == state {
		return nil
	}
	return err
}

func (l *Lease) change(ctx context.Context, change func(*Shard) error) error {
	var next Shard
	return l.write(ctx, func() ([]byte, error) {
		next = l.Shard()
		next.beat(l.ledger.heartbeat(ctx, l.noted()))
		if p := l.offered(); p != nil {
			if err := next.advance(*p); err != nil {
				return nil, err
			}
		}
		if err := change(&next); err != nil {
			return nil, err
		}
		return l.ledger.stamp(&next.header, &next), nil
	}, func() bool { l.shard = next; return next.Owner == "" })
}

func (l *Lease) noted() Trouble {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.note
}

func (s *Shard) advance(p Progress) error {
	if p.Position.After.Compare(s.Position) < 0 {
		return fmt.Errorf("%w: shard %s", ErrPositionBack, s.ID)
	}
	s.Position = p.Position.After
	if !s.Position.IsZero() {
		s.Announced = Announced{}
	}
	s.EventTime, s.CellTime = later(s.EventTime, p.EventTime), later(s.CellTime, p.CellTime)
	if !p.ReadAt.IsZero() {
		s.ReadAt = later(s.ReadAt, p.ReadAt.Add(s.ahead()))
	}
	s.CaughtUp, s.Dropping = p.CaughtUp, p.Dropping
	s.Settling, s.Sighted, s.Rechecked = p.Settling, p.Cutover, p.Rechecked
	s.AppliedTo = p.AppliedTo // a late change resets it
	s.Applied = max(s.Applied, p.Applied)
	if s.Owner != "" { // a shard that no worker reads has no rate
		s.Shown = p.Shown
	}
	if s.FirstRead.IsZero() {
		s.FirstRead = p.FirstRead
	}
	if !p.FirstRead.IsZero() {
		s.Reopened = 0
	}
	return nil
}
