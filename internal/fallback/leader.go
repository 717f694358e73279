package fallback

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Leader lets the items of one source table follow the rows of its target, while this process holds
// the lease.
type Leader struct {
	Ledger  *checkpoint.Ledger
	Source  string // the source table
	Table   string // the target table
	Form    Form
	Rows    Rows
	Items   Items
	Changes Changes
	Stream  cdc.Source // of the source table
	Timings Timings
	// MayWrite reports whether the cutover of the given attempt has switched the application, and
	// no rollback has. It is asked with each proof.
	MayWrite func(ctx context.Context, attempt uint32) (bool, error)
	// Hear asks the source for its time and notes it in the ledger (checkpoint.Ledger.Heard).
	Hear func(ctx context.Context) error
	// Leaving, if not nil, reports whether this process ends. Then the leader finishes what it has
	// begun and releases the lease.
	Leaving func() bool
	// Failed, if not nil, is called with each failure that is retried.
	Failed func(step string, err error)
}

// term is the time for which a leader holds the lease, with its state.
type term struct {
	*Leader
	times   Timings
	attempt uint32
	held    *checkpoint.Coordinator
	dirty   *dirtySet
	tasks   *task.Group
	ends    bool // no look begins any more; guarded by mu

	mu     sync.Mutex
	parts  map[checkpoint.KeyRange]*part
	closes int
	first  map[string]time.Duration // when each continuation was first seen
	parked map[string]bool          // keys, as far as this leader knows
	wrote  time.Time                // the source's time of the last request that may have changed an item

	suspects map[string]*suspect // by row key
	examined time.Duration       // when the suspects were last read, on the monotonic clock

	proving *task.Limit
	last    proof
}

// part is a partition in memory. The record is what was last saved.
type part struct {
	record  checkpoint.FallbackPart
	track   track
	reading bool
	ended   []checkpoint.Continuation // of a close that is not saved yet
	closed  bool
}

// proof shows that this process held the lease.
type proof struct {
	signed   time.Time     // the source's time when the renewal was sent
	sent     time.Duration // the same on the monotonic clock
	wait     time.Duration // W
	mayWrite bool
}

// Lead acquires the lease when it is free, and leads until ctx ends, the lease is lost, or the way
// back is stopped. The caller must call it again after an error.
func (l *Leader) Lead(ctx context.Context, watch *checkpoint.Watch) error {
	lease, err := l.Ledger.CoordinatorLease(ctx, checkpoint.FallbackLease(l.Source))
	if err != nil || !watch.CoordinatorLeaseFree(lease, task.Mono(ctx)) {
		return err
	}
	f, found, err := l.Ledger.Fallback(ctx, l.Source)
	if err != nil || !found || f.State == checkpoint.FallbackStopped {
		return err
	}
	unclean := lease.Owner() != ""
	held, err := l.Ledger.TakeCoordinatorLease(ctx, lease)
	if errors.Is(err, checkpoint.ErrTaken) {
		return nil
	} else if err != nil {
		return err
	}
	r := &term{
		Leader: l, times: l.Timings.orDefault(), held: held,
		attempt: f.Attempt, dirty: newDirtySet(),
		tasks: task.NewGroup(held.Context(), 0), proving: task.NewLimit(1),
		parts: map[checkpoint.KeyRange]*part{}, first: map[string]time.Duration{}, parked: map[string]bool{},
		suspects: map[string]*suspect{},
	}
	r.tasks.Go("renew the leader's lease", func(context.Context) error { return held.Keep() })
	r.tasks.Go("lead the way back", func(ctx context.Context) error {
		defer held.Abandon()
		return r.lead(ctx, unclean)
	})
	if err := r.tasks.Wait(); err != nil && !errors.Is(err, checkpoint.ErrLeaseLost) {
		return err
	}
	return nil
}

