package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// tablesAtOnce bounds the tables whose rows are read, or which are compared, at the same time.
	tablesAtOnce = 16
	// writesAtOnce bounds the canaries that are written at the same time.
	writesAtOnce = 64
)

// draining is the state of a drain. A driver that continues another's writes all canaries again;
// they are of the same attempt, so that each one still was written after the freeze.
type draining struct {
	of     uint32
	tables map[string]*drainedTable
}

// drained returns the state of an attempt's drain.
func (v *drive) drained(c checkpoint.Cutover) map[string]*drainedTable {
	if v.draining.of != c.Attempt || v.draining.tables == nil {
		v.draining = draining{of: c.Attempt, tables: map[string]*drainedTable{}}
		for _, source := range c.Tables {
			v.draining.tables[source] = &drainedTable{}
		}
	}
	return v.draining.tables
}

// drain proves that everything written before the freeze is applied, for all tables side by side.
func (v *drive) drain(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	found, err := v.rowsOfAll(ctx, c)
	if err != nil {
		return err
	}
	if stray, err := v.stray(ctx, c, found); err != nil || stray != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", stray)
		}
		return err
	}
	for i, source := range c.Tables {
		stands := found[i].standing(v.settings.Ready.Lease, now)
		if ok, why, _ := found[i].copied(&stands); !ok {
			return v.cancel(ctx, c, now, "table %s: %s", source, why)
		}
	}
	tables := v.drained(c)
	if err := v.writeCanaries(ctx, c, found); err != nil {
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "canaries cannot be written: %v", err)))
	}
	var proofs []checkpoint.CutoverProof
	waits := ""
	for i, source := range c.Tables {
		proved, why := tables[source].prove(c, found[i], v.settings)
		if why != "" && waits == "" {
			waits = fmt.Sprintf("table %s: %s", source, why)
		}
		proofs = append(proofs, proved...)
	}
	if waits != "" {
		return v.trouble(ctx, c, "%s", waits)
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Proofs = proofs })
}

// rowsOfAll reads the rows of all tables of an attempt.
func (v *drive) rowsOfAll(ctx context.Context, c checkpoint.Cutover) ([]Figures, error) {
	found := make([]Figures, len(c.Tables))
	g := task.NewGroup(ctx, tablesAtOnce)
	for i, source := range c.Tables {
		g.Go("read the rows of "+source, func(ctx context.Context) (err error) {
			found[i], err = v.rows(ctx, source)
			return err
		})
	}
	return found, g.Wait()
}

// writeCanaries writes the canaries of all tables that are not written yet.
func (v *drive) writeCanaries(ctx context.Context, c checkpoint.Cutover, found []Figures) error {
	g := task.NewGroup(ctx, tablesAtOnce)
	all := 0
	for i, source := range c.Tables {
		t := v.draining.tables[source]
		if t.written == nil {
			t.written = make([]bool, canary.Number(len(standing.Open(found[i].State, found[i].Shards))))
			t.all, t.unseen = len(t.written), len(t.written)
		}
		missing := t.missing()
		all += len(missing)
		if t.key != nil || len(missing) == 0 {
			continue
		}
		g.Go("describe "+source, func(ctx context.Context) error {
			d, err := v.Source.Describe(ctx, source)
			t.key = d.PrimaryKey
			return err
		})
	}
	if err := g.Wait(); err != nil || all == 0 {
		return err
	}
	if err := v.noteCanaries(ctx, c); err != nil {
		return err
	}
	return v.putCanaries(ctx, c)
}

func (v *drive) putCanaries(ctx context.Context, c checkpoint.Cutover) error {
	g := task.NewGroup(ctx, writesAtOnce)
	for _, source := range c.Tables {
		t, set := v.draining.tables[source], v.canaries(source)
		for _, i := range t.missing() {
			g.Go("write a canary of "+source, func(ctx context.Context) error {
				once := fmt.Sprintf("%s.%d.%d", v.Ledger.Worker(), v.held.Epoch(), i)
				if err := v.Source.Put(ctx, source, set.Item(i, t.key, c.Attempt, once)); err != nil {
					return fmt.Errorf("table %s: %w", source, err)
				}
				t.written[i] = true
				return nil
			})
		}
	}
	return g.Wait()
}

// drainedTable is one table in a drain.
type drainedTable struct {
	key     []transform.KeyAttribute
	written []bool // by canary
	proof
}

// missing returns the canaries that are not written.
func (t *drainedTable) missing() (missing []int) {
	for i, written := range t.written {
		if !written {
			missing = append(missing, i)
		}
	}
	return missing
}

// stragglers names a change that was made after the freeze.
func (v *drive) stragglers(ctx context.Context, c checkpoint.Cutover) (string, error) {
	if c.FrozenAt.IsZero() {
		return "", nil
	}
	found, err := v.rowsOfAll(ctx, c)
	if err != nil {
		return "", err
	}
	return v.stray(ctx, c, found)
}

// stray names a change that workers have read and that was made after the freeze; "" if there is none.
func (v *drive) stray(ctx context.Context, c checkpoint.Cutover, found []Figures) (string, error) {
	if c.FrozenAt.IsZero() {
		return "", nil
	}
	if len(c.Stragglers) > 0 { // it was noted, and the cancel failed
		return stillWrites(c.Stragglers[0]), nil
	}
	for i, source := range c.Tables {
		for _, s := range found[i].Shards {
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

// stillWrites says that the application has not stopped.
func stillWrites(s checkpoint.CutoverStraggler) string {
	return fmt.Sprintf("the application still writes: item %s of table %s was changed at %s, after the freeze", s.Key, s.Table, s.At.UTC().Format(time.RFC3339))
}

// after tells whether a change was surely made after the freeze: times of changes are floored to the
// second, and servers' clocks differ by a little.
func after(change, frozen time.Time) bool { return change.After(frozen.Add(time.Second)) }
