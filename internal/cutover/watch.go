package cutover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// watching is the state of a driver that reads streams after the switch, when no worker applies
// them.
type watching struct {
	since uint32
	mu    sync.Mutex               // guards the map; tables are read concurrently
	reads map[string]*watchedShard // reads of shards, by stream and shard id
	// marked reports that the tables' records show the switch of the application.
	marked bool
	looked time.Duration // when the last read of the streams began
}

type watchedShard struct {
	at       cdc.Position
	iterator cdc.Iterator
	over     bool
	// counted reports that the drain was responsible for all changes of the shard from before the
	// freeze. The others were written before the migration began, or the last load covers them.
	counted bool
}

// unapplied is a change that no worker has applied, in the shard where a driver read it.
type unapplied struct {
	cdc.Change
	counted bool
}

// watch reads the streams after the switch, without applying changes. A change from after the
// freeze means that a writer still writes to the source. A change from before the freeze is a late
// tail: no drain could know of it, because the stream listed its shard too late, or returned it out
// of order.
//
// The watch repairs nothing. The application writes the target from the switch on, and no cell
// shows whether it has written a row. Bigtable also rejects replicator's writes by then.
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
	if c.HasFallback() {
		return v.follow(ctx, c, now)
	}
	left := later(c.SwitchedAt.Add(c.WatchFor), c.FallbackEndedAt).Sub(now)
	every := min(v.settings.Look, c.WatchFor/10) // even a short watch reads several times
	if left > 0 && v.looked > 0 && task.Mono(ctx)-v.looked < every {
		return nil
	}
	v.looked = task.Mono(ctx)
	failed := errors.Join(v.lookAtAll(ctx, c, now), v.removeCanaries(ctx, c), v.openPolicies(ctx, c, now))
	if failed != nil {
		v.looked -= every - min(every, lookAgain)
	}
	// The watch goes on until its time is over, and until late writes are rejected if a fence was
	// raised. If a stream could not be read, it lasts longer, because that stream may hold a change
	// from before its end.
	if left > 0 || failed != nil && left > -unreadable || c.FencedAt.IsZero() && raised(c) {
		return failed
	}
	// With a fallback, the policies deny writes until it ends, so that no write escapes it.
	lifted, err := v.lift(ctx, c)
	if lifted != "" && left > -unreadable {
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "%s", lifted)))
	}
	if err := v.mark(ctx, c, func(h *checkpoint.Halt) { h.Done = true }); err != nil {
		return err
	}
	_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		if failed != nil {
			c.Unwatch(later(c.WatchedTo, c.StraysFrom()), now, now, "the streams could not be read")
		}
		if lifted != "" {
			c.Note(now, "a policy may still deny writes: "+lifted)
		}
		return c.Watched(now)
	})
	return errors.Join(failed, err)
}

// lookAtAll reads the new changes of all streams, and records them.
func (v *drive) lookAtAll(ctx context.Context, c checkpoint.Cutover, now time.Time) (failed error) {
	for _, source := range c.Tables {
		strays, err := v.look(ctx, c, source, v.readListed)
		if failed = errors.Join(failed, err); len(strays) == 0 {
			continue
		}
		_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { noteStrays(c, strays, "after the switch"); return nil })
		if err != nil {
			// Changes that could not be recorded are read again.
			v.reads = map[string]*watchedShard{}
			return errors.Join(failed, err)
		}
	}
	if failed == nil {
		_, failed = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Watch(now, cdc.Retention); return nil })
	}
	return failed
}

