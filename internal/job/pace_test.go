package job

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Each worker has a share of the read units in proportion to its parts. An operator's limit
// overrides the configured one. A share of an on-demand capacity is no limit.
func TestPartsShareReadUnits(t *testing.T) {
	units := func(n float64) checkpoint.Limits { return checkpoint.Limits{Read: &checkpoint.ReadLimit{Units: n}} }
	share := checkpoint.Limits{Read: &checkpoint.ReadLimit{Share: 0.25}}
	for name, c := range map[string]struct {
		configured, operator checkpoint.Limits
		capacity             int64
		mine, all            int
		lasts                time.Duration // at least, for 12 pages of half a unit; at most twice that
	}{
		"none":                          {},
		"units":                         {configured: units(0.5), mine: 2, all: 2, lasts: 8 * time.Second},
		"half of the units":             {configured: units(1), mine: 1, all: 2, lasts: 8 * time.Second},
		"a share":                       {configured: share, capacity: 2, mine: 1, all: 1, lasts: 8 * time.Second},
		"a share of what is on demand":  {configured: share, mine: 1, all: 1},
		"an operator's units, of which": {configured: share, operator: units(0.5), lasts: 8 * time.Second},
	} {
		play(t, 1, 1, func(ctx context.Context, c0 *counting) {
			c0.loop.bounds, c0.source.Described.ReadCapacity = func() checkpoint.Limits { return c.configured }, c.capacity
			c0.check(c0.loop.pace(ctx, &source{}, checkpoint.TableState{Limits: c.operator}, c.mine, c.all))
			began := task.Mono(ctx)
			for range 12 {
				_, _, err := c0.loop.Limits.Take(ctx, ctx, 1, 0.5)
				c0.check(err)
			}
			if took := task.Mono(ctx) - began; took < c.lasts || took > 2*c.lasts {
				t.Errorf("%s: it took %s", name, took)
			}
		})
	}
}

// The capacity of the source is read again from time to time. If the source does not answer, the
// last value applies. Until it is known, nothing is read.
func TestTheCapacityIsAskedForOnceInAWhile(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		c.loop.bounds = func() checkpoint.Limits { return checkpoint.Limits{Read: &checkpoint.ReadLimit{Share: 0.5}} }
		at := &source{}
		look := func(capacity int64, err error) error {
			c.source.Described.ReadCapacity, c.source.Err = capacity, err
			return c.loop.pace(ctx, at, checkpoint.TableState{}, 1, 1)
		}
		silent := errors.New("no answer")
		if err := look(0, silent); !errors.Is(err, silent) {
			t.Errorf("before it is known: %v", err)
		}
		for _, step := range []struct {
			after    time.Duration
			capacity int64
			err      error
			want     int64
		}{{0, 10, nil, 10}, {time.Second, 20, nil, 10}, {time.Minute, 20, nil, 20}, {30 * time.Second, 40, nil, 20}, {time.Minute, 30, silent, 20}, {time.Minute, 30, nil, 30}} {
			c.check(task.Sleep(ctx, step.after))
			c.check(look(step.capacity, step.err))
			if at.capacity != step.want {
				t.Errorf("%+v: %d", step, at.capacity)
			}
		}
		c.check(task.Sleep(ctx, time.Minute))
		if err := look(0, checkpoint.ErrLedgerExchanged); !errors.Is(err, checkpoint.ErrLedgerExchanged) {
			t.Errorf("a fatal answer: %v", err)
		}
	})
}

// A worker's share of the read units is its parts divided by the parts of all workers. Done parts
// read nothing, so they have no share.
func TestTheShareOfAWorkerThatHoldsFewParts(t *testing.T) {
	for _, c := range []struct {
		done        int // of the three parts of the other worker
		least, most time.Duration
	}{{0, 9 * time.Second, 15 * time.Second}, {2, 4 * time.Second, 7 * time.Second}} {
		play(t, 4, 1, func(ctx context.Context, w *counting) {
			v := worker(ctx, t, w.store, "v", 3, 2)
			for index := range 3 {
				l, err := v.ledger.TakePart(ctx, checkpoint.Part{Source: "Orders", Generation: 2, Number: 1, Phase: checkpoint.PhaseCopy, Index: index, Total: 4})
				w.check(err)
				if index < c.done {
					w.check(l.Finish(ctx, checkpoint.PartProgress{Items: pages}))
				}
			}
			w.loop.bounds = func() checkpoint.Limits { return checkpoint.Limits{Read: &checkpoint.ReadLimit{Units: 2}} }
			s := &phaseLoop{Loop: w.loop, held: engine.NewHoldings(engine.Until(ctx), func() {}), watch: w.ledger.NewWatch()}
			for range 2 { // takes the fourth part, and then has a quarter or half of the units
				_, err := s.look(ctx)
				w.check(err)
			}
			began := task.Mono(ctx)
			for range 12 {
				_, _, err := w.loop.Limits.Take(ctx, ctx, 1, 0.5)
				w.check(err)
			}
			if took := task.Mono(ctx) - began; took < c.least || took > c.most {
				t.Errorf("with %d done parts it took %s", c.done, took)
			}
			s.end()
			w.check(s.held.Tasks.Wait())
		})
	}
}

