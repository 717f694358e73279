package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Discovery is what was found of the tables that patterns stand for.
type Discovery struct {
	// Tables can be replicated. Those that are followed already are passed over.
	Tables []Table
	// Refused cannot be, for the reasons given.
	Refused []Refusal
}

// Refusal is a table that was found and that the mapping, say, does not fit.
type Refusal struct{ Table, Reason string }

// GoneReason is why a table is suspended that does not exist any more.
const GoneReason = "the table does not exist any more; its rows stay, as of the last change that was read"

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

// lookedAfter is for how long a table that was dropped is looked after still: its stream can be
// read for half of that, and clocks differ.
const lookedAfter = 2 * cdc.Retention

// longGone tells whether nothing is left to do for a table of a pattern, which was dropped and has
// no stream any more. One of its name that is created later joins anew. What the ledger says may be
// of before that: the keeper here must have found the same.
func (a *assigner) longGone(v view, now time.Time) bool {
	aside := v.state.Suspended
	return a.once == nil && a.tracker.isSuspended() && aside.Reason == GoneReason && now.Sub(aside.Since) > lookedAfter
}

// leaving is the time that longGone is judged by. A worker that never held a shard or the keeper
// lease has heard no answer of the source; nothing is claimed by leaving, so its own clock will do.
func (a *assigner) leaving(ctx context.Context) time.Time {
	if now := a.ledger.ServiceTime(ctx); !now.IsZero() {
		return now
	}
	return task.Now(ctx)
}

// suspend notes in the ledger that a table cannot be followed, once for each reason.
func suspend(ctx context.Context, ledger *checkpoint.Ledger, events Events, source, reason string) error {
	now := ledger.ServiceTime(ctx)
	if now.IsZero() {
		now = task.Now(ctx).UTC() // no answer came yet; it is for people then
	}
	told := true
	_, err := ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
		told = s.Suspended.Reason == reason
		if !told {
			s.Suspended = checkpoint.Suspension{Since: now, Reason: reason}
		}
		return nil
	})
	if err == nil && !told {
		events.Suspended(source, reason)
	}
	return err
}

var errGone = errors.New("the table does not exist any more")

// gone tells from a description, or the lack of it, whether a table was dropped or is about to be.
func gone(d backfill.Description, err error) bool {
	return cdc.Is(err, cdc.NotFound) || err == nil && d.Status == "DELETING"
}
