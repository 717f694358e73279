package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A fast load writes rows without a condition (sink.Marker). That is safe only for the first load
// into a target table that holds nothing else. The conductor decides it when it seals the load, and
// again when the load ends. It makes three promises that the rules of sink.Marker need:
//
//   - Before the first row is written, every process that writes guarded rows knows the time of the
//     load's cells. The time is in the target's record before the fence is raised, and lower numbers
//     of the fence are dropped before the load is sealed.
//   - Before the sweep, no request of the load can be executed any more. The fence is raised again,
//     and lower numbers are dropped. Then a request with the load's number is tried: it must be
//     refused.
//   - The sweep ends before any tombstone of the generation may be collected.

// ageRules reads the collection rules of a target table's families. *sink.Admin implements it.
type ageRules interface {
	AgeRules(ctx context.Context, table string) ([]string, error)
}

// SettingsRefuse returns why the settings and the mapping of a table do not allow a fast load; ""
// if they do.
func SettingsRefuse(m *transform.Mapping, mode checkpoint.Mode, late time.Duration, shared bool) string {
	switch why := m.NotPlain(); {
	case why != "":
		return why
	case mode != checkpoint.Direct:
		return "changes are published to a topic"
	case late > 0:
		return "dual_writes: the application writes the target too"
	case shared:
		return "target.shared: another migration may write the target table"
	}
	return ""
}

// refusesFast returns why a load of the table may not be fast now; "" if it may.
func (c *Conductor) refusesFast(ctx context.Context, v engine.View) (string, error) {
	if why := cmp.Or(v.State.RefusesFast(), SettingsRefuse(c.mapping, c.Mode, c.settings.late, c.settings.shared)); why != "" {
		return why, nil
	}
	processes, err := c.Ledger.Processes(ctx)
	if err != nil {
		return "", err
	}
	running := standing.Answering(processes, c.Ledger.Now(ctx), c.Ledger.Lease())
	if worker, version := standing.KeepsMarkers(v.Shards, running); worker != "" {
		return fmt.Sprintf("worker %s runs version %s, which does not know fast loads", worker, version), nil
	}
	tables, err := c.Ledger.Tables(ctx)
	if err != nil {
		return "", err
	}
	for _, other := range tables {
		for _, table := range c.mapping.Tables() {
			if other.Source != c.Source && slices.Contains(other.Targets, table) {
				return fmt.Sprintf("table %s has the same target table %s", other.Source, table), nil
			}
		}
	}
	return c.targetRefuses(ctx)
}

// targetRefuses returns why a target table does not allow a fast load; "" if all do.
func (c *Conductor) targetRefuses(ctx context.Context) (string, error) {
	rules, known := c.fencing.Families.(ageRules)
	if !known {
		return "this worker cannot read the collection rules of the target's families", nil
	}
	for _, table := range c.mapping.Tables() {
		t, _, err := c.Ledger.Target(ctx, table)
		if err != nil {
			return "", err
		}
		if t.Withheld != "" {
			return fmt.Sprintf("table %s has no fence: %s", table, t.Withheld), nil
		}
		aged, err := rules.AgeRules(ctx, table)
		if err != nil {
			return "", err
		}
		if len(aged) > 0 {
			return fmt.Sprintf("family %s of table %s collects cells by age", aged[0], table), nil
		}
	}
	return "", nil
}

// decide decides whether the load is fast. It returns the time of the load's cells, or why the load
// is guarded. It makes the target tables ready for a fast load.
func (c *Conductor) decide(life engine.Lifecycle, v engine.View) (at time.Time, guarded string, err error) {
	mode := cmp.Or(v.State.Load.Mode, c.settings.mode, checkpoint.GuardedLoad)
	if mode == checkpoint.GuardedLoad {
		return time.Time{}, "", nil
	}
	err = c.call(life, func(ctx context.Context) (err error) { guarded, err = c.refusesFast(ctx, v); return err })
	if err != nil || guarded != "" {
		return time.Time{}, guarded, err
	}
	at, known := checkpoint.FastTime(v.State, v.Shards)
	if !known {
		return time.Time{}, "no shard of the stream has been read", nil
	}
	err = c.call(life, func(ctx context.Context) (err error) { at, err = c.publishTime(ctx, at); return err })
	if err != nil {
		return time.Time{}, "", err
	}
	guarded, err = c.renumber(life)
	if err != nil || guarded != "" {
		return time.Time{}, guarded, err
	}
	return at, "", nil
}

// publishTime writes the time of the load's cells into the records of all target tables. A time that
// an earlier attempt has written stays, because rows may have it.
func (c *Conductor) publishTime(ctx context.Context, at time.Time) (time.Time, error) {
	for _, table := range c.mapping.Tables() {
		t, _, err := c.Ledger.Target(ctx, table)
		if err != nil {
			return at, err
		}
		if !t.CopiedAt.IsZero() {
			at = t.CopiedAt
			break
		}
	}
	for _, table := range c.mapping.Tables() {
		_, err := c.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error {
			t.CopiedAt, t.Swept = at, false
			return nil
		})
		if err != nil {
			return at, err
		}
	}
	return at, nil
}

