package load

import (
	"context"
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/job"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// kind adapts a table's loads to package job.
type kind struct{ *Loader }

// Look returns the table's record, and a part of the load's current phase.
func (k kind) Look(ctx context.Context) (checkpoint.TableState, checkpoint.Part, error) {
	state, _, err := k.Ledger.Table(ctx, k.Source)
	if err != nil || state.Load.Paused != "" || state.Suspended.Reason != "" || state.MappingHash != k.MappingHash {
		return state, checkpoint.Part{}, err
	}
	return state, state.LoadPart(), nil
}

// Begin reports that a copy begins or is resumed.
func (k kind) Begin(_ context.Context, state checkpoint.TableState, rows []checkpoint.Part) (job.Phase, error) {
	of := state.LoadPart()
	if of.Phase == checkpoint.PhaseCopy {
		k.Events.CopyStarted(k.Source, state.Load.Estimate, checkpoint.PartsDone(rows, of.Total).Items)
	}
	return phase{k.Loader, of.Phase}, nil
}

// Pace sets the limit on written rows. An operator's limit takes precedence over the configured
// limit, which several tables may share. The beginning of a fast load has a limit of its own.
func (k kind) Pace(ctx context.Context, state checkpoint.TableState, limits checkpoint.Limits) (ramp float64) {
	if k.rampUp != nil && state.Load.Fast && state.Stage() == checkpoint.StageCopying {
		ramp = k.rampUp(ctx, k.now(ctx).Sub(state.Load.StartedAt))
	}
	if state.Limits.RowsPerSecond != nil {
		k.own.Set(ctx, *state.Limits.RowsPerSecond)
		k.loop.Limits.UseRows(k.own)
		return ramp
	}
	if k.settings.live {
		rows, _ := limits.Rows()
		k.rows.Set(ctx, rows)
	}
	k.loop.Limits.UseRows(k.rows)
	return ramp
}

// Failed does nothing, because another worker acquires the part.
func (kind) Failed(error) {}

// phase is a copy or a pass of a sweep.
type phase struct {
	*Loader
	phase checkpoint.Phase
}

// Complete does nothing, because the conductor continues the load.
func (phase) Complete(_ context.Context, state checkpoint.TableState, _ []checkpoint.Part) (checkpoint.TableState, error) {
	return state, nil
}

// Take leases a part, and proves the right to write the part's tables.
func (p phase) Take(ctx context.Context, state checkpoint.TableState, part checkpoint.Part) (lease *checkpoint.PartLease, work job.Work, err error) {
	stamps, err := p.Register.Prove(ctx, p.tables(state, part), func(ctx context.Context) (err error) {
		lease, err = p.Ledger.TakePart(ctx, part)
		return err
	})
	return lease, func(life engine.Lifecycle) error {
		r := &engine.Right{Fencing: p.fencing, Renew: lease.Renew, Generation: state.Generation, Stamps: stamps, Proved: true, Tables: p.tables(state, lease.Part())}
		if p.phase == checkpoint.PhaseCopy {
			r.Marker = markerOf(state.Load)
		}
		var err error
		if r.Former, err = p.fencing.Former(life, state, state.Generation); err != nil {
			return err
		}
		return p.work(life, state, lease, r)
	}, err
}

// markerOf returns the marker of a fast load's rows; zero for a guarded load.
func markerOf(l checkpoint.Load) sink.Marker {
	if !l.Fast {
		return sink.Marker{}
	}
	return sink.Marker{Generation: l.Generation, Load: l.Number, At: l.CellTime.UnixMicro()}
}

// End reports that this worker no longer copies the table.
func (p phase) End() {
	if p.phase == checkpoint.PhaseCopy {
		p.Events.CopyLeft(p.Source)
	}
}

// tables returns the target tables to which a part writes.
func (l *Loader) tables(state checkpoint.TableState, part checkpoint.Part) []string {
	tables, ranges := l.mapping.Tables(), state.Load.Sweep.Ranges
	if part.Phase != checkpoint.PhaseCopy && part.Index < len(ranges) && !slices.Contains(tables, ranges[part.Index].Table) {
		tables = append(tables, ranges[part.Index].Table)
	}
	return tables
}
