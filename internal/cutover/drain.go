package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// tablesAtOnce is the maximum number of tables that are read or sampled concurrently.
	tablesAtOnce = 128
	// comparesAtOnce is the maximum number of whole tables that this process compares concurrently. Each
	// needs memory for its items.
	comparesAtOnce = 16
	// writesAtOnce is the maximum number of canaries that are written concurrently.
	writesAtOnce = 64
)

// draining is the state of a drain. A driver that continues another driver's drain writes all
// canaries again. That is safe, because every canary of the attempt is still written after the
// freeze.
type draining struct {
	of     uint32
	tables map[string]*drainedTable
	// rest is how long the try usually takes after its drain. It is zero until a step after the
	// drain sets it.
	rest time.Duration
}

// drained creates the state of the attempt's drain if it does not exist.
func (v *drive) drained(c checkpoint.Cutover) {
	if v.draining.of != c.Attempt || v.draining.tables == nil {
		v.draining = draining{of: c.Attempt, tables: map[string]*drainedTable{}}
		for _, source := range c.Tables {
			v.draining.tables[source] = &drainedTable{}
		}
	}
}

// drain proves that all changes from before the freeze are applied. It handles all tables
// concurrently.
func (v *drive) drain(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	found, err := v.rowsOfAll(ctx, c)
	if err != nil {
		return err
	}
	if done, err := v.endsDisturbed(ctx, c, now, found); err != nil || done {
		return err
	}
	for i, source := range c.Tables {
		if why := found[i].Uncopied(v.settings.Ready.Lease, now); why != "" {
			return v.cancel(ctx, c, now, "table %s: %s", source, why)
		}
	}
	if err := v.stayQuiet(ctx, c, now); err != nil {
		return err
	}
	v.drained(c)
	if err := v.writeCanaries(ctx, c, found); err != nil {
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "canaries cannot be written: %v", err)))
	}
	proofs, waits, hopes := v.prove(c, found, now)
	switch {
	case hopes.why != "":
		return v.end(ctx, c, now, hopes)
	case waits != "":
		return v.trouble(ctx, c, "%s", waits)
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Proofs = proofs })
}

// prove returns the proofs of all tables. If proofs are missing, `waits` is the condition for which
// the drain waits. If the application cannot stay frozen for that long, `ends` is not empty.
func (v *drive) prove(c checkpoint.Cutover, found []readiness.Figures, now time.Time) (proofs []checkpoint.CutoverProof, waits string, ends ending) {
	for i, source := range c.Tables {
		p := &v.draining.tables[source].Proof
		proved, why := p.Prove(c, found[i], v.settings.Quiet)
		proofs = append(proofs, proved...)
		if why != "" && waits == "" {
			waits = fmt.Sprintf("table %s: %s", source, why)
		}
		if why != "" && ends.why == "" {
			ends = hopeless(c, source, p, v.settings, now)
		}
	}
	if waits != "" && ends.why == "" {
		ends = overTime(c, 0, now, waits)
	}
	return proofs, waits, ends
}

// rowsOfAll reads the rows of all tables of an attempt.
func (v *drive) rowsOfAll(ctx context.Context, c checkpoint.Cutover) ([]readiness.Figures, error) {
	found := make([]readiness.Figures, len(c.Tables))
	g := task.NewGroup(ctx, tablesAtOnce)
	for i, source := range c.Tables {
		g.Go("read the rows of "+source, func(ctx context.Context) (err error) {
			found[i], err = v.rows(ctx, source)
			return err
		})
	}
	return found, g.Wait()
}

