package checkpoint

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MaxTries is how many loads in a row may begin without being completed. After that, only an
// operator can request the next load. Without this bound, loads could repeat endlessly: a load that
// slows the stream's readers can cause a gap, and the gap requests another load (H106).
const MaxTries = 3

// The reasons why a load is paused.
const (
	PausedByOperator  = "operator"
	PausedForHeadroom = "headroom" // the stream's headroom is below the bound for loads
	// PausedForStranger is the beginning of a pause's reason while another migration writes the
	// target. Such a pause stops a sweep or a first load. The rest of the reason names the other
	// migration (Stranger).
	PausedForStranger = "shared target: "
	// PausedForFence is the beginning of a pause's reason while a target table still executes
	// requests that its fence should refuse, or has no fence any more. Such a pause stops the sweep
	// of a fast load.
	PausedForFence = "fence: "
)

// Load is the last requested load: the copy of the table's items and the sweep after it. It is
// sealed, with its plan, before any part is leased (H98).
type Load struct {
	// Generation is the generation of the rows that the load writes; 0 while the load is requested
	// but not sealed.
	Generation uint32 `json:"generation,omitempty"`
	// Number rises with every load of the table and never falls while the ledger exists.
	Number uint32 `json:"number,omitempty"`
	// Before is the latest generation in which an earlier load began; 0: none, or not recorded.
	Before uint32 `json:"before,omitempty"`
	// Parts is the number of parts of the plan; 0 while the load is not sealed.
	Parts  int    `json:"parts,omitempty"`
	Source string `json:"source,omitempty"` // the kind of source, such as scan or export
	// Export is the export that the load copies instead of a scan. Windows are copied after it, in
	// their order.
	Export  Export   `json:"export,omitzero"`
	Windows []Export `json:"windows,omitempty"`
	// Mode is how an operator asked to write the load's rows; "" leaves it to the configuration.
	Mode LoadMode `json:"mode,omitempty"`
	// Fast reports that the load writes rows without a condition. CellTime is then the time of its
	// cells. Guarded explains why the load is not fast, if that was to be decided.
	Fast     bool      `json:"fast,omitempty"`
	CellTime time.Time `json:"cell_time,omitzero"`
	Guarded  string    `json:"guarded,omitempty"`
	// Numbers are the numbers of the fence under which a fast load began, by target table.
	Numbers map[string]uint64 `json:"numbers,omitempty"`
	// Request is the export that must be requested before the load is sealed.
	Request ExportRequest `json:"request,omitzero"`
	// TableID is the id of the source table when the load began. A recreated table has another id.
	TableID string    `json:"table_id,omitempty"`
	AskedAt time.Time `json:"asked_at,omitzero"`
	// StartedAt is when the load was planned, on the service's clock. Every item is scanned after
	// that time.
	StartedAt time.Time `json:"started_at,omitzero"`
	// CancelledAt is when an operator cancelled the previous load or withdrew the request. It is
	// zero once another load is requested.
	CancelledAt time.Time `json:"cancelled_at,omitzero"`
	DoneAt      time.Time `json:"done_at,omitzero"`  // when every part was copied
	SweptAt     time.Time `json:"swept_at,omitzero"` // when a pass of the sweep had nothing to write, or the last pass ended
	Items       int64     `json:"items,omitempty"`
	Bytes       int64     `json:"bytes,omitempty"`
	Units       float64   `json:"units,omitempty"` // read capacity units consumed
	// Estimate and EstimateBytes are the service's counts when the load began. Such counts may be
	// hours old.
	Estimate      int64 `json:"estimate,omitempty"`
	EstimateBytes int64 `json:"estimate_bytes,omitempty"`
	// Paused explains why no part is leased; "" if the load runs. A pause also applies to the next
	// load, because only the actor that began the pause may end it.
	Paused string `json:"paused,omitempty"`
	Sweep  Sweep  `json:"sweep,omitzero"`
}

// Begun returns the latest generation in which this load or an earlier one began; 0: none. It never
// falls, so changes that a load has superseded stay superseded while the next load is requested.
func (l Load) Begun() uint32 { return max(l.Generation, l.Before) }

// PausedForStranger reports whether the load is paused because another migration writes the target.
func (l Load) PausedForStranger() bool { return strings.HasPrefix(l.Paused, PausedForStranger) }

// Loaded reports whether the existing items are copied in the current generation. A fast load also
// needs its sweep.
func (s TableState) Loaded() bool {
	return !s.NeedsLoad && s.Load.Generation == s.Generation && !s.Load.DoneAt.IsZero() && !s.Copying()
}

// Stage is the progress of the load of a table's generation.
type Stage string

// The stages.
const (
	StageNone     Stage = "none"     // the generation had no load, and none is requested
	StageAsked    Stage = "asked"    // requested, but not planned yet
	StageCopying  Stage = "copying"  // parts are copied, or the load is paused
	StageSweeping Stage = "sweeping" // passes of the sweep run, or wait for an operator
	StageOver     Stage = "over"
)

