package dualwrite

import (
	"errors"
	"fmt"
)

// Outcome is the outcome of a write in one store.
type Outcome string

// The outcomes.
const (
	Written    Outcome = "written"
	NotWritten Outcome = "not written"
	// PartlyWritten: at least one of the item's several rows was written, and other rows may be
	// missing.
	PartlyWritten Outcome = "partly written"
	// Unknown: no answer came. The request may have been executed, or may be executed later.
	Unknown Outcome = "unknown"
)

// Error says what each store has after a failed write.
//
// A write that DynamoDB has is never lost. Replicator brings it to Bigtable, with or without this
// package.
type Error struct {
	// Op is Put, Update, Delete or Transact.
	Op string
	// DynamoDB and Bigtable are the outcomes in the two stores. Bigtable is written only after
	// DynamoDB certainly has the image.
	DynamoDB, Bigtable Outcome
	// Repeat reports that the caller may repeat the same call. After ErrConflict, the caller must
	// read the item again first. If DynamoDB has the write, nothing needs to be repeated.
	Repeat bool
	Err    error
}

func (e *Error) Error() string {
	advice := "replicator will write it to Bigtable; do not repeat it"
	switch {
	case errors.Is(e.Err, ErrConflict):
		advice = "read the item again"
	case e.Repeat && e.DynamoDB == NotWritten:
		advice = "repeating the call is safe"
	case e.Repeat:
		advice = "repeating the call is safe: it fails with ErrConflict if this call was executed after all"
	case e.DynamoDB == NotWritten:
		advice = "nothing was written; the call must be changed"
	case e.DynamoDB == Unknown:
		advice = "read the item before you repeat it"
	}
	return fmt.Sprintf("%s: DynamoDB: %s, Bigtable: %s; %s: %v", e.Op, e.DynamoDB, e.Bigtable, advice, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Errors that callers may look for.
var (
	// ErrConflict: another write changed, created or removed the item after the caller had read it.
	// Nothing was written.
	ErrConflict = errors.New("the item's number has changed since it was read")
	// ErrNumber: the item's version attribute is not a valid number.
	ErrNumber = errors.New("the version attribute is not an integer from 0 to 99999999999999999999")
	// ErrKey: the change function of Update or Transact has changed the primary key.
	ErrKey = errors.New("the item's primary key has changed since it was read")
	// ErrTransact: Transact needs numbers. After a transaction without an answer, only conditions
	// on numbers show the previous images of the items.
	ErrTransact = errors.New("Transact needs dual_writes.version_attribute; without it call TransactWriteItems, and replicator writes the rows")
	// ErrUnmappable: the rules of the mapping make no row from the item. Replicator parks such an
	// item.
	ErrUnmappable = errors.New("the item cannot be mapped")
	// ErrNotReady: replicator has not yet written its witness row to the target table, or has not
	// yet published a number of the fence. Replicator brings the write to Bigtable once it runs.
	ErrNotReady = errors.New("replicator is not ready for the application's writes")
	// ErrOvertaken: another write changed the item before this call wrote its row. That later write
	// also writes the row.
	ErrOvertaken = errors.New("the item was changed meanwhile")
)

// NotExecuted wraps an error of a Source. It reports that the request was certainly not executed.
type NotExecuted struct{ Err error }

func (e *NotExecuted) Error() string { return e.Err.Error() }

func (e *NotExecuted) Unwrap() error { return e.Err }
