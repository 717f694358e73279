package fallback

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Changes reads the change stream of a Bigtable table.
type Changes interface {
	// Partitions returns the partitions of now.
	Partitions(ctx context.Context, table string) ([]checkpoint.KeyRange, error)
	// Read reads one partition and calls take for each record, in order, until take returns an
	// error or the stream ends. It returns take's error, or why the stream ended. It returns nil
	// if the service ended the stream without a reason.
	Read(ctx context.Context, table string, from Place, heartbeat time.Duration, take func(Record) error) error
}

// Place is where reading of a partition begins: at its continuations, or at a time if there is none.
type Place struct {
	checkpoint.KeyRange
	Tokens []checkpoint.Continuation
	From   time.Time
}

// Record is one record of a partition.
type Record struct {
	// Key is the row key of a change; nil for other records.
	Key *string
	// Token continues the partition after this record; "" if the record has none.
	Token string
	// Watermark is the service's estimate of the time before which no change follows.
	Watermark time.Time
	// Closed reports that the partition ended. Children continue its range.
	Closed   bool
	Children []checkpoint.Continuation
}

// ErrLost is returned for a change stream that cannot be continued: a token is too old, or the
// table, its stream or a family is gone.
var ErrLost = errors.New("the change stream cannot be continued")

// errClosed ends the reading of a partition that was closed.
var errClosed = errors.New("the partition is closed")
