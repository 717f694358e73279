package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// roundsPerWorld is the number of rounds with the same services and ledger. Split shards are never
// merged, so a world grows. Each new world begins with a copy, which its first round disturbs.
const roundsPerWorld = 10

// Options of a run.
type Options struct {
	Rounds int
	// Seed decides the faults, their times, and the application's writes.
	Seed uint64
	// Smoke plays a short round in which one worker is killed and nothing else happens.
	Smoke bool
	// Relay runs one worker that publishes changes to a topic and four that apply them, instead of
	// three workers that do both.
	Relay bool
	// DualWrites runs processes of an application that write both stores, beside two workers.
	DualWrites bool
	// Cutover cuts over the table that DualWrites writes.
	Cutover bool
	// Rollback moves an application to the target and back.
	Rollback bool
	// Program is the built program. Services is an executable that calls Serve if ServiceVariable
	// is set.
	Program, Services string
	// Dynamo and Bigtable are commands of independent services that replace the embedded ones: see
	// Dynoxide and BigtableEmulator. Rounds need the embedded ones.
	Dynamo, Bigtable []string
	// Dir receives the logs, in a directory for each world. Logs of successful worlds are removed.
	Dir string
	Log io.Writer

	lasts time.Duration // how long the application writes, if long
}

// Run runs the rounds. The error says what differs, where the logs are, and how to repeat the
// world.
func Run(ctx context.Context, o Options) error {
	began := time.Now()
	totals := map[string]int{}
	for done := 0; done < o.Rounds; done += roundsPerWorld {
		seed := o.Seed + uint64(done/roundsPerWorld)
		n := 0
		err := inWorld(ctx, o, seed, func(w *world) error {
			for ; n < min(roundsPerWorld, o.Rounds-done); n++ {
				if err := w.round(ctx, n, o.Smoke); err != nil {
					return err
				}
			}
			err := w.finish(ctx)
			for what, count := range w.counts {
				totals[what] += count
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("round %d: %w\nto run it again: REPLICATOR_PROCESS_SEED=%d REPLICATOR_PROCESS_ROUNDS=%d go test ./test/processes -run %s -v -timeout 30m",
				n+1, err, seed, n+1, o.test())
		}
	}
	_, _ = fmt.Fprintf(o.Log, "%d rounds in %.0f s, 0 differences: %s\n", o.Rounds, time.Since(began).Seconds(), listed(totals))
	return nil
}

// listed formats counts in the order of their names.
func listed(counts map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, counts[what]))
	}
	return strings.Join(parts, ", ")
}

