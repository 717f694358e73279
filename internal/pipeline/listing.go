package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// listShards asks for a whole listing of a stream's shards, or of the children of one, until a
// drain begins. What is repeated is the page that failed. A step is one page more than there ever
// were: a listing that begins anew again and again is waited for longer and longer.
func listShards(life lifecycle, r *retrier, source cdc.Source, parent string) (cdc.Listing, error) {
	lister := cdc.NewLister(source, parent)
	for done := false; !done; {
		reached := lister.Pages()
		err := r.retry(life, "list the stream", func(ctx context.Context) (err error) {
			for err == nil && !done && lister.Pages() <= reached {
				done, err = lister.Next(ctx)
			}
			return err
		})
		if err != nil {
			return cdc.Listing{}, err
		}
		if !done && life.draining() {
			return cdc.Listing{}, errStopped
		}
	}
	return lister.Listing(), nil
}
