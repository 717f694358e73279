package loads

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// estimateAll adds the estimate to each decision that begins a load.
func (in *Input) estimateAll(ctx context.Context, from preflight.Describer, prices cost.Prices, r Request, decided []Decided) error {
	for i := range decided {
		d := &decided[i]
		if d.Action != ActionStart && d.Action != ActionRedo {
			continue
		}
		t, err := from.Describe(ctx, d.Source)
		if err != nil {
			return err
		}
		d.Estimate = in.estimate(t, prices, r, in.Tables[i])
	}
	return nil
}

func (in *Input) estimate(d backfill.Description, prices cost.Prices, r Request, t TableInput) *Estimate {
	limits := t.State.Limits.Over(Configured(in.Cfg.Backfill))
	asked := cost.Table{Items: d.Items, Bytes: d.Bytes, ReadCapacity: d.ReadCapacity, Fast: in.fast(r, t)}
	asked.RowsPerSecond, _ = limits.Rows()
	asked.ReadLimit, _ = limits.ReadUnits(d.ReadCapacity)
	copying := prices.Copying(asked, cost.Cluster{})
	e := &Estimate{Items: d.Items, Bytes: d.Bytes, Parts: source.OfScan(d, in.Cfg.Backfill.Segments).Parts, LimitedBy: copying.LimitedBy, Mode: string(checkpoint.GuardedLoad), Sweep: sweepText(t)}
	if asked.Fast {
		e.Mode, e.Sweep = string(checkpoint.FastLoad), "removes the cells that the copy left in rows that changed meanwhile"
	}
	if copying.Time > 0 {
		seconds := copying.Time.Seconds()
		e.Seconds = &seconds
	}
	for _, line := range prices.Estimate(asked, cost.Cluster{}, cost.Run{}) {
		if line.Per == cost.Once {
			e.Cost = append(e.Cost, line)
		}
	}
	return e
}

// fast reports whether the load that the request asks for is fast, as far as a command can see.
func (in *Input) fast(r Request, t TableInput) bool {
	mode := in.Cfg.ModeOf(t.Config)
	wanted := r.Fast || mode == string(checkpoint.AutoLoad) || mode == string(checkpoint.FastLoad)
	return wanted && r.Action == ActionStart && t.State.RefusesFast() == "" && t.notFast == ""
}

// sweepText describes the expected sweep after the copy.
func sweepText(t TableInput) string {
	s := t.State
	counts := s.Load.Sweep.Counts
	switch {
	case standing.LoadOf(s, false).FirstIntoOwn:
		return "none, because replicator created the target and this is its first load"
	case s.Load.Sweep.Waiting:
		return fmt.Sprintf("write %s, remove %s, as counted by the previous load", rows(counts.Put), rows(counts.Removed))
	case s.MadeByUs, s.Load.Sweep.Approved:
		return "rows that the copy does not write are compared with the source, then written again or removed"
	case t.Config.Owned:
		return "counts rows that the copy does not write and rows without a version, then waits for `replicator backfill resume --yes`"
	}
	return "counts rows of this table that the copy does not write, then waits for `replicator backfill resume --yes`"
}
