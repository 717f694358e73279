package switchover

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Leaders runs the leaders of the ways back of all tables, as far as no other process leads them.
type Leaders struct {
	Ends
	// Failed is called with each failure that is retried.
	Failed func(step, table string, err error)
}

// leadersEvery is the time between two looks for ways back that need a leader.
const leadersEvery = 3 * time.Second

// Run leads until ctx ends. When `staying` ends, every leader finishes what it has begun, and Run
// returns.
func (l *Leaders) Run(ctx, staying context.Context) error {
	g := task.NewGroup(ctx, 0)
	var mu sync.Mutex
	led := map[string]bool{} // the tables that have a task
	set := func(table string, on bool) (was bool) {
		mu.Lock()
		defer mu.Unlock()
		was, led[table] = led[table], on
		return was
	}
	g.Go("look for ways back", func(ctx context.Context) error {
		for ; staying.Err() == nil; _ = task.Sleep(staying, min(leadersEvery, l.Ledger.Lease())) {
			all, err := l.Ledger.Cutovers(ctx)
			if err != nil {
				continue // the survey of this process reports it
			}
			for _, c := range all {
				if !c.WayBack {
					continue
				}
				for _, table := range c.Tables {
					if f, found, err := l.Ledger.Fallback(ctx, table); err != nil || !found || f.State == checkpoint.FallbackStopped || set(table, true) {
						continue
					}
					g.Go("lead the way back of "+table, func(ctx context.Context) error {
						defer set(table, false)
						l.lead(ctx, staying, c.Row, table)
						return nil
					})
				}
			}
		}
		return nil
	})
	return g.Wait()
}

// lead leads the way back of a table whenever its lease is free, until the way back is stopped.
func (l *Leaders) lead(ctx, staying context.Context, row, table string) {
	watch := l.Ledger.NewWatch()
	for staying.Err() == nil && ctx.Err() == nil {
		f, found, err := l.Ledger.Fallback(ctx, table)
		if err == nil && (!found || f.State == checkpoint.FallbackStopped) {
			return
		}
		var leader *fallback.Leader
		if err == nil {
			leader, err = l.leader(ctx, row, table)
		}
		if err == nil {
			leader.Leaving = func() bool { return staying.Err() != nil }
			err = leader.Lead(ctx, watch)
		}
		if err != nil && ctx.Err() == nil {
			l.Failed("lead the way back", table, err)
		}
		_ = task.Sleep(staying, time.Second)
	}
}

// leader returns the leader of a table's way back.
func (l *Leaders) leader(ctx context.Context, row, table string) (*fallback.Leader, error) {
	form, err := l.inverse(ctx, table)
	if err != nil {
		return nil, err
	}
	state, _, err := l.Ledger.Table(ctx, table)
	if err != nil {
		return nil, err
	}
	target := form.Tables()[0]
	to := &fallback.Bigtable{Target: l.Back.Rows, Families: map[string][]string{target: form.Managed(target)}}
	return &fallback.Leader{
		Ledger: l.Ledger, Source: table, Table: target, Form: form, Rows: to, Changes: to, Items: l.Back.Items, Stream: l.Source.Open(state.StreamARN), Timings: l.Timings,
		MayWrite: func(ctx context.Context, attempt uint32) (bool, error) {
			c, err := l.Ledger.Cutover(ctx, row)
			return c.Attempt == attempt && c.HasFallback(), err
		},
		Hear: func(ctx context.Context) error {
			d, err := l.Source.Describe(ctx, table)
			if err == nil {
				l.Ledger.Heard(ctx, d.At)
			}
			return err
		},
		Failed: func(step string, err error) { l.Failed(step, table, err) },
	}, nil
}

// inverse returns the mapping of a table that is cut over, both ways.
func (e Ends) inverse(ctx context.Context, table string) (i fallback.Inverse, err error) {
	t, ok := e.Cfg.Table(table)
	if !ok {
		return i, fmt.Errorf("table %s is not in the configuration of this process", table)
	}
	found, err := preflight.DescribeTable(ctx, e.Source, t)
	if err != nil {
		return i, err
	}
	all, err := e.Ledger.Cutovers(ctx)
	if err != nil {
		return i, err
	}
	state, _, err := e.Ledger.Table(ctx, table)
	if err == nil && state.MappingHash != e.Cfg.Hash(t) {
		err = checkpoint.ErrMappingChanged
	}
	if err != nil {
		return i, err
	}
	c := all.Of(table, t.Pattern())
	return formOf(found, c.Forms[table])
}
