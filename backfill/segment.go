package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// ErrProgress is returned for stored progress that makes no sense.
var ErrProgress = errors.New("not the progress of a load")

// ScanSource is what a scan reads from; *Tables is one. Reads must be strongly consistent (B4).
type ScanSource interface {
	Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (ScanPage, error)
}

// bytesPerUnit is what a strongly consistent read of one unit reads at most.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
const bytesPerUnit = 4096

// Segments are the segments of a parallel scan as the parts of a load. A position is the key of the
// last item, as DynamoDB JSON.
type Segments struct {
	Table  string
	Source ScanSource
}

// Read gives the page after a key. The read is strongly consistent (B4).
func (s Segments) Read(ctx context.Context, index, total int, after json.RawMessage, limit int) (Page, error) {
	var key attribute.Item
	if after != nil {
		var err error
		if key, err = attribute.UnmarshalItem(after); err != nil || !key.Exists() {
			return Page{}, fmt.Errorf("%w: the position of segment %d is no key", ErrProgress, index) // without what it holds
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
	// partBytes is about how much a part reads: some seconds of work, so that little is read again
	// after a crash and workers that come late find parts that are free.
	partBytes = 64 << 20
	// maxParts bounds the rows in the ledger, which every worker looks at.
	maxParts = 1024
	// smallTable is a table for which parts cost more than they bring.
	smallTable    = 1 << 20
	maxSmallParts = 4
	// partsPerSegment is how many parts there are at least for each segment that is configured to
	// be read at once.
	partsPerSegment = 4
)

// NumberOfParts is into how many segments a scan is divided, of which each worker reads so many at
// once. Bytes is the service's own figure, hours old: 0 is no figure, because a table that was
// filled since has none yet.
func NumberOfParts(bytes int64, segments int) int {
	if bytes > 0 && bytes < smallTable {
		return int(min(1+bytes/(smallTable/maxSmallParts), maxSmallParts))
	}
	wanted := max((bytes+partBytes-1)/partBytes, partsPerSegment*int64(max(segments, 1)))
	return int(min(wanted, maxParts))
}