// writeCanaries writes the canaries that are not written yet, for all tables.
func (v *drive) writeCanaries(ctx context.Context, c checkpoint.Cutover, found []readiness.Figures) error {
	g := task.NewGroup(ctx, tablesAtOnce)
	until := map[string]int{}
	for i, source := range c.Tables {
		t := v.draining.tables[source]
		if t.Written == nil {
			t.Written = drain.Canaries(found[i])
			t.sent, t.Unseen = make([]bool, len(t.Written)), len(t.Written)
		}
		if !slices.Contains(t.sent, false) {
			continue
		}
		until[source] = slices.Max(t.Written) + 1
		if t.key != nil {
			continue
		}
		g.Go("describe "+source, func(ctx context.Context) error {
			d, err := v.Source.Describe(ctx, source)
			t.key = d.PrimaryKey
			return err
		})
	}
	if err := g.Wait(); err != nil || len(until) == 0 {
		return err
	}
	if err := v.noteCanaries(ctx, c, until); err != nil {
		return err
	}
	return v.putCanaries(ctx, c)
}

func (v *drive) putCanaries(ctx context.Context, c checkpoint.Cutover) error {
	g := task.NewGroup(ctx, writesAtOnce)
	for _, source := range c.Tables {
		t, set := v.draining.tables[source], v.canaries(source)
		for n, i := range t.Written {
			if t.sent[n] {
				continue
			}
			g.Go("write a canary of "+source, func(ctx context.Context) error {
				if err := v.Source.Put(ctx, source, set.Item(i, t.key, c.ProofRound(), v.once(i))); err != nil {
					return fmt.Errorf("table %s: %w", source, err)
				}
				t.sent[n] = true
				return nil
			})
		}
	}
	return g.Wait()
}

// drainedTable is the state of one table in a drain.
type drainedTable struct {
	key  []transform.KeyAttribute
	sent []bool // whether each of the canaries in `written` is sent
	drain.Proof
}

// stillDisturbed reports, in a step after the drain, whether a change, a request or the time ends
// the try. The result `done` reports that the try has ended.
func (v *drive) stillDisturbed(ctx context.Context, c checkpoint.Cutover, now time.Time) (done bool, err error) {
	if c.FrozenAt.IsZero() {
		return false, nil
	}
	found, err := v.rowsOfAll(ctx, c)
	if err != nil {
		return false, err
	}
	v.draining.rest = restOf(c, comparesItself(found, v.settings.Ready.Small))
	if e := overTime(c, v.draining.rest, now, orNothing(c.Trouble)); e.why != "" {
		return true, v.end(ctx, c, now, e)
	}
	return v.endsDisturbed(ctx, c, now, found)
}

// stray describes a change that was made after the freeze and that a worker has read. It returns ""
// if there is no such change.
func (v *drive) stray(ctx context.Context, c checkpoint.Cutover, found []readiness.Figures) (string, error) {
	if c.FrozenAt.IsZero() {
		return "", nil
	}
	if len(c.Stragglers) > 0 { // the change was recorded before, but the cancel failed
		return missed(c.Stragglers[0]), nil
	}
	for i, source := range c.Tables {
		for _, s := range found[i].Shards {
			if stray, ok := sighted(c, source, s); ok {
				if _, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Stray(stray); return nil }); err != nil {
					return "", err
				}
				return missed(stray), nil
			}
		}
	}
	return "", nil
}

// sighted returns the change after the freeze that a worker has read in a shard. The result `ok` is
// false if there is none.
func sighted(c checkpoint.Cutover, source string, s checkpoint.Shard) (stray checkpoint.CutoverStraggler, ok bool) {
	at := s.Sighted.WrittenAt
	return checkpoint.CutoverStraggler{Table: source, Key: s.Sighted.Written, At: at}, after(at, c.StraysFrom())
}

// missed returns the message about a change that the target lacks.
func missed(s checkpoint.CutoverStraggler) string {
	if s.Tail {
		return fmt.Sprintf("item %s of table %s was changed at %s, before the freeze, but the stream returned the change only after the drain", s.Key, s.Table, s.At.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the application still writes: item %s of table %s was changed at %s, after the freeze", s.Key, s.Table, s.At.UTC().Format(time.RFC3339))
}

// after reports whether a change was certainly made after the freeze. Times of changes are rounded
// down to seconds, and servers' clocks differ slightly.
func after(change, frozen time.Time) bool { return change.After(frozen.Add(time.Second)) }