// Stage returns the progress of the load of the current generation. A raise ends the load of the
// previous generation. A load that is requested but not sealed belongs to any generation.
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
		return StageNone // a program version without parts began it, so it begins again
	case l.Parts > 0 && l.SweptAt.IsZero() && s.Base != s.Generation:
		return StageSweeping
	}
	return StageOver
}

// MayHoldOlderRows reports whether the target may have rows that no change of the current
// generation explains. It returns true unless this generation is swept, or is the first in a target
// that replicator created.
func (s TableState) MayHoldOlderRows() bool {
	return s.Base != s.Generation && (s.Base > 0 || s.GapCount > 0 || !s.MadeByUs)
}

// LoadError explains why a step of a load is refused.
type LoadError struct {
	Table  string
	Step   string // the step that was tried
	Reason string
	Cure   string // what to do instead
	// Yet reports that waiting may help. The caller must then read the ledger again.
	Yet bool
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("cannot %s for table %s: %s: %s", e.Step, e.Table, e.Reason, e.Cure)
}

func (s *TableState) refuse(step, reason, cure string) error {
	return &LoadError{Table: s.Source, Step: step, Reason: reason, Cure: cure}
}

// refuseYet refuses a step that may be possible after the ledger is read again.
func (s *TableState) refuseYet(step, reason, cure string) error {
	return &LoadError{Table: s.Source, Step: step, Reason: reason, Cure: cure, Yet: true}
}

// redo returns the command that begins a load in a new generation.
func (s *TableState) redo() string { return "replicator backfill redo --table " + s.Source }

// The steps below change a table's record. A step that was already made changes nothing when it is
// repeated, because a write with an unknown outcome is repeated on a fresh record.

