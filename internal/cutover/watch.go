package cutover

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// verify lets source and target be compared once more, and demands that nothing differs.
func (v *drive) verify(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if stray, err := v.stragglers(ctx, c); err != nil || stray != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", stray)
		}
		return err
	}
	results := map[string]checkpoint.VerifyResult{}
	for _, source := range c.Tables {
		s, _, err := v.Ledger.Table(ctx, source)
		if err != nil {
			return err
		}
		number := c.Finals[source]
		if number == 0 || s.Verify.Number != number || !s.Verify.Running() && s.Verify.Result.Number != number { // or cancelled
			if s.Verify.Running() {
				return v.trouble(ctx, c, "table %s: another verify is running", source)
			}
			if number, err = v.Verifier.Begin(ctx, s); err != nil {
				return err
			}
			_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
				finals := map[string]uint32{source: number}
				for t, n := range c.Finals {
					if t != source {
						finals[t] = n
					}
				}
				c.Finals = finals
				return nil
			})
			return err
		}
		if s.Verify.Running() {
			return v.trouble(ctx, c, "table %s: the final verify is running", source)
		}
		result := s.Verify.Result
		if ok, why := finally(s, result, now); !ok && !overrides(c, GateVerify) {
			return v.cancel(ctx, c, now, "table %s: %s", source, why)
		}
		results[source] = s.Verify.Full
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Verified = results })
}

// finally judges the last comparison before the switch.
func finally(s checkpoint.TableState, result checkpoint.VerifyResult, now time.Time) (bool, string) {
	switch {
	case standing.Lost(s):
		return false, "needs a load: " + s.Reason
	case result.Generation != s.Generation || !result.Clean():
		return false, "result of the final verify: " + result.Verdict(now)
	case s.Sampled.Differing > 0:
		return false, "rows of a sample differ"
	case !standing.VerifiedInFull(s, now):
		return false, "result of the last full verify: " + resultText(s.Verify.Full, now)
	}
	return true, ""
}

// watching is what a driver knows of streams that nobody applies any more.
type watching struct {
	since  uint32
	reads  map[string]*watchedShard // by stream and id
	marked bool                     // the tables' records say that the application has switched
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
	v.removeCanaries(ctx, c)
	var failed error
	for _, source := range c.Tables {
		failed = errors.Join(failed, v.look(ctx, c, source))
	}
	left := c.WatchFor - now.Sub(c.SwitchedAt)
	if left > 0 || failed != nil && left > -unreadable {
		return failed // what was not read at the end may hold a change of before
	}
	if err := v.mark(ctx, c, func(h *checkpoint.Halt) { h.Done = true }); err != nil {
		return err
	}
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		if failed != nil {
			c.Note(now, "the streams could not be read at the end of the watch; later writes are unknown")
		}
		return c.Watched(now)
	})
	return errors.Join(failed, err)
}

// unreadable is how much longer than it is to last a watch waits for streams that cannot be read:
// the sources may be gone for good.
const unreadable = time.Hour

func (v *drive) mark(ctx context.Context, c checkpoint.Cutover, change func(h *checkpoint.Halt)) error {
	for _, source := range c.Tables {
		_, err := v.Ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
			s.Halt.Attempt = c.Attempt
			change(&s.Halt)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// look reads what came to the streams of a table since the last look.
func (v *drive) look(ctx context.Context, c checkpoint.Cutover, source string) error {
	state, _, err := v.Ledger.Table(ctx, source)
	if err != nil {
		return err
	}
	shards, err := v.Ledger.Shards(ctx, source)
	if err != nil {
		return err
	}
	d, err := v.Source.Describe(ctx, source)
	if err != nil {
		return err
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
			return err
		}
	}
	var failed error
	for _, s := range lister.Listing().Shards {
		r := v.reads[state.StreamARN+s.ID]
		if r == nil {
			r = &watchedShard{at: cdc.Position{After: known[s.ID].Position}, over: known[s.ID].State == checkpoint.Done}
			v.reads[state.StreamARN+s.ID] = r
		}
		before := *r
		changes, err := r.read(ctx, stream, s.ID)
		failed = errors.Join(failed, err)
		if err := v.alarm(ctx, c, source, d.PrimaryKey, changes); err != nil {
			*r = before // what could not be noted is read again
			return err
		}
	}
	return failed
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

// alarm notes the changes that nobody should have made.
func (v *drive) alarm(ctx context.Context, c checkpoint.Cutover, source string, key []transform.KeyAttribute, changes []cdc.Change) error {
	set := v.canaries(source)
	var strays []checkpoint.CutoverStraggler
	for _, change := range changes {
		if change.Expired || set.Has(change.Keys) || !after(change.Time, c.FrozenAt) {
			continue
		}
		name := (&transform.Mapping{PrimaryKey: key}).ItemKey(change.Keys)
		strays = append(strays, checkpoint.CutoverStraggler{Table: source, Key: sink.HashOf(name), At: change.Time.UTC().Truncate(time.Second)})
	}
	if len(strays) == 0 {
		return nil
	}
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		for _, s := range strays {
			if c.Stray(s) {
				c.Note(s.At, "writes after the switch to table "+s.Table+": item "+s.Key)
			}
		}
		return nil
	})
	return err
}
