// Package fence raises and drops the fence that rejects late writes. The numbers of the fence are
// in the ledger, its families in the target tables.
//
// Only a table's coordinator, or the process that drives a cutover, raises and drops. Writers only
// prove their right, each with the register of its process (Register).
//
// A number is reserved in the target's record before its family is created. It is published there
// only after the creation was acknowledged. A number whose creation may still be executed is never
// used. So no family exists again after it was dropped.
package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Fence is the fence of all target tables of one ledger.
type Fence struct {
	Ledger *checkpoint.Ledger
	// Families changes schemas. It is nil if this process may not; then the fence is withheld.
	Families sink.Families
	// Rest waits until a drop is in force (sink.Families.DropDelay); nil: task.Sleep.
	Rest func(ctx context.Context, d time.Duration) error
}

// MarkOf returns the mark of a target from its record.
func MarkOf(ledger *checkpoint.Ledger, t checkpoint.Target) sink.Mark {
	m := sink.Mark{Number: t.Fence, Withheld: t.Withheld != ""}
	if t.Fence > 0 {
		m.Family = sink.FenceFamily(ledger.ID(), t.Fence)
	}
	return m
}

// Marks reads marks in a ledger.
func Marks(ledger *checkpoint.Ledger) sink.Marks {
	return func(ctx context.Context, table string) (sink.Mark, error) {
		t, _, err := ledger.Target(ctx, table)
		return MarkOf(ledger, t), err
	}
}

