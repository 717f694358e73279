package checkpoint

import "time"

// Load is the copy of the items that the table holds, and the sweep after it: the last one that was asked for. It is sealed,
// with its plan, before a part of it is leased (H98).
type Load struct {
	// Generation is the one that the load asserts; 0 while it is asked for and not sealed.
	Generation uint32 `json:"generation,omitempty"`
	// Number rises with every load of the table, for as long as the ledger lives.
	Number uint32 `json:"number,omitempty"`
	// Parts is into how many parts the plan divides the source; 0 while the load is not sealed.
	Parts  int    `json:"parts,omitempty"`
	Source string `json:"source,omitempty"` // scan
	// TableID is that of the source table when the load began: one that was created anew has another.
	TableID string    `json:"table_id,omitempty"`
	AskedAt time.Time `json:"asked_at,omitzero"`
	// StartedAt is on the service's clock: no item is read before.
	StartedAt time.Time `json:"started_at,omitzero"`
	DoneAt    time.Time `json:"done_at,omitzero"`  // when every part was copied
	SweptAt   time.Time `json:"swept_at,omitzero"` // when a pass of the sweep had nothing to write
	Items     int64     `json:"items,omitempty"`
	Bytes     int64     `json:"bytes,omitempty"`
	Units     float64   `json:"units,omitempty"` // read capacity units consumed
	// Estimate and EstimateBytes are the service's own counts when the load began, hours old.
	Estimate      int64 `json:"estimate,omitempty"`
	EstimateBytes int64 `json:"estimate_bytes,omitempty"`
	// Paused is why no part is leased; "" if the load runs.
	Paused string `json:"paused,omitempty"`
	Sweep  Sweep  `json:"sweep,omitzero"`
}

// Sweep removes or puts again what a copy cannot reach: rows of a generation before. It goes over all rows pass by pass, until
// a pass writes nothing.
type Sweep struct {
	// Pass is the one that runs or ran last. Pass 0 counts and writes nothing.
	Pass int `json:"pass,omitempty"`
	// Parts is into how many parts the pass is divided; 0 while none runs.
	Parts int `json:"parts,omitempty"`
	// Approved says that an operator allows sweeps of a target that was not made by us; Waiting, that one waits for that.
	Approved bool      `json:"approved,omitempty"`
	Waiting  bool      `json:"waiting,omitempty"`
	BegunAt  time.Time `json:"begun_at,omitzero"`
	Counts
}

// Counts are the rows that a sweep looked at. In a table's record Seen and Unexplained are of the last complete pass, Put and
// Removed of all passes but pass 0, whose counts stand there until pass 1 begins.
type Counts struct {
	Seen        int64 `json:"seen,omitempty"` // rows of ours of a generation before
	Put         int64 `json:"put,omitempty"`
	Removed     int64 `json:"removed,omitempty"`
	Unexplained int64 `json:"unexplained,omitempty"` // rows of ours whose item no mapping finds
}

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

// Stage is how far the load of the current generation has come. A raise ends the load of the generation before, but one that is
// asked for and not sealed is of any.
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
