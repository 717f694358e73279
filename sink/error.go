package sink

import (
	"errors"
	"fmt"
)

// Reason is what the failure of a request means for the caller.
type Reason uint8

// The reasons.
const (
	// Unknown: the request may have been executed, may be executed later, or may never be. Repeat
	// it identically (S4).
	Unknown Reason = iota
	// Throttled: the request was not executed because capacity is lacking. Retry later, at a lower
	// rate.
	Throttled
	// Denied: credentials are missing or invalid, or permissions are missing. A retry succeeds once
	// an operator has corrected them.
	Denied
	// Permanent: the target as a whole refuses, for example because a table or family is missing. A
	// retry succeeds once the target is fixed. It is never a reason to park an item.
	Permanent
	// Rejected: the request for this row is refused for its content, now and later.
	Rejected
)

var reasonNames = [...]string{"outcome unknown", "throttled", "denied", "refused by the target", "row rejected"}

// String names the reason.
func (r Reason) String() string { return reasonNames[r] }

// Error reports a failed request to the target.
//
// It does not wrap its cause, because the service's messages quote row keys. Row keys are item
// data, which must not reach a log through an error (S5).
type Error struct {
	// Op is the API method, such as CheckAndMutateRow or ReadRows.
	Op     string
	Reason Reason
	// Code is the name of the gRPC code, from a small fixed set. Metrics use it.
	Code string
	// Text describes the cause further, if it is known to be free of item data.
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

// Repeatable reports whether the same call may succeed later without a change of configuration or
// data. That is so after an unknown outcome or after throttling. It is also so after denied
// credentials, because these may be renewed while a migration runs.
func Repeatable(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Reason == Unknown || e.Reason == Throttled || e.Reason == Denied)
}

// ErrFenced is returned for a write of a generation below the table's, or to a table that an
// operator or a cutover has halted. Nothing was written. The worker's view of the table is
// outdated, so the shard must be leased again.
var ErrFenced = errors.New("the write is rejected, because the table's generation rose or the table is halted")

// ErrParkedLimit is returned when more items are parked than Options.MaxParked allows. The records
// are stored nevertheless.
var ErrParkedLimit = errors.New("too many parked items")

// BadItem is returned under OnBadItem: Stop for an item that cannot be mapped or stored. No row of
// the item was written.
type BadItem struct {
	Source string // source table
	Reason string // without item data
}

func (e *BadItem) Error() string { return fmt.Sprintf("an item of table %s: %s", e.Source, e.Reason) }
