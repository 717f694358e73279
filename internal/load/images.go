package load

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// images opens the source of a part of the load.
func (l *Loader) images(life engine.Lifecycle, state checkpoint.TableState, part int) (source.Part, error) {
	var images source.Images
	err := l.Retry(life, "read the export", func(ctx context.Context) (err error) { images, err = l.sources.Open(ctx, state.Load); return err })
	if err != nil {
		return source.Part{}, err
	}
	return images.Part(part)
}

// pageOf returns the batch for a page of a load. The image of an item from an incremental export
// replaces an older image, even if the item has expired.
func (l *Loader) pageOf(state checkpoint.TableState, items []attribute.Item, changes []cdc.Change, readAt time.Time) transform.Batch {
	batch := transform.LoadWindow(l.mapping, changes, state.Generation)
	if len(changes) == 0 {
		batch = transform.Load(l.mapping, items, state.Generation, readAt)
	}
	if state.MayHoldOlderRows() {
		sink.OwnAll(l.mapping, &batch)
	}
	return batch
}
