package checkpoint

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MaxTries is how many loads may begin one after the other, none of which ends, before an operator
// has to ask for the next: a load that starves the stream makes the gap that asks for another
// (H106).
const MaxTries = 3

// Why a load is paused.
const (
	PausedByOperator  = "operator"
	PausedForHeadroom = "headroom" // the stream is closer to losing changes than a load may bring it
	// PausedForStranger begins the pause of a sweep, or of a first load, while another migration writes the target. The
	// rest says which (Stranger).
	PausedForStranger = "shared target: "
)

// Load is the copy of the items that the table holds, and the sweep after it: the last one that was
// asked for. It is sealed, with its plan, before a part of it is leased (H98).
type Load struct {
	// Generation is the one that the load asserts; 0 while the load is requested but not sealed.
	Generation uint32 `json:"generation,omitempty"`
	// Number rises with every load of the table, for as long as the ledger lives.
	Number uint32 `json:"number,omitempty"`
	// Before is the latest generation in which an earlier load began; 0: none, or not recorded.
	Before uint32 `json:"before,omitempty"`
	// Parts is the number of parts of the plan; 0 while the load is not sealed.
	Parts  int    `json:"parts,omitempty"`
	Source string `json:"source,omitempty"` // the name of its kind, such as scan or export
	// Export is copied instead of a scan, then Windows in their order, all in one load.
	Export  Export   `json:"export,omitzero"`
	Windows []Export `json:"windows,omitempty"`
	// Request is the export that is requested first, until the load is sealed.
	Request ExportRequest `json:"request,omitzero"`
	// TableID is that of the source table when the load began; a recreated table has another.
	TableID string    `json:"table_id,omitempty"`
	AskedAt time.Time `json:"asked_at,omitzero"`
	// StartedAt is on the service's clock; no item is scanned earlier.
	StartedAt time.Time `json:"started_at,omitzero"`
	// CancelledAt is when an operator ended the load before, or withdrew the request; zero once another
	// is asked for.
	CancelledAt time.Time `json:"cancelled_at,omitzero"`
	DoneAt      time.Time `json:"done_at,omitzero"`  // when every part was copied
	SweptAt     time.Time `json:"swept_at,omitzero"` // when a pass of the sweep had nothing to write, or the last pass ended
	Items       int64     `json:"items,omitempty"`
	Bytes       int64     `json:"bytes,omitempty"`
	Units       float64   `json:"units,omitempty"` // read capacity units consumed
	// Estimate and EstimateBytes are the service's counts when the load began; they may be hours
	// old.
	Estimate      int64 `json:"estimate,omitempty"`
	EstimateBytes int64 `json:"estimate_bytes,omitempty"`
	// Paused is why no part is leased; "" if the load runs. It outlives the load, because the one
	// that paused it must resume it.
	Paused string `json:"paused,omitempty"`
	Sweep  Sweep  `json:"sweep,omitzero"`
}

// Begun is the latest generation that a load has begun in, this one or one before it; 0: none. It
// never falls, so that what a load has overtaken stays overtaken while the next one is asked for.
func (l Load) Begun() uint32 { return max(l.Generation, l.Before) }

// PausedForStranger reports whether the load is paused while another migration writes the target.
func (l Load) PausedForStranger() bool { return strings.HasPrefix(l.Paused, PausedForStranger) }

// Loaded reports whether the existing items are copied in the current generation.
func (s TableState) Loaded() bool {
	return !s.NeedsLoad && s.Load.Generation == s.Generation && !s.Load.DoneAt.IsZero()
}

// Stage is how far the load of a table's generation has come.
type Stage string

// The stages.
const (
	StageNone     Stage = "none"     // the generation has had no load, and none is asked for
	StageAsked    Stage = "asked"    // its plan is not made yet
	StageCopying  Stage = "copying"  // parts are copied, or the load is paused
	StageSweeping Stage = "sweeping" // passes of the sweep run, or wait for an operator
	StageOver     Stage = "over"
)

// Stage is how far the load of the current generation has come. A raise ends the load of the
// generation before, but one that is asked for and not sealed is of any.
func (s TableState) Stage() Stage {
	l := s.Load
	switch {
	case l.Generation == 0 && !l.AskedAt.IsZero():
		return StageAsked
	case l.Generation == 0 || l.Generation != s.Generation:
		return StageNone
	case l.DoneAt.IsZero() && l.Parts > 0:
		return StageCopying
	case l.DoneAt.IsZero():
		return StageNone // begun by a version that had no parts: it begins anew
	case l.Parts > 0 && l.SweptAt.IsZero() && s.Base != s.Generation:
		return StageSweeping
	}
	return StageOver
}

// MayHoldOlderRows reports whether rows may hold what no change of the current generation accounts for: it
// is neither the first in a target of ours, nor swept.
func (s TableState) MayHoldOlderRows() bool {
	return s.Base != s.Generation && (s.Base > 0 || s.GapCount > 0 || !s.MadeByUs)
}

