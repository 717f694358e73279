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
	NextSteps []standing.NextStep `json:"next_steps"` // steps of this table only
	// Apply is the mode. direct: changes are written to the target. both: changes are also
	// published. topic: changes are published, and other processes write them.
	Apply string `json:"apply"`
	// Behind is how many published messages are not confirmed as applied; null unless changes are
	// applied from a topic.
	Behind *uint64 `json:"behind"`
	// Generation is null before the first start.
	Generation      *uint32 `json:"generation"`
	LoadNeeded      bool    `json:"needs_load"`
	NeedsLoadReason *string `json:"needs_load_reason"`
	Fence           *string `json:"fence"`        // kept: late writes are rejected; withheld: they are not; null before the first fence number
	FenceReason     *string `json:"fence_reason"` // why the fence is withheld
	// LossKind is the widest kind of loss that needs repair.
	LossKind         *string    `json:"loss_kind"`
	LostFrom         *time.Time `json:"lost_from"` // an event time before which the stream lost nothing
	Gaps             int        `json:"gaps"`
	LastGap          *gapStatus `json:"last_gap"`
	Copy             copyStatus `json:"copy"`
	LagSeconds       *float64   `json:"lag_seconds"`
	LagEstimated     bool       `json:"lag_estimated"` // the lag is the time since the stream was last found empty
	HeadroomSeconds  *float64   `json:"headroom_seconds"`
	HeadroomAtMost   bool       `json:"headroom_at_most"`   // the headroom may be lower, because it is unknown for some shards
	ChangesPerSecond *float64   `json:"changes_per_second"` // null unless every owned shard reported it recently
	OldestReadAt     *time.Time `json:"oldest_read_at"`     // the earliest last read among the readable shards
	Old              bool       `json:"old"`                // the last read is more than three leases ago
	Parked           int        `json:"parked"`
	// Settling is how many changes were applied once and will be written a second time
	// (dual_writes). Until then their rows may have the application's values.
	Settling  uint64            `json:"settling"`
	Paused    *pausedStatus     `json:"paused"` // null unless an operator paused it
	Verify    *verifyStatus     `json:"verify"` // null before the first verify
	Throttled []throttledStatus `json:"throttled"`
	Troubles  []troubleStatus   `json:"troubles"`
	Shards    map[string]int    `json:"shards"`

	group string // the name of its pattern; "" for a named table
	// TopicLag is an upper bound of the age, in seconds, of the oldest message not known to be
	// applied. It is nil if it is unknown, or if changes are not applied from a topic. DeadLetter
	// is a lower bound of the number of messages in the dead-letter topic.
	TopicLag   *float64 `json:"-"`
	DeadLetter int      `json:"-"`

	Suspended   string `json:"-"` // why it cannot be followed; "" if it can
	stands      standing.Standing
	Childless   time.Time          `json:"-"` // since when the children of an ended shard have been missing from listings; zero if none are
	LongGone    bool               `json:"-"` // it was dropped, and its stream has ended too
	slowed      []string           // why its load is not faster
	copiedFrom  string             // the export that its load copies; "" if it scans
	noExport    string             // why its load waits for the operator who requested an export; "" if it does not
	load        *standing.NextStep // the command that its load waits for, without its first word; nil if it waits for none
	coordinator string
	waiting     int // shards that could be read and have no owner
	silent      int // shards whose owner is silent
}

// recorded copies values from the table's record.
func (t *Table) recorded(s *checkpoint.TableState) {
	t.Generation = &s.Generation
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

// gapStatus is a stretch of the stream that was lost before it was read.
type gapStatus struct {
	At     time.Time `json:"at"`
	Shard  *string   `json:"shard"`
	Reason string    `json:"reason"`
}

// throttledStatus is the time waited for a limit, within a window that ended with the worker's last
// report.
type throttledStatus struct {
	Reason        string    `json:"reason"`
	Seconds       float64   `json:"seconds"`
	WindowSeconds float64   `json:"window_seconds"`
	LastAt        time.Time `json:"last_at"`
}

// troubleStatus is a step that fails and is retried: in some shards of a table or, with 0 shards,
// in the work of its coordinator.
type troubleStatus struct {
	Step      string    `json:"step"`
	Cause     string    `json:"cause"`
	Since     time.Time `json:"since"`
	Shards    int       `json:"shards"`
	Throttled bool      `json:"throttled"`
}
