package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// discovery is the name under which a run with Once waits for the search for tables. No table has
// this name.
const discovery = ""

// joining makes the tables of patterns join.
type joining struct {
	*engine.Common // belongs to no table
	discover       func(ctx context.Context, followed func(source string) bool) (engine.Discovery, error)
	every          time.Duration
	alone          bool // the configuration has only patterns
	begin          func(engine.Spec)
	joined         *engine.NameSet    // tables that have joined
	once           *engine.Completion // nil: the search never ends
}

func newJoining(w *worker, begin func(engine.Spec), joined *engine.NameSet) *joining {
	return &joining{
		Common: w.Common(nil), discover: engine.StoppableDiscover(w.Discover, w.Calls), every: w.DiscoverEvery, alone: len(w.Tables) == 0,
		begin: begin, joined: joined, once: w.Completion,
	}
}

// unlessCutOver makes the search find nothing during a cutover, because a table that shares a
// target with one that is being cut over must not join. After the switch no table joins: the search
// fails with ErrCutOver.
func unlessCutOver(ledger *checkpoint.Ledger, discover func(context.Context, func(string) bool) (engine.Discovery, error)) func(context.Context, func(string) bool) (engine.Discovery, error) {
	return func(ctx context.Context, followed func(string) bool) (engine.Discovery, error) {
		switch c, err := ledger.Cutover(ctx); {
		case err != nil || c.Step.Active():
			return engine.Discovery{}, err
		case c.Step.Switched():
			return engine.Discovery{}, c.Left()
		}
		return discover(ctx, followed)
	}
}

// join searches for tables, first immediately and then every DiscoverEvery, and starts to replicate
// new ones, until a drain begins. With Once it searches until no part of a search has failed.
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

// admit searches for tables once. Tables that were found join or are suspended immediately, even if
// others could not be checked and the search fails.
func (j *joining) admit(life engine.Lifecycle) error {
	j.tick()
	found, failed := j.discover(life.Work, j.joined.Has)
	if life.Draining() {
		return context.Cause(life.Drain) // begin nothing new
	}
	if errors.Is(failed, checkpoint.ErrCutOver) {
		return failed // no search was made, so none has failed
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
			continue // its coordinator checks it
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

// tickEvery is how often a worker that follows no table signals that it is alive.
const tickEvery = 20 * time.Second

// rest waits until the next search. Meanwhile there may be no table whose loop signals that the
// process is alive.
func (j *joining) rest(drain context.Context) {
	until := task.Mono(drain) + j.every
	for left := j.every; left > 0; left = until - task.Mono(drain) {
		j.tick()
		if task.Sleep(drain, min(left, tickEvery)) != nil {
			return
		}
	}
}

// tick signals that the process is alive, unless there are tables: if their loops stop, that must
// show.
func (j *joining) tick() {
	if j.alone && j.joined.Empty() {
		j.Events.Tick()
	}
}
