package cdc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Retention is how long a stream keeps a change.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html
const Retention = 24 * time.Hour

// Source reads one stream. Its errors are *Error; it does not retry.
type Source interface {
	// ListPage returns one page of the stream's shards: the first, or the one that begins after what the page before called Next. If
	// parent is not empty, only its children. The listing is eventually consistent. A Lister makes a whole of its pages.
	ListPage(ctx context.Context, parent, after string) (ListingPage, error)
	// Seek returns an iterator for a position in a shard. At the horizon it never fails for what was trimmed.
	Seek(ctx context.Context, shard string, from Position) (Iterator, error)
	// Read returns the next page. It may be empty any number of times before more changes come.
	Read(ctx context.Context, at Iterator) (Page, error)
}

// Reason says what a failed call means for the caller.
type Reason uint8

// The reasons.
const (
	Unavailable Reason = iota // a passing fault: repeat later
	Throttled                 // repeat later, and not more often
	Denied                    // credentials or permissions: repeating helps once somebody mended them
	Expired                   // the iterator is too old: seek again after the last applied change
	Trimmed                   // the position is beyond what the stream keeps: changes are lost
	NotFound                  // the shard or stream is gone
	Malformed                 // the answer cannot be understood: never skip it
	Unreadable                // one record of the shard cannot be applied as it is (RecordError): never skip it
)

// String names the reason.
func (r Reason) String() string {
	return [...]string{"unavailable", "throttled", "denied", "iterator expired", "trimmed", "not found", "malformed", "malformed record"}[r]
}

// Error is a failed call to a source.
type Error struct {
	Op     string // GetRecords, …
	Reason Reason
	Err    error // the cause, never with item data
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.Op, e.Reason, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// RecordError is a record that cannot be read, or that stands where none may. Everything after it in
// its shard waits for it.
type RecordError struct {
	Shard    string // "" where only the answer is known
	Sequence string // as the service wrote it; "" if the record has none
	Err      error  // why, never with item data
}

func (e *RecordError) Error() string {
	record := "a record without a sequence number"
	if e.Sequence != "" {
		record = "sequence number " + e.Sequence
	}
	if e.Shard != "" {
		record += " of shard " + e.Shard
	}
	return record + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// unreadable is the error of a read that found a record that cannot be applied.
func unreadable(sequence string, err error) *Error {
	return &Error{opGetRecords, Unreadable, &RecordError{Sequence: sequence, Err: err}}
}

// Is reports whether err is a source's error for the given reason.
func Is(err error, reason Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reason
}
