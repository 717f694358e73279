package job

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// A part of the copy that takes long does not keep the part with the same index of the sweep from
// being leased.
func TestPartsOfTheNextPhaseReplaceThoseInHand(t *testing.T) {
	play(t, 2, 2, func(ctx context.Context, c *counting) {
		c.page = func(ctx context.Context, p checkpoint.Part) error {
			if p.Phase == checkpoint.PhaseCopy && p.Index == 0 {
				return task.Sleep(ctx, time.Hour)
			}
			return nil
		}
		c.check(c.run(ctx, 30*time.Second, time.Second, func(ctx context.Context) {
			c.change(ctx, func(s *checkpoint.TableState) {
				s.Load.DoneAt, s.Load.Sweep = enginetest.ListingsBegin, checkpoint.Sweep{BegunAt: enginetest.ListingsBegin, Pass: 1, Parts: 2}
			})
		}))
		if !c.done(ctx, 2) || c.parts(ctx)[0].Phase != checkpoint.PhaseSweep(1) {
			t.Errorf("%+v", c.parts(ctx))
		}
	})
}

// A part that cannot be acquired is reported with the time to the next pass, in which it is tried.
func TestWhenAPartIsTriedAgain(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, k *counting) {
		var waits []time.Duration
		k.table.Events.Retry = func(_, step string, wait time.Duration, _ error) { waits = append(waits, wait) }
		k.loop = New(k.table, k, k.loop.Options)
		refused := 0
		k.taking = func(checkpoint.Part) error {
			if refused++; refused > 2 {
				return nil
			}
			return errors.New("no answer")
		}
		k.check(k.run(ctx, time.Minute, 0, nil))
		if pass := k.table.Timing.Pass; len(waits) != 2 || waits[0] != pass || waits[1] != pass || pass == k.table.Timing.List {
			t.Errorf("waits of %s", waits)
		}
	})
}

// The ledger shows why the work on a part is retried, until it succeeds.
func TestAPartShowsTheTroubleOfItsWork(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		begun := task.Mono(ctx)
		c.work = func(life engine.Lifecycle, lease *checkpoint.PartLease) error {
			err := c.table.Retry(life, "count a page", func(ctx context.Context) error {
				if task.Mono(ctx)-begun < 40*time.Second {
					return &cdc.Error{Op: "Scan", Reason: cdc.Throttled, Err: errors.New("slow down")}
				}
				return nil
			})
			return errors.Join(err, lease.Finish(life.Work, checkpoint.PartProgress{Items: pages}))
		}
		var between []checkpoint.Part
		c.check(c.run(ctx, 5*time.Minute, 30*time.Second, func(ctx context.Context) { between = c.parts(ctx) }))
		if len(between) != 1 || between[0].Trouble.Cause == "" || between[0].Owner != "w" {
			t.Errorf("it shows %+v", between)
		}
		if !c.done(ctx, 1) || c.parts(ctx)[0].Trouble.Cause != "" {
			t.Errorf("at the end it shows %+v", c.parts(ctx))
		}
	})
}

// A part that failed is not renewed any more, so that its lease ends even if it cannot be released.
func TestAFailedPartIsNotHeldForever(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		c.page = func(_ context.Context, p checkpoint.Part) error {
			if p.Epoch > 1 {
				return nil
			}
			c.store.OnSwap = func(context.Context, string, func() bool) (bool, error) {
				c.store.OnSwap = nil
				return false, errors.New("no answer")
			}
			return errors.New("the table is not there")
		}
		c.check(c.run(ctx, 10*time.Minute, 0, nil))
		if !c.done(ctx, 1) || c.parts(ctx)[0].Epoch != 2 || len(c.failed) != 1 {
			t.Errorf("%+v, failed %v", c.parts(ctx), c.failed)
		}
	})
}

// If the work and the release both end the process, the error of the work says how.
func TestTheErrorOfTheWorkCountsFirst(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		c.page = func(context.Context, checkpoint.Part) error {
			c.store.OnSwap = func(context.Context, string, func() bool) (bool, error) {
				c.store.OnSwap = nil
				return false, checkpoint.ErrLedgerExchanged
			}
			return checkpoint.ErrMappingChanged
		}
		if err := c.run(ctx, time.Minute, 0, nil); err != nil || !errors.Is(c.halted, checkpoint.ErrMappingChanged) {
			t.Errorf("it ends with %v, halted by %v", err, c.halted)
		}
	})
}