// AskLoad requests a load of the current generation. The argument `approved` allows the sweep of
// the load in advance.
func (s *TableState) AskLoad(at time.Time, approved bool) error {
	const step = "request a load"
	switch s.Stage() {
	case StageCopying, StageSweeping:
		return s.refuse(step, "a load is running", "wait for its end, or begin again: "+s.redo())
	case StageOver:
		// The images of a second load would have versions as old as those of the first load. Rows
		// of items that changed unseen would refuse such images (H71).
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
	s.Load.Export, s.Load.Windows, s.Load.Request = Export{}, nil, ExportRequest{} // a caller that wants them must set them afterwards
	s.Load.Sweep.Approved = before.Sweep.Approved || approved
	s.Load.Mode = ""
}

// Plan is the plan with which a load is sealed.
type Plan struct {
	Generation uint32 // the generation in which the load is admissible
	Number     uint32 // one more than the number of the previous load
	Parts      int
	Source     string
	ExportARNs []string // the exports, in their order; none for a scan
	TableID    string
	StartedAt  time.Time // on the service's clock
	// CellTime is the time of the cells of a fast load; zero for a guarded load. Guarded explains
	// why the load is not fast.
	CellTime time.Time
	Guarded  string
	Numbers  map[string]uint64 // numbers of the fence of a fast load, by target table
	// Estimate and EstimateBytes are the service's own counts.
	Estimate, EstimateBytes int64
}

// SealLoad fixes the plan of the requested load. No part can be leased before.
func (s *TableState) SealLoad(plan Plan) error {
	const step = "seal the load"
	sealed := Load{
		Generation: plan.Generation, Number: plan.Number, Parts: plan.Parts, Source: plan.Source, TableID: plan.TableID,
		Export: s.Load.Export, Windows: s.Load.Windows, AskedAt: s.Load.AskedAt, StartedAt: plan.StartedAt.UTC(), Before: s.Load.Before, Estimate: plan.Estimate, EstimateBytes: plan.EstimateBytes,
		Paused: s.Load.Paused, Sweep: Sweep{Approved: s.Load.Sweep.Approved},
		Mode: s.Load.Mode, Fast: !plan.CellTime.IsZero(), CellTime: plan.CellTime.UTC(), Guarded: plan.Guarded, Numbers: plan.Numbers,
	}
	switch stage := s.Stage(); {
	case stage == StageAsked && (!slices.Equal(plan.ExportARNs, s.Load.ExportARNs()) || s.Load.Request.Wanted() && len(plan.ExportARNs) == 0):
		return s.refuseYet(step, "another source was requested for the load meanwhile", "the table's record has changed: retry")
	case plan.Parts < 1 || plan.StartedAt.IsZero():
		return s.refuse(step, "the plan has no parts or no start time", "this is a defect: please report it")
	case plan.Generation != s.Generation:
		return s.refuseYet(step, "the table has begun another generation", "plan the load again in that generation")
	case stage == StageCopying && reflect.DeepEqual(s.Load, sealed):
		return nil
	case stage != StageAsked:
		return s.refuseYet(step, "no load is requested", "the table's record has changed: retry")
	case s.Adopted != s.Generation:
		return s.refuseYet(step, "not every shard has adopted the generation yet", "wait until every shard has")
	case sealed.Fast && s.RefusesFast() != "":
		return s.refuseYet(step, "the table no longer allows a fast load: "+s.RefusesFast(), "the table's record has changed: retry")
	case plan.Number != s.Load.Number+1:
		return s.refuseYet(step, "another load was planned meanwhile", "the table's record has changed: retry")
	}
	s.Load = sealed
	s.Tries++
	return nil
}

// PauseLoad keeps workers from leasing parts. No other reason replaces an operator's pause.
func (s *TableState) PauseLoad(why string) error {
	if stage := s.Stage(); stage == StageNone || stage == StageOver {
		return s.refuse("pause the load", "no load is running", "see replicator status")
	}
	if s.Load.Paused != PausedByOperator {
		s.Load.Paused = why
	}
	return nil
}

// ResumeLoad ends the pause of a load. An operator may end any pause, except one that protects the
// table of another migration. Other callers may end only the pauses that they began.
func (s *TableState) ResumeLoad(why string) error {
	if stage := s.Stage(); s.Load.Paused == "" && (stage == StageNone || stage == StageOver) {
		return s.refuse("resume the load", "no load is running", "start one: replicator backfill start --table "+s.Source)
	}
	if why == PausedByOperator && !s.Load.PausedForStranger() || why == s.Load.Paused {
		s.Load.Paused = ""
	}
	return nil
}

// of refuses a step that was decided for another generation or load than the current one.
func (s *TableState) of(step string, generation, number uint32) error {
	if s.Generation != generation || s.Load.Generation != generation || s.Load.Number != number {
		return s.refuseYet(step, "another generation or load has begun", "the table's record has changed: retry")
	}
	return nil
}

// CompleteCopy records that every part of the load is durable. The parts were read in the given
// generation (H98). A first generation in a target that replicator created needs no sweep, because
// the target was empty and no copied item is in doubt.
func (s *TableState) CompleteCopy(generation, number uint32, sums Sums, at time.Time) error {
	const step = "complete the copy"
	if err := s.of(step, generation, number); err != nil {
		return err
	}
	switch stage := s.Stage(); {
	case stage == StageSweeping || stage == StageOver:
		return nil
	case stage != StageCopying:
		return s.refuseYet(step, "the load's plan is not written yet", "the table's record has changed: retry")
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

// NeedsNoSweep reports whether the load ends with its copy: it is the first load into a table that
// replicator created. A fast load always needs its sweep.
func (s *TableState) NeedsNoSweep() bool {
	return s.MadeByUs && s.Base == 0 && !s.NeedsLoad && s.Load.Doubted().IsZero() && !s.Load.Fast
}

// mended makes the current generation the base, because the generation was loaded and, if
// necessary, swept.
func (s *TableState) mended() {
	s.Base = s.Generation
	s.NeedsLoad, s.Reason, s.Kind, s.LostFrom, s.Tries = false, "", "", time.Time{}, 0
	s.forget()
}

// AsksItself reports whether replicator itself requests a load, without an operator. It requests
// the first load if `first` is set, and a load after a gap if `again` is set. After a rollback it
// always requests a load. If a load is needed but not requested, the result `waits` explains why.
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
	case !again && s.Kind != KindRolledBack:
		return false, "on_gap: wait"
	case s.Tries >= MaxTries:
		return false, fmt.Sprintf("%d loads did not finish", s.Tries)
	}
	return true, ""
}

// BeginInto decides whether the first generation may begin in the target. If the target holds rows,
// their owner is unknown, so an operator must allow it once. It decides nothing after a generation
// has begun.
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

// AskLoad requests a load of a table. The argument `approved` allows the sweep of the load in
// advance.
func (l *Ledger) AskLoad(ctx context.Context, source string, approved bool) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, source, func(s *TableState) error { return s.AskLoad(at, approved) })
}

// SealLoad fixes the plan of the requested load.
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

// CompleteCopy records that every part of the load is durable. The argument `table` is the record
// that the caller had when it read the parts.
func (l *Ledger) CompleteCopy(ctx context.Context, table TableState, sums Sums) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error {
		return s.CompleteCopy(table.Generation, table.Load.Number, sums, at)
	})
}

// Redo ends the generation `from`, and requests a load of the next generation. The progress of the
// current load does not matter.
func (l *Ledger) Redo(ctx context.Context, source string, from uint32, reason string, approved bool) (TableState, error) {
	if from == 0 {
		return TableState{}, (&TableState{Source: source}).AskLoad(time.Time{}, false)
	}
	at := l.Now(ctx)
	gap := DeclaredGap{Kind: KindAskedFor, Reason: reason}
	return l.Raise(ctx, source, from, gap, func(s *TableState) { s.ask(at, approved) })
}
