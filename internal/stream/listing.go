package stream

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// ListShards requests a complete listing of a stream's shards, or of the children of one shard. It
// ends when a drain begins. Each page is retried alone. Only a page beyond the highest page so far
// counts as progress. So if a listing starts over again and again, the waits become longer.
func ListShards(life engine.Lifecycle, r *engine.Retrier, source cdc.Source, parent string) (cdc.Listing, error) {
	lister := cdc.NewLister(source, parent)
	for done := false; !done; {
		reached := lister.Pages()
		err := r.Retry(life, "list the stream (DescribeStream)", func(ctx context.Context) (err error) {
			for err == nil && !done && lister.Pages() <= reached {
				done, err = lister.Next(ctx)
			}
			return err
		})
		if err != nil {
			return cdc.Listing{}, err
		}
		if !done && life.Draining() {
			return cdc.Listing{}, engine.ErrStopped
		}
	}
	return lister.Listing(), nil
}
