package load

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A fast load begins at the rate that its target accepts, counted from the load's beginning, and its
// workers share the rate. A guarded load and a sweep have no such limit.
func TestAFastLoadBeginsSlowly(t *testing.T) {
	for name, c := range map[string]struct {
		mode checkpoint.LoadMode
		slow bool
	}{"fast": {checkpoint.AutoLoad, true}, "guarded": {checkpoint.GuardedLoad, false}} {
		fastLoads(t, func(ctx context.Context, s *loadScene) {
			var asked []time.Duration
			s.LoadMode = c.mode
			s.RampUp = func(_ context.Context, elapsed time.Duration) float64 {
				asked = append(asked, elapsed)
				return 0.1 // a row in ten seconds
			}
			s.Reset()
			began := task.Mono(ctx)
			s.check(s.work(ctx, 20*time.Minute, true))
			state := s.state(ctx)
			took := state.Load.DoneAt.Sub(state.Load.StartedAt)
			if state.Load.Fast != c.slow || !state.Loaded() {
				t.Fatalf("%s: %+v", name, state.Load)
			}
			// The first row needs no wait.
			if least := time.Duration(s.shop.items-1) * 10 * time.Second; c.slow && took < least || !c.slow && took > time.Minute {
				t.Errorf("%s: %d items took %s", name, s.shop.items, took)
			}
			if (len(asked) > 0) != c.slow {
				t.Errorf("%s: asked %d times for the rate", name, len(asked))
			}
			for _, elapsed := range asked {
				if elapsed < 0 || elapsed > task.Mono(ctx)-began {
					t.Errorf("%s: %s after its beginning", name, elapsed)
				}
			}
		})
	}
}