// Open publishes the first number of target tables that have none. No process writes to them
// before.
func (f Fence) Open(ctx context.Context, tables ...string) error {
	for _, table := range tables {
		t, _, err := f.Ledger.Target(ctx, table)
		if err == nil && !t.Open() {
			_, err = f.Raise(ctx, table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tries bounds how many numbers in a row are tried if they are already in use.
const tries = 5

// Raise publishes a new number for a target table, or records why that is impossible. It first
// drops families below the published number, so that at most two are left. If the fence was
// withheld, it also drops a family first: a service that creates families but does not drop them
// cannot have a fence. After an error the tried number is never used, and a retry tries another.
func (f Fence) Raise(ctx context.Context, table string) (checkpoint.Target, error) {
	if f.Families == nil {
		return f.withhold(ctx, table, "this worker creates and drops no families")
	}
	t, _, err := f.Ledger.Target(ctx, table)
	if err == nil && t.Withheld != "" {
		err = f.tryDrop(ctx, table, t)
	} else if err == nil {
		// A failed drop is left to the next pass: no raise may wait for it.
		if left, failed := f.dropBelow(ctx, table, t.Fence, nil); !left || protected(failed) {
			err = failed
		}
	}
	var n uint64
	if err == nil {
		n, err = f.create(ctx, table)
	}
	if reason, never := refused(err); never {
		return f.withhold(ctx, table, reason)
	}
	if err != nil {
		return checkpoint.Target{}, err
	}
	return f.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error {
		t.Fence, t.Withheld = n, "" // a higher number stays (UpdateTarget)
		return nil
	})
}

// create creates the family of a number that was never tried before.
func (f Fence) create(ctx context.Context, table string) (n uint64, err error) {
	for range tries {
		present, err := f.Families.ListFamilies(ctx, table)
		if err != nil {
			return 0, err
		}
		now := task.Now(ctx) // a number proves nothing
		_, err = f.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error {
			n = sink.NextFence(t.Last, now, present)
			t.Last = n
			return nil
		})
		if err != nil {
			return 0, err
		}
		err = f.Families.CreateFamily(ctx, table, sink.FenceFamily(f.Ledger.ID(), n))
		if !coded(err, "AlreadyExists") { // perhaps from our own earlier attempt, whose answer was lost and which may be executed again later
			return n, err
		}
	}
	return 0, fmt.Errorf("%w: every fence number of table %s is in use", checkpoint.ErrConflict, table)
}

// tryDrop drops every family of this ledger in a table whose fence is withheld, because no request
// needs one. If there is none, it first creates one, under a number that no process uses.
func (f Fence) tryDrop(ctx context.Context, table string, t checkpoint.Target) error {
	left, err := f.dropBelow(ctx, table, t.Last+1, nil)
	if err != nil || left {
		return err
	}
	n, err := f.create(ctx, table)
	if err == nil {
		err = f.Families.DropFamily(ctx, table, sink.FenceFamily(f.Ledger.ID(), n))
	}
	return err
}

// Mend publishes a new number if the family of the published one is missing, for example after a
// restore of the ledger or target: otherwise no process could write. If the fence was withheld, it
// tries again. It drops families of former numbers.
func (f Fence) Mend(ctx context.Context, table string) error {
	t, _, err := f.Ledger.Target(ctx, table)
	if err != nil || f.Families == nil {
		return err
	}
	present, err := f.Families.ListFamilies(ctx, table)
	if err != nil {
		return err
	}
	if t.Withheld != "" || !slices.Contains(present, sink.FenceFamily(f.Ledger.ID(), t.Fence)) {
		_, err = f.Raise(ctx, table)
		return err
	}
	return f.Clear(ctx, table)
}

// Clear drops the families of this ledger's numbers below the published one. No process has the
// right to write under them, and such a write is rejected as after Drop. But Clear does not wait
// until that is certain. A service that refuses the drop cannot have a fence.
func (f Fence) Clear(ctx context.Context, table string) error {
	t, _, err := f.Ledger.Target(ctx, table)
	if err != nil || f.Families == nil || t.Withheld != "" {
		return err
	}
	_, err = f.dropBelow(ctx, table, t.Fence, nil)
	if reason, never := refused(err); never {
		_, err = f.withhold(ctx, table, reason)
	}
	return err
}

// dropBelow drops the families of this ledger's numbers below n, and all families of former
// ledgers, and reports whether there were any. It tries each, even if others fail.
func (f Fence) dropBelow(ctx context.Context, table string, n uint64, former []string) (left bool, failed error) {
	present, err := f.Families.ListFamilies(ctx, table)
	if err != nil {
		return false, err
	}
	for _, family := range present {
		if old, own, _ := sink.ParseFence(f.Ledger.ID(), family); (!own || old >= n) && !isOf(family, former) {
			continue
		}
		left = true
		if err := f.Families.DropFamily(ctx, table, family); err != nil && !coded(err, "NotFound") { // NotFound: already gone
			failed = err
		}
	}
	return left, failed
}

// Drop drops the families of this ledger's numbers below n in a target table, and those of lost
// ledgers. It returns once no write stamped with one of them can take effect, and once the records of
// writers no longer name those numbers. Withheld says why that is impossible, if so. After an error
// it may be called again.
func (f Fence) Drop(ctx context.Context, table string, n uint64) (withheld string, err error) {
	target, _, err := f.Ledger.Target(ctx, table)
	if err != nil || f.Families == nil {
		return target.Withheld, err
	}
	for range tries {
		left, failed := f.dropBelow(ctx, table, n, target.Former)
		if reason, never := refused(failed); never {
			t, err := f.withhold(ctx, table, reason)
			return t.Withheld, err
		}
		switch {
		case failed != nil:
			return "", failed
		case !left:
			t, _, err := f.Ledger.Target(ctx, table)
			if err != nil || t.Withheld != "" {
				return t.Withheld, err
			}
			if err := f.rest(ctx, f.Families.DropDelay()); err != nil {
				return "", err
			}
			return "", f.Ledger.ForgetWriters(ctx, table, n)
		}
	}
	return "", fmt.Errorf("%w: fence families of table %s exist again after each drop", checkpoint.ErrConflict, table)
}

// isOf reports whether a family belongs to the fence of one of the ledgers.
func isOf(family string, ledgers []string) bool {
	return slices.ContainsFunc(ledgers, func(ledger string) bool {
		_, own, _ := sink.ParseFence(ledger, family)
		return own
	})
}

func (f Fence) rest(ctx context.Context, d time.Duration) error {
	if f.Rest != nil {
		return f.Rest(ctx, d)
	}
	return task.Sleep(ctx, d)
}

// withhold records that no fence can be kept. Writes continue without one.
func (f Fence) withhold(ctx context.Context, table, reason string) (checkpoint.Target, error) {
	return f.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error {
		t.Withheld = reason
		return nil
	})
}

// refused returns why the service will not change families, if an error says so and no retry fixes
// it.
func refused(err error) (reason string, never bool) {
	var e *sink.Error
	if !errors.As(err, &e) {
		return "", false
	}
	switch e.Code {
	case "PermissionDenied":
		return "the permission bigtable.tables.update is missing", true
	case "FailedPrecondition":
		return "deletion protection forbids dropping families of the table", true
	case "Unimplemented":
		return "the service cannot change families", true
	}
	return "", false
}

// protected reports whether a service permanently refuses to change families.
func protected(err error) bool {
	_, never := refused(err)
	return never
}

func coded(err error, code string) bool {
	var e *sink.Error
	return errors.As(err, &e) && e.Code == code
}
