package plan

import (
	"context"
	"errors"
	"testing"

	"cloud.google.com/go/bigtable/bttest"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// What a ping does not find is the app profile or the instance. Where the profile cannot be looked
// at, nothing else says which, and plan reports it.
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
	open := preflight.Untold("")
	if _, err := in.examineProfile(t.Context()); !errors.As(err, &open) {
		t.Errorf("an emulator does not know profiles: %v", err)
	}
	in.notFound = errors.New("no such instance")
	if _, err := in.examineProfile(t.Context()); !errors.Is(err, in.notFound) {
		t.Errorf("%v, want %v", err, in.notFound)
	}
}