// lead takes over the records, reads and looks until the way back is stopped. The argument `unclean`
// reports that the former leader may have left requests behind.
func (r *term) lead(ctx context.Context, unclean bool) error {
	if err := r.Hear(ctx); err != nil {
		return err
	}
	now := r.Ledger.ServiceTime(ctx)
	if now.IsZero() {
		return errNoTime
	}
	f, err := r.Ledger.UpdateFallback(ctx, r.Source, r.held.Epoch(), func(f *checkpoint.Fallback) error {
		if f.Attempt != r.attempt {
			return errOtherAttempt
		}
		f.Led = now
		// The former lease ended before now. Its last request was signed before that.
		if end := now.Add(f.Wait); unclean && end.After(f.DoubtUntil) {
			f.DoubtUntil = end
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.adopt(ctx, f); err != nil {
		return err
	}
	looks, heard := false, task.Mono(ctx)
	for {
		if task.Mono(ctx)-heard > 4*r.times.Proof {
			heard = task.Mono(ctx)
			if err := r.Hear(ctx); err != nil {
				r.failed("ask the source for its time", err)
			}
		}
		if err := r.pass(ctx); fatal(err) {
			return err
		} else if err != nil {
			r.failed("save the positions of the way back", err)
		}
		if err := r.examine(ctx); err != nil {
			r.failed("read the rows that a comparison suspects", err)
		}
		if !looks && !r.Ledger.ServiceTime(ctx).Before(f.DoubtUntil) {
			looks = true
			r.tasks.Go("look at keys", r.look)
			r.tasks.Go("read the source's stream", r.readSource)
		}
		over, err := r.stop(ctx, f.DoubtUntil)
		if fatal(err) || over {
			return err
		} else if err != nil {
			r.failed("stop the way back", err)
		}
		if task.Sleep(ctx, r.times.Save) != nil {
			return nil
		}
	}
}

// errOtherAttempt ends the writes of a leader whose cutover was cancelled and begun again.
var errOtherAttempt = errors.New("the way back belongs to a later attempt")

// fatal reports whether an error ends the leader.
func fatal(err error) bool {
	return errors.Is(err, checkpoint.ErrDeposed) || errors.Is(err, checkpoint.ErrLeaseLost)
}

// stop ends this leader if its process ends, or if the way back is to be stopped. It returns true
// when no request is under way. A way back is stopped only when no request is in doubt either.
// Doubts of a process that ends are left to its successor. The argument `doubt` is the end of the
// doubts about former leaders.
func (r *term) stop(ctx context.Context, doubt time.Time) (over bool, err error) {
	f, _, err := r.Ledger.Fallback(ctx, r.Source)
	if err != nil {
		return false, err
	}
	stopping, leaving := f.State == checkpoint.FallbackStopping, f.Attempt != r.attempt || r.Leaving != nil && r.Leaving()
	r.mu.Lock()
	r.ends = stopping || leaving
	r.mu.Unlock()
	if !stopping && !leaving || r.dirty.looking() {
		return false, nil
	}
	if own := r.dirty.doubt(); own.After(doubt) {
		doubt = own
	}
	if doubt.After(r.Ledger.ServiceTime(ctx)) && !leaving {
		return false, nil
	}
	_, err = r.Ledger.UpdateFallback(ctx, r.Source, r.held.Epoch(), func(f *checkpoint.Fallback) error {
		if f.DoubtUntil.Before(doubt) {
			f.DoubtUntil = doubt
		}
		if f.State == checkpoint.FallbackStopping && f.Attempt == r.attempt && !doubt.After(r.Ledger.ServiceTime(ctx)) {
			f.State = checkpoint.FallbackStopped
		}
		over = leaving || f.State == checkpoint.FallbackStopped
		return nil
	})
	if err != nil || !over {
		return false, err
	}
	return true, r.held.Release(ctx)
}

// prove returns a proof that is young enough to begin a look.
func (r *term) prove(ctx context.Context) (proof, error) {
	if err := r.proving.Acquire(ctx, 1); err != nil {
		return proof{}, err
	}
	defer r.proving.Release(1)
	if age := task.Mono(ctx) - r.last.sent; !r.last.signed.IsZero() && age <= r.times.Proof {
		return r.last, nil
	}
	p := proof{signed: r.Ledger.ServiceTime(ctx), sent: task.Mono(ctx)}
	if p.signed.IsZero() {
		return p, errNoTime
	}
	if err := r.held.Renew(ctx); err != nil {
		return p, fmt.Errorf("renew the lease of the way back: %w", err)
	}
	f, _, err := r.Ledger.Fallback(ctx, r.Source)
	if err == nil && f.Epoch != r.held.Epoch() {
		err = checkpoint.ErrDeposed
	}
	if err == nil && f.Attempt != r.attempt {
		err = errOtherAttempt
	}
	if err != nil {
		return p, err
	}
	p.wait = f.Wait
	if follows := f.State == checkpoint.FallbackFollowing || f.State == checkpoint.FallbackGap; follows && f.Wait > 0 {
		if p.mayWrite, err = r.MayWrite(ctx, f.Attempt); err != nil {
			return p, err
		}
	}
	r.last = p
	return p, nil
}

// looksAtOnce is the number of keys that are looked at concurrently.
const looksAtOnce = 64

// look looks at the dirty keys, several at a time, until ctx ends.
func (r *term) look(ctx context.Context) error {
	looks := task.NewGroup(ctx, looksAtOnce)
	for ctx.Err() == nil {
		if r.ending() {
			_ = task.Sleep(ctx, r.times.Retry)
			continue
		}
		key, ok := r.dirty.take(task.Mono(ctx), r.Ledger.ServiceTime(ctx))
		if !ok {
			_ = r.dirty.news.Wait(ctx, r.times.Retry)
			continue
		}
		looks.Go("look at a key", func(ctx context.Context) error { return r.lookAt(ctx, key) })
	}
	return looks.Wait()
}

// ending reports whether no look may begin any more.
func (r *term) ending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ends
}

// lookAt looks at one key and records the result.
func (r *term) lookAt(ctx context.Context, key string) error {
	p, err := r.prove(ctx)
	found := finding{kind: refused}
	switch {
	case fatal(err):
		return err
	case err != nil:
		r.failed("prove the lease", err)
	case p.mayWrite && !r.ending():
		if found, err = r.lookOnce(ctx, key, p); err != nil {
			found = finding{kind: refused}
			r.failed("look at a key", err)
		}
	}
	switch found.kind {
	case settled:
		if err := r.heal(ctx, key); err != nil {
			r.dirty.again(key, r.rest(ctx, key), time.Time{})
			return nil
		}
		r.dirty.settle(key)
	case parked:
		if err := r.park(ctx, key, found.reason); err != nil {
			r.failed("park a key", err)
			r.dirty.again(key, r.rest(ctx, key), time.Time{})
			return nil
		}
		r.dirty.settle(key)
	case unequal:
		r.dirty.again(key, 0, time.Time{})
	case doubted:
		r.dirty.again(key, 0, found.until)
	default:
		r.dirty.again(key, r.rest(ctx, key), time.Time{})
	}
	return nil
}

// rest returns the monotonic time before which a key that was refused is not looked at again.
func (r *term) rest(ctx context.Context, key string) time.Duration {
	wait := r.times.Retry << min(r.dirty.tries(key), 6)
	return task.Mono(ctx) + min(wait, 100*r.times.Retry)
}

func (r *term) failed(step string, err error) {
	if r.Failed != nil {
		r.Failed(step, err)
	}
}
