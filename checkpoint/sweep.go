package checkpoint

import (
	"context"
	"fmt"
	"time"
)

// Sweep removes or puts again what a copy cannot reach: rows of a generation before. It goes over
// all rows pass by pass, until a pass writes nothing.
type Sweep struct {
	// Pass is the current or last one. Pass 0 counts and writes nothing.
	Pass int `json:"pass,omitempty"`
	// Parts is the number of parts of the pass; 0 while none runs.
	Parts int `json:"parts,omitempty"`
	// Approved reports that an operator allows sweeps of a target that replicator did not create;
	// Waiting, that a sweep waits for that approval.
	Approved bool      `json:"approved,omitempty"`
	Waiting  bool      `json:"waiting,omitempty"`
	BegunAt  time.Time `json:"begun_at,omitzero"`
	// Ranges are the ranges of rows of the parts of every pass, in order.
	Ranges []SweepRange `json:"ranges,omitempty"`
	Counts
}

// SweepRange is a range of rows of a target table: from From, which is included, up to To, which is
// not; empty is no bound. Row keys may hold item data: they must not reach logs or errors.
type SweepRange struct {
	Table string `json:"table"`
	From  []byte `json:"from,omitempty"`
	To    []byte `json:"to,omitempty"`
}

// Counts are the rows that a sweep looked at. In a table's record Seen and Unexplained are of the
// last complete pass, Put and Removed of all passes but pass 0, whose counts stand there until pass
// 1 begins.
type Counts struct {
	Seen        int64 `json:"seen,omitempty"` // rows that replicator wrote in an earlier generation
	Put         int64 `json:"put,omitempty"`
	Removed     int64 `json:"removed,omitempty"`
	Bare        int64 `json:"bare,omitempty"`        // of put and removed: rows without a version, under dual writes
	Left        int64 `json:"left,omitempty"`        // rows without an item that were kept, because time to live may have removed it
	Unexplained int64 `json:"unexplained,omitempty"` // rows that replicator wrote but no mapping explains
}

// wrote reports whether a pass has written something that the next one has to look at.
func (c Counts) wrote() bool { return c.Put+c.Removed > c.Bare }

// Ends reports whether a pass with these counts leaves nothing to sweep: it wrote nothing, explained
// everything, and, where it only counted, found nothing.
func (c Counts) Ends(pass int) bool {
	return !c.wrote() && c.Unexplained == 0 && (pass > 0 || c.Seen == 0)
}

// NextPass is the pass of the sweep that begins next: the first of a target that was not made by us
// only counts, until an operator has seen what it would do and approves. False while a pass runs,
// waits for approval, or is not due.
func (s TableState) NextPass() (int, bool) {
	sweep := s.Load.Sweep
	switch {
	case s.Stage() != StageSweeping || sweep.Parts > 0 || sweep.Waiting:
		return 0, false
	case sweep.Pass == 0 && !s.MadeByUs && !sweep.Approved:
		return 0, true
	}
	return sweep.Pass + 1, true
}

// BeginSweep begins a pass, once every lease of before the raise and the longest deadline have
// passed.
func (s *TableState) BeginSweep(generation, number uint32, pass int, ranges []SweepRange, at time.Time) error {
	const step = "begin a pass of the sweep"
	if err := s.of(step, generation, number); err != nil {
		return err
	}
	sweep, parts := &s.Load.Sweep, len(ranges)
	next, due := s.NextPass()
	switch {
	case s.Stage() == StageSweeping && sweep.Pass == pass && sweep.Parts == parts && parts > 0:
		return nil
	case parts < 1:
		return s.refuse(step, "the pass has no parts", "this is a defect: please report it")
	case s.Load.DoneAt.IsZero():
		return s.refuseYet(step, "the copy is not complete", "wait until it is")
	case sweep.Waiting:
		return s.refuse(step, "it waits for approval", s.approve())
	case !due || next != pass:
		return s.refuseYet(step, fmt.Sprintf("pass %d is not the next", pass), "read the table's record again")
	}
	if pass == 1 {
		sweep.Put, sweep.Removed = 0, 0 // what pass 0 would have done
	}
	sweep.Pass, sweep.Parts, sweep.Ranges = pass, parts, ranges
	if sweep.BegunAt.IsZero() {
		sweep.BegunAt = at.UTC()
	}
	return nil
}

func (s *TableState) approve() string {
	return "check its counts with replicator backfill status, then: replicator backfill resume --table " + s.Source + " --yes"
}

