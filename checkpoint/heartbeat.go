package checkpoint

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// About describes a process in its leases.
type About struct {
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"` // of the program
}

// Heartbeat is what the last writer of a row says about itself, for display. No decision depends on
// it: the row's counter shows whether a lease has ended (Watch), so clocks need not agree.
type Heartbeat struct {
	// WrittenAt is when the row was last written, on the writer's clock. Renewals count as writes.
	WrittenAt time.Time `json:"written_at,omitzero"`
	// Holder is the process that holds the lease; zero if none does.
	Holder About `json:"holder,omitzero"`
	// Trouble is the step that the holder is retrying; zero if none.
	Trouble Trouble `json:"trouble,omitzero"`
	// Reads is the highest format of records that the holder's program reads. 0 means 3 or less.
	Reads int `json:"reads,omitempty"`
	// ClockOffset is how many seconds the holder's clock is ahead of the source's. It is 0 if the
	// difference is less than a minute (ClockTolerance).
	ClockOffset float64 `json:"clock_offset,omitempty"`
}

// ByService converts a time of the writer's clock to the source's clock, with the offset that the
// writer knew.
func (b Heartbeat) ByService(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(-time.Duration(b.ClockOffset * float64(time.Second)))
}

// Records reports whether the holder's program keeps a Writer record, which says what the program
// may write, obeys the cutover of any group of tables, and keys messages by
// TableState.OrderingBuckets. A program without a version is not a release, and counts as a program
// of this version.
func (b Heartbeat) Records() bool { return b.Holder.Version == "" || b.Reads >= groupFormat }

// Copies reports whether the holder's program removes the markers of fast loads. It follows the same
// rule about releases as Records.
func (b Heartbeat) Copies() bool { return b.Holder.Version == "" || b.Reads >= fastFormat }

// RequestsWindows reports whether the holder's program reads a request for windows. It follows the
// same rule about releases as Records.
func (b Heartbeat) RequestsWindows() bool { return b.Holder.Version == "" || b.Reads >= Format }

// Lasted returns how long the trouble had lasted when the row was written. Both times come from the
// same clock.
func (b Heartbeat) Lasted() time.Duration { return max(0, b.WrittenAt.Sub(b.Trouble.Since)) }

// Trouble is a step that fails and is retried.
type Trouble struct {
	Step  string    `json:"step"`  // the step, in fixed words
	Cause string    `json:"cause"` // why it fails, in fixed words: no item data
	Since time.Time `json:"since"` // time of the first of the consecutive failures, on the holder's clock
	// Throttled reports that a service asks for fewer requests.
	Throttled bool `json:"throttled,omitempty"`
}

// Pace is the speed of a load.
type Pace struct {
	At   time.Time `json:"at"`             // when the pace was measured
	Rate float64   `json:"rate,omitempty"` // items a second over the last minutes; 0 if not known yet
	// Throttled is the time that the coordinator's process waited for limits, by reason.
	Throttled []Throttled `json:"throttled,omitempty"`
}

// Throttled is the time waited for one limit within a period of at most an hour.
type Throttled struct {
	Reason  string    `json:"reason"` // in fixed words
	Seconds float64   `json:"seconds"`
	Since   time.Time `json:"since"` // when the period began
	Last    time.Time `json:"last"`  // when the process last waited
}

// heartbeat returns what this process writes into a row that it holds.
func (l *Ledger) heartbeat(ctx context.Context, trouble Trouble) Heartbeat {
	return Heartbeat{WrittenAt: task.Now(ctx).UTC(), Holder: l.about, Trouble: trouble, Reads: Format, ClockOffset: l.wrongBy()}
}

// unowned returns what this process writes into a row that no process holds afterwards.
func (l *Ledger) unowned(ctx context.Context) Heartbeat {
	return Heartbeat{WrittenAt: task.Now(ctx).UTC()}
}
