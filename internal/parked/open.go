package parked

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// open connects the target with its parked items, and says so if it is an emulator.
func open(ctx context.Context, p *terminal.Console, cfg *config.Config) (*preflight.Target, *sink.Parking, error) {
	t, err := preflight.OpenTarget(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if host, _ := p.Env("BIGTABLE_EMULATOR_HOST"); host != "" {
		_, _ = fmt.Fprintf(p.Stderr, "%s EMULATOR at %s\n", preflight.TargetName(cfg), host)
	}
	return t, sink.NewParking(t.Data.Records(cfg.State.Table), cfg.Name), nil
}

// read lets f read the parked items, for a limited time.
func read(ctx context.Context, p *terminal.Console, cfg *config.Config, f func(ctx context.Context, lot *sink.Parking) error) error {
	t, lot, err := open(ctx, p, cfg)
	if err != nil {
		return err
	}
	defer t.Close()
	ctx, done := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	defer done()
	return Explain(ctx, cfg, f(ctx, lot))
}

// Decide finds the selected records and does with them what was decided.
func (d *Decision) Decide(ctx context.Context, s *Selection, act func(d *Decision, ctx context.Context) error) error {
	t, lot, err := open(ctx, d.Console, d.Cfg)
	if err != nil {
		return err
	}
	defer t.Close()
	d.target, d.lot = t, lot
	limited, done := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	d.chosen, err = s.find(limited, lot)
	err = Explain(limited, d.Cfg, err)
	done()
	if err != nil {
		return err
	}
	if len(d.chosen) == 0 && !d.AsJSON() {
		_, err := fmt.Fprintln(d.Stdout, s.nothing())
		return err
	}
	if err = act(d, ctx); err != nil && ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	return err
}
