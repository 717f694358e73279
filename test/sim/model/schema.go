package model

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Schema models schema changes of the tables' families. A change is a request like any other: it or
// its answer may be lost, and it may be executed late. A drop is acknowledged, and shown in
// listings, before it takes effect everywhere.
type Schema struct {
	// Fades is the longest time after its execution until a drop takes effect.
	Fades time.Duration
	// Protected refuses every change, as without permission.
	Protected bool
	// Stamped, if set, is called for every executed write with the family that it names first.
	// Dropped is called for a family that refuses writes from now on.
	Stamped func(table, row, family string)
	Dropped func(table, family string)
}

// takes reports whether a write may name a family.
func (t *btTable) takes(family string, now time.Time) bool {
	until, fading := t.fading[family]
	return slices.Contains(t.families, family) || fading && now.Before(until)
}

// Families returns the current families of a table.
func (b *Bigtable) Families(table string) []string {
	if is := b.Tables[table]; is != nil {
		return is.families
	}
	return nil
}

// ListFamilies implements sink.Families.
func (t Target) ListFamilies(ctx context.Context, table string) ([]string, error) {
	if t.Fault != nil {
		if err := t.Fault("GetTable", table, ""); err != nil {
			return nil, sinkError("GetTable", err)
		}
	}
	if err := task.Sleep(ctx, t.oneWay()); err != nil {
		return nil, sinkError("GetTable", err)
	}
	is := t.Tables[table]
	if is == nil {
		return nil, sinkError("GetTable", errNoSuchTable)
	}
	return slices.Clone(is.families), nil
}

// AgeRules returns no families: the model collects nothing by age but tombstones.
func (t Target) AgeRules(ctx context.Context, table string) ([]string, error) {
	_, err := t.ListFamilies(ctx, table)
	return nil, err
}

// CreateFamily implements sink.Families.
func (t Target) CreateFamily(ctx context.Context, table, family string) error {
	return t.alter(ctx, table, func(is *btTable) error {
		if slices.Contains(is.families, family) {
			return &sink.Error{Op: "ModifyColumnFamilies", Reason: sink.Permanent, Code: "AlreadyExists"}
		}
		is.families = append(is.families, family)
		delete(is.fading, family)
		t.world.Tracef("family %s of %s is created", family, table)
		return nil
	})
}

// DropDelay implements sink.Families. A family takes less time to fade: see DropFamily.
func (Target) DropDelay() time.Duration { return sink.DefaultTimeout }

// DropFamily implements sink.Families.
func (t Target) DropFamily(ctx context.Context, table, family string) error {
	return t.alter(ctx, table, func(is *btTable) error {
		n := slices.Index(is.families, family)
		if n < 0 {
			return &sink.Error{Op: "ModifyColumnFamilies", Reason: sink.Permanent, Code: "NotFound"}
		}
		is.families = slices.Delete(slices.Clone(is.families), n, n+1)
		if is.fading == nil {
			is.fading = map[string]time.Time{}
		}
		fades := t.world.UpTo(t.Fades + 1)
		is.fading[family] = t.world.Now().Add(fades)
		t.world.Inject("family dropped")
		t.world.After(fades, func() {
			if t.Dropped != nil && t.Tables[table] == is && !slices.Contains(is.families, family) {
				t.world.Tracef("family %s of %s is gone", family, table)
				t.Dropped(table, family)
			}
		})
		return nil
	})
}

// alter sends a schema change of a table.
func (t Target) alter(ctx context.Context, table string, change func(*btTable) error) error {
	const op = "ModifyColumnFamilies"
	if t.Fault != nil {
		if err := t.Fault(op, table, ""); err != nil {
			return sinkError(op, err)
		}
	}
	if t.Protected {
		t.world.Inject("schema protected")
		return &sink.Error{Op: op, Reason: sink.Denied, Code: "PermissionDenied"}
	}
	fate, done, failed := t.fate(Call{Op: op, Table: table}), task.NewEvent(ctx), error(nil)
	if !fate.Drop {
		t.world.After(fate.Delay+t.oneWay(), func() {
			err := errNoSuchTable
			if is := t.Tables[table]; is != nil {
				err = change(is)
			}
			t.world.After(t.oneWay(), func() { failed = err; done.Set() })
		})
	}
	if fate.Drop || fate.Lose {
		_ = task.Sleep(ctx, fate.Mute+t.oneWay()+t.world.UpTo(2*time.Second))
		return sinkError(op, errUnknown)
	}
	if err := done.Wait(ctx); err != nil {
		return sinkError(op, err)
	}
	return sinkError(op, failed)
}
