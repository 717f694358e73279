package cutover

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Before the freeze, an attempt finds out which canaries reach which shard. It writes candidates
// until two of them were read from each open shard. An item always goes to the same shard, or to
// one of that shard's children. So after the freeze, canaries with the indices of these candidates
// reach every open shard at once.

// briefly is how long workers usually take at most to read the candidates of a batch.
const briefly = 5 * time.Second

// covering is the search for the canaries that reach the open shards.
type covering struct {
	covers uint32 // the attempt
	tried  map[string]*candidates
}

// candidates are the candidates of one table that this driver has written.
type candidates struct {
	key     []transform.KeyAttribute
	from    int           // index of the next candidate of the batch that is not written
	until   int           // the end of the batch
	sent    int           // how many were written
	before  int           // how many were read before this driver wrote any
	written time.Duration // when the last one was written, by the process's clock
}

// coverage is the state of the search in all tables.
type coverage struct {
	waits string         // the condition for which the search waits; "" if it is over
	brief bool           // whether the search is so young that the record need not show it
	next  map[string]int // how many candidates to write next, by table
	// uncovered reports that some open shard may receive no canary, although the maximum number of
	// candidates was written.
	uncovered bool
}

// coverage judges the search for canaries. It writes nothing.
func (v *drive) coverage(ctx context.Context, c checkpoint.Cutover, found []readiness.Figures) (all coverage) {
	if v.covers != c.Attempt || v.tried == nil {
		v.covering = covering{c.Attempt, map[string]*candidates{}}
	}
	all.next, all.brief = map[string]int{}, true
	for i, source := range c.Tables {
		table := drain.CoverOf(c, source, found[i])
		t := v.tried[source]
		if t == nil {
			t = &candidates{before: table.Read}
			v.tried[source] = t
		}
		n := table.NextBatch(v.settings.Candidates)
		switch {
		case table.Uncovered == 0:
			continue
		case t.from < t.until: // a write has failed
			n = t.until - t.from
		// A candidate may be in a shard that is listed late, or that became a gap.
		case table.Read-t.before < t.sent && task.Mono(ctx)-t.written < c.ListedWithin():
			n = 0
		case n == 0:
			all.uncovered = true
			continue
		}
		if n > 0 {
			all.next[source] = n
		}
		if t.sent > 4*table.Open || t.sent > 0 && task.Mono(ctx)-t.written > briefly {
			all.brief = false
		}
		if all.waits == "" {
			all.waits = fmt.Sprintf("table %s: searching for canaries that reach %d of %d open shards; candidates so far: %d", source, table.Uncovered, table.Open, table.Written)
		}
	}
	return all
}

// writeCandidates writes the next batch of candidates of each table.
func (v *drive) writeCandidates(ctx context.Context, c checkpoint.Cutover, next map[string]int) error {
	until := map[string]int{}
	for source, n := range next {
		t := v.tried[source]
		if t.from == t.until && n > 0 {
			t.from, t.until = c.Candidates[source], c.Candidates[source]+n
		}
		until[source] = t.until
	}
	if err := v.noteCanaries(ctx, c, until); err != nil {
		return err
	}
	g := task.NewGroup(ctx, tablesAtOnce)
	for _, source := range c.Tables {
		if next[source] == 0 {
			continue
		}
		t, set := v.tried[source], v.canaries(source)
		g.Go("write candidates of "+source, func(ctx context.Context) error {
			if t.key == nil {
				d, err := v.Source.Describe(ctx, source)
				if err != nil {
					return err
				}
				t.key = d.PrimaryKey
			}
			for t.from < t.until {
				if err := v.writeSome(ctx, c, source, t, set); err != nil {
					return fmt.Errorf("table %s: %w", source, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// writeSome writes the next candidates of a batch concurrently.
func (v *drive) writeSome(ctx context.Context, c checkpoint.Cutover, source string, t *candidates, set *canary.Set) error {
	end := min(t.until, t.from+writesAtOnce)
	g := task.NewGroup(ctx, writesAtOnce)
	for i := t.from; i < end; i++ {
		g.Go("write a candidate of "+source, func(ctx context.Context) error {
			return v.Source.Put(ctx, source, set.Item(i, t.key, c.CandidateRound(), v.once(i)))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	t.sent, t.from, t.written = t.sent+end-t.from, end, task.Mono(ctx)
	return nil
}

// once returns a text that no other write of a canary has.
func (v *drive) once(i int) string {
	return fmt.Sprintf("%s.%d.%d", v.Ledger.Worker(), v.held.Epoch(), i)
}