// round injects faults while the application writes, and then compares the stores.
func (w *world) round(ctx context.Context, n int, smoke bool) error {
	w.begin()
	p := newPlan(w.seed, n)
	if smoke && !w.relayed {
		busiest, err := w.busiest(ctx)
		if err != nil {
			return err
		}
		p = smokePlan(busiest)
	}
	began := w.writers.made.Load()
	g, gctx := errgroup.WithContext(ctx)
	writing, stop := context.WithCancel(gctx)
	defer stop()
	g.Go(func() error { return w.writers.run(writing, w.seed<<16+uint64(n)) })
	g.Go(func() error { return w.disturb(writing, n, disturbLeast, disturbMost) })
	g.Go(func() error { return w.watch(writing) })
	g.Go(func() error {
		defer stop()
		if w.relayed {
			return w.troubleRelay(gctx, n, smoke)
		}
		return w.trouble(gctx, p)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	wrote := time.Since(w.began)
	w.note("the application has stopped writing")
	if err := w.dynamo.control(ctx, "clear-faults", nil, nil); err != nil {
		return err
	}
	found, err := w.settle(ctx)
	if err != nil {
		return err
	}
	items, _, tombstones := sum(found)
	_, _ = fmt.Fprintf(w.log, "seed %d round %d: %d changes in %.1f s; equal after %.1f s: %d items, %d tombstones, 0 differences\n",
		w.seed, n+1, w.writers.made.Load()-began, wrote.Seconds(), (time.Since(w.began) - wrote).Seconds(), items, tombstones)
	return nil
}

// busiest waits until a worker holds leases, and returns the worker with the most.
func (w *world) busiest(ctx context.Context) (int, error) {
	for {
		found, most := 0, 0
		for i, n := range w.workers {
			leases, err := n.leases(ctx)
			if err != nil {
				return 0, err
			}
			if leases > most {
				found, most = i, leases
			}
		}
		if most > 0 {
			return found, nil
		}
		if err := errors.Join(w.failed(), wait(ctx, 100*time.Millisecond)); err != nil {
			return 0, err
		}
	}
}

// failed returns an error if a worker ended by itself.
func (w *world) failed() error {
	for _, n := range w.workers {
		if err := n.unexpected(); err != nil {
			return err
		}
	}
	return nil
}

// watch ends the round if a worker ends by itself.
func (w *world) watch(ctx context.Context) error {
	for wait(ctx, 100*time.Millisecond) == nil {
		if err := w.failed(); err != nil {
			return err
		}
	}
	return nil
}

// trouble injects the faults of the plan.
func (w *world) trouble(ctx context.Context, p plan) error {
	if p.alone {
		return w.kill(ctx, w.workers[p.killed], p.kill)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.kill(gctx, w.workers[p.killed], p.kill) })
	g.Go(func() error { return w.freeze(gctx, w.workers[p.frozen], p.freeze, p.held) })
	g.Go(func() error { return w.sever(gctx, w.workers[p.severed], p.sever, p.partition) })
	if err := g.Wait(); err != nil {
		return err
	}
	return w.restart(ctx, w.workers[p.stopped])
}

// before is the time for which a worker's target is slow or held before the worker is killed or
// frozen, so that it has begun work that it cannot finish. Followers of an empty shard poll again
// after a second.
const before = 1200 * time.Millisecond

// kill kills a worker and restarts it. Its target is slow before that, so the worker is usually in
// the middle of a page.
func (w *world) kill(ctx context.Context, n *worker, when span) error {
	if err := wait(ctx, when.at); err != nil {
		return err
	}
	n.target.Inject(Slow)
	if err := wait(ctx, before); err != nil {
		return err
	}
	n.kill()
	w.note("%s is killed", n.name)
	w.count("kills")
	if err := errors.Join(n.target.Heal(ctx, Deliver), wait(ctx, when.lasts)); err != nil {
		return err
	}
	w.note("%s is started again", n.name)
	return n.start()
}

// freeze freezes a worker for longer than its leases last.
func (w *world) freeze(ctx context.Context, n *worker, when span, held bool) error {
	if err := errors.Join(wait(ctx, when.at), n.ready(ctx)); err != nil {
		return err
	}
	fault := Slow
	if held {
		fault = Hold
		w.count("freezes with requests under way")
	}
	n.target.Inject(fault)
	if err := wait(ctx, before); err != nil {
		return err
	}
	p := n.current().cmd.Process
	if err := freeze(p); err != nil {
		return err
	}
	w.note("%s is frozen, its target %s", n.name, fault)
	w.count("freezes")
	err := wait(ctx, when.lasts)
	// In-flight requests arrive while the worker cannot cancel them.
	err = errors.Join(err, n.target.Heal(ctx, Deliver), wait(ctx, slowness))
	w.note("%s goes on", n.name)
	return errors.Join(err, thaw(p))
}

// sever injects a network fault at a worker.
func (w *world) sever(ctx context.Context, n *worker, when span, what partition) error {
	// A worker that cannot reach both ends at its start ends immediately, and its service manager
	// would restart it.
	if err := errors.Join(wait(ctx, when.at), n.ready(ctx)); err != nil {
		return err
	}
	var ends []*Proxy
	if what.side != targetEnd {
		ends = append(ends, n.input())
	}
	if what.side != sourceEnd {
		ends = append(ends, n.target)
	}
	for _, end := range ends {
		end.Inject(what.fault)
	}
	w.note("the network of %s: %s", n.name, what)
	w.count("network " + what.fault.String())
	err := wait(ctx, when.lasts)
	for _, end := range ends {
		err = errors.Join(err, end.Heal(ctx, what.cure))
	}
	w.note("the network of %s is well", n.name)
	return err
}

// restart stops a worker cleanly, and starts it again.
func (w *world) restart(ctx context.Context, n *worker) error {
	if err := n.ready(ctx); err != nil {
		return err
	}
	w.note("%s is asked to stop", n.name)
	if err := n.stop(ctx); err != nil {
		return err
	}
	w.note("%s has stopped and is started again", n.name)
	w.count("clean stops")
	return n.start()
}

// maxOpenShards is the limit of a table: above it, shards roll and do not split.
const maxOpenShards = 8

// disturbLeast and disturbMost bound the time between two faults of the source in a round.
const disturbLeast, disturbMost = 400 * time.Millisecond, 1600 * time.Millisecond

// disturb injects faults into the source until ctx ends: shards split and roll, iterators expire,
// calls are throttled and fail.
func (w *world) disturb(ctx context.Context, n int, least, most time.Duration) error {
	r := rand.New(rand.NewPCG(w.seed, uint64(n)+1<<43))
	for wait(ctx, between(r, least, most)) == nil {
		table := tables[r.IntN(len(tables))].name
		var err error
		switch d := r.IntN(100); {
		case d < 60:
			err = w.reshard(ctx, r, table)
		case d < 70:
			err = w.inject(ctx, "expired iterators", "expire-iterators", map[string]any{"table": table})
		case d < 80:
			err = w.fail(ctx, dynamodbtest.Fault{Operation: "GetRecords", Table: table, Error: "ProvisionedThroughputExceededException", Times: 1 + r.IntN(15)})
		case d < 85:
			err = w.fail(ctx, dynamodbtest.Fault{Operation: "GetRecords", Table: table, Times: 1 + r.IntN(5)})
		case d < 90:
			err = w.fail(ctx, dynamodbtest.Fault{Operation: "GetShardIterator", Table: table, Error: "LimitExceededException", Times: 1 + r.IntN(5)})
		case d < 95:
			err = w.inject(ctx, "repeated pages", "repeat-pages", map[string]any{"table": table, "count": 1 + r.IntN(2)})
		default:
			err = w.inject(ctx, "clock steps", "record-time-offset", map[string]any{"table": table, "duration": fmt.Sprintf("%ds", -r.IntN(3))})
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (w *world) inject(ctx context.Context, what, control string, parameters map[string]any) error {
	w.note("%s of %s", what, parameters["table"])
	w.count(what)
	return w.dynamo.control(ctx, control, parameters, nil)
}

func (w *world) fail(ctx context.Context, f dynamodbtest.Fault) error {
	w.note("%d calls of %s fail for %s", f.Times, f.Operation, f.Table)
	w.count("failing " + f.Operation)
	return w.dynamo.control(ctx, "fail", map[string]any{"fault": f}, nil)
}

// reshard splits or rolls an open shard.
func (w *world) reshard(ctx context.Context, r *rand.Rand, table string) error {
	var shards []dynamodbtest.Shard
	if err := w.dynamo.control(ctx, "shards", map[string]any{"table": table}, &shards); err != nil {
		return err
	}
	shards = slices.DeleteFunc(shards, func(s dynamodbtest.Shard) bool { return !s.Open })
	if len(shards) == 0 {
		return fmt.Errorf("table %s has no open shard", table)
	}
	parameters := map[string]any{"table": table, "shard": shards[r.IntN(len(shards))].ID}
	if len(shards) < maxOpenShards && r.IntN(2) == 0 {
		return w.inject(ctx, "splits", "split", parameters)
	}
	return w.inject(ctx, "rolls", "roll", parameters)
}