// LoadError says why a step of a load is refused.
type LoadError struct {
	Table  string
	Step   string // what was tried
	Reason string
	Cure   string // what to do instead
	// Yet says that waiting mends it: the ledger has to be read again.
	Yet bool
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("cannot %s for table %s: %s: %s", e.Step, e.Table, e.Reason, e.Cure)
}

func (s *TableState) refuse(step, reason, cure string) error {
	return &LoadError{Table: s.Source, Step: step, Reason: reason, Cure: cure}
}

// refuseYet refuses what another reading of the ledger may allow.
func (s *TableState) refuseYet(step, reason, cure string) error {
	return &LoadError{Table: s.Source, Step: step, Reason: reason, Cure: cure, Yet: true}
}

// redo is the command that begins a load in a generation of its own.
func (s *TableState) redo() string { return "replicator backfill redo --table " + s.Source }

// The steps below change a table's record, and nothing if they were made already: a write whose
// outcome is unknown is made again on a fresh record.

// AskLoad asks for a load of the current generation. Approved allows its sweep in advance.
func (s *TableState) AskLoad(at time.Time, approved bool) error {
	const step = "request a load"
	switch s.Stage() {
	case StageCopying, StageSweeping:
		return s.refuse(step, "a load is running", "wait for its end, or begin again: "+s.redo())
	case StageOver:
		// Its images would be as old as those of the one before, and be refused where an item has
		// changed unseen (H71).
		return s.refuse(step, "this generation has already had its load", "begin another generation: "+s.redo())
	}
	if s.Generation == 0 {
		return s.refuseYet(step, "it is not followed yet", "start replicator run, and try again once status shows the table")
	}
	s.ask(at, approved)
	return nil
}

func (s *TableState) ask(at time.Time, approved bool) {
	before := s.Load
	if s.Stage() != StageAsked {
		s.Load = Load{Number: before.Number, AskedAt: at.UTC(), Paused: before.Paused, Before: before.Begun()}
	}
	s.Load.Export, s.Load.Windows, s.Load.Request = Export{}, nil, ExportRequest{} // whoever asks for some says so afterwards
	s.Load.Sweep.Approved = before.Sweep.Approved || approved
}

// Plan is what a load is sealed with.
type Plan struct {
	Generation uint32 // in which the load was found admissible
	Number     uint32 // one more than that of the load before
	Parts      int
	Source     string
	ExportARNs []string // of exports, in their order; none for a scan
	TableID    string
	StartedAt  time.Time // on the service's clock
	// Estimate and EstimateBytes are the service's own counts.
	Estimate, EstimateBytes int64
}

// SealLoad fixes the plan of the load that was asked for. No part is leased before.
func (s *TableState) SealLoad(plan Plan) error {
	const step = "seal the load"
	sealed := Load{
		Generation: plan.Generation, Number: plan.Number, Parts: plan.Parts, Source: plan.Source, TableID: plan.TableID,
		Export: s.Load.Export, Windows: s.Load.Windows, AskedAt: s.Load.AskedAt, StartedAt: plan.StartedAt.UTC(), Before: s.Load.Before, Estimate: plan.Estimate, EstimateBytes: plan.EstimateBytes,
		Paused: s.Load.Paused, Sweep: Sweep{Approved: s.Load.Sweep.Approved},
	}
	switch stage := s.Stage(); {
	case stage == StageAsked && (!slices.Equal(plan.ExportARNs, s.Load.ExportARNs()) || s.Load.Request.Wanted() && len(plan.ExportARNs) == 0):
		return s.refuseYet(step, "another source was requested for it meanwhile", "read the table's record again")
	case plan.Parts < 1 || plan.StartedAt.IsZero():
		return s.refuse(step, "the plan has no parts or no time", "this is a defect: please report it")
	case plan.Generation != s.Generation:
		return s.refuseYet(step, "another generation has begun", "plan it again in that one")
	case stage == StageCopying && reflect.DeepEqual(s.Load, sealed):
		return nil
	case stage != StageAsked:
		return s.refuseYet(step, "no load is requested", "read the table's record again")
	case s.Adopted != s.Generation:
		return s.refuseYet(step, "not every shard has adopted the generation yet", "wait until it is")
	case plan.Number != s.Load.Number+1:
		return s.refuseYet(step, "another load was planned meanwhile", "read the table's record again")
	}
	s.Load = sealed
	s.Tries++
	return nil
}

// PauseLoad keeps workers from leasing parts. An operator's pause stays one, whatever else would
// pause the load.
func (s *TableState) PauseLoad(why string) error {
	if stage := s.Stage(); stage == StageNone || stage == StageOver {
		return s.refuse("pause the load", "no load is running", "see replicator status")
	}
	if s.Load.Paused != PausedByOperator {
		s.Load.Paused = why
	}
	return nil
}

// ResumeLoad ends a pause: an operator any but one for another migration, everything else its own.
func (s *TableState) ResumeLoad(why string) error {
	if stage := s.Stage(); s.Load.Paused == "" && (stage == StageNone || stage == StageOver) {
		return s.refuse("resume the load", "no load is running", "start one: replicator backfill start --table "+s.Source)
	}
	if why == PausedByOperator && !s.Load.PausedForStranger() || why == s.Load.Paused {
		s.Load.Paused = ""
	}
	return nil
}