// ApproveSweep allows the sweep of a target that was not made by us, for this load and those after
// it.
func (s *TableState) ApproveSweep() error {
	if s.Load.Sweep.Approved {
		return nil
	}
	if stage := s.Stage(); stage == StageNone || stage == StageOver {
		return s.refuse("approve the sweep", "no load is running", "start one: replicator backfill start --table "+s.Source+" --yes")
	}
	s.Load.Sweep.Approved, s.Load.Sweep.Waiting = true, false
	return nil
}

// MaxPasses is how many passes of a sweep may write. What a pass has written the next one finds no
// more, unless the target refuses it even as a remove.
const MaxPasses = 5

// endless is why a table stays marked after a sweep whose every pass had something to write.
const endless = "the sweep ended after %d passes, each of which had rows to write; see replicator parked list"

// unexplained is why a table needs a load, or somebody's eyes, after its sweep has nothing left to
// write.
const unexplained = "the sweep left rows of this migration that no mapping explains"

// formerMapping is why a table is not in sync after its load and sweep under another mapping, if
// the one before is not known; contested, if other items have cells where it wrote.
const (
	formerMapping = "loaded and swept under the present mapping; rows of the former mapping may still exist"
	contested     = "loaded and swept under both mappings; rows of the former one remain where other items may now have cells"
)

// CompletePass notes that every part of a pass is done. One that has written nothing is the last,
// and so is the last of MaxPasses. Rows that it wrote in vain, and rows that no mapping explains,
// may be of items that are gone, and keep the table from being in sync.
func (s *TableState) CompletePass(generation, number uint32, pass int, sums Sums, at time.Time) error {
	const step = "complete a pass of the sweep"
	if err := s.of(step, generation, number); err != nil {
		return err
	}
	sweep := &s.Load.Sweep
	switch stage := s.Stage(); {
	case stage == StageOver, stage == StageSweeping && !sweep.BegunAt.IsZero() && (pass < sweep.Pass || pass == sweep.Pass && sweep.Parts == 0):
		return nil
	case stage != StageSweeping || pass != sweep.Pass || sweep.Parts == 0:
		return s.refuseYet(step, fmt.Sprintf("pass %d is not running", pass), "read the table's record again")
	case sums.Total != sweep.Parts || !sums.Complete():
		return s.refuseYet(step, fmt.Sprintf("%d of %d parts are done", sums.Done, sweep.Parts), "wait for the others")
	}
	if err := s.stillMends(); err != nil {
		return err
	}
	sweep.Parts = 0
	s.Load.Units += sums.Units
	sweep.Seen, sweep.Left, sweep.Unexplained = sums.Seen, sums.Left, sums.Unexplained
	sweep.Put, sweep.Removed = sweep.Put+sums.Put, sweep.Removed+sums.Removed
	switch {
	case pass == 0 && sums.Seen+sums.Unexplained > 0:
		sweep.Waiting = !sweep.Approved
		return nil
	case sums.wrote() && pass < MaxPasses:
		return nil // what it wrote may have shown more
	}
	s.Load.SweptAt = at.UTC()
	if sums.wrote() {
		s.NeedsLoad, s.Reason, s.Kind = true, fmt.Sprintf(endless, MaxPasses), s.Kind.widen(KindSweep)
		return nil
	}
	if why := s.unattributed(); why != "" {
		s.NeedsLoad, s.Reason = true, why
		return nil
	}
	if sums.Unexplained > 0 {
		s.NeedsLoad, s.Reason, s.Kind = true, unexplained, s.Kind.widen(KindSweep)
		return nil
	}
	s.mended()
	return nil
}

// ApproveSweep allows the sweep of a target that was not made by us.
func (l *Ledger) ApproveSweep(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, (*TableState).ApproveSweep)
}

// BeginSweep begins a pass of the sweep. Table is the record by which it was found due.
func (l *Ledger) BeginSweep(ctx context.Context, table TableState, pass int, ranges []SweepRange) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error {
		return s.BeginSweep(table.Generation, table.Load.Number, pass, ranges, at)
	})
}

// CompletePass notes that every part of a pass is done. Table is the record with which the parts
// were read.
func (l *Ledger) CompletePass(ctx context.Context, table TableState, sums Sums) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error {
		return s.CompletePass(table.Generation, table.Load.Number, table.Load.Sweep.Pass, sums, at)
	})
}
