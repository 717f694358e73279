package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// discovery is the name under which a run with Once waits for the search for tables. No table can
// have this name.
const discovery = ""

// joining searches for tables that match patterns, and starts to replicate them.
type joining struct {
	*engine.Common // a Common that belongs to no single table
	discover       func(ctx context.Context, followed func(source string) bool) (engine.Discovery, error)
	every          time.Duration
	alone          bool // the configuration names no table, only patterns
	begin          func(engine.Spec)
	joined         *engine.NameSet    // tables that have joined
	once           *engine.Completion // nil if the search never ends
}

func newJoining(w *worker, begin func(engine.Spec), joined *engine.NameSet) *joining {
	return &joining{
		Common: w.Common(nil), discover: engine.StoppableDiscover(w.Discover, w.Calls), every: w.DiscoverEvery, alone: len(w.Tables) == 0,
		begin: begin, joined: joined, once: w.Completion,
	}
}

// unlessCutOver wraps a search, so that no table joins a group that is being cut over or was cut
// over.
func unlessCutOver(ledger *checkpoint.Ledger, discover func(context.Context, func(string) bool) (engine.Discovery, error)) func(context.Context, func(string) bool) (engine.Discovery, error) {
	return func(ctx context.Context, followed func(string) bool) (engine.Discovery, error) {
		found, failed := discover(ctx, followed)
		if len(found.Tables) == 0 {
			return found, failed
		}
		all, err := ledger.Cutovers(ctx)
		if err != nil {
			return engine.Discovery{}, errors.Join(err, failed)
		}
		var join []engine.Spec
		for _, t := range found.Tables {
			joins, refused := t.MayJoin(all)
			if joins {
				join = append(join, t)
			} else if refused != "" {
				found.Refused = append(found.Refused, engine.Refusal{Table: t.Mapping.Source, Reason: refused})
			}
		}
		found.Tables = join
		return found, failed
	}
}

// join searches for tables at once, and then every DiscoverEvery until a drain begins. It starts to
// replicate the new tables. With Once, it ends after the first complete search.
func (j *joining) join(life engine.Lifecycle) error {
	for !life.Draining() {
		err := j.Retry(life, "look for tables", func(context.Context) error { return j.admit(life) })
		if err != nil {
			if life.Draining() || life.Work.Err() != nil {
				return nil
			}
			return j.End(err)
		}
		if j.once != nil {
			j.once.Report(discovery, true, nil)
			return nil
		}
		j.rest(life.Drain)
	}
	return nil
}

// admit searches for tables once. The tables that it finds join or are suspended immediately, even
// if other tables could not be checked and the search fails.
func (j *joining) admit(life engine.Lifecycle) error {
	j.tick()
	found, failed := j.discover(life.Work, j.joined.Has)
	if life.Draining() {
		return context.Cause(life.Drain) // a drain has begun, so no table joins
	}
	j.Events.Discovered(failed)
	for _, t := range found.Tables {
		if source := t.Mapping.Source; j.joined.Add(source) {
			j.Events.Joined(source)
			j.begin(t)
		}
	}
	for _, r := range found.Refused {
		if j.joined.Has(r.Table) {
			continue // the table's coordinator checks it
		}
		err := j.Retry(life, "suspend a table", func(ctx context.Context) error {
			return engine.Suspend(ctx, j.Ledger, j.Events, r.Table, r.Reason)
		})
		if err != nil {
			return errors.Join(err, failed)
		}
	}
	return failed
}

// tickEvery is the interval at which a worker without tables signals that it is alive.
const tickEvery = 20 * time.Second

// rest waits until the next search. If there are no tables, it regularly signals that the process
// is alive, because no table's loop does.
func (j *joining) rest(drain context.Context) {
	until := task.Mono(drain) + j.every
	for left := j.every; left > 0; left = until - task.Mono(drain) {
		j.tick()
		if task.Sleep(drain, min(left, tickEvery)) != nil {
			return
		}
	}
}

// tick signals that the process is alive. If there are tables, it does nothing: only their loops
// may signal, so that a stopped loop is noticed.
func (j *joining) tick() {
	if j.alone && j.joined.Empty() {
		j.Events.Tick()
	}
}
