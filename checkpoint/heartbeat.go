package checkpoint

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// About is what a process tells of itself in its leases.
type About struct {
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"` // of the program
}

// Heartbeat is what the last writer of a row leaves for people, and nothing is decided by it: whether a lease is over is told by the
// row's counter (Watch), because no two clocks need agree.
type Heartbeat struct {
	// WrittenAt is when the row was last written, renewals included, on the writer's clock.
	WrittenAt time.Time `json:"written_at,omitzero"`
	// Holder is the process that holds the lease; zero if none does.
	Holder About `json:"holder,omitzero"`
	// Trouble is the step that the holder is retrying; zero if none.
	Trouble Trouble `json:"trouble,omitzero"`
	// ClockOffset is how many seconds the holder's clock is ahead of the source's; 0 while that is less than ClockTolerance.
	ClockOffset float64 `json:"clock_offset,omitempty"`
}

// ByService is a time of the writer's clock as the source's would show it, as far as the writer knew
// how wrong its own is.
func (b Heartbeat) ByService(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(-time.Duration(b.ClockOffset * float64(time.Second)))
}

// Trouble is a step that fails and is repeated.
type Trouble struct {
	Step  string    `json:"step"`  // the step, in fixed words
	Cause string    `json:"cause"` // why it fails, in fixed words: no item data
	Since time.Time `json:"since"` // of the first failure in a row, on the holder's clock
	// Throttled reports that a service asks for fewer requests.
	Throttled bool `json:"throttled,omitempty"`
}

// Pace is how a load gets on.
type Pace struct {
	At   time.Time `json:"at"`             // when it was taken
	Rate float64   `json:"rate,omitempty"` // items a second over the last minutes; 0 if not known yet
	// Throttled is the time that the coordinator's process waited for limits, by reason.
	Throttled []Throttled `json:"throttled,omitempty"`
}

// Throttled is time waited for one limit within a stretch of at most an hour.
type Throttled struct {
	Reason  string    `json:"reason"` // in fixed words
	Seconds float64   `json:"seconds"`
	Since   time.Time `json:"since"` // where the stretch begins
	Last    time.Time `json:"last"`  // when it last waited
}

// heartbeat is what this process writes into a row that it holds.
func (l *Ledger) heartbeat(ctx context.Context, trouble Trouble) Heartbeat {
	return Heartbeat{WrittenAt: task.Now(ctx).UTC(), Holder: l.about, Trouble: trouble, ClockOffset: l.wrongBy()}
}

// unowned is what it writes into a row that nobody holds afterwards.
func (l *Ledger) unowned(ctx context.Context) Heartbeat {
	return Heartbeat{WrittenAt: task.Now(ctx).UTC()}
}
