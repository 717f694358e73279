package status

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Table is one source table.
type Table struct {
	Source string `json:"source"`
	Target string `json:"target"`
	Phase  string `json:"phase"`
	Standing
	NextSteps []standing.NextStep `json:"next_steps"` // next steps that concern only this table
	// Apply is the mode of the table. direct: changes are written to the target. both: changes are
	// also published. topic: changes are published, and other processes write them to the target.
	Apply string `json:"apply"`
	// Behind is the number of published messages that are not confirmed as applied. It is null if
	// changes are not applied from a topic.
	Behind *uint64 `json:"behind"`
	// Generation is null before the first start.
	Generation      *uint32 `json:"generation"`
	LoadNeeded      bool    `json:"needs_load"`
	NeedsLoadReason *string `json:"needs_load_reason"`
	// Fence is kept if late writes are rejected, and withheld if they are not rejected. It is null
	// before the first fence number.
	Fence       *string `json:"fence"`
	FenceReason *string `json:"fence_reason"` // why the fence is withheld
	// LossKind is the widest kind of loss that needs repair.
	LossKind   *string    `json:"loss_kind"`
	LostFrom   *time.Time `json:"lost_from"` // an event time before which the stream lost nothing
	Gaps       int        `json:"gaps"`
	LastGap    *gapStatus `json:"last_gap"`
	Copy       copyStatus `json:"copy"`
	LagSeconds *float64   `json:"lag_seconds"`
	// LagEstimated reports that the lag is the time since the last empty read of the stream.
	LagEstimated    bool     `json:"lag_estimated"`
	HeadroomSeconds *float64 `json:"headroom_seconds"`
	HeadroomAtMost  bool     `json:"headroom_at_most"` // the headroom may be lower, because it is unknown for some shards
	// ChangesPerSecond is null if a shard with an owner has not reported its rate recently.
	ChangesPerSecond *float64 `json:"changes_per_second"`
	// OldestReadAt is the earliest of the last reads of all readable shards.
	OldestReadAt *time.Time `json:"oldest_read_at"`
	// Old reports that this last read is more than three lease durations ago.
	Old    bool `json:"old"`
	Parked int  `json:"parked"`
	// Settling is the number of changes that were applied once and will be applied a second time
	// (dual_writes). Before the second application, the rows may have the application's values.
	Settling uint64        `json:"settling"`
	Paused   *pausedStatus `json:"paused"` // null if no operator has paused the table
	// WayBack is the way back after a cutover; null if there is none.
	WayBack   *WayBack          `json:"way_back"`
	Verify    *verifyStatus     `json:"verify"` // null before the first verify
	Throttled []throttledStatus `json:"throttled"`
	Troubles  []troubleStatus   `json:"troubles"`
	Shards    map[string]int    `json:"shards"`

	group string // the name of the pattern that matched the table; "" for a named table
	// TopicLag is the maximum age, in seconds, of the oldest message that is not known to be
	// applied. It is nil if it is unknown, or if changes are not applied from a topic. DeadLetter
	// is the minimum number of messages in the dead-letter topic.
	TopicLag   *float64 `json:"-"`
	DeadLetter int      `json:"-"`

	Copying   bool   `json:"-"` // a fast load is not over, so rows may differ
	Suspended string `json:"-"` // why the table cannot be replicated; "" if it can be
	stands    standing.Standing
	// Childless is the time since which listings have not shown the children of an ended shard;
	// zero if none are missing.
	Childless  time.Time `json:"-"`
	LongGone   bool      `json:"-"` // the table was dropped, and its stream has ended too
	slowed     []string  // reasons why the table's load is not faster
	copiedFrom string    // the export that the table's load copies; "" for a scan
	// noExport is why the table's load waits for an operator after an export failed; "" if it does
	// not wait.
	noExport string
	// load is the step for which the table's load waits, with a command without the word
	// replicator; nil if there is none.
	load        *standing.NextStep
	coordinator string
	last, full  checkpoint.VerifyResult // results of the last verify, and of the last one of all items
	waiting     int                     // number of shards that could be read but have no owner
	silent      int                     // number of shards with a silent owner
}

// recorded copies values from the table's record in the ledger.
func (t *Table) recorded(s *checkpoint.TableState) {
	t.Generation, t.Copying = &s.Generation, s.Copying()
	t.last, t.full = s.Verify.Result, s.Verify.Full
	t.Gaps = s.GapCount
	if n := len(s.Gaps); n > 0 {
		last := s.Gaps[n-1]
		t.LastGap = &gapStatus{At: last.At.UTC(), Shard: terminal.Known(last.Shard), Reason: last.Reason}
	}
	t.LossKind, t.LostFrom = terminal.Known(string(s.Kind)), terminal.KnownTime(s.LostFrom)
}

// pausedStatus is an operator's pause of the table.
type pausedStatus struct {
	Since  time.Time `json:"since"`
	Reason *string   `json:"reason"`
}

// gapStatus is a part of the stream that was lost before it was read.
type gapStatus struct {
	At     time.Time `json:"at"`
	Shard  *string   `json:"shard"`
	Reason string    `json:"reason"`
}

// throttledStatus is the time that work waited for a limit, within the period before the worker's
// last report.
type throttledStatus struct {
	Reason        string    `json:"reason"`
	Seconds       float64   `json:"seconds"`
	WindowSeconds float64   `json:"window_seconds"`
	LastAt        time.Time `json:"last_at"`
}

// troubleStatus is a step that fails and is retried. It concerns a number of shards or, with 0
// shards, the work of the table's coordinator.
type troubleStatus struct {
	Step      string    `json:"step"`
	Cause     string    `json:"cause"`
	Since     time.Time `json:"since"`
	Shards    int       `json:"shards"`
	Throttled bool      `json:"throttled"`
}
