package backfill

import (
	"context"
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// maxSampleSegments bounds the requests of a sample; each costs at least half a read unit and a round trip.
const maxSampleSegments = 100

// Sample reads up to n items, spread over the table: a few from the beginning of each of up to 100
// segments. Segments divide the space of the partition keys' hashes, so the sample is even over
// partitions rather than over items. The items of a segment may share a partition. The second
// result is what the reads consumed, in read units of 4 KB. Errors are those of Scan.
func (t *Tables) Sample(ctx context.Context, table string, n int) ([]attribute.Item, float64, error) {
	if n <= 0 {
		return nil, 0, nil
	}
	segments := min(maxSampleSegments, max(1, n/10))
	var (
		items    []attribute.Item
		consumed float64
	)
	for segment := range segments {
		if len(items) >= n {
			break
		}
		// Later segments make up for items that earlier ones lacked.
		limit := (n - len(items) + segments - segment - 1) / (segments - segment)
		page, err := t.Scan(ctx, table, segment, segments, attribute.Item{}, limit)
		if err != nil {
			return nil, consumed, fmt.Errorf("sample table %s: %w", table, err)
		}
		items = append(items, page.Items...)
		consumed += page.Consumed
	}
	return items, consumed, nil
}

const (
	// tabletBytes is the size of the tablets into which a new table is split. Bigtable later splits
	// and merges tablets by itself, by size and load, so only the beginning of a large copy depends
	// on it.
	tabletBytes = 512 << 20
	// keysPerTablet is how many sampled keys a tablet needs for meaningful bounds.
	keysPerTablet = 50
	// maxTablets bounds a new table's tablets. Fewer already spread a copy well over the nodes.
	maxTablets = 100
)

// SplitKeys chooses the row keys at which a new target table is split, so that its copy does not
// begin on one tablet. They are quantiles of a sample of row keys. Bytes is the size that the
// source reports. It is up to six hours old and may be zero, so a large sample is a sufficient
// reason to split. The result is ascending without repetitions, and empty for a small table.
func SplitKeys(sample []string, bytes int64) []string {
	keys := slices.Clone(sample)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	tablets := max(int(min(bytes/tabletBytes, maxTablets)), len(keys)/keysPerTablet)
	tablets = min(tablets, maxTablets, len(keys))
	var splits []string
	for i := 1; i < tablets; i++ {
		splits = append(splits, keys[i*len(keys)/tablets])
	}
	return splits
}
