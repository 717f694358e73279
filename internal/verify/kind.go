package verify

import (
	"context"
	"encoding/json"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/job"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// kind adapts a table's verifies to package job.
type kind struct{ *Verifier }

// Look returns the table's record, and a part of the verify's current phase.
func (k kind) Look(ctx context.Context) (checkpoint.TableState, checkpoint.Part, error) {
	if k.failed != nil { // no other task of this process checks that the ledger was not replaced
		if err := k.Ledger.Check(ctx); err != nil {
			return checkpoint.TableState{}, checkpoint.Part{}, err
		}
	}
	state, _, err := k.Ledger.Table(ctx, k.Source)
	if err == nil && state.VerifyOutdated() != "" {
		state, err = k.Ledger.EndOutdatedVerify(ctx, k.Source)
	}
	run := state.Verify
	if err != nil || !run.Running() || run.Paused != "" || state.Suspended.Reason != "" || run.MappingHash != k.MappingHash {
		return state, checkpoint.Part{}, err
	}
	return state, state.VerifyPart(), nil
}

// Begin reads the mode of the verify, and the buckets that the previous phase selected.
func (k kind) Begin(ctx context.Context, state checkpoint.TableState, _ []checkpoint.Part) (job.Phase, error) {
	p := phase{Verifier: k.Verifier}
	err := json.Unmarshal(state.Verify.Plan, &p.plan)
	if err == nil && state.Verify.Phase > 1 {
		p.picked, err = verify.LoadPicked(ctx, k.Ledger, state)
	}
	return p, err
}

// Pace sets the limit on rows that are read from the target.
func (k kind) Pace(ctx context.Context, _ checkpoint.TableState, limits checkpoint.Limits) float64 {
	rows, _ := limits.Rows()
	k.rows.Set(ctx, rows)
	return 0
}

// Failed ends a process that only works on verifies. In a worker, the part becomes free and is
// acquired again.
func (k kind) Failed(err error) {
	if k.failed != nil {
		k.failed(err)
	}
}

// phase is a phase of a verify.
type phase struct {
	*Verifier
	plan   verify.Plan
	picked *verify.Picked
}

// Complete begins the next phase, or ends the verify with its result. Several workers may do so
// concurrently, with the same effect.
func (p phase) Complete(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (checkpoint.TableState, error) {
	run := state.Verify
	var sums checkpoint.VerifyCounts
	for _, part := range rows {
		sums.Add(part.Compared)
	}
	if p.plan.Summing(run.Phase) {
		picked, err := verify.Combine(ctx, p.Ledger, state, p.plan, rows)
		if err != nil {
			return state, err
		}
		if parts := p.plan.Parts(run.Phase+1, picked.Len()); parts > 0 {
			return p.Ledger.NextVerifyPhase(ctx, state, run.Phase+1, parts, picked.Len(), sums)
		}
	}
	for phase := 1; phase < run.Phase; phase++ {
		earlier, err := p.Ledger.VerifyParts(ctx, state, phase)
		if err != nil {
			return state, err
		}
		rows = append(earlier, rows...)
	}
	if err := verify.Index(ctx, p.Ledger, state, rows); err != nil {
		return state, err
	}
	sums.Add(run.Sums)
	result := verify.Result{Scope: p.plan.Scope, Way: p.plan.Way, Why: p.plan.Why, Began: run.BegunAt, Ended: p.now(ctx), Counts: sums}
	state, err := p.Ledger.EndVerify(ctx, state, result.Stored())
	if err != nil {
		return state, err
	}
	return state, p.Ledger.RemoveVerify(ctx, p.Source)
}

// Take leases a part. A part that computes sums needs a slot.
func (p phase) Take(ctx context.Context, state checkpoint.TableState, part checkpoint.Part) (*checkpoint.PartLease, job.Work, error) {
	free := func() {}
	if p.plan.Summing(state.Verify.Phase) {
		if !p.slots.take() {
			return nil, nil, checkpoint.ErrTaken // wait until a part of another table is done
		}
		free = p.slots.leave
	}
	lease, err := p.Ledger.TakePart(ctx, part)
	if err != nil {
		free()
		return nil, nil, err
	}
	return lease, func(life engine.Lifecycle) error {
		defer free()
		return p.work(life, state, lease)
	}, nil
}

// End does nothing.
func (phase) End() {}
