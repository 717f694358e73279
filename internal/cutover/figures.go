package cutover

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// rows reads the ledger's rows of a table, of its shards, and of the progress of its appliers.
func (d *Driver) rows(ctx context.Context, source string) (f readiness.Figures, err error) {
	if f.State, f.Found, err = d.Ledger.Table(ctx, source); err != nil {
		return f, err
	}
	// This must be read before the shards: changes that are published later then count as
	// unapplied.
	if f.State.Apply == checkpoint.Topic {
		if f.Merged, err = d.Ledger.Merged(ctx, source); err != nil {
			return f, err
		}
	}
	f.Shards, err = d.Ledger.Shards(ctx, source)
	return f, err
}

// figures reads the data from which the gates of a table are judged, except the targets.
func (d *Driver) figures(ctx context.Context, source string) (f readiness.Figures, err error) {
	if f, err = d.rows(ctx, source); err != nil {
		return f, err
	}
	items, err := d.Parked(ctx, source)
	if err != nil {
		return f, err
	}
	f.Parked = len(items)
	return f, nil
}

// stands adds to f the other data from which the state of a table is judged.
func (d *Driver) stands(ctx context.Context, source string, f *readiness.Figures, now time.Time) (err error) {
	if f.Listings, err = d.Ledger.ListingsFor(ctx, source, f.State, f.Shards); err != nil {
		return err
	}
	if f.State.Apply == checkpoint.Topic {
		if f.DeadLetter, err = d.Ledger.DeadLetter(ctx); err != nil {
			return err
		}
	}
	lease, err := d.Ledger.CoordinatorLease(ctx, source)
	if err != nil {
		return err
	}
	f.Coordinator = lease.Heartbeat()
	processes, err := d.Ledger.Processes(ctx)
	f.Outdated = outdated(f, lease.Owner(), standing.Answering(processes, now, d.Ledger.Lease()))
	return err
}

// outdated returns why a process of an older version hinders a cutover; "" if there is none. Such a
// process keeps no record of the rows that it may write. It stops when the fence is raised for a
// cutover.
func outdated(f *readiness.Figures, coordinator string, processes []checkpoint.Process) string {
	worker, version := standing.Outdated(f.Shards, coordinator, f.Coordinator, processes)
	if worker == "" {
		return ""
	}
	return fmt.Sprintf("process %s runs version %s, which does not record what it may write", worker, version)
}

// Gates reads and judges all gates.
func (d *Driver) Gates(ctx context.Context, plan checkpoint.CutoverPlan, now time.Time) ([]checkpoint.CutoverGate, error) {
	found, targets := make([]readiness.Figures, len(plan.Tables)), make([]checkpoint.Target, len(plan.Targets))
	g := task.NewGroup(ctx, tablesAtOnce)
	for i, name := range plan.Targets {
		g.Go("read the target "+name, func(ctx context.Context) (err error) {
			targets[i], _, err = d.Ledger.Target(ctx, name)
			return err
		})
	}
	for i, source := range plan.Tables {
		g.Go("judge "+source, func(ctx context.Context) (err error) {
			if found[i], err = d.figures(ctx, source); err == nil {
				err = d.stands(ctx, source, &found[i], now)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var gates []checkpoint.CutoverGate
	for i, source := range plan.Tables {
		found[i].Targets = targets
		gates = append(gates, found[i].Judge(source, d.Settings.orDefault().Ready, now)...)
	}
	further, err := d.fallbackGates(ctx, plan)
	if err != nil {
		return nil, err
	}
	gates = append(gates, further...)
	readiness.Override(gates, plan)
	return gates, nil
}
