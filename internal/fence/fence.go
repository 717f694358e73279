// Package fence raises and drops the fence that rejects late writes. The numbers of the fence are
// in the ledger, and its column families are in the target tables.
//
// Only a table's coordinator, or the process that drives a cutover, may raise and drop the fence.
// Every other process only proves its right to write, through its Register.
//
// A number is reserved in the target's record before its family is created. It is published in the
// record only after Bigtable has acknowledged the creation. Without that acknowledgement, the
// number is never used, because Bigtable may still create the family later. So a family that was
// dropped never appears again.
package fence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Fence is the fence of all target tables of one ledger.
type Fence struct {
	Ledger *checkpoint.Ledger
	// Families creates and drops column families. It is nil if this process may not do so. Then the
	// fence is withheld: writes continue without a fence.
	Families sink.Families
	// Rest waits until a drop is in force (sink.Families.DropDelay). If it is nil, task.Sleep is
	// used.
	Rest func(ctx context.Context, d time.Duration) error
}

// MarkOf returns the fence mark of a target from the target's record.
func MarkOf(ledger *checkpoint.Ledger, t checkpoint.Target) sink.Mark {
	m := sink.Mark{Number: t.Fence, Withheld: t.Withheld != ""}
	if !t.CopiedAt.IsZero() {
		m.Copied, m.Swept = t.CopiedAt.UnixMicro(), t.Swept
	}
	if t.Fence > 0 {
		m.Family = sink.FenceFamily(ledger.ID(), t.Fence)
	}
	return m
}

// Marks returns a reader of the fence marks in a ledger.
func Marks(ledger *checkpoint.Ledger) sink.Marks {
	return func(ctx context.Context, table string) (sink.Mark, error) {
		t, _, err := ledger.Target(ctx, table)
		return MarkOf(ledger, t), err
	}
}

// Open publishes the first number of each target table that has none. Before that, no process
// writes to such a table.
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

// tries is how many consecutive numbers are tried, if a number is already in use.
const tries = 5

// Raise publishes a new number for a target table, or records why that is impossible. It first
// drops families below the published number, so that at most two remain. If the fence was withheld,
// Raise first tests that the service drops families. A service that creates families but does not
// drop them cannot have a fence. After an error, the number is never used, and a retry takes
// another number.
func (f Fence) Raise(ctx context.Context, table string) (checkpoint.Target, error) {
	if f.Families == nil {
		return f.withhold(ctx, table, "this worker may not create or drop families")
	}
	t, _, err := f.Ledger.Target(ctx, table)
	if err == nil && t.Withheld != "" {
		err = f.tryDrop(ctx, table, t)
	} else if err == nil {
		// After a failed drop, the next pass tries again. A raise does not wait for that.
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
		t.Fence, t.Withheld = n, "" // UpdateTarget keeps a higher number
		return nil
	})
}

// create creates the family of a number that no process has tried before, and returns the number.
func (f Fence) create(ctx context.Context, table string) (n uint64, err error) {
	for range tries {
		present, err := f.Families.ListFamilies(ctx, table)
		if err != nil {
			return 0, err
		}
		now := task.Now(ctx) // the number only needs to be new, so this clock is good enough
		_, err = f.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error {
			n = sink.NextFence(t.Last, now, present)
			t.Last = n
			return nil
		})
		if err != nil {
			return 0, err
		}
		err = f.Families.CreateFamily(ctx, table, sink.FenceFamily(f.Ledger.ID(), n))
		// The family may come from an earlier creation that Bigtable did not acknowledge. Bigtable
		// may still execute that creation later.
		if !coded(err, "AlreadyExists") {
			return n, err
		}
	}
	return 0, fmt.Errorf("%w: every fence number of table %s is in use", checkpoint.ErrConflict, table)
}

// tryDrop tests, for a table with a withheld fence, that the service drops families. It drops all
// families of this ledger in the table, because no request needs them. If there are none, it first
// creates one with a number that no process uses.
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

