package sink_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	longrunning "cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// views answers for a service that has authorized views, unlike bttest.
func views(made map[string]*adminpb.AuthorizedView, refuse codes.Code) grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		switch r := req.(type) {
		case *adminpb.GetAuthorizedViewRequest:
			if v := made[r.Name]; v != nil {
				return v, nil
			}
			return nil, status.Error(codes.NotFound, "")
		case *adminpb.CreateAuthorizedViewRequest:
			if refuse != codes.OK {
				return nil, status.Error(refuse, "")
			}
			made[r.Parent+"/authorizedViews/"+r.AuthorizedViewId] = r.AuthorizedView
			return &longrunning.Operation{Done: true}, nil
		}
		return handler(ctx, req)
	})
}

// The view shows every row and column of the mapped families, and no cell of replicator.
func TestPrepareCreatesTheView(t *testing.T) {
	ctx := context.Background()
	made := map[string]*adminpb.AuthorizedView{}
	e := startEmulator(t, views(made, codes.OK))
	spec := sink.TargetSpec("t", 14*day, "d", "e")
	if _, err := e.admin.Prepare(ctx, []sink.TableSpec{spec}, true); err != nil {
		t.Fatal(err)
	}
	spec.View = "app"
	_, err := e.admin.Prepare(ctx, []sink.TableSpec{spec}, false)
	var schema *sink.SchemaError
	if !errors.As(err, &schema) || schema.Problem != sink.MissingView || schema.Table != "t" || schema.View != "app" {
		t.Fatal(err)
	}
	if _, err := e.admin.View(ctx, "t", "app"); !errors.As(err, &schema) {
		t.Fatal(err)
	}
	got, err := e.admin.Prepare(ctx, []sink.TableSpec{spec}, true)
	if err != nil || !slices.Equal(got.Views, []string{"t:app"}) || len(got.Tables)+len(got.Families) != 0 {
		t.Fatal(got, err)
	}
	subset := made["projects/p/instances/i/tables/t/authorizedViews/app"].GetSubsetView()
	if diff := cmp.Diff([][]byte{{}}, subset.GetRowPrefixes()); diff != "" {
		t.Error(diff)
	}
	for _, family := range []string{"d", "e"} {
		if diff := cmp.Diff([][]byte{{}}, subset.GetFamilySubsets()[family].GetQualifierPrefixes()); diff != "" {
			t.Error(family, diff)
		}
	}
	if view, err := e.admin.View(ctx, "t", "app"); err != nil || !slices.Equal(view.Families, []string{"d", "e"}) {
		t.Error(view, err)
	}
	if got, err := e.admin.Prepare(ctx, []sink.TableSpec{spec}, true); err != nil || len(got.Views) != 0 {
		t.Error(got, err)
	}
}

func TestPrepareWithoutViews(t *testing.T) {
	ctx := context.Background()
	spec := sink.TargetSpec("t", 14*day, "d")
	spec.View = "app"
	// The emulator does not support views, and says so.
	e := startEmulator(t)
	got, err := e.admin.Prepare(ctx, []sink.TableSpec{spec}, true)
	if err != nil || !slices.Equal(got.NoViews, []string{"t:app"}) || len(got.Views) != 0 {
		t.Error(got, err)
	}
	if view, err := e.admin.View(ctx, "t", "app"); err != nil || view.Note == "" {
		t.Error(view, err)
	}
	// Another worker is faster; a permission is missing.
	if got, err := startEmulator(t, views(nil, codes.AlreadyExists)).admin.Prepare(ctx, []sink.TableSpec{spec}, true); err != nil || len(got.Views) != 0 {
		t.Error(got, err)
	}
	if _, err := startEmulator(t, views(nil, codes.PermissionDenied)).admin.Prepare(ctx, []sink.TableSpec{spec}, true); !sink.Is(err, sink.Denied) {
		t.Error(err)
	}
}
