package checkpoint_test

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// TestH69_BeatsNeverGoBack: while a lost target is claimed, the ledger keeps the beats of every
// target. Otherwise a worker that ends there would leave a ledger that has never beaten, and
// counters would repeat.
func TestH69_BeatsNeverGoBack(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		for _, further := range []string{"", "second"} {
			s := newTarget()
			at := checkpoint.Place{Store: s.Memory, Key: witnessKey, Further: further}
			for range 3 {
				_, _, err := a.Beat(ctx, source, at)
				check(t, err)
			}
			s.Clear()
			s.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, errNoAnswer }
			if err := a.Claim(ctx, source, at); err == nil {
				t.Error("claimed without an answer")
			}
			state := table(t, ctx, a)
			if beats := map[string]uint64{"": state.WitnessBeat, "second": state.WitnessBeats["second"]}[further]; beats != 3 {
				t.Errorf("of target %q %d beats are known", further, beats)
			}
		}
	})
}
