package sink

import (
	"context"
	"errors"
	"slices"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Lacks lists the parts of a table's specification that the table lacks.
type Lacks struct {
	Table    bool         // the table does not exist
	Families []FamilySpec // missing families of a table that exists
	View     bool         // the view is missing; set even if the table does not exist
	NoViews  bool         // the service does not support authorized views, so none can be created
	// Ageing are existing families with an age rule that is not declared (CollectsItems).
	Ageing []*SchemaError
	// Protected reports that the service drops no family of the table, not even a family of the
	// fence.
	Protected bool
	// ChangeStream reports that the table exists, and that its change stream is missing or keeps
	// records for less than LeastChangesKept.
	ChangeStream bool
	// Tiered reports that the service moves old cells of the table to the infrequent access tier.
	Tiered bool
}

// Lacks returns the parts of a table's specification that the table lacks. It changes nothing. The
// error is the service's *Error, or joins a *SchemaError for each existing but unsuitable family.
func (a *Admin) Lacks(ctx context.Context, spec TableSpec) (Lacks, error) {
	info, err := a.tables.TableInfo(ctx, spec.Name)
	if status.Code(err) == codes.NotFound {
		l := Lacks{Table: true, View: spec.View != ""}
		if l.View {
			// A service that supports views answers NotFound for a view of a missing table.
			_, err := a.tables.AuthorizedViewInfo(ctx, spec.Name, spec.View)
			l.NoViews = status.Code(err) == codes.Unimplemented
			l.View = !l.NoViews
		}
		return l, nil
	}
	if err != nil {
		return Lacks{}, classifyControl("GetTable", err)
	}
	var (
		l      = Lacks{Protected: info.DeletionProtection == bigtable.Protected, Tiered: tiered(info), ChangeStream: spec.ChangeStream && keptBy(info) < LeastChangesKept}
		unfit  []error
		schema *SchemaError
	)
	for _, family := range spec.Families {
		n := slices.IndexFunc(info.FamilyInfos, func(f bigtable.FamilyInfo) bool { return f.Name == family.Name })
		if n < 0 {
			l.Families = append(l.Families, family)
		} else if err := family.judge(spec.Name, info.FamilyInfos[n]); err != nil {
			unfit = append(unfit, err)
		} else {
			l.Ageing = append(l.Ageing, family.ageing(spec.Name, info.FamilyInfos[n])...)
		}
	}
	if spec.View != "" {
		view, err := a.View(ctx, spec.Name, spec.View)
		switch {
		case errors.As(err, &schema):
			l.View = true
		case err != nil:
			unfit = append(unfit, err)
		default:
			l.NoViews = view.Note != ""
		}
	}
	return l, errors.Join(unfit...)
}

// tiered reports whether a table has a rule that moves cells to the infrequent access tier.
func tiered(info *bigtable.TableInfo) bool {
	return info.TieredStorageConfig != nil && info.TieredStorageConfig.InfrequentAccess != nil
}
