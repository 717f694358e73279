package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// assign looks at the ledger again and again and takes every shard that is free, and now and then one of a worker that holds more, until
// stop ends, or nothing is left to do: with Once when all tables are drained, and for a table that was dropped long ago. Then it calls finish. It
// returns when the last shard is given up.
func (t *table) assign(stop, ctx context.Context, finish func()) error {
	g := task.NewGroup(ctx, 0)
	held := nameSet{names: map[string]bool{}}
	defer t.shares.forget(t.source)
	watch := t.Ledger.NewWatch()
	waits := once(t.events.Waits)
	for stop.Err() == nil && g.Context().Err() == nil {
		var v view
		err := t.retry(g.Context(), "look at the ledger", func(ctx context.Context) (err error) {
			v, err = t.attempt(ctx)
			return err
		})
		if err == nil {
			err = t.take(stop, g, &held, watch, v, waits)
		}
		if err != nil {
			if err := t.end(err); err != nil {
				g.Fail(err)
			}
			break
		}
		t.report(ctx, v)
		if t.Once && t.reportDrained(ctx, v) || t.longGone(v, t.leaving(ctx)) {
			finish()
			break
		}
		_ = t.bell.Wait(stop, t.Timing.Pass)
	}
	return g.Wait()
}

// view is the ledger as it was read in one pass.
type view struct {
	state  checkpoint.TableState
	shards []checkpoint.Shard
	listed time.Time // Once: when the last whole listing was of, where it matters; see listed
	over   bool      // what the board said of the end of the table's stream, before the rest was read
}

// attempt looks at the ledger once. The loop turns with every attempt, whatever becomes of it: an outage of the target is nothing that a
// restart of this process would mend. What is read here meanwhile still ages, or is given up as its leases end.
func (t *table) attempt(ctx context.Context) (view, error) {
	t.events.Tick()
	defer t.events.Tick()
	over := t.board.isOver()
	v, err := t.look(ctx)
	v.over = over && v.state.Suspended.Reason == GoneReason
	if err == nil && t.Once {
		v.listed, err = t.listed(ctx, v)
	}
	if err != nil {
		t.board.settle(nil) // whether another worker reads them cannot be known
		t.tellLag(ctx)
	}
	return v, err
}

// listed is when the last whole listing was of. It is read only where a shard ended a day ago without known children, which is rare: before that
// no listing shows that it has none.
func (t *table) listed(ctx context.Context, v view) (time.Time, error) {
	now := t.Ledger.ServiceTime(ctx)
	ended := func(s checkpoint.Shard) bool { return !s.AwaitsChildren(now) }
	if !slices.ContainsFunc(checkpoint.Unfollowed(v.state, v.shards, time.Time{}), ended) {
		return time.Time{}, nil
	}
	listings, err := t.Ledger.Listings(ctx, t.source, v.state.Label)
	return listings.At, err
}

// look reads the table's rows, and makes sure that they are still the ledger and the mapping this process was started with.
func (t *table) look(ctx context.Context) (view, error) {
	if err := t.Ledger.Check(ctx); err != nil {
		return view{}, err
	}
	state, _, err := t.Ledger.Table(ctx, t.source)
	if err != nil {
		return view{}, err
	}
	if state.MappingHash != t.MappingHash {
		return view{}, checkpoint.ErrMappingChanged
	}
	t.Floors.raise(t.source, state.Generation)
	shards, err := t.Ledger.Shards(ctx, t.source)
	return view{state: state, shards: shards}, err
}

// take leases what is free and starts a task for each lease.
func (t *table) take(stop context.Context, g *task.Group, held *nameSet, watch *checkpoint.Watch, v view, waits waiter) error {
	if v.state.Listed == 0 {
		return nil // until the stream was listed as a whole, the hops are not settled
	}
	free, others := watch.Look(v.shards, v.state, task.Mono(g.Context()))
	waits(t.source, OfShards, len(others), t.Ledger.Lease())
	for _, shard := range free {
		if err := t.lease(stop, g, held, shard, v); err != nil {
			return err
		}
	}
	return t.even(stop, g, held, others, v)
}

// waiter is told of leases that others hold.
type waiter func(table string, of Leases, leases int, wait time.Duration)

