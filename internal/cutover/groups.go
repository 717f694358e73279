package cutover

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// RunAll drives the cutovers of all groups that no other process drives, side by side, until ctx ends
// or over returns true for the records of all groups. Each group has its own lease.
func (d *Driver) RunAll(ctx context.Context, over func(all checkpoint.Cutovers) bool) error {
	settings := d.Settings.orDefault()
	var mu sync.Mutex
	driving := map[string]bool{} // the groups that have a driver here, by row
	set := func(row string, drives bool) (before bool) {
		mu.Lock()
		defer mu.Unlock()
		before, driving[row] = driving[row], drives
		return before
	}
	g := task.NewGroup(ctx, 0)
	g.Go("look for cutovers", func(ctx context.Context) error {
		for ; ctx.Err() == nil; _ = task.Sleep(ctx, settings.Idle) {
			all, err := d.Ledger.Cutovers(ctx)
			if err != nil {
				if ctx.Err() == nil {
					d.failed("drive the cutover", err)
				}
				continue
			}
			if over(all) {
				return nil
			}
			for _, c := range all {
				if !d.needed(c) || set(c.Row, true) {
					continue
				}
				one := *d
				one.Row = c.Row
				g.Go("drive the cutover of group "+c.Row, func(ctx context.Context) error {
					defer set(c.Row, false)
					return one.Run(ctx, func(c checkpoint.Cutover) bool { return !one.needed(c) })
				})
			}
		}
		return nil
	})
	return g.Wait()
}

// rival names another cutover that moves some of the same tables; "" if there is none. Two commands
// may have requested both at the same time. Then neither of them freezes anything. It also finds a
// table that began to write to a target after the request.
func (v *drive) rival(ctx context.Context, c checkpoint.Cutover) (string, error) {
	all, err := v.Ledger.Cutovers(ctx)
	if err != nil {
		return "", err
	}
	for i := range all {
		if other := &all[i]; other.Row != c.Row && other.Step.Active() && other.Clashes(c.CutoverPlan) {
			return fmt.Sprintf("another cutover of these tables is running: attempt %d of %s", other.Attempt, other.Group), nil
		}
	}
	states, err := v.Ledger.Tables(ctx)
	for _, s := range states {
		writes := slices.ContainsFunc(s.Targets, func(target string) bool { return slices.Contains(c.Targets, target) })
		if writes && s.Generation > 0 && !c.Moves(s.Source) {
			return "table " + s.Source + " writes to the same target, but was not requested", err
		}
	}
	return "", err
}