// of refuses what is said of another generation or load than the current ones.
func (s *TableState) of(step string, generation, number uint32) error {
	if s.Generation != generation || s.Load.Generation != generation || s.Load.Number != number {
		return s.refuseYet(step, "another generation or load has begun", "read the table's record again")
	}
	return nil
}

// CompleteCopy notes that every part of the load is durable. The parts were read in the given
// generation (H98). A first generation in a target that was made by us needs no sweep: nothing was
// there before, and of what was copied nothing is in doubt.
func (s *TableState) CompleteCopy(generation, number uint32, sums Sums, at time.Time) error {
	const step = "complete the copy"
	if err := s.of(step, generation, number); err != nil {
		return err
	}
	switch stage := s.Stage(); {
	case stage == StageSweeping || stage == StageOver:
		return nil
	case stage != StageCopying:
		return s.refuseYet(step, "the load's plan is not written yet", "read the table's record again")
	case sums.Total != s.Load.Parts || !sums.Complete():
		return s.refuseYet(step, fmt.Sprintf("%d of %d parts are done", sums.Done, s.Load.Parts), "wait for the others")
	}
	if err := s.stillMends(); err != nil {
		return err
	}
	s.Load.DoneAt = at.UTC()
	s.Load.Items, s.Load.Bytes, s.Load.Units = sums.Items, sums.Bytes, sums.Units
	if s.NeedsNoSweep() {
		s.mended()
	}
	return nil
}

// NeedsNoSweep reports whether the load is over when its copy is: the first into a table of ours.
func (s *TableState) NeedsNoSweep() bool {
	return s.MadeByUs && s.Base == 0 && !s.NeedsLoad && s.Load.Doubted().IsZero()
}

// mended makes the current generation the base: it was loaded, and swept where that is needed.
func (s *TableState) mended() {
	s.Base = s.Generation
	s.NeedsLoad, s.Reason, s.Kind, s.LostFrom, s.Tries = false, "", "", time.Time{}, 0
	s.forget()
}

// AsksItself reports whether the tool asks for a load without an operator: for the first one if
// first is set, and after a gap if again is. If it does not although a load is needed, waits says
// why.
func (s TableState) AsksItself(first, again bool) (asks bool, waits string) {
	stage := s.Stage()
	switch {
	case s.Generation == 0 || stage == StageAsked || stage == StageCopying || stage == StageSweeping:
		return false, ""
	case !s.NeedsLoad && (stage == StageOver || s.Base == s.Generation):
		return false, ""
	case !s.Load.CancelledAt.IsZero():
		return false, "an operator cancelled its load"
	case !s.NeedsLoad:
		return first, ""
	case stage == StageOver:
		return false, s.Reason
	case !again:
		return false, "on_gap: wait"
	case s.Tries >= MaxTries:
		return false, fmt.Sprintf("%d loads did not finish", s.Tries)
	}
	return true, ""
}

// BeginInto decides whether the first generation may begin in a target that holds rows or does not.
// Whose rows they are nobody knows, so that an operator has to answer, once. A generation that has
// begun is not asked about.
func (s *TableState) BeginInto(holdsRows, adopt bool) error {
	switch {
	case s.Generation > 0:
	case !holdsRows:
		s.MadeByUs = true
	case s.AdoptRows || adopt:
		s.MadeByUs, s.AdoptRows = false, true
	default:
		return s.refuse("begin", "the target table has rows", "if they may be overwritten, run once: replicator run --adopt-rows")
	}
	return nil
}

// AskLoad asks for a load of a table. Approved allows its sweep in advance.
func (l *Ledger) AskLoad(ctx context.Context, source string, approved bool) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.AskLoad(at, approved) })
}

// SealLoad fixes the plan of the load that was asked for.
func (l *Ledger) SealLoad(ctx context.Context, source string, plan Plan) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.SealLoad(plan) })
}

// PauseLoad keeps workers from leasing parts of a table's load.
func (l *Ledger) PauseLoad(ctx context.Context, source, why string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.PauseLoad(why) })
}

// ResumeLoad ends a pause.
func (l *Ledger) ResumeLoad(ctx context.Context, source, why string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.ResumeLoad(why) })
}

// CompleteCopy notes that every part of the load is durable. Table is the record with which the
// parts were read.
func (l *Ledger) CompleteCopy(ctx context.Context, table TableState, sums Sums) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error {
		return s.CompleteCopy(table.Generation, table.Load.Number, sums, at)
	})
}

// Redo ends the generation from and asks for a load of the next, whatever the load of this one has
// come to.
func (l *Ledger) Redo(ctx context.Context, source string, from uint32, reason string, approved bool) (TableState, error) {
	if from == 0 {
		return TableState{}, (&TableState{Source: source}).AskLoad(time.Time{}, false)
	}
	at := l.Now(ctx)
	gap := DeclaredGap{Kind: KindAskedFor, Reason: reason}
	return l.Raise(ctx, source, from, gap, func(s *TableState) { s.ask(at, approved) })
}