// Mend publishes a new number if the published number has no family, for example after a restore of
// the ledger or the target. Without the family, no process could write to the table. If the fence
// was withheld, Mend tries again. It also drops the families of former numbers.
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

// Clear drops the families of this ledger's numbers below the published number. No process has the
// right to write with these numbers. After the drop, Bigtable rejects such writes. Unlike Drop,
// Clear does not wait until the drop is in force. If the service refuses the drop, the fence is
// withheld.
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
// ledgers. It reports whether there were any. If one drop fails, it still tries the others.
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
		// NotFound means that the family is already dropped.
		if err := f.Families.DropFamily(ctx, table, family); err != nil && !coded(err, "NotFound") {
			failed = err
		}
	}
	return left, failed
}

// Drop drops the families of this ledger's numbers below n in a target table, and the families of
// lost ledgers. It returns when Bigtable executes no write with these numbers any more, and no
// writer's record has them. If there can be no fence, `withheld` is the reason. After an error,
// Drop may be called again.
func (f Fence) Drop(ctx context.Context, table string, n uint64) (withheld string, err error) {
	all, err := f.DropAll(ctx, map[string]uint64{table: n})
	return all[table], err
}

// tablesAtOnce is the maximum number of target tables whose numbers are dropped concurrently.
const tablesAtOnce = 100

// DropAll is Drop for several target tables, concurrently. The argument `below` holds the number
// for each table. The result has the tables whose drops succeeded; the error has those of the
// others.
func (f Fence) DropAll(ctx context.Context, below map[string]uint64) (withheld map[string]string, failed error) {
	tables := slices.Sorted(maps.Keys(below))
	reasons, inForce, errs := make([]string, len(tables)), make([]bool, len(tables)), make([]error, len(tables))
	g := task.NewGroup(ctx, tablesAtOnce)
	for i, table := range tables {
		g.Go("drop numbers of "+table, func(ctx context.Context) error {
			reasons[i], inForce[i], errs[i] = f.drop(ctx, table, below[table])
			return nil // the drops of other tables continue
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	forget := map[string]uint64{}
	for i, table := range tables {
		if inForce[i] {
			forget[table] = below[table]
		}
	}
	var unforgotten error
	if len(forget) > 0 {
		unforgotten = f.Ledger.ForgetWriters(ctx, forget)
	}
	withheld = map[string]string{}
	for i, table := range tables {
		if errs[i] == nil && !(inForce[i] && unforgotten != nil) {
			withheld[table] = reasons[i]
		}
	}
	return withheld, errors.Join(append(errs, unforgotten)...)
}

// drop drops the numbers below n of one table. It reports whether the drop is in force.
func (f Fence) drop(ctx context.Context, table string, n uint64) (withheld string, inForce bool, err error) {
	target, _, err := f.Ledger.Target(ctx, table)
	if err != nil || f.Families == nil {
		return target.Withheld, false, err
	}
	for range tries {
		left, failed := f.dropBelow(ctx, table, n, target.Former)
		if reason, never := refused(failed); never {
			t, err := f.withhold(ctx, table, reason)
			return t.Withheld, false, err
		}
		switch {
		case failed != nil:
			return "", false, failed
		case !left:
			t, _, err := f.Ledger.Target(ctx, table)
			if err != nil || t.Withheld != "" {
				return t.Withheld, false, err
			}
			err = f.rest(ctx, f.Families.DropDelay())
			return "", err == nil, err
		}
	}
	return "", false, fmt.Errorf("%w: fence families of table %s exist again after each drop", checkpoint.ErrConflict, table)
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

// withhold records that the target cannot have a fence. Writes continue without a fence.
func (f Fence) withhold(ctx context.Context, table, reason string) (checkpoint.Target, error) {
	return f.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error {
		t.Withheld = reason
		return nil
	})
}

// refused returns the reason if the service refuses to change families and a retry cannot help. The
// result `never` is true if the refusal is permanent.
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
