package plan

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// If a ping finds nothing, the app profile or the instance is missing. If the profile cannot be
// read, nothing shows which, and plan reports this.
func TestWhatAPingDoesNotFindIsTold(t *testing.T) {
	server, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	t.Setenv("BIGTABLE_EMULATOR_HOST", server.Addr)
	in := &Input{Prober: &preflight.Prober{}}
	in.Cfg = &config.Config{Target: config.Target{Project: "p", Instance: "i", AppProfile: "default"}}
	if in.Target, err = preflight.ConnectTarget(context.WithoutCancel(t.Context()), in.Cfg); err != nil {
		t.Fatal(err)
	}
	defer in.Target.Close()
	in.to = toOf(in.Target)
	open := preflight.Untold("")
	if _, err := in.examineProfile(t.Context()); !errors.As(err, &open) {
		t.Errorf("an emulator does not know profiles: %v", err)
	}
	in.notFound = errors.New("no such instance")
	if _, err := in.examineProfile(t.Context()); !errors.Is(err, in.notFound) {
		t.Errorf("%v, want %v", err, in.notFound)
	}
}

// If a ping does not find the instance, the check of the instance fails. If it does not find the
// app profile, that check passes.
func TestAMissingInstanceIsNoMissingProfile(t *testing.T) {
	for said, atInstance := range map[string]bool{
		"Instance projects/p/instances/i not found":                         true,
		"App profile projects/p/instances/i/appProfiles/default not found.": false,
	} {
		server, err := bttest.NewServer("127.0.0.1:0", grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			if strings.HasSuffix(info.FullMethod, "/PingAndWarm") {
				return nil, status.Error(codes.NotFound, said)
			}
			return h(ctx, req)
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		t.Setenv("BIGTABLE_EMULATOR_HOST", server.Addr)
		in := &Input{Prober: &preflight.Prober{Cfg: &config.Config{Target: config.Target{Project: "p", Instance: "i", AppProfile: "default"}}}}
		_, err = in.examineEndpoint(t.Context())
		defer func() { _ = in.Target.Close() }()
		if diag.Has(err, diag.TargetNotFound) != atInstance || diag.Has(in.notFound, diag.TargetNotFound) == atInstance {
			t.Errorf("%s: %v, and later %v", said, err, in.notFound)
		}
	}
}

// A plan reports that run will refuse a table whose target another migration writes, and ends with
// an error. For a followed table it says what does not start.
func TestAPlanShowsAnotherMigration(t *testing.T) {
	for begun, what := range map[bool]string{false: "run will refuse table Orders: target table shop", true: "no orphan rows are removed for table Orders: target table shop"} {
		other := checkpoint.Stranger{Target: "shop", Source: "Returns", Pipeline: "two"}
		w := takenWarning(preflight.Taken{StrangerError: &engine.StrangerError{Table: "Orders", Other: other}, Begun: begun})
		if w.Code != diag.TargetTaken || !strings.HasPrefix(w.What, what) || w.Fix == "" {
			t.Errorf("%+v", w)
		}
		d := &Document{Warnings: diag.List{w}}
		if refused := d.refusal(Question{}); (refused == nil) != begun {
			t.Errorf("begun %t: %v", begun, refused)
		}
	}
}
