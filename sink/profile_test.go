package sink_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// Lacks returns everything together, and changes nothing.
func TestLacks(t *testing.T) {
	ctx := context.Background()
	e := startEmulator(t, views(map[string]*adminpb.AuthorizedView{}, codes.OK))
	spec := sink.TargetSpec("t", 14*day, "d", "e")
	spec.View = "app"
	for range 2 {
		if got, err := e.admin.Lacks(ctx, spec); err != nil || !got.Table || !got.View || got.NoViews || len(got.Families) != 0 {
			t.Fatal(got, err)
		}
	}
	conf := &bigtable.TableConf{TableID: "t", ColumnFamilies: map[string]bigtable.Family{
		"d": {}, sink.LiveFamily: {GCPolicy: bigtable.MaxAgePolicy(day)}, sink.GoneFamily: {GCPolicy: bigtable.MaxAgePolicy(day)}}}
	if err := e.rawAdmin(t).CreateTableFromConf(ctx, conf); err != nil {
		t.Fatal(err)
	}
	got, err := e.admin.Lacks(ctx, spec)
	if got.Table || !got.View || len(got.Families) != 1 || got.Families[0].Name != "e" {
		t.Error(got)
	}
	for _, family := range []string{sink.LiveFamily, sink.GoneFamily} {
		if err == nil || !strings.Contains(err.Error(), "family "+family+":") {
			t.Error(family, err)
		}
	}
	good := sink.TargetSpec("u", 14*day, "d")
	good.View = "app"
	if _, err := e.admin.Prepare(ctx, []sink.TableSpec{good}, true); err != nil {
		t.Fatal(err)
	}
	if got, err := e.admin.Lacks(ctx, good); err != nil || got.Table || got.View || got.NoViews || len(got.Families) != 0 {
		t.Error(got, err)
	}
	// A service without views.
	plain := startEmulator(t)
	for range 2 {
		if got, err := plain.admin.Lacks(ctx, good); err != nil || got.View || !got.NoViews {
			t.Error(got, err)
		}
		if _, err := plain.admin.Prepare(ctx, []sink.TableSpec{good}, true); err != nil {
			t.Fatal(err)
		}
	}
}

// answering makes a service answer requests of one kind with a function.
func answering[R any](f func(R) (any, error)) grpc.ServerOption {
	return grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if r, ok := req.(R); ok {
			return f(r)
		}
		return handler(ctx, req)
	})
}

func TestCreateProfile(t *testing.T) {
	ctx := context.Background()
	var made *adminpb.CreateAppProfileRequest
	e := startEmulator(t, answering(func(r *adminpb.CreateAppProfileRequest) (any, error) {
		if made != nil {
			return nil, status.Error(codes.AlreadyExists, "")
		}
		made = r
		return r.AppProfile, nil
	}))
	for range 2 {
		if err := e.admin.CreateProfile(ctx, "c1"); err != nil {
			t.Fatal(err)
		}
	}
	single := made.GetAppProfile().GetSingleClusterRouting()
	if made.AppProfileId != "one" || single.GetClusterId() != "c1" || !single.GetAllowTransactionalWrites() || made.IgnoreWarnings {
		t.Error(made)
	}
	if err := startEmulator(t).admin.CreateProfile(ctx, "c1"); !sink.Is(err, sink.Permanent) {
		t.Error(err)
	}
}

func TestClusters(t *testing.T) {
	ctx := context.Background()
	scaled := &adminpb.Cluster_ClusterConfig_{ClusterConfig: &adminpb.Cluster_ClusterConfig{ClusterAutoscalingConfig: &adminpb.Cluster_ClusterAutoscalingConfig{
		AutoscalingLimits: &adminpb.AutoscalingLimits{MinServeNodes: 2, MaxServeNodes: 9}, AutoscalingTargets: &adminpb.AutoscalingTargets{}}}}
	for name, c := range map[string]struct {
		answer *adminpb.ListClustersResponse
		err    error
		want   []sink.Cluster
		note   string
		failed bool
	}{
		"two": {answer: &adminpb.ListClustersResponse{Clusters: []*adminpb.Cluster{
			{Name: "projects/p/instances/i/clusters/a", Location: "projects/p/locations/us-central1-b", ServeNodes: 3, DefaultStorageType: adminpb.StorageType_HDD},
			{Name: "projects/p/instances/i/clusters/b", Location: "projects/p/locations/us-east1-c", ServeNodes: 2, Config: scaled},
		}}, want: []sink.Cluster{{Name: "a", Zone: "us-central1-b", Nodes: 3, HDD: true}, {Name: "b", Zone: "us-east1-c", Nodes: 2, MaxNodes: 9}}},
		"partial":       {answer: &adminpb.ListClustersResponse{FailedLocations: []string{"x"}}, note: "some clusters"},
		"no permission": {err: status.Error(codes.PermissionDenied, ""), note: "bigtable.clusters.list"},
		"no instance":   {err: status.Error(codes.NotFound, ""), failed: true},
	} {
		e := startEmulator(t, answering(func(*adminpb.ListClustersRequest) (any, error) { return c.answer, c.err }))
		got, note, err := e.admin.Clusters(ctx)
		if !slices.Equal(got, c.want) || !strings.Contains(note, c.note) || (note == "") != (c.note == "") || (err != nil) != c.failed {
			t.Errorf("%s: %+v, %q, %v", name, got, note, err)
		}
	}
	if _, note, err := startEmulator(t).admin.Clusters(ctx); err != nil || note == "" {
		t.Error(note, err)
	}
}

func TestPermissions(t *testing.T) {
	ctx := context.Background()
	wanted := []string{"bigtable.tables.get", "bigtable.tables.create"}
	e := startEmulator(t, answering(func(r *iampb.TestIamPermissionsRequest) (any, error) {
		if r.Resource != "projects/p/instances/i" || !slices.Equal(r.Permissions, wanted) {
			return nil, errors.New("not what was to be asked")
		}
		return &iampb.TestIamPermissionsResponse{Permissions: r.Permissions[:1]}, nil
	}))
	if has, note, err := e.admin.Permissions(ctx, wanted); err != nil || note != "" || !slices.Equal(has, wanted[:1]) {
		t.Error(has, note, err)
	}
	if has, note, err := startEmulator(t).admin.Permissions(ctx, wanted); err != nil || note == "" || has != nil {
		t.Error(has, note, err)
	}
	refused := answering(func(*iampb.TestIamPermissionsRequest) (any, error) {
		return nil, status.Error(codes.InvalidArgument, "unknown")
	})
	if _, note, err := startEmulator(t, refused).admin.Permissions(ctx, wanted); err != nil || note == "" {
		t.Error(note, err)
	}
	denied := answering(func(*iampb.TestIamPermissionsRequest) (any, error) {
		return nil, status.Error(codes.PermissionDenied, "")
	})
	if _, _, err := startEmulator(t, denied).admin.Permissions(ctx, wanted); !sink.Is(err, sink.Denied) {
		t.Error(err)
	}
}
