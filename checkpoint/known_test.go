package checkpoint_test

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/known"
)

// read counts the rows that a store gives.
type read struct {
	checkpoint.Store
	rows int
}

func (r *read) Read(ctx context.Context, prefix string) ([]checkpoint.Row, error) {
	rows, err := r.Store.Read(ctx, prefix)
	r.rows += len(rows)
	return rows, err
}

// A worker looks at a load every two seconds. It does not read the rows of parts each time that
// were done long ago: an export of a large table has some ten thousand.
func TestALookReadsNoPartsThatAreDone(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		const parts = 200
		store := &read{Store: p.store}
		l := openOn(t, ctx, store, "a", lease)
		state := loading(t, ctx, l, parts)
		watch := l.NewWatch()
		free, _ := look(t, ctx, l, watch)
		for _, part := range free {
			held, err := l.TakePart(ctx, part)
			check(t, err)
			check(t, held.Finish(ctx, checkpoint.PartProgress{Items: 1}))
		}
		look(t, ctx, l, watch)
		store.rows = 0
		_, err := l.Parts(ctx, state, checkpoint.PhaseCopy)
		check(t, err)
		known.Defect(t, 45, "200 rows are read for 200 parts that are done",
			known.Expect(store.rows < 20, "%d rows are read for %d parts that are done", store.rows, parts))
	})
}
