package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// discovery is what a run with Once waits for besides tables, none of which is called so.
const discovery = ""

// joining lets the tables of patterns join.
type joining struct {
	*common  // of no table
	discover func(ctx context.Context, followed func(source string) bool) (Discovery, error)
	every    time.Duration
	alone    bool // no table is named
	begin    func(Table)
	joined   *nameSet    // the tables that did
	once     *completion // nil: it looks for ever
}

func newJoining(w *worker, begin func(Table), joined *nameSet) *joining {
	return &joining{
		common: w.common(nil), discover: stoppableDiscover(w.Discover, w.calls), every: w.DiscoverEvery, alone: len(w.Tables) == 0,
		begin: begin, joined: joined, once: w.once,
	}
}

// unlessCutOver finds nothing while a cutover is under way: what shares a target with a table that
// is cut over must not join meanwhile.
func unlessCutOver(ledger *checkpoint.Ledger, discover func(context.Context, func(string) bool) (Discovery, error)) func(context.Context, func(string) bool) (Discovery, error) {
	return func(ctx context.Context, followed func(string) bool) (Discovery, error) {
		if c, err := ledger.Cutover(ctx); err != nil || c.Step.Active() {
			return Discovery{}, err
		}
		return discover(ctx, followed)
	}
}

// join looks for tables, at once and then every DiscoverEvery, and begins to replicate those that
// are new, until a drain begins. With Once it looks until nothing has failed.
func (j *joining) join(life lifecycle) error {
	for !life.draining() {
		err := j.retry(life, "look for tables", func(context.Context) error { return j.admit(life) })
		if err != nil {
			if life.draining() || life.work.Err() != nil {
				return nil
			}
			return j.end(err)
		}
		if j.once != nil {
			j.once.report(discovery, true, nil)
			return nil
		}
		j.rest(life.drain)
	}
	return nil
}

// admit looks for tables one time. What was found joins, or is suspended, even if others could not
// be looked at: it neither waits for them nor is lost with their error.
func (j *joining) admit(life lifecycle) error {
	j.tick()
	found, failed := j.discover(life.work, j.joined.has)
	if life.draining() {
		return context.Cause(life.drain) // begin nothing new
	}
	j.events.Discovered(failed)
	for _, t := range found.Tables {
		if source := t.Mapping.Source; j.joined.add(source) {
			j.events.Joined(source)
			j.begin(t)
		}
	}
	for _, r := range found.Refused {
		if j.joined.has(r.Table) {
			continue // it has a keeper, who looks for himself
		}
		err := j.retry(life, "set a table aside", func(ctx context.Context) error {
			return suspend(ctx, j.ledger, j.events, r.Table, r.Reason)
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
	if j.alone && j.joined.empty() {
		j.events.Tick()
	}
}
