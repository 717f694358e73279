package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// ErrProgress is returned for stored progress that is not valid.
var ErrProgress = errors.New("not the progress of a load")

// ScanSource is the table that a scan reads; *Tables implements it. Reads must be strongly
// consistent (B4).
type ScanSource interface {
	Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (ScanPage, error)
}

// bytesPerUnit is the maximum size of a strongly consistent read that costs one unit. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
const bytesPerUnit = 4096

// Segments are the segments of a parallel scan as the parts of a load. A position is the key of the
// last item, as DynamoDB JSON.
type Segments struct {
	Table  string
	Source ScanSource
}

// Read returns the page after a key. The read is strongly consistent (B4).
func (s Segments) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	var key attribute.Item
	if after != nil {
		var err error
		if key, err = attribute.UnmarshalItem(after); err != nil || !key.Exists() {
			return Page{}, fmt.Errorf("%w: the position of segment %d is not a key", ErrProgress, index) // without the position, which holds item data
		}
	}
	scanned, err := s.Source.Scan(ctx, s.Table, index, total, key, limit)
	if err != nil {
		return Page{}, err
	}
	if scanned.Next.Exists() && scanned.Next.Equal(key) {
		return Page{}, &cdc.Error{Op: "Scan", Reason: cdc.Malformed, Err: errors.New("the page ends where it began")}
	}
	page := Page{Items: scanned.Items, At: scanned.At, Consumed: scanned.Consumed, Bytes: int64(scanned.Consumed * bytesPerUnit)}
	if scanned.Next.Exists() {
		if page.Next, err = attribute.MarshalItem(scanned.Next); err != nil {
			return Page{}, err
		}
	}
	return page, nil
}

const (
	// partBytes is the approximate size of a part, a few seconds of work. So a crash repeats
	// little, and workers that start late find free parts.
	partBytes = 64 << 20
	// maxParts bounds the parts' rows in the ledger, because every worker reads all of them.
	maxParts = 1024
	// smallTable bounds the size of a table for which more parts would cost more than they save.
	smallTable    = 1 << 20
	maxSmallParts = 4
	// partsPerSegment is the minimum number of parts for each segment that is configured to be read
	// concurrently.
	partsPerSegment = 4
)

// NumberOfParts returns the number of segments into which a scan is divided. Each worker reads up
// to segments of them concurrently. The argument `bytes` is the service's own figure, hours old. 0
// means that the figure is unknown, as for a table that was filled recently.
func NumberOfParts(bytes int64, segments int) int {
	if bytes > 0 && bytes < smallTable {
		return int(min(1+bytes/(smallTable/maxSmallParts), maxSmallParts))
	}
	wanted := max((bytes+partBytes-1)/partBytes, partsPerSegment*int64(max(segments, 1)))
	return int(min(wanted, maxParts))
}
