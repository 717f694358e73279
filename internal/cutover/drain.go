package cutover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// draining is what a driver knows of a drain. Whoever drives on begins anew: canaries are written
// again, and are of the same attempt.
type draining struct {
	of     uint32
	tables map[string]*drainedTable
}

// drainedTable is one table in a drain.
type drainedTable struct {
	written int // canaries
	all     int // that are to be
	unseen  int // that no shard gave
	listed  map[string]bool
	ended   map[string]bool // shards that were done when the listing began
	listAt  time.Duration
	equal   bool // two listings were, and ended holds for the first of them
	quiet   map[string]*quietShard
	// published is, by shard, up to which message the topic has to be applied.
	published map[string]uint64
}

// quietShard is what was seen of a shard that gave no canary, since the last canary was seen.
type quietShard struct {
	owner    string
	applied  uint64
	position cdc.SequenceNumber
	read     time.Time // when the last read was sent that is known, by its owner's clock
	changes  int       // how often that moved
	since    time.Time // the read from which on the time counts
}

// drain proves that everything written before the freeze is applied.
func (v *drive) drain(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if v.draining.of != c.Attempt {
		v.draining = draining{of: c.Attempt, tables: map[string]*drainedTable{}}
	}
	if stray, err := v.stragglers(ctx, c); err != nil || stray != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", stray)
		}
		return err
	}
	var proofs []checkpoint.CutoverProof
	for _, source := range c.Tables {
		f, err := v.figures(ctx, source, nil)
		if err != nil {
			return err
		}
		stands := f.standing(v.settings.Ready.Lease, now)
		if ok, why, _ := f.copied(&stands); !ok {
			return v.cancel(ctx, c, now, "table %s: %s", source, why)
		}
		t := v.tables[source]
		if t == nil {
			t = &drainedTable{quiet: map[string]*quietShard{}}
			v.tables[source] = t
		}
		if err := v.writeCanaries(ctx, c, source, t, len(standing.Open(f.State, f.Shards))); err != nil {
			return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "canaries of table %s cannot be written: %v", source, err)))
		}
		if err := v.list(ctx, f, t); err != nil {
			return err
		}
		done, waits := t.prove(c, f, v.settings)
		if waits != "" {
			return v.trouble(ctx, c, "table %s: %s", source, waits)
		}
		proofs = append(proofs, done...)
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Proofs = proofs })
}

// writeCanaries writes what is left to write of the table's canaries.
func (v *drive) writeCanaries(ctx context.Context, c checkpoint.Cutover, source string, t *drainedTable, open int) error {
	if t.all == 0 {
		t.all = canary.Number(open)
	}
	if t.written == t.all {
		return nil
	}
	d, err := v.Source.Describe(ctx, source)
	if err != nil {
		return err
	}
	if err := v.noteCanaries(ctx, c); err != nil {
		return err
	}
	set := v.canaries(source)
	for t.written < t.all {
		once := fmt.Sprintf("%s.%d.%d", v.Ledger.Worker(), v.held.Epoch(), t.written)
		if err := v.Source.Put(ctx, source, set.Item(t.written, d.PrimaryKey, c.Attempt, once)); err != nil {
			return err
		}
		t.written++
	}
	return nil
}

// list lists the stream now and then, until two listings are equal that lie far enough apart.
func (v *drive) list(ctx context.Context, f Figures, t *drainedTable) error {
	now := task.Mono(ctx)
	if t.written < t.all || t.listed != nil && now-t.listAt < v.settings.Lists {
		return nil
	}
	ended := map[string]bool{}
	for _, s := range f.Shards {
		if s.Label == f.State.Label && s.State == checkpoint.Done {
			ended[s.ID] = true
		}
	}
	lister := cdc.NewLister(v.Open(f.State.StreamARN), "")
	for done := false; !done; {
		var err error
		if done, err = lister.Next(ctx); err != nil {
			return err
		}
	}
	listed := map[string]bool{}
	for _, s := range lister.Listing().Shards {
		listed[s.ID] = true
	}
	if t.listed != nil && maps.Equal(listed, t.listed) {
		t.equal = true
		t.listAt = now // it is looked at again later, with what has ended since
		for id := range ended {
			if !t.ended[id] {
				t.ended, t.equal = ended, false
			}
		}
		return nil
	}
	t.listed, t.ended, t.listAt, t.equal = listed, ended, now, false
	return nil
}

