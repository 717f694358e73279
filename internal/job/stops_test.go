package job

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A drain ends every wait of the loop: the wait for the next look, and the rest after a part that
// failed.
func TestADrainEndsTheWaits(t *testing.T) {
	for name, prepare := range map[string]func(ctx context.Context, k *counting){
		"nothing to do": func(ctx context.Context, k *counting) {
			k.change(ctx, func(s *checkpoint.TableState) { s.Load.Paused = checkpoint.PausedByOperator })
		},
		"a part that failed": func(_ context.Context, k *counting) {
			k.page = func(context.Context, checkpoint.Part) error { return errors.New("no table") }
		},
	} {
		play(t, 1, 1, func(ctx context.Context, k *counting) {
			k.table.Timing.Pass, k.table.Timing.List = time.Hour, time.Hour
			k.loop = New(k.table, k, k.loop.Options)
			prepare(ctx, k)
			began := task.Mono(ctx)
			k.check(k.run(ctx, 10*time.Second, 0, nil))
			if took := task.Mono(ctx) - began; took > 15*time.Second {
				t.Errorf("%s: the loop ended after %s", name, took)
			}
		})
	}
}

// A part that failed rests for the time between two listings. The time in which a child is listed
// is another.
func TestHowLongAPartRests(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, k *counting) {
		k.page = func(context.Context, checkpoint.Part) error { return errors.New("no table") }
		var waits []time.Duration
		k.table.Events.Retry = func(_, step string, wait time.Duration, _ error) { waits = append(waits, wait) }
		k.loop = New(k.table, k, k.loop.Options)
		k.check(k.run(ctx, 10*k.table.Timing.List, 0, nil))
		if n := len(k.failed); n < 9 || n > 10 || len(waits) != n || waits[0] != k.table.Timing.List {
			t.Errorf("%d failures in the time of 10 listings, and waits of %s", n, waits)
		}
	})
}

// If the rows of the parts cannot be read, no phase begins, and the failure is reported.
func TestPartsThatCannotBeRead(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, k *counting) {
		state, _, err := k.ledger.Table(ctx, "Orders")
		k.check(err)
		k.state = &state
		k.store.OnRead = func(context.Context, string) error { return errors.New("away") }
		k.check(k.run(ctx, 5*time.Second, 0, nil))
		k.store.OnRead = nil
		if len(k.did) > 0 || !slices.Contains(k.told, "look for parts to count") {
			t.Errorf("did %q, told %q", k.did, k.told)
		}
	})
}

// The parts of a phase are asked to stop before the phase ends, so that what a phase reports at its
// end comes after the request.
func TestTheDrainOfAPhaseComesBeforeItsEnd(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, k *counting) {
		s := &phaseLoop{Loop: k.loop, held: engine.NewHoldings(engine.Until(ctx), func() {})}
		s.drain, s.over = context.WithCancelCause(ctx)
		drained := false
		s.phase = endsAfter{counted{k}, func() { drained = s.drain.Err() != nil }}
		s.end()
		if !drained || s.phase != nil {
			t.Errorf("drained %v", drained)
		}
	})
}

type endsAfter struct {
	counted
	ended func()
}

func (e endsAfter) End() { e.ended() }
