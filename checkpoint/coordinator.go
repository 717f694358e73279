package checkpoint

import (
	"context"
	"errors"
)

// Coordinator is the right to manage one table as a whole: to list its shards, update its witness
// and load it.
type Coordinator struct {
	*rowLease
	ctx    context.Context
	record coordinatorRecord
	note   Trouble // guarded by mu
}

type coordinatorRecord struct {
	header
	Owner string `json:"owner,omitempty"`
	Epoch uint64 `json:"epoch"`
	Pace  Pace   `json:"pace,omitzero"`
	Heartbeat
}

// CoordinatorLease is the content of a table's coordinator row when it was last read.
type CoordinatorLease struct {
	Row    Row
	record coordinatorRecord
}

// Owner returns the worker that holds the coordinator lease; "" if none does.
func (l CoordinatorLease) Owner() string { return l.record.Owner }

// Heartbeat returns the heartbeat of the row's last writer.
func (l CoordinatorLease) Heartbeat() Heartbeat { return l.record.Heartbeat }

// Pace returns the last saved pace of the load.
func (l CoordinatorLease) Pace() Pace { return l.record.Pace }

// CoordinatorLease reads the coordinator's row of a table.
func (l *Ledger) CoordinatorLease(ctx context.Context, source string) (CoordinatorLease, error) {
	row, found, err := readRow(ctx, l.store, l.coordinatorKey(source))
	if err != nil {
		return CoordinatorLease{}, err
	}
	s := CoordinatorLease{Row: Row{Key: l.coordinatorKey(source)}}
	if found {
		s.Row = row
		if s.record, err = l.coordinators.one(row); err != nil {
			return CoordinatorLease{}, err
		}
	}
	return s, nil
}

// TakeCoordinatorLease makes this worker the table's coordinator. It fails with ErrTaken if another
// worker was faster.
func (l *Ledger) TakeCoordinatorLease(ctx context.Context, s CoordinatorLease) (*Coordinator, error) {
	k := &Coordinator{}
	record := s.record
	encode := func() ([]byte, error) {
		record.Owner, record.Heartbeat = l.worker, l.heartbeat(ctx, Trouble{})
		record.Epoch++
		return l.stamp(&record.header, &record), nil
	}
	t, held, err := l.begin(ctx, l.store, s.Row.Key, s.Row.Counter, encode, func() bool { k.record = record; return false })
	if err != nil {
		return nil, err
	}
	k.rowLease, k.ctx = t, held
	return k, nil
}

// Epoch returns a number that rises with every change of coordinator.
func (k *Coordinator) Epoch() uint64 { return k.current().Epoch }

// Context returns a context that ends, with the cause ErrLeaseLost, when the coordinator lease can
// no longer be trusted.
func (k *Coordinator) Context() context.Context { return k.ctx }

// Keep renews the lease until its context ends. Run it as a task in parallel with the work.
func (k *Coordinator) Keep() error {
	return k.keep(k.ctx, k.Renew)
}

// Renew writes the lease's row now. If it returns nil, this worker still held the lease at the time
// of that write.
func (k *Coordinator) Renew(ctx context.Context) error {
	return k.change(ctx, func(*coordinatorRecord) {})
}

// Note records why the coordinator makes no progress. The zero value clears the note. The next
// renewal writes it.
func (k *Coordinator) Note(t Trouble) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note = t
}

func (k *Coordinator) noted() Trouble {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.note
}

func (k *Coordinator) current() coordinatorRecord {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.record
}

// SavePace stores the pace of the load, for display. It fails once the coordinator lease is lost.
func (k *Coordinator) SavePace(ctx context.Context, pace Pace) error {
	return k.change(ctx, func(r *coordinatorRecord) { r.Pace = pace })
}

// Release returns the coordinator lease after a clean stop. It may be repeated after an unknown
// outcome.
func (k *Coordinator) Release(ctx context.Context) error {
	err := k.change(ctx, func(r *coordinatorRecord) { r.Owner, r.Heartbeat = "", k.ledger.unowned(ctx) })
	if errors.Is(err, ErrLeaseLost) && k.current().Owner == "" {
		return nil
	}
	return err
}

func (k *Coordinator) change(ctx context.Context, change func(*coordinatorRecord)) error {
	var next coordinatorRecord
	return k.write(ctx, func() ([]byte, error) {
		next = k.current()
		next.Heartbeat = k.ledger.heartbeat(ctx, k.noted())
		change(&next)
		return k.ledger.stamp(&next.header, &next), nil
	}, func() bool { k.record = next; return next.Owner == "" })
}
