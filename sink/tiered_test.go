package sink_test

import (
	"context"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// A rule that moves old cells to another tier is reported. The emulator has no tiers, so the
// service's answer is played.
func TestTieredTables(t *testing.T) {
	rule := &adminpb.TieredStorageRule{Rule: &adminpb.TieredStorageRule_IncludeIfOlderThan{IncludeIfOlderThan: durationpb.New(30 * 24 * time.Hour)}}
	configs := map[string]*adminpb.TieredStorageConfig{"plain": nil, "cold": {InfrequentAccess: rule}}
	server, err := bttest.NewServer("127.0.0.1:0", grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		answer, err := h(ctx, req)
		if table, ok := answer.(*adminpb.Table); ok {
			for name, config := range configs {
				if table.GetName() == "projects/p/instances/i/tables/"+name {
					table.TieredStorageConfig = config
				}
			}
		}
		return answer, err
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	t.Setenv("BIGTABLE_EMULATOR_HOST", server.Addr)
	admin, err := sink.ConnectAdmin(t.Context(), sink.Instance{Project: "p", Instance: "i"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	for name, config := range configs {
		spec := sink.TargetSpec(name, 14*24*time.Hour, "d")
		if _, err := admin.Prepare(t.Context(), []sink.TableSpec{spec}, true); err != nil {
			t.Fatal(err)
		}
		if lacks, err := admin.Lacks(t.Context(), spec); err != nil || lacks.Tiered != (config != nil) {
			t.Errorf("%s: %+v, %v", name, lacks, err)
		}
	}
}
