package job

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// counting is a job whose parts are counted page by page. Its phases are those of a load.
type counting struct {
	*testing.T
	store  *checkpointtest.Memory
	ledger *checkpoint.Ledger
	table  *engine.Table
	source *enginetest.Answering
	loop   *Loop

	page     func(ctx context.Context, part checkpoint.Part) error          // nil: it succeeds
	taking   func(part checkpoint.Part) error                               // the same, before the lease
	work     func(life engine.Lifecycle, lease *checkpoint.PartLease) error // replaces the pages
	looking  func() error
	begin    func() error
	complete func() error
	halted   error // the cause of a clean stop

	state *checkpoint.TableState // replaces the ledger's record

	did       []string // phases begun and ended
	inHand    int
	most      int // maximum of parts held at once
	failed    []error
	told      []string // failed steps that were reported
	completed int
	paced     []checkpoint.Limits
	ramp      float64 // rows per second of all workers together
	ticks     int
}

// worker returns a worker of a table Orders, in generation 2, with a load of the given number of
// parts.
func worker(ctx context.Context, t *testing.T, store *checkpointtest.Memory, name string, atOnce, workers int) *counting {
	t.Helper()
	ledger, err := checkpoint.Open(ctx, store, "job", checkpoint.Options{Worker: name, ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{T: t, store: store, ledger: ledger, source: &enginetest.Answering{}}
	events := engine.Events{Tick: func() { c.ticks++ }, Retry: func(_, step string, _ time.Duration, _ error) { c.told = append(c.told, step) }}
	o := &engine.Options{Ledger: ledger, Floors: &engine.Floors{}, Database: c.source, Events: events.OrSilent(), Timing: engine.Timing{}.OrDefault(ledger.Lease())}
	c.table = engine.NewTable(engine.NewWorker(o, func(err error) { c.halted = err }), engine.Spec{Mapping: enginetest.OrdersMapping(t)})
	c.loop = New(c.table, c, Options{Verb: "count", AtOnce: atOnce, Workers: func() int { return workers }, Wake: &c.table.Wake.Loader})
	return c
}

// play runs a script with a job of the given number of parts, and one worker.
func play(t *testing.T, parts, atOnce int, script func(ctx context.Context, c *counting)) {
	t.Helper()
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(48*time.Hour, func(ctx context.Context) {
		c := worker(ctx, t, &checkpointtest.Memory{}, "w", atOnce, 1)
		c.change(ctx, func(s *checkpoint.TableState) {
			s.Generation = 2
			s.Load = checkpoint.Load{Generation: 2, Number: 1, Parts: parts, StartedAt: enginetest.ListingsBegin}
		})
		script(ctx, c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *counting) check(err error) {
	c.Helper()
	if err != nil {
		c.Error(err)
	}
}

func (c *counting) change(ctx context.Context, f func(*checkpoint.TableState)) {
	c.Helper()
	_, err := c.ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { f(s); return nil })
	c.check(err)
}

func (c *counting) parts(ctx context.Context) []checkpoint.Part {
	c.Helper()
	state, _, err := c.ledger.Table(ctx, "Orders")
	c.check(err)
	parts, err := c.ledger.PartsOf(ctx, state.LoadPart())
	c.check(err)
	return parts
}

// run lets the loop work for a duration, and calls after meanwhile.
func (c *counting) run(ctx context.Context, lasts time.Duration, after time.Duration, meanwhile func(ctx context.Context)) error {
	drain, cancel := task.WithTimeout(ctx, lasts)
	defer cancel()
	g := task.NewGroup(ctx, 0)
	if meanwhile != nil {
		g.Go("meanwhile", func(ctx context.Context) error {
			err := task.Sleep(ctx, after)
			meanwhile(ctx)
			return err
		})
	}
	err := c.loop.Run(engine.Lifecycle{Drain: drain, Work: ctx}, func(checkpoint.TableState) bool {
		return c.completed > 0
	})
	return errors.Join(err, g.Wait())
}

// done reports whether every part was counted to its end, once.
func (c *counting) done(ctx context.Context, total int) bool {
	sums := checkpoint.PartsDone(c.parts(ctx), total)
	return sums.Complete() && sums.Items == int64(total*pages)
}

func (c *counting) Look(ctx context.Context) (checkpoint.TableState, checkpoint.Part, error) {
	if c.looking != nil {
		if err := c.looking(); err != nil {
			return checkpoint.TableState{}, checkpoint.Part{}, err
		}
	}
	if c.state != nil {
		return *c.state, c.state.LoadPart(), nil
	}
	state, _, err := c.ledger.Table(ctx, "Orders")
	if err != nil || state.Load.Paused != "" {
		return state, checkpoint.Part{}, err
	}
	return state, state.LoadPart(), nil
}

func (c *counting) Begin(_ context.Context, state checkpoint.TableState, _ []checkpoint.Part) (Phase, error) {
	if c.begin != nil {
		if err := c.begin(); err != nil {
			return nil, err
		}
	}
	c.did = append(c.did, fmt.Sprint("begin ", state.Load.Number))
	return counted{c}, nil
}

func (c *counting) Pace(_ context.Context, _ checkpoint.TableState, limits checkpoint.Limits) float64 {
	c.paced = append(c.paced, limits)
	return c.ramp
}

func (c *counting) Failed(err error) { c.failed = append(c.failed, err) }

type counted struct{ *counting }

func (c counted) End() { c.did = append(c.did, "end") }

func (c counted) Complete(_ context.Context, state checkpoint.TableState, rows []checkpoint.Part) (checkpoint.TableState, error) {
	if len(rows) != state.Load.Parts {
		c.Errorf("complete with %d of %d rows", len(rows), state.Load.Parts)
	}
	if c.complete != nil {
		if err := c.complete(); err != nil {
			return state, err
		}
	}
	c.completed++
	return state, nil
}

func (c counted) Take(ctx context.Context, _ checkpoint.TableState, part checkpoint.Part) (*checkpoint.PartLease, Work, error) {
	if c.taking != nil {
		if err := c.taking(part); err != nil {
			return nil, nil, err
		}
	}
	lease, err := c.ledger.TakePart(ctx, part)
	return lease, func(life engine.Lifecycle) error {
		c.inHand++
		c.most = max(c.most, c.inHand)
		defer func() { c.inHand-- }()
		if c.work != nil {
			return c.work(life, lease)
		}
		to := lease.Part().PartProgress
		for ; to.Items < pages; to.Items++ {
			if life.Draining() {
				if err := lease.Commit(life.Work, to); err != nil {
					return err
				}
				return backfill.ErrDrained
			}
			if err := task.Sleep(life.Work, 400*time.Millisecond); err != nil {
				return context.Cause(life.Work)
			}
			if c.page != nil {
				if err := c.page(life.Work, lease.Part()); err != nil {
					return err
				}
			}
		}
		return lease.Finish(life.Work, to)
	}, err
}
