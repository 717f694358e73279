package checkpoint

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// rowLease is the right of one holder to write one row. It has the counter that it expects, the
// time until which the lease may be trusted, and the write whose outcome is unknown, if there is
// one. A lost row lease never writes again. Taking the row again creates a new row lease with a new
// epoch (H45).
type rowLease struct {
	ledger *Ledger
	store  Store
	key    string
	lasts  time.Duration // how long the lease lasts without renewal
	end    context.CancelCauseFunc

	turn    *task.Limit // allows one write at a time; held across store calls; guards the next two fields
	counter uint64
	pending *pending

	mu    sync.Mutex    // guards the next two fields and the record that the function apply changes
	until time.Duration // how long the lease may be trusted, on the monotonic clock
	lost  error
}

// pending is a write that was sent. No other write is made to the row until the outcome is known.
type pending struct {
	data  []byte
	sent  time.Duration
	apply func() (over bool)
}

// begin makes the first write of a row lease. It takes the row only if the row's counter still
// equals the argument `counter`.
func (l *Ledger) begin(ctx context.Context, store Store, key string, counter uint64, encode func() ([]byte, error), apply func() bool) (*rowLease, context.Context, error) {
	held, end := context.WithCancelCause(ctx)
	t := &rowLease{ledger: l, store: store, key: key, lasts: l.lasting(key), turn: task.NewLimit(1), counter: counter, end: end}
	if err := t.write(ctx, encode, apply); err != nil {
		end(err)
		if errors.Is(err, ErrLeaseLost) {
			return nil, nil, ErrTaken
		}
		return nil, nil, err
	}
	return t, held, nil
}

// write stores the data that encode returns, once no earlier write is in doubt. The function
// `encode` runs while this process holds the row. The function `apply` runs after the write took
// place, possibly in a later call, and reports whether that write released the row.
func (t *rowLease) write(ctx context.Context, encode func() ([]byte, error), apply func() (over bool)) error {
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
		if _, err := t.trust(); err != nil {
			return err // the earlier write released the row, so another worker may hold it
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
func (t *rowLease) settle(ctx context.Context) error {
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
	// The lease counts from when the write was sent, not from when its response came (H44). Other
	// workers count from when they see the counter change, which is later.
	t.until = p.sent + t.lasts - margin(t.lasts)
	over := p.apply()
	t.mu.Unlock()
	if over {
		t.lose(ErrLeaseLost)
	}
	return nil
}

func (t *rowLease) lose(cause error) {
	t.mu.Lock()
	if t.lost == nil {
		t.lost = cause
	}
	t.mu.Unlock()
	t.end(cause)
}

// Abandon ends the lease without a write. Other workers must wait until the lease expires. Abandon
// has no effect after the last write of a lease.
func (t *rowLease) Abandon() { t.lose(ErrLeaseLost) }

// trust returns until when the lease may be trusted, or why it is lost.
func (t *rowLease) trust() (time.Duration, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until, t.lost
}

// keep renews the lease when a third of its duration has passed since the last write was sent. It
// ends when ctx ends or the lease is lost. keep ends the context of the lease in time, even if
// renewals hang or fail.
func (t *rowLease) keep(ctx context.Context, renew func(ctx context.Context) error) error {
	third := t.lasts / 3
	for {
		until, lost := t.trust()
		if lost != nil {
			return lost
		}
		now := task.Mono(ctx)
		due := until - (t.lasts - margin(t.lasts)) + third
		if now >= until {
			t.lose(ErrLeaseLost)
			return ErrLeaseLost
		}
		if now < due {
			if task.Sleep(ctx, due-now) != nil {
				return nil
			}
			continue // a commit may have renewed it meanwhile
		}
		limited, cancel := task.WithTimeout(ctx, until-now)
		err := renew(limited)
		cancel()
		// The attempt may have used all remaining time, so do not sleep past the end of the lease.
		if err != nil && task.Sleep(ctx, min(until-task.Mono(ctx), third/4)) != nil {
			return nil
		}
	}
}
