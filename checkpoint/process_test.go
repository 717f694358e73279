package checkpoint_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// A process is shown while it beats, until it leaves. One that died is forgotten a day later, by
// another one's next beat.
func TestProcesses(t *testing.T) {
	p := &place{t, virtual.NewWorld(1, begin, true), &checkpointtest.Memory{}}
	if err := p.world.Run(100*time.Hour, func(ctx context.Context) {
		on, a := p.worker("a")
		_, b := p.worker("b")
		seen := func(want ...string) {
			t.Helper()
			found, err := a.Processes(ctx)
			check(t, err)
			if !slices.EqualFunc(found, want, func(f checkpoint.Process, name string) bool { return f.Worker == name }) {
				t.Errorf("seen are %+v, want %v", found, want)
			}
		}
		seen()
		check(t, a.RemoveProcess(ctx)) // it has shown nothing yet
		check(t, a.ShowProcess(on.Context(), checkpoint.RoleStandby))
		check(t, b.ShowProcess(ctx, checkpoint.RoleStandby))
		seen("a", "b")
		p.sleep(ctx, 15*time.Second)
		check(t, a.ShowProcess(on.Context(), checkpoint.RoleStandby))
		if found, err := b.Processes(ctx); err != nil || !found[0].WrittenAt.Equal(begin.Add(15*time.Second)) || !found[1].WrittenAt.Equal(begin) {
			t.Errorf("%+v, %v", found, err)
		}
		check(t, a.ShowProcess(ctx, checkpoint.RoleIdle))
		if found, err := b.Processes(ctx); err != nil || found[0].Role != checkpoint.RoleIdle || found[1].Role != checkpoint.RoleStandby {
			t.Errorf("%+v, %v", found, err)
		}
		check(t, a.RemoveProcess(ctx))
		seen("b")
		p.sleep(ctx, 24*time.Hour-16*time.Second)
		check(t, a.ShowProcess(ctx, checkpoint.RoleStandby))
		seen("a", "b")
		p.sleep(ctx, time.Second)
		check(t, a.ShowProcess(ctx, checkpoint.RoleStandby))
		seen("a")
	}); err != nil {
		t.Fatal(err)
	}
}
