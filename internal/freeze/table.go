package freeze

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

var errThrough = errors.New("a write was let through again before all tables were frozen, so its policy was changed")

// passing is an error that says nothing about the policy of a table. A retry may succeed.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// table is the freeze of one table.
type table struct {
	*denial
	source  string
	freezer *tablepolicy.Freezer // nil until the record is read
	arn     string               // guarded by mu; "" until the table is described
	prober  tablepolicy.Prober   // guarded by mu

	begins, ends time.Duration // how long a change took to have an effect; zero if unknown
	over         bool
	overAt       time.Time

	watched bool          // guarded by mu
	denied  time.Duration // when the last round began in which all writes were denied; guarded by mu
	seen    bool          // whether there was one; guarded by mu
}

// freeze freezes the table. It returns once that is proved, and then the probes go on.
func (t *table) freeze(ctx context.Context) error {
	err := t.load(ctx, false)
	if err == nil && !(t.of.Rehearse && t.freezer.Record.Ends) {
		t.begins, err = t.freezer.Freeze(ctx)
	}
	if err != nil {
		t.freezer = nil // the record is read again
		return t.failure(ctx, t.source, err)
	}
	if !t.of.Rehearse {
		t.mu.Lock()
		t.denied, t.seen = task.Mono(ctx), true
		t.mu.Unlock()
		t.watch(t)
	}
	return nil
}

// unfreeze ends the freeze, and returns when the probe's writes are let through. If this attempt has
// sent no freeze request, it does not wait for that.
func (t *table) unfreeze(ctx context.Context) error {
	t.unwatch()
	err := t.load(ctx, true)
	switch {
	case err != nil:
	case t.freezer.Record.Open:
		t.ends, err = t.freezer.Unfreeze(ctx)
	default:
		t.over, err = t.freezer.Over(ctx)
	}
	if err != nil {
		t.freezer = nil
		return t.failure(ctx, t.source, err)
	}
	return nil
}

// lift looks whether the freeze is over, and removes a statement.
func (t *table) lift(ctx context.Context) error {
	t.unwatch()
	if t.over {
		return nil
	}
	err := t.load(ctx, true)
	if err == nil {
		t.over, err = t.freezer.Over(ctx)
		t.overAt = t.freezer.Record.OverAt(t.times)
	}
	if err != nil {
		t.freezer = nil
		return t.failure(ctx, t.source, err)
	}
	return nil
}

// reach describes the table and makes its prober, once.
func (t *table) reach(ctx context.Context) (arn string, err error) {
	t.mu.Lock()
	arn = t.arn
	t.mu.Unlock()
	if arn != "" {
		return arn, nil
	}
	arn, prober, err := t.Reach(ctx, t.source)
	if err != nil {
		return "", passing{err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arn, t.prober = arn, prober
	return arn, nil
}

// load reads the record of the table, and begins the record of this attempt if there is none. With
// `ends`, the record says from then on that the freeze ends (Z2). Otherwise the freeze of a former
// attempt is ended first.
func (t *table) load(ctx context.Context, ends bool) error {
	if t.freezer != nil {
		return nil
	}
	arn, err := t.reach(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	prober := t.prober
	t.mu.Unlock()
	record, err := t.Ledger.TableFreeze(ctx, t.source)
	if err != nil {
		return passing{err}
	}
	exempt, err := t.Exempt(ctx)
	if err != nil {
		return passing{err}
	}
	f := &tablepolicy.Freezer{
		Table: arn, Hash: tablepolicy.HashOf(t.Ledger.ID()), Exempt: exempt, Probe: t.Role, Policies: t.Policies, Prober: prober,
		Proof:  t.proved,
		Record: tablepolicy.Record(record.FreezeState),
		Save: func(ctx context.Context, r tablepolicy.Record) error {
			next := record
			next.FreezeState = checkpoint.FreezeState(r)
			if err := t.Ledger.SaveTableFreeze(ctx, &next); err != nil {
				return passing{err}
			}
			record = next
			return nil
		},
		Timings: t.times, Failed: t.Failed,
	}
	if err := t.adopt(ctx, f, ends); err != nil {
		return err
	}
	t.freezer = f
	return nil
}

// adopt makes the record one of this attempt.
func (t *table) adopt(ctx context.Context, f *tablepolicy.Freezer, ends bool) error {
	former := f.Record
	switch {
	case former.Attempt == t.of.Attempt && former.Sid != "":
		return nil
	case former.Attempt > t.of.Attempt:
		return passing{checkpoint.ErrMoved}
	case former.Sid == "":
	case ends:
		former.Ends = true
	case !former.Over:
		if _, err := f.Unfreeze(ctx); err != nil {
			return err
		}
		former = f.Record
	}
	next, err := tablepolicy.Begin(former, f.Hash, t.of.Attempt, t.of.Rehearse)
	if err != nil {
		return err
	}
	next.Ends = ends
	if err := f.Save(ctx, next); err != nil {
		return fmt.Errorf("save the record of the freeze: %w", err)
	}
	f.Record = next
	return nil
}

// proofAge is the highest age of a proof that is used again, so that many tables need few renewals.
const proofAge = 2 * time.Second

// proved returns the time of a young proof of the driver's lease.
func (d *denial) proved(ctx context.Context) (time.Time, error) {
	d.mu.Lock()
	last, sent := d.last, d.sent
	d.mu.Unlock()
	began := task.Mono(ctx)
	if !last.IsZero() && began-sent <= proofAge {
		return last, nil
	}
	at, err := d.proof(ctx)
	if err != nil {
		return at, passing{err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.sent = at, began
	return at, nil
}

// failure returns the error of a table. It is a cutover.FreezeError if a retry cannot help.
func (d *denial) failure(ctx context.Context, source string, err error) error {
	if p := (passing{}); ctx.Err() != nil || errors.As(err, &p) {
		return fmt.Errorf("table %s: %w", source, err)
	}
	return &cutover.FreezeError{Table: source, Err: err}
}
