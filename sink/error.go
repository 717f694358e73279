package sink

import (
	"errors"
	"fmt"
)

// Reason says what a failed request means for the caller.
type Reason uint8

// The reasons.
const (
	// Unknown: the request may have been executed, may be executed later, or never. Repeat it identically (S4).
	Unknown Reason = iota
	// Throttled: not executed for want of capacity. Repeat later, and not more often.
	Throttled
	// Denied: credentials or permissions. Repeating helps once somebody mended them.
	Denied
	// Permanent: the target as a whole refuses, for want of a table or family for example. Repeating helps once somebody mended
	// it; never does it make one item a bad one.
	Permanent
	// Rejected: this one row's request is refused for what it contains, and always will be.
	Rejected
)

var reasonNames = [...]string{"outcome unknown", "throttled", "denied", "refused by the target", "row rejected"}

// String names the reason.
func (r Reason) String() string { return reasonNames[r] }

// Error is a failed request to the target.
//
// It does not wrap its cause: the service's messages quote row keys, which are item data, and must not reach a log by way of
// an error (S5).
type Error struct {
	// Op is what was tried: CheckAndMutateRow, ReadRows, …
	Op     string
	Reason Reason
	// Code is the gRPC code's name, for metrics: a small fixed set.
	Code string
	// Text is more of the cause, if it is known to be free of item data.
	Text string
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: %s (%s)", e.Op, e.Reason, e.Code)
	}
	return fmt.Sprintf("%s: %s (%s): %s", e.Op, e.Reason, e.Code, e.Text)
}

// Is reports whether err is a failed request of the given reason.
func Is(err error, reason Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reason
}

// Repeatable tells whether the same call may succeed later without a change of configuration or data: after an unknown outcome, a
// throttle, or denied credentials, which expire and are renewed while a migration runs.
func Repeatable(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Reason == Unknown || e.Reason == Throttled || e.Reason == Denied)
}

// ErrFenced is returned for mutations of a generation below the table's: this worker's view of the table is old, and nothing
// was written. The shard must be leased anew.
var ErrFenced = errors.New("the table's generation rose, so this write is fenced off")

// ErrParkedLimit is returned when more items are parked than are tolerated. What was to be parked is stored.
var ErrParkedLimit = errors.New("too many parked items")

// BadItem is returned under OnBadItem: Stop for an item that cannot be mapped or stored. Nothing of the item was written.
type BadItem struct {
	Source string // source table
	Reason string // without item data
}

func (e *BadItem) Error() string { return fmt.Sprintf("an item of table %s: %s", e.Source, e.Reason) }
