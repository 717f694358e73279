package sink

import (
	"context"
	"maps"
	"slices"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// MappedFamilies are the families of the table that are not ours: those that the mapping writes and readers want.
func (s TableSpec) MappedFamilies() []string {
	var out []string
	for _, f := range s.Families {
		if !IsOwn(f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// View is what is known of an authorized view.
type View struct {
	// Families are those that it shows a column of, sorted.
	Families []string
	// Note says why it cannot be told, for the operator; empty if it can.
	Note string
}

// View looks at an authorized view of a table. Errors are *SchemaError if it does not exist, *Error for what the service refuses;
// where the service knows no views, as emulators do not, the answer has a note instead.
func (a *Admin) View(ctx context.Context, table, view string) (View, error) {
	info, err := a.tables.AuthorizedViewInfo(ctx, table, view)
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound:
		return View{}, &SchemaError{Problem: MissingView, Table: table, View: view}
	case codes.Unimplemented:
		return View{Note: "the service has no authorized views (an emulator?)"}, nil
	default:
		return View{}, classifyControl("GetAuthorizedView", err)
	}
	subset, ok := info.AuthorizedView.(*bigtable.SubsetViewInfo)
	if !ok {
		return View{}, nil
	}
	return View{Families: slices.Sorted(maps.Keys(subset.FamilySubsets))}, nil
}

// DropView removes an authorized view of a table. That it is not there, or that the service knows no
// views, is no error.
func (a *Admin) DropView(ctx context.Context, table, view string) error {
	err := a.tables.DeleteAuthorizedView(ctx, table, view)
	switch status.Code(err) {
	case codes.OK, codes.NotFound, codes.Unimplemented:
		return nil
	}
	return classifyControl("DeleteAuthorizedView", err)
}

// prepareView makes the table's view if it is missing. One that exists is its owner's business: it only shows less or more.
func (a *Admin) prepareView(ctx context.Context, spec TableSpec, create bool, made *Made) error {
	name := spec.Name + ":" + spec.View
	_, err := a.tables.AuthorizedViewInfo(ctx, spec.Name, spec.View)
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Unimplemented:
		made.NoViews = append(made.NoViews, name)
		return nil
	case codes.NotFound:
	default:
		return classifyControl("GetAuthorizedView", err)
	}
	if !create {
		return &SchemaError{Problem: MissingView, Table: spec.Name, View: spec.View}
	}
	subset := &bigtable.SubsetViewConf{}
	subset.AddRowPrefix([]byte("")) // the empty prefix is every row, and every column of a family
	for _, family := range spec.MappedFamilies() {
		subset.AddFamilySubsetQualifierPrefix(family, []byte(""))
	}
	err = a.tables.CreateAuthorizedView(ctx, &bigtable.AuthorizedViewConf{TableID: spec.Name, AuthorizedViewID: spec.View, AuthorizedView: subset})
	switch status.Code(err) {
	case codes.OK:
		made.Views = append(made.Views, name)
	case codes.AlreadyExists: // another worker was faster
	default:
		return classifyControl("CreateAuthorizedView", err)
	}
	return nil
}
