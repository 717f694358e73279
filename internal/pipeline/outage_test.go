package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// silentDatabase answers at the start, when the worker asks for the table's account, and no later
// request of the coordinator.
type silentDatabase struct {
	engine.Database
	asked bool
}

func (d *silentDatabase) Describe(context.Context, string) (backfill.Description, error) {
	if !d.asked {
		d.asked = true
		return backfill.Description{}, nil
	}
	return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.Unavailable, Err: errors.New("no")}
}

// turns records the longest time between two turns of the loops.
type turns struct{ last, longest time.Duration }

func (t *turns) tick(now time.Duration) { t.longest, t.last = max(t.longest, now-t.last), now }

// play runs a worker in virtual time for a duration, with the options of a pipeline.
func play(t *testing.T, store *checkpointtest.Memory, lasts time.Duration, o engine.Options, prepare func(ctx context.Context, l *checkpoint.Ledger) error) *turns {
	t.Helper()
	return runs(t, store, lasts, o, prepare, func(_ context.Context, err error) {
		if err != nil {
			t.Error(err)
		}
	})
}

// runs is like play for a worker that may end by itself, and returns its error.
func runs(t *testing.T, store *checkpointtest.Memory, lasts time.Duration, o engine.Options, prepare func(ctx context.Context, l *checkpoint.Ledger) error,
	ended func(ctx context.Context, err error)) *turns {
	t.Helper()
	world := virtual.NewWorld(1, time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), true)
	var seen turns
	err := world.Run(lasts+time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, store, "outage", checkpoint.Options{Worker: "w", ID: "l"})
		if err == nil {
			err = prepare(ctx, ledger)
		}
		if err != nil {
			t.Fatal(err)
		}
		o.Ledger, o.Floors = ledger, &engine.Floors{}
		o.Events.Tick = func() { seen.tick(task.Mono(ctx)) }
		limited, cancel := task.WithTimeout(ctx, lasts)
		defer cancel()
		ended(ctx, Run(limited, o))
		seen.tick(task.Mono(ctx))
	})
	if err != nil {
		t.Fatal(err)
	}
	return &seen
}

// begun prepares a ledger with one readable shard.
func begun(ctx context.Context, l *checkpoint.Ledger) error {
	_, err := l.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
		s.Generation, s.Adopted, s.Listed, s.Label, s.StreamARN = 7, 7, 7, "L", "arn/L"
		return nil
	})
	if err != nil {
		return err
	}
	return l.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", StreamARN: "arn/L", ID: "s", State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 7})
}

// liveWithin is how long the loops may go without a turn before the health check fails
// (admin.LiveWithin).
const liveWithin = time.Minute

// A restart would not fix an outage of the target, so the loops continue to turn. Figures that are
// no longer known are removed as soon as nothing is read, not only when the ledger answers again.
func TestAnOutageOfTheLedger(t *testing.T) {
	m := enginetest.OrdersMapping(t)
	down := func(ctx context.Context) error {
		if task.Mono(ctx) > 2*time.Minute {
			return errors.New("unavailable")
		}
		return nil
	}
	store := &checkpointtest.Memory{OnRead: func(ctx context.Context, _ string) error { return down(ctx) }}
	store.OnSwap = func(ctx context.Context, _ string, execute func() bool) (bool, error) {
		if err := down(ctx); err != nil {
			return false, err
		}
		return execute(), nil
	}
	var told, aged time.Duration
	known := false
	var clock context.Context
	o := engine.Options{
		Tables:   []engine.Spec{{Mapping: m}},
		Database: &silentDatabase{},
		Writer:   sink.NewWriter(sink.Options{}),
		Open:     func(string) cdc.Source { return enginetest.QuietShard{} },
		Witness: func(string) checkpoint.Store {
			return &checkpointtest.Memory{}
		},
		Events: engine.Events{
			Lag: func(_ string, lag, _ time.Duration) { known, aged = true, max(aged, lag) },
			NotReading: func(string) {
				if known {
					known, told = false, task.Mono(clock)
				}
			},
		},
	}
	seen := play(t, store, time.Hour, o, func(ctx context.Context, l *checkpoint.Ledger) error {
		clock = ctx
		return begun(ctx, l)
	})
	if seen.longest >= liveWithin {
		t.Errorf("no turn for %s", seen.longest)
	}
	if told < 2*time.Minute || told > 3*time.Minute || known {
		t.Errorf("that nothing is read was told after %s; the lag is still known: %t, the last was %s", told, known, aged)
	}
}

// oneChange is a shard with one change.
type oneChange struct{ cdc.Source }

func (oneChange) Seek(context.Context, string, cdc.Position) (cdc.Iterator, error) { return "i", nil }

func (oneChange) Read(ctx context.Context, _ cdc.Iterator) (cdc.Page, error) {
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("k")}})
	return cdc.Page{Next: "i", Changes: []cdc.Change{{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Time: task.Now(ctx), Keys: item, New: item}}}, nil
}

// A worker that the fence rejects releases the shard and its lease. If it renewed the lease without
// reading, no other worker could read the shard.
func TestWhatIsFencedLeavesItsShard(t *testing.T) {
	m := enginetest.OrdersMapping(t)
	var left []error
	o := engine.Options{
		Tables:   []engine.Spec{{Mapping: m}},
		Database: &silentDatabase{},
		Writer:   sink.NewWriter(sink.Options{Floor: func(string) uint32 { return 8 }}),
		Open:     func(string) cdc.Source { return oneChange{} },
		Witness:  func(string) checkpoint.Store { return &checkpointtest.Memory{} },
		Events:   engine.Events{ShardLeft: func(_, _ string, err error) { left = append(left, err) }},
	}
	play(t, &checkpointtest.Memory{}, 2*time.Minute, o, begun)
	if len(left) < 2 || !errors.Is(left[0], sink.ErrFenced) {
		t.Errorf("left %v", left)
	}
}
