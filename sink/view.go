package sink

import (
	"context"
	"maps"
	"slices"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// MappedFamilies returns the families of the table that the mapping writes, without replicator's.
func (s TableSpec) MappedFamilies() []string {
	var out []string
	for _, f := range s.Families {
		if !IsOwn(f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// View holds the known facts about an authorized view.
type View struct {
	// Families are the families from which the view shows a column, sorted.
	Families []string
	// Note explains why the families are unknown, for the operator. It is empty if they are known.
	Note string
}

// View reads an authorized view of a table. It returns *SchemaError if the view does not exist, and
// *Error if the service refuses the request. If the service does not support views, as on
// emulators, the result has a note instead.
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

// DropView removes an authorized view of a table. It returns nil if the view does not exist or the
// service does not support views.
func (a *Admin) DropView(ctx context.Context, table, view string) error {
	err := a.tables.DeleteAuthorizedView(ctx, table, view)
	switch status.Code(err) {
	case codes.OK, codes.NotFound, codes.Unimplemented:
		return nil
	}
	return classifyControl("DeleteAuthorizedView", err)
}

// prepareView creates the table's view if it is missing. It does not check an existing view,
// because the view can only show too much or too little.
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
	subset.AddRowPrefix([]byte("")) // the empty prefix selects every row, and every column of a family
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
