package checkpoint

import (
	"context"
	"errors"
)

// Keeper is the right to look after one table as a whole: to list its shards, beat its witness and load it.
type Keeper struct {
	*rowLease
	ctx    context.Context
	record keeperRecord
	note   Trouble // guarded by mu
}

type keeperRecord struct {
	header
	Owner string `json:"owner,omitempty"`
	Epoch uint64 `json:"epoch"`
	Pace  Pace   `json:"pace,omitzero"`
	Heartbeat
}

// KeeperLease is a table's keeper row as it was read.
type KeeperLease struct {
	Row    Row
	record keeperRecord
}

// Owner is the worker that holds the keeper lease; "" if nobody does.
func (l KeeperLease) Owner() string { return l.record.Owner }

// Heartbeat is what the last writer of the keeper lease left.
func (l KeeperLease) Heartbeat() Heartbeat { return l.record.Heartbeat }

// Pace is how a load gets on, as it was last saved.
func (l KeeperLease) Pace() Pace { return l.record.Pace }

// KeeperLease reads the keeper's row of a table.
func (l *Ledger) KeeperLease(ctx context.Context, source string) (KeeperLease, error) {
	row, found, err := readRow(ctx, l.store, l.keeperKey(source))
	if err != nil {
		return KeeperLease{}, err
	}
	s := KeeperLease{Row: Row{Key: l.keeperKey(source)}}
	if found {
		s.Row = row
		if s.record, err = l.keepers.one(row); err != nil {
			return KeeperLease{}, err
		}
	}
	return s, nil
}

// TakeKeeperLease makes this worker the table's keeper. It fails with ErrTaken when another worker was faster.
func (l *Ledger) TakeKeeperLease(ctx context.Context, s KeeperLease) (*Keeper, error) {
	k := &Keeper{}
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

// Epoch rises with every change of keeper.
func (k *Keeper) Epoch() uint64 { return k.current().Epoch }

// Context ends, with the cause ErrLeaseLost, when the keeper lease can no longer be trusted.
func (k *Keeper) Context() context.Context { return k.ctx }

// Keep renews until the context ends; run it as a task beside the work.
func (k *Keeper) Keep() error {
	return k.keep(k.ctx, k.Renew)
}

// Renew writes the lease's row now. When it returns nil, nobody else had taken the lease when that
// write took place.
func (k *Keeper) Renew(ctx context.Context) error { return k.change(ctx, func(*keeperRecord) {}) }

// Note says what keeps the keeper from getting on, or with the zero value that nothing does. It is written with the next renewal.
func (k *Keeper) Note(t Trouble) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note = t
}

func (k *Keeper) noted() Trouble {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.note
}

func (k *Keeper) current() keeperRecord {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.record
}

// SavePace stores how a load gets on, for people, fenced by the keeper lease.
func (k *Keeper) SavePace(ctx context.Context, pace Pace) error {
	return k.change(ctx, func(r *keeperRecord) { r.Pace = pace })
}

// Release gives the keeper lease up after a clean stop. It may be repeated after an unknown outcome.
func (k *Keeper) Release(ctx context.Context) error {
	err := k.change(ctx, func(r *keeperRecord) { r.Owner, r.Heartbeat = "", k.ledger.unowned(ctx) })
	if errors.Is(err, ErrLeaseLost) && k.current().Owner == "" {
		return nil
	}
	return err
}

func (k *Keeper) change(ctx context.Context, change func(*keeperRecord)) error {
	var next keeperRecord
	return k.write(ctx, func() ([]byte, error) {
		next = k.current()
		next.Heartbeat = k.ledger.heartbeat(ctx, k.noted())
		change(&next)
		return k.ledger.stamp(&next.header, &next), nil
	}, func() bool { k.record = next; return next.Owner == "" })
}
