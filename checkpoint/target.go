package checkpoint

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Target is the ledger's record of one target table, for all source tables that are copied to it.
type Target struct {
	header
	Table string `json:"table"`
	// Fence is the number under which rows of the table are written. It is 0 before the first
	// number is published, and then no row is written.
	Fence uint64 `json:"fence,omitempty"`
	// Last is the highest number that was tried, successfully or not. No number is tried twice.
	Last uint64 `json:"last,omitempty"`
	// Withheld explains why no fence can be raised. Then write requests name no fence, and late
	// requests are not rejected.
	Withheld string `json:"withheld,omitempty"`
	// Recorded reports that every process that may write under Fence has a record of that right
	// (Writer).
	Recorded bool `json:"recorded,omitempty"`
	// Halt is a cutover's request to all processes that write rows of this table. It also stops
	// processes that write to it for a source table that the cutover does not know. It stays after
	// the switch.
	Halt Halt `json:"halt,omitzero"`
	// Former are lost ledgers whose fences are removed with the next drop.
	Former []string `json:"former_ledgers,omitempty"`
	// MadeByUs reports that a worker created the table, or found it empty before the first
	// generation began.
	MadeByUs bool `json:"made_by_us,omitempty"`
	// AdoptRows is an operator's permission to overwrite the table's existing rows in a first
	// generation.
	AdoptRows bool `json:"adopt_rows,omitempty"`
	// CopiedAt is the time of the cells of fast loads in the table; zero if there was no fast load.
	// It is earlier if a lost ledger may have made the copies.
	// Swept reports that a sweep has removed their outdated cells.
	CopiedAt time.Time `json:"copied_at,omitzero"`
	Swept    bool      `json:"copy_swept,omitempty"`
	// Changed is when the record was last written, on the writer's clock. It is only for display.
	Changed time.Time `json:"changed,omitzero"`
}

// Open reports whether rows of the table may be written. They may be written under a number, or
// without a number if no fence can be raised.
func (t Target) Open() bool { return t.Fence > 0 || t.Withheld != "" }

// written returns the lowest format that can hold the record (Format).
func (t *Target) written() int {
	switch {
	case !t.CopiedAt.IsZero():
		return fastFormat
	case t.Recorded:
		return groupFormat
	}
	return plainFormat
}

// unknownTime stands for the time of cells that an earlier ledger copied. It is earlier than any
// such time.
var unknownTime = time.UnixMilli(1).UTC()

// Inherit records that the table may hold copies of a fast load of a lost ledger. Every guarded
// write then also removes the marker of such a copy. Otherwise a removed row would count as copied
// once its tombstone is collected.
func (t *Target) Inherit() {
	if t.CopiedAt.IsZero() {
		// The time of the cells is not known, so the next load's sweep must remove them.
		t.CopiedAt, t.Swept = unknownTime, true
	}
}

// Disown records that the table was written under a ledger that is now lost. It does nothing if the
// lost ledger is this ledger itself (own).
func (t *Target) Disown(former, own string) {
	if former != "" && former != own && !slices.Contains(t.Former, former) {
		t.Former = append(slices.Clone(t.Former), former)
	}
}

func (l *Ledger) targetKey(table string) string { return l.name + "/target/" + table }

// Target reads the record of a target table. It returns false if there is none.
func (l *Ledger) Target(ctx context.Context, table string) (Target, bool, error) {
	target, _, found, err := l.target(ctx, table)
	return target, found, err
}

// Targets reads the records of all target tables, by name.
func (l *Ledger) Targets(ctx context.Context) ([]Target, error) {
	prefix := l.targetKey("")
	rows, err := l.store.Read(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return l.targets.decode(prefix, rows)
}

func (l *Ledger) target(ctx context.Context, table string) (Target, uint64, bool, error) {
	row, found, err := readRow(ctx, l.store, l.targetKey(table))
	if err != nil || !found {
		return Target{Table: table}, 0, false, err
	}
	target, err := l.targets.one(row)
	return target, row.Counter, err == nil, err
}

// UpdateTarget changes the record of a target table, and creates it if necessary. Like UpdateTable
// it may call change several times, and it writes nothing if change leaves the record as it is. The
// numbers Fence and Last never fall.
func (l *Ledger) UpdateTarget(ctx context.Context, table string, change func(*Target) error) (Target, error) {
	for range tries {
		target, counter, found, err := l.target(ctx, table)
		if err != nil {
			return Target{}, err
		}
		before := target
		if err := change(&target); err != nil {
			return Target{}, err
		}
		target.Fence = max(target.Fence, before.Fence)
		target.Last = max(target.Last, before.Last, target.Fence)
		if found && reflect.DeepEqual(before, target) {
			return target, nil
		}
		target.Changed = task.Now(ctx).UTC()
		done, err := l.swap(ctx, l.store, l.targetKey(table), counter, l.stamp(&target.header, &target))
		if err != nil {
			return Target{}, err
		}
		if done {
			return target, nil
		}
	}
	return Target{}, ErrConflict
}