// noteStrays records changes that the target lacks.
func noteStrays(c *checkpoint.Cutover, strays []checkpoint.CutoverStraggler, when string) {
	for _, s := range strays {
		switch {
		case !c.Stray(s):
		case s.Tail:
			c.Note(s.At, "late tail in the stream of table "+s.Table+": item "+s.Key)
		default:
			c.Note(s.At, "writes "+when+" to table "+s.Table+": item "+s.Key)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lookAgain is the time after which a failed read is retried.
const lookAgain = 10 * time.Second

// unreadable is how much longer than planned a watch lasts if streams cannot be read. The watch
// then ends anyway, because the source tables may have been deleted.
const unreadable = time.Hour

func (v *drive) mark(ctx context.Context, c checkpoint.Cutover, change func(h *checkpoint.Halt)) error {
	return v.updateTables(ctx, c, func(s *checkpoint.TableState) error {
		if s.Halt.Over >= c.Attempt { // a rollback has returned the table, and this driver was delayed
			return checkpoint.ErrMoved
		}
		s.Halt.Attempt = c.Attempt
		change(&s.Halt)
		s.EndOutdatedVerify()
		return nil
	})
}

// look reads the new changes of a table's streams, and returns those that the target lacks. After
// an error, it returns the changes that it found before the error.
func (v *drive) look(ctx context.Context, c checkpoint.Cutover, source string, read reading) (strays []checkpoint.CutoverStraggler, err error) {
	d, err := v.Source.Describe(ctx, source)
	if err != nil {
		return nil, err
	}
	changes, err := v.changes(ctx, source, read, func(row checkpoint.Shard) {
		// A worker has read this change. The reads of this watch begin after it.
		if stray, ok := sighted(c, source, row); ok {
			strays = append(strays, stray)
		}
	})
	return append(strays, v.straysOf(c, source, d.PrimaryKey, changes)...), err
}

// changes returns the changes of a table's streams since the last read. After an error, it returns
// the changes that it read before the error. If `begun` is not nil, it is called with the row of
// each shard that is read for the first time.
func (v *drive) changes(ctx context.Context, source string, read reading, begun func(row checkpoint.Shard)) (all []unapplied, err error) {
	state, _, err := v.Ledger.Table(ctx, source)
	if err != nil {
		return nil, err
	}
	shards, err := v.Ledger.Shards(ctx, source)
	if err != nil {
		return nil, err
	}
	r := &streamRead{cdc: v.Open(state.StreamARN), rows: map[string]checkpoint.Shard{}, parents: map[string]string{}, lineage: drain.LineageOf(readiness.Figures{State: state, Shards: shards})}
	for _, s := range shards {
		if s.Label == state.Label {
			r.rows[s.ID] = s
			r.ids = append(r.ids, s.ID)
		}
	}
	r.read = func(ctx context.Context, ids []string) error {
		changes, err := v.readShards(ctx, state.StreamARN, r, ids, begun)
		all = append(all, changes...)
		return err
	}
	return all, read(ctx, r)
}

// streamRead is one read of a table's stream.
type streamRead struct {
	cdc  cdc.Source
	rows map[string]checkpoint.Shard // rows of the stream's shards, by id
	ids  []string                    // ids of these shards
	over map[string]bool             // shards that were read to their end
	read func(ctx context.Context, ids []string) error
	// lineage holds the shards that the drain had to prove. parents holds the parents of listed
	// shards.
	lineage drain.Lineage
	parents map[string]string
}

// counts reports whether the drain was responsible for a shard. That is so if the shard has a row
// and is no gap that the last load covers. It is also so if the shard has no row and one of its
// ancestors has one, because workers read all shards that follow a shard with a row.
func (r *streamRead) counts(id string) bool {
	if _, has := r.rows[id]; has {
		return r.lineage.Has(id)
	}
	for range len(r.parents) {
		if id = r.parents[id]; id == "" {
			return false
		}
		if _, has := r.rows[id]; has {
			return true
		}
	}
	return false
}

// reading reads the shards of a stream.
type reading func(ctx context.Context, r *streamRead) error

// readListed reads all shards that the stream lists.
func (v *drive) readListed(ctx context.Context, r *streamRead) error {
	ids, err := r.listed(ctx, "")
	if err != nil {
		return err
	}
	return r.read(ctx, ids)
}

// listed returns the ids of the children of a shard, or of all shards if the parent is "".
func (r *streamRead) listed(ctx context.Context, parent string) (ids []string, err error) {
	lister := cdc.NewLister(r.cdc, parent)
	throttled := 0
	for done := false; !done; {
		done, err = lister.Next(ctx)
		// Many shards may have ended together, and other callers list, too. A repeat of the whole
		// look would only make more calls.
		if cdc.Is(err, cdc.Throttled) && throttled < listsAgain {
			throttled++
			err = task.Sleep(ctx, listingPause)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, s := range lister.Listing().Shards {
		ids = append(ids, s.ID)
		r.parents[s.ID] = s.Parent
	}
	return ids, nil
}

// readToTip reads all shards that have rows, and their descendants. It lists only the children of a
// shard that has just ended, because an account has ten DescribeStream calls a second, and a stream
// lists the shards of a day. With more than a few tables or shards, whole listings would take longer
// than the freeze may last. The drain has proved that no other shard was open at the freeze. A gap
// may hide shards without rows, so a stream with a gap is listed.
func (v *drive) readToTip(ctx context.Context, r *streamRead) error {
	for _, row := range r.rows {
		if row.State == checkpoint.Gap {
			return v.readListed(ctx, r)
		}
	}
	known := map[string]bool{}
	for ids := r.ids; len(ids) > 0; {
		for _, id := range ids {
			known[id] = true
		}
		if err := r.read(ctx, ids); err != nil {
			return err
		}
		parents := slices.DeleteFunc(ids, func(id string) bool { return !r.over[id] || r.rows[id].Complete })
		ids = nil
		for _, parent := range parents {
			children, err := r.listed(ctx, parent)
			if err != nil {
				return err
			}
			ids = append(ids, slices.DeleteFunc(children, func(id string) bool { return known[id] })...)
		}
	}
	return nil
}

const (
	// listsAgain is how often a listing is repeated that DynamoDB has throttled.
	listsAgain = 10
	// listingPause is the time before a repeat. An account has ten DescribeStream calls a second.
	listingPause = 300 * time.Millisecond
)

// readsAtOnce is the maximum number of shards of a table that are read concurrently.
const readsAtOnce = 64

// readShards reads the given shards of a stream from where their last reads ended.
func (v *drive) readShards(ctx context.Context, arn string, s *streamRead, ids []string, begun func(row checkpoint.Shard)) (all []unapplied, failed error) {
	reads := make([]*watchedShard, len(ids))
	v.mu.Lock()
	for i, id := range ids {
		r := v.reads[arn+id]
		if r == nil {
			row := s.rows[id]
			r = &watchedShard{at: cdc.Position{After: row.Position}, over: row.State == checkpoint.Done, counted: s.counts(id)}
			v.reads[arn+id] = r
			if begun != nil {
				begun(row)
			}
		}
		reads[i] = r
	}
	v.mu.Unlock()
	changes, errs := make([][]cdc.Change, len(ids)), make([]error, len(ids))
	g := task.NewGroup(ctx, readsAtOnce)
	for i, id := range ids {
		if reads[i].over {
			continue
		}
		g.Go("read shard "+id, func(ctx context.Context) error {
			changes[i], errs[i] = reads[i].read(ctx, s.cdc, id)
			return nil // the reads of the other shards continue
		})
	}
	if err := g.Wait(); err != nil {
		errs = append(errs, err)
	}
	s.over = map[string]bool{}
	for i, id := range ids {
		s.over[id] = reads[i].over
		for _, change := range changes[i] {
			all = append(all, unapplied{change, reads[i].counted})
		}
	}
	return all, errors.Join(errs...)
}

// errUnread is the error of a read that did not reach the end of the stream.
var errUnread = errors.New("the stream has more changes than one read returns")

// pagesALook is the maximum number of pages of a shard in one read.
const pagesALook = 20

// read reads the shard until a page is empty.
func (r *watchedShard) read(ctx context.Context, stream cdc.Source, shard string) (changes []cdc.Change, err error) {
	for range pagesALook {
		if r.over {
			return changes, nil
		}
		if r.iterator == "" {
			r.iterator, err = stream.Seek(ctx, shard, r.at)
			// The trimmed changes were read already, or are more than a day old.
			if cdc.Is(err, cdc.Trimmed) && !r.at.AtHorizon() {
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

// straysOf returns the changes that the target lacks, in the form of the record.
func (v *drive) straysOf(c checkpoint.Cutover, source string, key []transform.KeyAttribute, changes []unapplied) (strays []checkpoint.CutoverStraggler) {
	for _, change := range v.strayed(c, source, changes) {
		strays = append(strays, checkpoint.CutoverStraggler{Table: source, Key: hashOf(key, change), At: change.Time.UTC().Truncate(time.Second), Tail: !after(change.Time, c.StraysFrom())})
	}
	return strays
}

// strayed returns those of the changes that the target lacks: changes from after the freeze, and
// late tails. A TTL deletion counts as neither.
func (v *drive) strayed(c checkpoint.Cutover, source string, changes []unapplied) (strays []cdc.Change) {
	set := v.canaries(source)
	for _, change := range changes {
		if !change.Expired && !set.Has(change.Keys) && (change.counted && c.FallbackEndedAt.IsZero() || after(change.Time, c.StraysFrom())) {
			strays = append(strays, change.Change)
		}
	}
	return strays
}

// hashOf returns a hash that identifies the item of a change, without its key.
func hashOf(key []transform.KeyAttribute, change cdc.Change) string {
	return sink.HashOf((&transform.Mapping{PrimaryKey: key}).ItemKey(change.Keys))
}

// StrayKeys returns the keys of the items whose changes the target lacks, by the hash that the
// record has. It reads the keys from the streams, because the ledger does not store them. If the
// stream has dropped a change, its key is missing.
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
			changes, err := v.changes(ctx, source, v.readListed, nil)
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
