package sink

import (
	"context"
	"errors"
	"time"
)

// Families creates and drops the families of the fence. Admin implements it. Errors are *Error.
// Creating an existing family fails with reason Permanent and code AlreadyExists. A refused change
// fails with reason Denied or code FailedPrecondition. After an error of reason Unknown the change
// may still be made later.
type Families interface {
	ListFamilies(ctx context.Context, table string) ([]string, error)
	CreateFamily(ctx context.Context, table, family string) error
	DropFamily(ctx context.Context, table, family string) error
	// DropDelay returns how long requests that name a dropped family may still be executed. The
	// time counts from the acknowledgement of the drop; 0 means not at all.
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

// AgeRules returns the families of a table, except replicator's, whose rule collects cells by age.
func (a *Admin) AgeRules(ctx context.Context, table string) ([]string, error) {
	info, err := a.tables.TableInfo(ctx, table)
	if err != nil {
		return nil, classifyControl("GetTable", err)
	}
	var aged []string
	for _, f := range info.FamilyInfos {
		if !IsOwn(f.Name) && hasAge(f.FullGCPolicy) {
			aged = append(aged, f.Name)
		}
	}
	return aged, nil
}

// CreateFamily implements Families. No cell of the fence outlives the request that sets it. The
// family's collection rule removes only cells that a defect has left behind. The client makes one
// attempt, because a hidden retry could recreate a family that was dropped meanwhile.
func (a *Admin) CreateFamily(ctx context.Context, table, family string) error {
	spec := FamilySpec{Name: family, Keep: Keep{Versions: 1}}
	return classifyControl("ModifyColumnFamilies", a.tables.CreateColumnFamilyWithConfig(ctx, table, family, spec.family()))
}

// DropFamily implements Families. It drops only families of the fence.
func (a *Admin) DropFamily(ctx context.Context, table, family string) error {
	if !IsFence(family) {
		return &Error{Op: "ModifyColumnFamilies", Reason: Permanent, Code: "InvalidArgument", Text: "only fence families may be dropped"}
	}
	return a.drop(ctx, table, family)
}

// DropDelay implements Families. The service documents no bound for a schema change, so the longest
// request deadline is assumed. An emulator is one process and refuses requests that name the family
// as soon as it has acknowledged the drop.
func (a *Admin) DropDelay() time.Duration {
	if a.emulator {
		return 0
	}
	return DefaultTimeout
}

// DropOwn drops any of replicator's families from a table that is cut over. It does not fail if the
// family no longer exists.
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
