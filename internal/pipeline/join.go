package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// discovery is what a run with Once waits for besides tables, none of which is called so.
const discovery = ""

// joining lets the tables of patterns join.
type joining struct {
	*engine.Common // of no table
	discover       func(ctx context.Context, followed func(source string) bool) (engine.Discovery, error)
	every          time.Duration
	alone          bool // no table is named
	begin          func(engine.Spec)
	joined         *engine.NameSet    // the tables that did
	once           *engine.Completion // nil: it looks for ever
}

func newJoining(w *worker, begin func(engine.Spec), joined *engine.NameSet) *joining {
	return &joining{
		Common: w.Common(nil), discover: engine.StoppableDiscover(w.Discover, w.Calls), every: w.DiscoverEvery, alone: len(w.Tables) == 0,
		begin: begin, joined: joined, once: w.Completion,
	}
}

// unlessCutOver finds nothing while a cutover is under way: what shares a target with a table that
// is cut over must not join meanwhile. Once it is done no table joins any more, with ErrCutOver.
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

// join looks for tables, at once and then every DiscoverEvery, and begins to replicate those that
// are new, until a drain begins. With Once it looks until nothing has failed.
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

// admit looks for tables one time. What was found joins, or is suspended, even if others could not
// be looked at: it neither waits for them nor is lost with their error.
func (j *joining) admit(life engine.Lifecycle) error {
	j.tick()
	found, failed := j.discover(life.Work, j.joined.Has)
	if life.Draining() {
		return context.Cause(life.Drain) // begin nothing new
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
			continue // it has a coordinator, who looks for himself
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

// tickEvery is how often a worker that follows no table shows that it lives.
const tickEvery = 20 * time.Second

// rest waits until tables are looked for again. Meanwhile there may be no table whose loop shows
// that the process lives.
func (j *joining) rest(drain context.Context) {
	until := task.Mono(drain) + j.every
	for left := j.every; left > 0; left = until - task.Mono(drain) {
		j.tick()
		if task.Sleep(drain, min(left, tickEvery)) != nil {
			return
		}
	}
}

// tick tells that the process lives, unless there are tables whose loops do: it must be seen if
// those stand.
func (j *joining) tick() {
	if j.alone && j.joined.Empty() {
		j.Events.Tick()
	}
}