// prove gives the proof of every shard, or what is waited for.
func (t *drainedTable) prove(c checkpoint.Cutover, f Figures, s Settings) (proofs []checkpoint.CutoverProof, waits string) {
	// A canary that no shard gave may be in one that is not listed yet, with what was written there.
	if unseen := checkpoint.Unseen(f.Shards, f.State.Label, c.Attempt, t.all); unseen != t.unseen {
		t.unseen, t.quiet = unseen, map[string]*quietShard{}
	}
	var left []string
	known := map[string]bool{}
	for i := range f.Shards {
		sh := &f.Shards[i]
		if sh.Label != f.State.Label {
			continue
		}
		known[sh.ID] = true
		how := t.how(c, f.State.Base, sh, s)
		if how == "" {
			left = append(left, sh.ID)
			continue
		}
		proofs = append(proofs, checkpoint.CutoverProof{Table: sh.Source, Shard: sh.ID, How: how, Position: sh.Position.String()})
	}
	for _, id := range slices.Sorted(maps.Keys(t.listed)) {
		if !known[id] {
			left = append(left, id)
		}
	}
	switch {
	case t.unseen > 0:
		return nil, fmt.Sprintf("%d of %d canaries are not read yet", t.unseen, t.all)
	case len(left) > 0:
		return nil, fmt.Sprintf("%d of its shards are not proved to be applied; the first is %s", len(left), left[0])
	case f.State.Apply == checkpoint.Topic && t.behind(f) > 0:
		return nil, fmt.Sprintf("messages that wait in the topic, not applied yet: %d", t.behind(f))
	case len(checkpoint.Unfollowed(f.State, f.Shards, time.Time{})) > 0:
		return nil, "the children of a shard that ended are not listed yet"
	case !t.equal:
		return nil, fmt.Sprintf("two equal listings of the stream, %s apart, are needed", spell(s.Lists))
	}
	return proofs, ""
}

// behind is how many messages are not applied that were published when their shard was proved to be
// read. In a rehearsal the application goes on, so that there is always a later one.
func (t *drainedTable) behind(f Figures) (n uint64) {
	if t.published == nil {
		t.published = map[string]uint64{}
	}
	for _, sh := range checkpoint.Unapplied(f.State, f.Shards, f.Merged) {
		if t.published[sh.ID] == 0 {
			t.published[sh.ID] = sh.Applied
		}
		waits, _ := sh.Behind(f.Merged)
		if applied := sh.Applied - waits; applied < t.published[sh.ID] {
			n += t.published[sh.ID] - applied
		}
	}
	return n
}

// how is how the shard is proved to be applied; "" if it is not yet.
func (t *drainedTable) how(c checkpoint.Cutover, base uint32, sh *checkpoint.Shard, s Settings) string {
	switch {
	case sh.State == checkpoint.Done && t.ended[sh.ID]:
		return "done, then two equal listings"
	case sh.State == checkpoint.Gap && sh.Generation < base:
		return fmt.Sprintf("a gap that the load of generation %d filled", base)
	case sh.State != checkpoint.Reading || !sh.EndedAt.IsZero() || sh.Owner == "":
		return ""
	case sh.Sighted.Canary == c.Attempt && (c.Rehearse || sh.Settling.Changes == 0):
		return "a canary" // which was applied after everything before it, whatever is settling since
	case sh.Settling.Changes > 0:
		return ""
	}
	q := t.quiet[sh.ID]
	if q == nil || q.owner != sh.Owner || q.applied != sh.Applied || q.position != sh.Position || !c.Rehearse && !sh.CaughtUp {
		t.quiet[sh.ID] = &quietShard{owner: sh.Owner, applied: sh.Applied, position: sh.Position, read: sh.ReadAt}
		return ""
	}
	if sh.ReadAt.After(q.read) {
		q.read = sh.ReadAt
		q.changes++
		if q.changes == 2 { // it was sent after the first one that is known to be of after the last canary
			q.since = sh.ReadAt
		}
	}
	if q.changes > 2 && q.read.Sub(q.since) >= s.Quiet {
		return "empty pages for " + spell(s.Quiet) + " after the last canary"
	}
	return ""
}

// stragglers names a change that was made after the freeze.
func (v *drive) stragglers(ctx context.Context, c checkpoint.Cutover) (string, error) {
	if c.FrozenAt.IsZero() {
		return "", nil
	}
	if len(c.Stragglers) > 0 { // it was noted, and the cancel failed
		return stillWrites(c.Stragglers[0]), nil
	}
	for _, source := range c.Tables {
		shards, err := v.Ledger.Shards(ctx, source)
		if err != nil {
			return "", err
		}
		for _, s := range shards {
			if stray, ok := sighted(c, source, s); ok {
				if _, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Stray(stray); return nil }); err != nil {
					return "", err
				}
				return stillWrites(stray), nil
			}
		}
	}
	return "", nil
}

// sighted is a change after the freeze that a worker has read in a shard.
func sighted(c checkpoint.Cutover, source string, s checkpoint.Shard) (stray checkpoint.CutoverStraggler, ok bool) {
	at := s.Sighted.WrittenAt
	return checkpoint.CutoverStraggler{Table: source, Key: s.Sighted.Written, At: at}, after(at, c.FrozenAt)
}

// stillWrites says that somebody writes although the application has stopped.
func stillWrites(s checkpoint.CutoverStraggler) string {
	return fmt.Sprintf("the application still writes: item %s of table %s was changed at %s, after the freeze", s.Key, s.Table, s.At.UTC().Format(time.RFC3339))
}

// after tells whether a change was surely made after the freeze: times of changes are floored to the
// second, and servers' clocks differ by a little.
func after(change, frozen time.Time) bool { return change.After(frozen.Add(time.Second)) }
