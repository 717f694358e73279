package preflight

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A start does not end because Bigtable throttles or fails once. A persistent error is quoted, and
// one that no retry changes ends the start immediately.
func TestReachAsksAgain(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		times  int32 // how often it is returned
		code   string
		asked  int32
	}{
		"it answers":         {nil, 0, "", 1},
		"no table yet":       {status.Error(codes.NotFound, "No tables found for instance projects/p/instances/i"), 9, "", 1},
		"throttled once":     {status.Error(codes.ResourceExhausted, "busy"), 1, "", 2},
		"fails once":         {status.Error(codes.Internal, "internal"), 1, "", 2},
		"API not enabled":    {status.Error(codes.PermissionDenied, "Cloud Bigtable API has not been used in project 1 before or it is disabled."), 9, diag.TargetDenied, 1},
		"no such instance":   {status.Error(codes.NotFound, "Instance projects/p/instances/i not found"), 9, diag.TargetNotFound, 1},
		"cluster is missing": {status.Error(codes.FailedPrecondition, "The instance has no serving cluster"), 9, diag.TargetUnreachable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			server, err := bttest.NewServer("127.0.0.1:0", grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
				if strings.HasSuffix(info.FullMethod, "/PingAndWarm") && asked.Add(1) <= c.times {
					return nil, c.answer
				}
				return h(ctx, req)
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			t.Setenv("BIGTABLE_EMULATOR_HOST", server.Addr)
			p := &Prober{Out: io.Discard, Cfg: &config.Config{Target: config.Target{Project: "p", Instance: "i", AppProfile: "default"}}}
			ok := p.Ask(t.Context(), ProbeTime, "Bigtable", p.reach)
			defer func() { _ = p.Target.Close() }()
			if ok != (c.code == "") || asked.Load() != c.asked {
				t.Errorf("%v after %d pings: %v", ok, asked.Load(), p.Failed)
			}
			if c.code != "" && (!diag.Has(p.Failed[0], c.code) || !strings.Contains(p.Failed[0].Error(), status.Convert(c.answer).Message())) {
				t.Errorf("%v, want %s with what was said", p.Failed, c.code)
			}
		})
	}
}