// In every pass the job gets the current limits; an operator's override the configured ones. The
// capacity of the source is read only if the limit is a percentage of it, and no part is leased
// before it is known.
func TestWhatAKindHearsOfLimits(t *testing.T) {
	for _, shared := range []bool{false, true} {
		play(t, 1, 1, func(ctx context.Context, c *counting) {
			read := checkpoint.ReadLimit{Units: 1000}
			if shared {
				read = checkpoint.ReadLimit{Share: 0.5}
			}
			rows := 7.0
			c.loop.bounds = func() checkpoint.Limits { return checkpoint.Limits{Read: &read} }
			c.change(ctx, func(s *checkpoint.TableState) { s.Limits.RowsPerSecond = &rows })
			c.source.Err = errors.New("no answer")
			c.check(c.run(ctx, 20*time.Second, 0, nil))
			if shared == c.done(ctx, 1) || shared && (len(c.parts(ctx)) > 0 || len(c.told) == 0) {
				t.Errorf("shared %v: %+v, told %q", shared, c.parts(ctx), c.told)
			}
			for _, l := range c.paced {
				if l.Read != &read || l.RowsPerSecond == nil || *l.RowsPerSecond != rows {
					t.Errorf("shared %v: %+v", shared, l)
				}
			}
			if len(c.paced) < 2 {
				t.Errorf("shared %v: paced %d times", shared, len(c.paced))
			}
			c.source.Err = nil
			c.check(c.run(ctx, time.Minute, 0, nil))
			if !c.done(ctx, 1) {
				t.Errorf("shared %v: %+v", shared, c.parts(ctx))
			}
		})
	}
}

// Another job reads the capacity again, because it may have been scaled since.
func TestAnotherJobAsksForTheCapacity(t *testing.T) {
	play(t, 1, 1, func(ctx context.Context, c *counting) {
		c.loop.bounds = func() checkpoint.Limits { return checkpoint.Limits{Read: &checkpoint.ReadLimit{Share: 0.5}} }
		c.source.Described.ReadCapacity = 1000
		s := &phaseLoop{Loop: c.loop, held: engine.NewHoldings(engine.Until(ctx), func() {}), watch: c.ledger.NewWatch()}
		look := func(number uint32, capacity int64) {
			c.change(ctx, func(t *checkpoint.TableState) { t.Load.Number = number })
			_, err := s.look(ctx)
			c.check(err)
			if s.source.capacity != capacity {
				t.Errorf("job %d: %d", number, s.source.capacity)
			}
		}
		look(1, 1000)
		c.source.Described.ReadCapacity = 10
		look(1, 1000)
		look(2, 10)
		s.end()
		c.check(s.held.Tasks.Wait())
	})
}

// Each worker has a share of the rate at which a job begins, in proportion to its parts, beside its
// own limits.
func TestPartsShareTheRampUp(t *testing.T) {
	for name, c := range map[string]struct {
		ramp      float64
		mine, all int
		lasts     time.Duration
	}{"none": {0, 1, 1, 0}, "alone": {2, 3, 3, 5 * time.Second}, "a third": {3, 1, 3, 11 * time.Second}} {
		play(t, 1, 1, func(ctx context.Context, c0 *counting) {
			c0.loop.bounds, c0.ramp = func() checkpoint.Limits { return checkpoint.Limits{} }, c.ramp
			c0.check(c0.loop.pace(ctx, &source{}, checkpoint.TableState{}, c.mine, c.all))
			began := task.Mono(ctx)
			for range 12 {
				_, _, err := c0.loop.Limits.Take(ctx, ctx, 1, 0)
				c0.check(err)
			}
			if took := task.Mono(ctx) - began; took < c.lasts-time.Second || took > c.lasts+time.Second {
				t.Errorf("%s: it took %s", name, took)
			}
		})
	}
}