// once tells of the leases of the first look alone: later ones were taken by workers that run.
func once(tell waiter) waiter {
	looked := false
	return func(table string, of Leases, leases int, wait time.Duration) {
		if !looked && leases > 0 {
			tell(table, of, leases, wait)
		}
		looked = true
	}
}

// lease takes one shard and starts a task for it, unless one of ours is still at it. The error is only what ends the process.
func (t *table) lease(stop context.Context, g *task.Group, held *nameSet, shard checkpoint.Available, v view) error {
	id := shard.Shard.ID
	if !held.add(id) {
		return nil
	}
	lease, err := t.Ledger.Take(g.Context(), shard.Shard, shard.Parent)
	t.events.Tick() // there may be many to take, and each may have to wait for an answer that does not come
	if err != nil {
		held.remove(id)
		if fatal(err) {
			return err
		}
		if !errors.Is(err, checkpoint.ErrTaken) {
			t.events.Retry(t.source, "take a lease", t.Timing.Pass, err)
		}
		return nil
	}
	g.Go("hold "+id, func(work context.Context) error {
		defer t.nudge.Ring()
		defer t.bell.Ring()
		defer held.remove(id)
		return t.hold(stop, work, lease, v.state)
	})
	return nil
}

// report tells the events how the table stands.
func (t *table) report(ctx context.Context, v view) {
	states := map[checkpoint.State]int{checkpoint.Waiting: 0, checkpoint.Reading: 0, checkpoint.Done: 0, checkpoint.Gap: 0}
	for _, s := range v.shards {
		states[s.State]++
	}
	t.events.Ledger(v.state, states)
	t.board.settle(v.shards)
	t.tellLag(ctx)
}

// tellLag tells how far behind this worker is with what it reads of the table, or takes that back when it reads nothing.
func (t *table) tellLag(ctx context.Context) {
	served := t.Ledger.ServiceTime(ctx)
	now := served
	if now.IsZero() {
		now = task.Now(ctx)
	}
	if lag, known := t.board.lag(now, task.Mono(ctx)); known {
		t.events.Lag(t.source, lag, t.board.headroom(served, lag))
	} else {
		t.events.NotReading(t.source)
	}
}

// drained tells whether nothing is left to do for now: the table is loaded, or cannot be; every open shard is read, here or by another worker, and
// has been giving empty pages for a while; and of none that ended is it unknown what follows. It is a
// heuristic: DynamoDB tells no end of an open shard. Of a table that was dropped meanwhile there is nothing to copy, and nothing follows its last shards.
func (t *table) drained(v view, mono time.Duration) bool {
	if t.board.isAside() {
		return true // what the ledger says may be of before, and over
	}
	if v.state.Listed == 0 || !v.over && t.Copy && !v.state.Loaded() && !v.state.NeedsLoad {
		return false
	}
	if !v.over && len(checkpoint.Unfollowed(v.state, v.shards, v.listed)) > 0 {
		return false
	}
	drained := true
	for _, s := range v.shards {
		switch {
		case s.Label != v.state.Label:
		case s.Reopenable(v.state) || s.Undeclared(v.state):
			return false
		case s.Finished():
		case s.Owner == t.Ledger.Worker() && t.board.idle(s.ID, t.Timing, mono):
		case s.Owner != t.Ledger.Worker() && t.board.idleElsewhere(s, t.Timing, t.Ledger.Lease()/3, mono):
		default:
			// The others are looked at all the same, so that all are waited for at the same time: of a shard that another worker reads, the time
			// for which nothing was found counts from the first look at it.
			drained = false
		}
	}
	return drained
}

// reportDrained reports how the table stands, and tells whether the run is over.
func (t *table) reportDrained(ctx context.Context, v view) bool {
	drained := func() bool { return t.drained(v, task.Mono(ctx)) }
	return t.drain.report(t.source, drained(), drained)
}

// nameSet is a set of names that several tasks use: the shards of a table that this worker holds or is about to, or the tables that joined.
type nameSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func (s *nameSet) add(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[name] {
		return false
	}
	s.names[name] = true
	return true
}

func (s *nameSet) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

func (s *nameSet) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names) == 0
}

func (s *nameSet) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
}
