package checkpoint

import (
	"context"
	"fmt"
	"time"
)

// CancelLoad ends the load of a table in any stage. Only an operator can request the next load.
// Rows that the load has written carry its versions. Images read for another load of the same
// generation could not replace these rows, so the next load needs a new generation. A load without
// a plan has written nothing, so its cancellation keeps the generation. CancelLoad fails with
// *LoadError if there is no load, and with ErrRaised if another generation began meanwhile.
func (l *Ledger) CancelLoad(ctx context.Context, source string) (TableState, error) {
	at := l.Now(ctx)
	state, _, err := l.Table(ctx, source)
	if err != nil {
		return TableState{}, err
	}
	if stage := state.Stage(); stage != StageCopying && stage != StageSweeping {
		return l.UpdateTable(ctx, source, func(s *TableState) error { return s.withdrawLoad(at) })
	}
	gap := DeclaredGap{Kind: KindAskedFor, Reason: fmt.Sprintf("an operator cancelled load %d", state.Load.Number)}
	if state.Load.MendsGap() && state.Kind == KindStream {
		gap.Kind, gap.LostFrom = KindStream, state.LostFrom // windows can still repair the gap
	}
	return l.Raise(ctx, source, state.Generation, gap, func(s *TableState) { s.endLoad(at) })
}

// withdrawLoad withdraws the request for a load that has no plan yet.
func (s *TableState) withdrawLoad(at time.Time) error {
	const step = "cancel the load"
	switch stage := s.Stage(); {
	case stage == StageCopying || stage == StageSweeping:
		return s.refuseYet(step, "the load began just now", "repeat the command")
	case stage != StageAsked && s.Load.CancelledAt.IsZero():
		return s.refuse(step, "no load is running", "see replicator backfill status")
	case stage == StageAsked:
		s.endLoad(at)
	}
	return nil
}

// endLoad replaces the load by a record of its cancellation.
func (s *TableState) endLoad(at time.Time) {
	l := s.Load
	s.Load = Load{Number: l.Number, Before: l.Begun(), CancelledAt: at.UTC(), Sweep: Sweep{Approved: l.Sweep.Approved}}
}
