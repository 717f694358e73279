package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// await waits until everything is done, and records a failure if that takes too long.
func (c *changeRun) await(ctx context.Context) {
	c.World.Tracef("peace")
	c.slow = 0
	limit := c.World.Elapsed() + 6*time.Hour
	err := c.quiet()
	for ; err != nil && c.World.Elapsed() < limit; err = c.quiet() {
		for _, w := range c.crew {
			if w.Over && !errors.Is(w.Err, checkpoint.ErrMappingChanged) {
				c.failures = append(c.failures, fmt.Sprintf("I10: %s ended by itself: %v", w.Name(), w.Err))
				return
			}
		}
		c.assist(ctx)
		_ = task.Sleep(ctx, 20*time.Second)
	}
	if err != nil {
		c.failures = append(c.failures, "I1: "+err.Error())
		return
	}
	_ = task.Sleep(ctx, c.Target.LateBy+5*time.Minute)
	if err := c.quiet(); err != nil {
		c.failures = append(c.failures, "I1: after late requests: "+err.Error())
	}
}

// assist acts as the operator when the table waits for a decision.
func (c *changeRun) assist(ctx context.Context) {
	ledger, err := c.Ledger(ctx)
	if err != nil {
		return
	}
	state := c.State()
	if state.Load.Sweep.Waiting {
		c.World.Inject("sweep approved")
		_, _ = ledger.ApproveSweep(ctx, c.Mapping.Source)
	}
	if state.NeedsLoad && state.Tries >= checkpoint.MaxTries && state.Stage() == checkpoint.StageNone {
		c.World.Inject("load asked for")
		_, _ = ledger.AskLoad(ctx, c.Mapping.Source, true)
	}
}

// vague reports whether old cells of former mappings cannot be attributed.
func (c *changeRun) vague() bool {
	return slices.ContainsFunc(c.chapters, func(at chapter) bool { return at.vague })
}

// quiet returns what is still to be done, or nil.
func (c *changeRun) quiet() error {
	state := c.State()
	swept := !state.Load.SweptAt.IsZero() && state.Load.Generation == state.Generation
	switch {
	case state.MappingHash != c.present().hash:
		return fmt.Errorf("the mapping is %q", state.MappingHash)
	case state.NeedsLoad && swept && (c.vague() || c.options.Forgets) && state.Kind == checkpoint.KindMappingChanged:
		if missing := c.unequal(true); len(missing) > 0 {
			return errors.New(strings.Join(missing, "\n"))
		}
		c.World.Inject("former cells cannot be told apart")
		return nil
	case state.NeedsLoad || state.Base != state.Generation:
		return fmt.Errorf("the table is not loaded and swept: %s, %s, %s", state.Stage(), state.Reason, state.Load.Paused)
	case len(state.Former) > 0:
		return fmt.Errorf("%d former mappings are kept", len(state.Former))
	}
	if diff := c.unequal(false); len(diff) > 0 {
		return errors.New(strings.Join(diff, "\n"))
	}
	c.World.Inject("in sync under the last mapping")
	return nil
}

// unequal returns the differences in all tables that any mapping wrote. It includes rows and
// columns of former mappings, unless lenient is set.
func (c *changeRun) unequal(lenient bool) (diff []string) {
	want := map[rowID]map[string]string{}
	for _, item := range c.Source.Items() {
		placed, err := c.Mapping.Map(item, time.Time{})
		if err != nil {
			continue
		}
		for _, row := range placed.Rows {
			id := rowID{row.Table, row.Row}
			if want[id] == nil {
				want[id] = map[string]string{}
			}
			for _, cell := range row.Cells {
				want[id][cell.Family+":"+cell.Qualifier] = string(cell.Value)
			}
		}
	}
	for _, table := range changeTables {
		for _, key := range c.Target.Rows(table) {
			id, row := rowID{table, key}, c.Target.Row(table, key)
			if strings.HasPrefix(key, "other#") {
				if v, _ := row.Value("d", "theirs"); v != "x" && !c.deleted[table+"/d"] {
					diff = append(diff, fmt.Sprintf("%s: row %q of a neighbour is not as it was", table, key))
				}
				continue
			}
			if strings.HasPrefix(key, transform.WitnessPrefix) {
				if held := row.Cols; len(held) > 0 && !lenient && !slices.Contains(c.Mapping.Tables(), table) {
					diff = append(diff, table+": a former witness is left")
				}
				continue
			}
			have := map[string]string{}
			row.EachColumn(func(col *model.Column) {
				if isOurs(col.Family) || sink.IsFence(col.Family) {
					return
				}
				if at := col.Family + ":" + col.Qualifier; !lenient || want[id][at] != "" {
					have[at] = col.Cells[0].Value
				}
			})
			if !equalCells(have, want[id]) {
				diff = append(diff, fmt.Sprintf("%s: row %q holds %v, should hold %v", table, key, have, want[id]))
			}
			if live := slices.ContainsFunc(owners(row), func(owner string) bool { _, live := row.Value(sink.LiveFamily, versionColumn(owner)); return live }); live && want[id] == nil && !lenient {
				diff = append(diff, fmt.Sprintf("%s: row %q is alive", table, key))
			}
			delete(want, id)
		}
	}
	for id := range want {
		if len(want[id]) > 0 {
			diff = append(diff, fmt.Sprintf("%s: row %q is missing", id.table, id.row))
		}
	}
	slices.Sort(diff)
	return diff
}
