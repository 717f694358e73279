package checkpoint

import (
	"context"
	"fmt"
	"time"
)

// Sweep removes or rewrites the rows that a copy cannot reach: rows of earlier generations. It
// reads all rows, pass by pass, until a pass writes nothing.
type Sweep struct {
	// Pass is the current or last pass. Pass 0 only counts rows.
	Pass int `json:"pass,omitempty"`
	// Parts is the number of parts of the pass; 0 while no pass runs.
	Parts int `json:"parts,omitempty"`
	// Approved reports that an operator allows sweeps of a target that replicator did not create.
	// Waiting reports that a sweep waits for that approval.
	Approved bool      `json:"approved,omitempty"`
	Waiting  bool      `json:"waiting,omitempty"`
	BegunAt  time.Time `json:"begun_at,omitzero"`
	// Ranges are the row ranges of the parts, in order. They are the same in every pass.
	Ranges []SweepRange `json:"ranges,omitempty"`
	Counts
}

// SweepRange is a range of rows of a target table. It includes From and excludes To. An empty key
// is no bound. Row keys may hold item data, so they must not appear in logs or errors.
type SweepRange struct {
	Table string `json:"table"`
	From  []byte `json:"from,omitempty"`
	To    []byte `json:"to,omitempty"`
}

// Counts counts the rows that a sweep examined. In a table's record, Seen, Left and Unexplained are
// the counts of the last complete pass. Put and Removed are the totals of all passes except pass 0.
// The counts of pass 0 are shown until pass 1 begins.
type Counts struct {
	Seen        int64 `json:"seen,omitempty"` // rows that replicator wrote in an earlier generation
	Put         int64 `json:"put,omitempty"`
	Removed     int64 `json:"removed,omitempty"`
	Bare        int64 `json:"bare,omitempty"`        // rows among put and removed that had no version, under dual writes
	Left        int64 `json:"left,omitempty"`        // rows without an item that were kept, because time to live may have removed the item
	Unexplained int64 `json:"unexplained,omitempty"` // rows that replicator wrote but no mapping explains
}

// wrote reports whether a pass has written rows that the next pass must examine.
func (c Counts) wrote() bool { return c.Put+c.Removed > c.Bare }

// Ends reports whether a pass with these counts leaves nothing to sweep. A pass other than pass 0
// must have written no row and explained every row. Pass 0, which only counts, must have found no
// row.
func (c Counts) Ends(pass int) bool {
	return !c.wrote() && c.Unexplained == 0 && (pass > 0 || c.Seen == 0)
}

// NextPass returns the pass of the sweep that begins next. In a target that replicator did not
// create, the first pass only counts, until an operator has seen the counts and approves. NextPass
// returns false if a pass runs, if a pass waits for approval, or if no pass is due.
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

// BeginSweep begins a pass. The caller must first wait until every lease older than the raise has
// ended and the longest deadline of a write has passed.
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
		return s.refuseYet(step, fmt.Sprintf("pass %d is not the next", pass), "the table's record has changed: retry")
	}
	if pass == 1 {
		sweep.Put, sweep.Removed = 0, 0 // these were the counts of pass 0
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

// ApproveSweep allows the sweep of a target that replicator did not create, for this load and for
// later loads.
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

// MaxPasses is how many passes of a sweep may write. A pass does not find the rows that the
// previous pass wrote, unless the target refused even the removal of these rows.
const MaxPasses = 5

// endless explains why a table still needs a load after a sweep that used all its passes and had
// rows to write in each pass.
const endless = "the sweep ended after %d passes, each of which had rows to write; see replicator parked list"

// unexplained explains why a table is not in sync although its sweep has nothing left to write.
const unexplained = "the sweep left rows of this migration that no mapping explains"

// These are two reasons why a table is not in sync after a load and sweep under another mapping.
const (
	formerMapping = "loaded and swept under the present mapping; rows of the former mapping may still exist"
	contested     = "loaded and swept under both mappings; rows of the former one remain where other items may now have cells"
)

// CompletePass records that every part of a pass is done. A pass that wrote nothing is the last
// pass. Otherwise pass MaxPasses is the last. Rows that the last pass still wrote may belong to
// removed items, and so may rows that no mapping explains. Such rows keep the table from being in
// sync.
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
		return s.refuseYet(step, fmt.Sprintf("pass %d is not running", pass), "the table's record has changed: retry")
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
		return nil // its writes may have exposed more rows
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

// ApproveSweep allows the sweep of a target that replicator did not create.
func (l *Ledger) ApproveSweep(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, (*TableState).ApproveSweep)
}

// BeginSweep begins a pass of the sweep. The argument `table` is the record that showed the pass as
// due.
func (l *Ledger) BeginSweep(ctx context.Context, table TableState, pass int, ranges []SweepRange) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error {
		return s.BeginSweep(table.Generation, table.Load.Number, pass, ranges, at)
	})
}

// CompletePass records that every part of a pass is done. The argument `table` is the record that
// the caller had when it read the parts.
func (l *Ledger) CompletePass(ctx context.Context, table TableState, sums Sums) (TableState, error) {
	at := l.Now(ctx)
	return l.UpdateTable(ctx, table.Source, func(s *TableState) error {
		return s.CompletePass(table.Generation, table.Load.Number, table.Load.Sweep.Pass, sums, at)
	})
}
