package sink

import (
	"context"
	"errors"
	"time"
)

// Families creates and drops the families of the fence. Admin is one. Errors are *Error: of reason
// Permanent and code AlreadyExists for the creation of what is there; of Denied or
// FailedPrecondition for what the service will not do; after one of reason Unknown the change may
// be made later still.
type Families interface {
	ListFamilies(ctx context.Context, table string) ([]string, error)
	CreateFamily(ctx context.Context, table, family string) error
	DropFamily(ctx context.Context, table, family string) error
	// DropDelay is how long after its acknowledgement a drop may not be in force everywhere yet,
	// and a request that names the family may still be executed; 0: never after it.
	DropDelay() time.Duration
}

// ListFamilies implements Families.
func (a *Admin) ListFamilies(ctx context.Context, table string) ([]string, error) {
	info, err := a.tables.TableInfo(ctx, table)
	if err != nil {
		return nil, classifyControl("GetTable", err)
	}
	names := make([]string, len(info.FamilyInfos))
	for i, f := range info.FamilyInfos {
		names[i] = f.Name
	}
	return names, nil
}

// CreateFamily implements Families. No cell of the fence outlives the request that sets it; the
// rule is there for one that a defect left. The client makes one attempt: a repetition behind our
// back might create a family again that was dropped in between.
func (a *Admin) CreateFamily(ctx context.Context, table, family string) error {
	spec := FamilySpec{Name: family, Keep: Keep{Versions: 1}}
	return classifyControl("ModifyColumnFamilies", a.tables.CreateColumnFamilyWithConfig(ctx, table, family, spec.family()))
}

// DropFamily implements Families. It drops families of the fence alone.
func (a *Admin) DropFamily(ctx context.Context, table, family string) error {
	if !IsFence(family) {
		return &Error{Op: "ModifyColumnFamilies", Reason: Permanent, Code: "InvalidArgument", Text: "only fence families may be dropped"}
	}
	return a.drop(ctx, table, family)
}

// DropDelay implements Families. The service documents no bound for a schema change; it is taken to
// be no longer than the longest request deadline. An emulator is one process, which refuses what
// names the family from its answer on.
func (a *Admin) DropDelay() time.Duration {
	if a.emulator {
		return 0
	}
	return DefaultTimeout
}

// DropOwn removes a family of ours, whichever it is: of a table that is cut over for good. That it is
// gone already is no error.
func (a *Admin) DropOwn(ctx context.Context, table, family string) error {
	if !IsFence(family) && family != LiveFamily && family != GoneFamily {
		return &Error{Op: "ModifyColumnFamilies", Reason: Permanent, Code: "InvalidArgument", Text: "only replicator's families may be dropped"}
	}
	err := a.drop(ctx, table, family)
	var gone *Error
	if errors.As(err, &gone) && gone.Code == "NotFound" {
		return nil
	}
	return err
}

func (a *Admin) drop(ctx context.Context, table, family string) error {
	return classifyControl("ModifyColumnFamilies", a.tables.DeleteColumnFamily(ctx, table, family))
}
