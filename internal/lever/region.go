package lever

import (
	"context"
	"errors"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
)

// checkRegion refuses flags that a move to another region does not have.
func (o *Failover) checkRegion() error {
	switch {
	case o.SourceRegion == "":
		return nil
	case !config.IsRegion(o.SourceRegion):
		return diag.BadUsage("--source-region is "+o.SourceRegion, "write it like eu-west-1")
	case o.StoppedFirst || o.Switched != "":
		return diag.BadUsage("--source-region is given together with a flag for another cluster of the target", "remove --workers-stopped-first and --switched")
	}
	return nil
}

// openRegion opens the migration with the source tables of the other region.
func (o *Failover) openRegion(ctx context.Context) (*desk.Migration, error) {
	m, err := o.Ends.Open(ctx, o.Console, o.Cfg.InRegion(o.SourceRegion), desk.Request{Command: "failover --source-region", Allowed: o.Allowed, With: o.With})
	var missing *diag.Error
	if errors.As(err, &missing) && missing.Code == diag.SourceNotFound {
		e := *missing
		e.Fix = "check the name of the region. If only this table has no replica there, add one, or remove the table from the configuration"
		err = &e
	}
	return m, err
}

// region describes the tables that were found in the other region.
func (o *Failover) region(m *desk.Migration) failover.Region {
	to := failover.Region{Name: o.SourceRegion}
	for _, t := range m.Tables {
		left := m.Cutovers().Of(t.Config.From, t.Config.Pattern())
		switch {
		case left.Left() != nil:
			continue
		case t.Mapping == nil:
			to.Missing = append(to.Missing, t.Config.From)
			continue
		}
		to.Tables = append(to.Tables, failover.RegionTable{Description: t.Description, Mapping: t.Mapping, NeedsOld: engine.NeedsOldImages(t.Mapping, o.Cfg.Late(t.Config))})
	}
	return to
}
