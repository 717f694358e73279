package parked

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// lotOf returns the store of a migration's parked items.
func lotOf(m *desk.Migration, cfg *config.Config) *sink.Parking {
	return sink.NewParking(m.To.Records(cfg.State.Table), cfg.Name)
}

// read opens the parked items for a command and calls f, with a time limit.
func read(ctx context.Context, p *terminal.Console, cfg *config.Config, r desk.Request, f func(ctx context.Context, lot *sink.Parking) error) error {
	m, err := desk.Ends{}.Open(ctx, p, cfg, r)
	if err != nil {
		return err
	}
	defer m.Close()
	ctx, done := preflight.Reading(ctx)
	defer done()
	return Explain(ctx, cfg, f(ctx, lotOf(m, cfg)))
}

// The commands that change parked items.
const (
	RetryCommand = "parked retry"
	DropCommand  = "parked drop"
)

// Decide opens the migration for a command, finds the selected records, and calls act with them.
func (d *Decision) Decide(ctx context.Context, command string, s *Selection, act func(d *Decision, ctx context.Context) error) error {
	m, err := d.Ends.Open(ctx, d.Console, d.Cfg, desk.Request{Command: command, Table: s.Table, Allowed: d.Allowed})
	if err != nil {
		return err
	}
	defer m.Close()
	d.Target, d.Lot = m.To, lotOf(m, d.Cfg)
	d.Connect = func(ctx context.Context) (repair.Source, error) {
		err := m.Reach(ctx)
		return m.From, err
	}
	limited, done := preflight.Reading(ctx)
	d.Chosen, err = s.Find(limited, d.Lot)
	err = Explain(limited, d.Cfg, err)
	done()
	if err != nil {
		return err
	}
	if len(d.Chosen) == 0 && !d.AsJSON() {
		_, err := fmt.Fprintln(d.Stdout, s.nothing())
		return err
	}
	if err = act(d, ctx); err != nil && ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	return err
}
