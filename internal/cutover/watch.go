package cutover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// watching is what a driver knows of streams that nobody applies any more.
type watching struct {
	since  uint32
	reads  map[string]*watchedShard // by stream and id
	marked bool                     // the tables' records say that the application has switched
	looked time.Duration            // when the last look began
}

type watchedShard struct {
	at       cdc.Position
	iterator cdc.Iterator
	over     bool
}

// watch reads the streams on, without writing: whoever writes to a source still was forgotten.
func (v *drive) watch(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if v.watching.since != c.Attempt {
		v.watching = watching{since: c.Attempt, reads: map[string]*watchedShard{}}
	}
	if !v.marked {
		if err := v.mark(ctx, c, func(h *checkpoint.Halt) { h.Switched = true }); err != nil {
			return err
		}
		v.marked = true
	}
	v.dropBehind(c, now)
	left := c.WatchFor - now.Sub(c.SwitchedAt)
	every := min(v.settings.Look, c.WatchFor/10) // a short watch looks some times as well
	if left > 0 && v.looked > 0 && task.Mono(ctx)-v.looked < every {
		return nil
	}
	v.looked = task.Mono(ctx)
	failed := errors.Join(v.lookAtAll(ctx, c, now), v.removeCanaries(ctx, c))
	if failed != nil {
		v.looked -= every - min(every, lookAgain)
	}
	if left > 0 || failed != nil && left > -unreadable || c.FencedAt.IsZero() && raised(c) {
		return failed // what was not read at the end may hold a change of before
	}
	if err := v.mark(ctx, c, func(h *checkpoint.Halt) { h.Done = true }); err != nil {
		return err
	}
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		if failed != nil {
			c.Unwatch(later(c.WatchedTo, c.FrozenAt), now, now, "the streams could not be read")
		}
		return c.Watched(now)
	})
	return errors.Join(failed, err)
}

// lookAtAll reads what came to the streams since the last look, and notes it.
func (v *drive) lookAtAll(ctx context.Context, c checkpoint.Cutover, now time.Time) (failed error) {
	for _, source := range c.Tables {
		strays, err := v.look(ctx, c, source)
		if failed = errors.Join(failed, err); len(strays) == 0 {
			continue
		}
		_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { noteStrays(c, strays, "writes after the switch"); return nil })
		if err != nil {
			v.reads = map[string]*watchedShard{} // what could not be noted is read again
			return errors.Join(failed, err)
		}
	}
	if failed == nil {
		_, failed = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Watch(now, cdc.Retention); return nil })
	}
	return failed
}

