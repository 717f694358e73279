package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// listShards asks for a whole listing of a stream's shards, or of the children of one, until stop ends. What is repeated is the page that failed. A step
// is one page more than there ever were: a listing that begins anew again and again is waited for longer and longer.
func (t *table) listShards(stop, ctx context.Context, arn, parent string) (cdc.Listing, error) {
	lister := cdc.NewLister(t.Open(arn), parent)
	for done := false; !done; {
		reached := lister.Pages()
		err := t.retryUntil(stop, ctx, "list the stream", func(ctx context.Context) (err error) {
			for err == nil && !done && lister.Pages() <= reached {
				done, err = lister.Next(ctx)
			}
			return err
		})
		if err != nil {
			return cdc.Listing{}, err
		}
		if !done && stop.Err() != nil {
			return cdc.Listing{}, errStopped
		}
	}
	return lister.Listing(), nil
}
