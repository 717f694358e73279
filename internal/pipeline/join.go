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

// GoneReason is why a table is set aside that does not exist any more.
const GoneReason = "the table does not exist any more; its rows stay, as of the last change that was read"

// discovery is what a run with Once waits for besides tables, none of which is called so.
const discovery = ""

// joining lets the tables of patterns join.
type joining struct {
	*table // of no name: for its retries
	begin  func(Table)
	joined *nameSet // the tables that did
}

// join looks for tables, at once and then every DiscoverEvery, and begins to replicate those that are new, until stop ends. With
// Once it looks until nothing has failed.
func (j *joining) join(stop, work context.Context) error {
	for stop.Err() == nil {
		err := j.retryUntil(stop, work, "look for tables", func(ctx context.Context) error { return j.admit(stop, ctx) })
		if err != nil {
			if stop.Err() != nil || work.Err() != nil {
				return nil
			}
			return j.end(err)
		}
		if j.Once {
			j.drain.report(discovery, true, nil)
			return nil
		}
		j.rest(stop)
	}
	return nil
}

// admit looks for tables one time. What was found joins, or is set aside, even if others could not be looked at: it neither waits for them nor is
// lost with their error.
func (j *joining) admit(stop, ctx context.Context) error {
	j.tick()
	found, failed := j.Discover(ctx, j.joined.has)
	if stop.Err() != nil {
		return context.Cause(stop) // begin nothing new
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
		err := j.retryUntil(stop, ctx, "set a table aside", func(ctx context.Context) error {
			return setAside(ctx, j.Ledger, j.events, r.Table, r.Reason)
		})
		if err != nil {
			return errors.Join(err, failed)
		}
	}
	return failed
}

// tickEvery is how often a worker that follows no table shows that it lives.
const tickEvery = 20 * time.Second

// rest waits until tables are looked for again. Meanwhile there may be no table whose loop shows that the process lives.
func (j *joining) rest(stop context.Context) {
	until := task.Mono(stop) + j.DiscoverEvery
	for left := j.DiscoverEvery; left > 0; left = until - task.Mono(stop) {
		j.tick()
		if task.Sleep(stop, min(left, tickEvery)) != nil {
			return
		}
	}
}

// tick tells that the process lives, unless there are tables whose loops do: it must be seen if those stand.
func (j *joining) tick() {
	if len(j.Tables) == 0 && j.joined.empty() {
		j.events.Tick()
	}
}

// lookedAfter is for how long a table that was dropped is looked after still: its stream can be read for half of that, and clocks differ.
const lookedAfter = 2 * cdc.Retention

// longGone tells whether nothing is left to do for a table of a pattern, which was dropped and has no stream any more. One of its name that is
// created later joins anew. What the ledger says may be of before that: the keeper here must have found the same.
func (t *table) longGone(v view, now time.Time) bool {
	aside := v.state.Suspended
	return !t.Once && t.board.isAside() && aside.Reason == GoneReason && now.Sub(aside.Since) > lookedAfter
}

// leaving is the time that longGone is judged by. A worker that never held a shard or the seat has heard no
// answer of the source; nothing is claimed by leaving, so its own clock will do.
func (t *table) leaving(ctx context.Context) time.Time {
	if now := t.Ledger.ServiceTime(ctx); !now.IsZero() {
		return now
	}
	return task.Now(ctx)
}

// setAside notes in the ledger that a table cannot be followed, once for each reason.
func setAside(ctx context.Context, ledger *checkpoint.Ledger, events Events, source, reason string) error {
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
		events.Aside(source, reason)
	}
	return err
}

// asideFor sets the table aside if that is what an error of its keeper asks for. It returns false if it does not, or if that could not be
// noted.
func (t *table) asideFor(stop, ctx context.Context, err error) bool {
	reason, yes := t.unfollowable(ctx, err)
	if !yes {
		return false
	}
	err = t.retryUntil(stop, ctx, "set the table aside", func(ctx context.Context) error {
		return setAside(ctx, t.Ledger, t.events, t.source, reason)
	})
	t.board.setAside(err == nil)
	t.bell.Ring() // with Once there is nothing to wait for any more
	return err == nil
}

// unfollowable is why a table of a pattern cannot be followed for now, if that is what an error says; the other tables go on.
func (t *table) unfollowable(ctx context.Context, err error) (string, bool) {
	var stream *StreamError
	var key *KeyError
	switch {
	case !t.Joined || err == nil:
		return "", false
	case errors.As(err, &stream) && stream.View == "":
		return "the table has no enabled stream", true
	case errors.As(err, &stream):
		return "the stream's view type " + stream.View + " does not give every row and its removal", true
	case errors.As(err, &key):
		return "the table has another primary key than when it joined; restart the workers", true
	case errors.Is(err, errGone):
		return GoneReason, true
	case cdc.Is(err, cdc.NotFound) && gone(t.Database.Describe(ctx, t.source)):
		return GoneReason, true // a scan came to know it first
	}
	return "", false
}

var errGone = errors.New("the table does not exist any more")

// gone tells from a description, or the lack of it, whether a table was dropped or is about to be.
func gone(d backfill.Description, err error) bool {
	return cdc.Is(err, cdc.NotFound) || err == nil && d.Status == "DELETING"
}

// readmit takes back that the table was set aside, now that it can be followed.
func (k *rounds) readmit(ctx context.Context) error {
	if k.dropped {
		return nil
	}
	_, err := k.Ledger.UpdateTable(ctx, k.source, func(s *checkpoint.TableState) error {
		s.Suspended = checkpoint.Suspension{}
		return nil
	})
	k.board.setAside(false)
	return err
}