// renumber raises the fence of all target tables, and drops the lower numbers. It returns when no
// request with a lower number can be executed, or why there is no such fence.
func (c *Conductor) renumber(life engine.Lifecycle) (withheld string, err error) {
	if err := c.call(life, func(ctx context.Context) error { return c.fencing.RaiseAll(ctx) }); err != nil {
		return "", err
	}
	f := c.fencing.Fence
	f.Rest = func(_ context.Context, d time.Duration) error { return life.Rest(d) }
	for _, table := range c.mapping.Tables() {
		t, _, err := c.Ledger.Target(life.Work, table)
		if err != nil {
			return "", err
		}
		why, err := f.Drop(life.Work, table, t.Fence)
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// numbers returns the published numbers of the fence of all target tables.
func (c *Conductor) numbers(ctx context.Context) (map[string]uint64, error) {
	numbers := map[string]uint64{}
	for _, table := range c.mapping.Tables() {
		t, _, err := c.Ledger.Target(ctx, table)
		if err != nil {
			return nil, err
		}
		numbers[table] = t.Fence
	}
	return numbers, nil
}

const (
	// probedKeys is the maximum number of rows per table at which the fence is probed.
	probedKeys = 100
	// probes is how often the fence is probed before the load must wait.
	probes = 3
	// stuckFor is how long the load then waits.
	stuckFor = 5 * time.Minute
)

// probe tries requests with the number under which a fast load was written. All must be refused
// before its sweep begins. Bigtable does not document when all its servers know that a family was
// dropped. The probed rows lie in all parts of the tables.
func (c *Conductor) probe(life engine.Lifecycle, state checkpoint.TableState) error {
	for n := 0; ; n++ {
		accepted, err := c.probeOnce(life, state)
		if err != nil || accepted == "" {
			return err
		}
		if n+1 == probes {
			c.stuck, c.stuckSince = checkpoint.PausedForFence+accepted, task.Mono(life.Work)
			return nil
		}
		if err := life.Rest(c.Ledger.Lease() + sink.DefaultTimeout); err != nil {
			return err
		}
	}
}

// probeOnce returns the table that still accepts a number of the load; "" if none does.
func (c *Conductor) probeOnce(life engine.Lifecycle, state checkpoint.TableState) (accepted string, err error) {
	for _, table := range c.mapping.Tables() {
		number, known := state.Load.Numbers[table]
		if !known {
			continue
		}
		mark := sink.Mark{Number: number, Family: sink.FenceFamily(c.Ledger.ID(), number)}
		var taken int
		err := c.call(life, func(ctx context.Context) error {
			keys, err := c.target.SampleKeys(ctx, table)
			if err != nil {
				return err
			}
			keys = spread(append(keys, transform.WitnessPrefix), probedKeys)
			taken, err = c.writer.Probe(ctx, table, mark, keys)
			return err
		})
		if err != nil {
			return "", err
		}
		if taken > 0 {
			return table, nil
		}
	}
	return "", nil
}

// spread returns at most `most` of the keys, evenly spread.
func spread(keys []string, most int) []string {
	if len(keys) <= most {
		return keys
	}
	out := make([]string, most)
	for i := range out {
		out[i] = keys[i*len(keys)/most]
	}
	return out
}

// mayEnd reports whether a fast load may end. If it may not go on, mayEnd begins another
// generation, whose load is guarded, and fails with errRaised.
func (c *Conductor) mayEnd(life engine.Lifecycle, v engine.View) error {
	if !v.State.Load.Fast {
		return nil
	}
	var why string
	err := c.call(life, func(ctx context.Context) (err error) { why, err = c.refusesFast(ctx, v); return err })
	if err != nil {
		return err
	}
	if until := v.State.FastUntil(c.settings.imageAge); why == "" && !until.IsZero() && c.Ledger.Now(life.Work).After(until) {
		why = "tombstones that it needs may be collected"
	}
	if why == "" {
		return nil
	}
	return cmp.Or(c.Raise(life, v.State.Generation, v.State.NotFast(why), nil), errRaised)
}

// mayStillEnd is mayEnd with the table's record as it is now.
func (c *Conductor) mayStillEnd(life engine.Lifecycle, state checkpoint.TableState) error {
	if !state.Load.Fast {
		return nil
	}
	var v engine.View
	if err := c.call(life, func(ctx context.Context) (err error) { v, err = c.Look(ctx); return err }); err != nil {
		return err
	}
	if v.State.Generation != state.Generation {
		return errRaised
	}
	return c.mayEnd(life, v)
}

// swept records in the targets' records that the cells of fast loads are swept.
func (c *Conductor) swept(ctx context.Context, state checkpoint.TableState) error {
	if state.Base != state.Generation {
		return nil
	}
	for _, table := range c.mapping.Tables() {
		t, _, err := c.Ledger.Target(ctx, table)
		if err == nil && !t.CopiedAt.IsZero() && !t.Swept {
			_, err = c.Ledger.UpdateTarget(ctx, table, func(t *checkpoint.Target) error { t.Swept = true; return nil })
		}
		if err != nil {
			return err
		}
	}
	return nil
}
