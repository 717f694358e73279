package dualwrite

import (
	"errors"
	"fmt"
)

// Outcome is what became of one store's half of a write.
type Outcome string

// The outcomes.
const (
	Written    Outcome = "written"
	NotWritten Outcome = "not written"
	// PartlyWritten: of several rows of an item at least one was written, and not all are known to
	// be.
	PartlyWritten Outcome = "partly written"
	// Unknown: no answer came, and the request may have been executed, or may still be.
	Unknown Outcome = "unknown"
)

// Error says which store has what after a write failed.
//
// A write that DynamoDB has is never lost: the replicator brings it to Bigtable, with or without
// this package.
type Error struct {
	// Op is Put, Update, Delete or Transact.
	Op string
	// DynamoDB and Bigtable are what became of the two halves. Bigtable is never written before
	// DynamoDB has the image for certain.
	DynamoDB, Bigtable Outcome
	// Repeat says that the same call may be repeated, after ErrConflict with the item as it is now.
	// Nothing needs to be repeated where DynamoDB has it.
	Repeat bool
	Err    error
}

func (e *Error) Error() string {
	advice := "replicator will write it to Bigtable; do not repeat it"
	switch {
	case errors.Is(e.Err, ErrConflict):
		advice = "read the item again"
	case e.Repeat && e.DynamoDB == NotWritten:
		advice = "a repeat is safe"
	case e.Repeat:
		advice = "a repeat is safe: it fails with ErrConflict if this call was executed after all"
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
	// ErrConflict: the item was changed, created or removed since it was read. Nothing was written.
	ErrConflict = errors.New("the item's number has changed since it was read")
	// ErrNumber: the item's version attribute is none.
	ErrNumber = errors.New("the version attribute is not an integer from 0 to 99999999999999999999")
	// ErrKey: Update or Transact was to change the primary key.
	ErrKey = errors.New("the item's primary key has changed since it was read")
	// ErrTransact: only conditions on numbers say what items were before a transaction, which does
	// not answer it.
	ErrTransact = errors.New("Transact needs dual_writes.version_attribute; without it call TransactWriteItems, and replicator writes the rows")
	// ErrUnmappable: the rules of the mapping make no row of the item; the replicator parks it.
	ErrUnmappable = errors.New("the item cannot be mapped")
	// ErrNotReady: the replicator has not written its witness row to the target table yet, or no
	// number of the fence. It brings the write when it runs.
	ErrNotReady = errors.New("replicator is not ready for writes of the application")
	// ErrOvertaken: the item was changed while its row was to be written; the later write has it.
	ErrOvertaken = errors.New("the item was changed meanwhile")
)

// NotExecuted wraps an error of a Source after which the request was certainly not executed.
type NotExecuted struct{ Err error }

func (e *NotExecuted) Error() string { return e.Err.Error() }

func (e *NotExecuted) Unwrap() error { return e.Err }
