package cdc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Retention is how long a stream keeps a change.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html
const Retention = 24 * time.Hour

// Source reads one stream. Its errors are *Error. It does not retry.
type Source interface {
	// ListPage returns one page of the stream's shards. If `after` is empty, it returns the first
	// page. Otherwise `after` must be the Next of the previous page. If `parent` is not empty, it
	// lists only the children of that shard. The listing is eventually consistent. A Lister
	// combines the pages.
	ListPage(ctx context.Context, parent, after string) (ListingPage, error)
	// Seek returns an iterator for a position in a shard. At the horizon, it never fails because
	// changes were trimmed.
	Seek(ctx context.Context, shard string, from Position) (Iterator, error)
	// Read returns the next page. It may be empty any number of times before more changes come.
	Read(ctx context.Context, at Iterator) (Page, error)
}

// Reason is how the caller should treat a failed call.
type Reason uint8

// The reasons.
const (
	Unavailable Reason = iota // a transient fault; retry later
	Throttled                 // retry later, less often
	Denied                    // credentials or permissions are missing; a retry helps only after the operator has fixed them
	Expired                   // the iterator is too old; seek again after the last applied change
	Trimmed                   // the stream no longer keeps the position, so changes are lost
	NotFound                  // the shard or stream is gone
	Malformed                 // the answer cannot be understood, and must not be skipped
	Unreadable                // one record of the shard cannot be applied as it is (RecordError), and must not be skipped
)

// String returns the name of the reason.
func (r Reason) String() string {
	return [...]string{"unavailable", "throttled", "denied", "iterator expired", "trimmed", "not found", "malformed", "malformed record"}[r]
}

// Error is a failed call to a source.
type Error struct {
	Op     string // GetRecords, …
	Reason Reason
	Err    error // the cause, without item data
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.Op, e.Reason, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// RecordError is the error for a record that cannot be read or is out of order. All later changes
// of its shard wait for it.
type RecordError struct {
	Shard    string // "" if the shard is not known
	Sequence string // as the service wrote it; "" if the record has none
	Err      error  // the cause, without item data
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

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// unreadable returns the error for a read that found a record that cannot be applied.
func unreadable(sequence string, err error) *Error {
	return &Error{opGetRecords, Unreadable, &RecordError{Sequence: sequence, Err: err}}
}

// Is reports whether err is a source's error for the given reason.
func Is(err error, reason Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reason
}

// WithoutOldImages returns a source that reads the same stream, without the old images of changes.
// It does not decode them, if it can.
func WithoutOldImages(s Source) Source {
	if stream, ok := s.(*DynamoDBStream); ok {
		return &DynamoDBStream{api: stream.api, arn: stream.arn, newOnly: true}
	}
	return withoutOldImages{s}
}

type withoutOldImages struct{ Source }

func (s withoutOldImages) Read(ctx context.Context, at Iterator) (Page, error) {
	page, err := s.Source.Read(ctx, at)
	page.Changes = slices.Clone(page.Changes) // the source may own them
	dropOldImages(page.Changes)
	return page, err
}

func dropOldImages(changes []Change) {
	for i := range changes {
		changes[i].Old = attribute.Item{}
	}
}