// noteStrays notes changes that nobody should have made.
func noteStrays(c *checkpoint.Cutover, strays []checkpoint.CutoverStraggler, what string) {
	for _, s := range strays {
		if c.Stray(s) {
			c.Note(s.At, what+" to table "+s.Table+": item "+s.Key)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lookAgain is the time between two looks of which the first one failed.
const lookAgain = 10 * time.Second

// unreadable is how much longer than it is to last a watch waits for streams that cannot be read:
// the sources may be gone for good.
const unreadable = time.Hour

func (v *drive) mark(ctx context.Context, c checkpoint.Cutover, change func(h *checkpoint.Halt)) error {
	for _, source := range c.Tables {
		_, err := v.Ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
			s.Halt.Attempt = c.Attempt
			change(&s.Halt)
			s.EndOutdatedVerify()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// look reads what came to the streams of a table since the last look, and gives the changes that nobody
// should have made. With an error they are those that it came upon before.
func (v *drive) look(ctx context.Context, c checkpoint.Cutover, source string) (strays []checkpoint.CutoverStraggler, err error) {
	d, err := v.Source.Describe(ctx, source)
	if err != nil {
		return nil, err
	}
	changes, err := v.changes(ctx, source, func(row checkpoint.Shard) {
		if stray, ok := sighted(c, source, row); ok { // a worker was faster, and this look begins behind it
			strays = append(strays, stray)
		}
	})
	return append(strays, v.straysOf(c, source, d.PrimaryKey, changes)...), err
}

// changes returns the changes that came to the streams of a table since they were read last. With an
// error it returns those that it read before. Begun, if not nil, gets the row of each shard that is
// read for the first time.
func (v *drive) changes(ctx context.Context, source string, begun func(row checkpoint.Shard)) (all []cdc.Change, err error) {
	state, _, err := v.Ledger.Table(ctx, source)
	if err != nil {
		return nil, err
	}
	shards, err := v.Ledger.Shards(ctx, source)
	if err != nil {
		return nil, err
	}
	known := map[string]checkpoint.Shard{}
	for _, s := range shards {
		if s.Label == state.Label {
			known[s.ID] = s
		}
	}
	stream := v.Open(state.StreamARN)
	lister := cdc.NewLister(stream, "")
	for done := false; !done; {
		if done, err = lister.Next(ctx); err != nil {
			return nil, err
		}
	}
	var failed error
	for _, s := range lister.Listing().Shards {
		r := v.reads[state.StreamARN+s.ID]
		if r == nil {
			row := known[s.ID]
			r = &watchedShard{at: cdc.Position{After: row.Position}, over: row.State == checkpoint.Done}
			v.reads[state.StreamARN+s.ID] = r
			if begun != nil {
				begun(row)
			}
		}
		changes, err := r.read(ctx, stream, s.ID)
		failed = errors.Join(failed, err)
		all = append(all, changes...)
	}
	return all, failed
}

// errUnread tells that a look has not come to the end of what the stream holds.
var errUnread = errors.New("the stream has more changes than one read returns")

// pagesALook bounds what one look reads of a shard.
const pagesALook = 20

// read reads on until a page is empty.
func (r *watchedShard) read(ctx context.Context, stream cdc.Source, shard string) (changes []cdc.Change, err error) {
	for range pagesALook {
		if r.over {
			return changes, nil
		}
		if r.iterator == "" {
			r.iterator, err = stream.Seek(ctx, shard, r.at)
			if cdc.Is(err, cdc.Trimmed) && !r.at.AtHorizon() { // what was trimmed was read, or is a day old
				r.at = cdc.Position{}
				continue
			}
			if err != nil {
				return changes, err
			}
		}
		page, err := stream.Read(ctx, r.iterator)
		if err != nil {
			r.iterator = ""
			return changes, err
		}
		r.iterator, r.over = page.Next, page.End
		if n := len(page.Changes); n > 0 {
			changes = append(changes, page.Changes...)
			r.at = cdc.Position{After: page.Changes[n-1].Sequence}
		} else {
			return changes, nil
		}
	}
	return changes, errUnread
}

// straysOf are the changes that nobody should have made, as the record has them.
func (v *drive) straysOf(c checkpoint.Cutover, source string, key []transform.KeyAttribute, changes []cdc.Change) (strays []checkpoint.CutoverStraggler) {
	for _, change := range v.strayed(c, source, changes) {
		strays = append(strays, checkpoint.CutoverStraggler{Table: source, Key: hashOf(key, change), At: change.Time.UTC().Truncate(time.Second)})
	}
	return strays
}

// strayed are the changes that nobody should have made.
func (v *drive) strayed(c checkpoint.Cutover, source string, changes []cdc.Change) (strays []cdc.Change) {
	set := v.canaries(source)
	for _, change := range changes {
		if !change.Expired && !set.Has(change.Keys) && after(change.Time, c.FrozenAt) {
			strays = append(strays, change)
		}
	}
	return strays
}

// hashOf names the item of a change without showing its key.
func hashOf(key []transform.KeyAttribute, change cdc.Change) string {
	return sink.HashOf((&transform.Mapping{PrimaryKey: key}).ItemKey(change.Keys))
}

// StrayKeys reads the keys of items that were changed after the freeze, by the hashes under which the
// record has them, from the streams, as far as those still hold the changes: nothing keeps the keys
// otherwise.
func (d *Driver) StrayKeys(ctx context.Context, c checkpoint.Cutover) (map[string]attribute.Item, error) {
	v := &drive{Driver: d, settings: d.Settings.orDefault(), watching: watching{since: c.Attempt, reads: map[string]*watchedShard{}}}
	keys := map[string]attribute.Item{}
	for _, source := range c.Tables {
		if !slices.ContainsFunc(c.Stragglers, func(s checkpoint.CutoverStraggler) bool { return s.Table == source }) {
			continue
		}
		described, err := d.Source.Describe(ctx, source)
		if err != nil {
			return nil, err
		}
		for more := true; more; {
			changes, err := v.changes(ctx, source, nil)
			if more = errors.Is(err, errUnread); err != nil && !more {
				return nil, err
			}
			for _, change := range v.strayed(c, source, changes) {
				keys[hashOf(described.PrimaryKey, change)] = change.Keys
			}
		}
	}
	return keys, nil
}
