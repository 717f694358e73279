package backfill

import (
	"context"
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// maxSampleSegments bounds the requests of a sample. Each request costs at least half a read unit
// and a round trip.
const maxSampleSegments = 100

// Sample reads up to n items, spread over the table. It reads a few items from the beginning of
// each of up to 100 segments. Segments divide the space of the partition keys' hashes. So the
// sample is even over partitions, not over items. The items of a segment may share a partition. The
// second result is what the reads consumed, in read units of 4 KB. Errors are the errors of Scan.
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
		// If earlier segments had too few items, later segments make up for them.
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
	// and merges tablets by itself, by size and load. So these tablets matter only at the beginning
	// of a large copy.
	tabletBytes = 512 << 20
	// keysPerTablet is how many sampled keys a tablet needs for meaningful bounds.
	keysPerTablet = 50
	// tabletsPerNode is how many tablets spread a copy evenly over the nodes. For that a tablet may be
	// smaller than tabletBytes, but not smaller than leastTablet.
	tabletsPerNode = 4
	leastTablet    = 64 << 20
	// maxTablets bounds a new table's tablets, unless the cluster has more than 25 nodes. A smaller
	// number already spreads a copy well over the nodes. A tablet of many nodes needs leastKeys
	// sampled keys.
	maxTablets = 100
	leastKeys  = 5
)

// SplitKeys chooses the row keys at which a new target table is split, so that its copy does not
// begin on one tablet. The keys are quantiles of a sample of row keys. The argument `bytes` is the
// size of the table that the source reports. This size is up to six hours old and may be zero. So a
// large sample alone is a sufficient reason to split. The argument `nodes` is the number of nodes of
// the target's cluster; 0 if it is unknown, and then the size decides. The result is ascending and
// has no repetitions. It is empty for a small table.
func SplitKeys(sample []string, bytes int64, nodes int) []string {
	keys := slices.Clone(sample)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	tablets := max(int(min(bytes/tabletBytes, maxTablets)), len(keys)/keysPerTablet)
	tablets = min(tablets, maxTablets, len(keys))
	spread := min(int64(tabletsPerNode*nodes), bytes/leastTablet, int64(len(keys)/leastKeys))
	tablets = max(tablets, int(spread))
	var splits []string
	for i := 1; i < tablets; i++ {
		splits = append(splits, keys[i*len(keys)/tablets])
	}
	return splits
}
