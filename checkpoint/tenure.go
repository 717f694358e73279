package checkpoint

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// tenure is one holding of one row: the counter it expects, the time until which the lease may be trusted, and the write whose
// outcome is not known yet, if there is one. A tenure that is lost never writes again; taking the row again makes another one
// with another epoch (H45).
type rowLease struct {
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
	apply func() (over bool)
}

// begin is the first write of a tenure: the row is taken from the counter it was seen with.
func (l *Ledger) begin(ctx context.Context, store Store, key string, counter uint64, encode func() ([]byte, error), apply func() bool) (*rowLease, context.Context, error) {
	held, end := context.WithCancelCause(ctx)
	t := &rowLease{ledger: l, store: store, key: key, turn: task.NewLimit(1), counter: counter, end: end}
	if err := t.write(ctx, encode, apply); err != nil {
		end(err)
		if errors.Is(err, ErrLeaseLost) {
			return nil, nil, ErrTaken
		}
		return nil, nil, err
	}
	return t, held, nil
}

// write makes the row hold what encode gives, once no earlier write is in doubt. Encode runs while the row is ours. Apply runs
// once the write took place, which may be in a later call; it tells whether that write gave the row up.
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
			return err // what was in doubt gave the row up: it is anybody's now
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
	// Trusted from when the write was sent, not from when its answer came (H44): others count from when they see the counter
	// change, which is later.
	t.until = p.sent + t.ledger.lease - t.ledger.margin()
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

// Abandon ends the lease without a word to the ledger: others wait until it is over. After the last write of a lease it changes
// nothing.
func (t *rowLease) Abandon() { t.lose(ErrLeaseLost) }

// trust is until when the lease holds, or why it does not.
func (t *rowLease) trust() (time.Duration, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until, t.lost
}

// keep renews, a third of the lease after the last write was sent, until ctx ends or the lease is lost. The context of the lease
// ends when it can no longer be trusted, however the renewals fare.
func (t *rowLease) keep(ctx context.Context, renew func(ctx context.Context) error) error {
	third := t.ledger.lease / 3
	for {
		until, lost := t.trust()
		if lost != nil {
			return lost
		}
		now := task.Mono(ctx)
		due := until - (t.ledger.lease - t.ledger.margin()) + third
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
		// The attempt may have taken all the time there was: the next one must not be waited for past the end.
		if err != nil && task.Sleep(ctx, min(until-task.Mono(ctx), third/4)) != nil {
			return nil
		}
	}
}
