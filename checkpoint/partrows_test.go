package checkpoint_test

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// read counts the rows that a store returns, and their bytes.
type read struct {
	checkpoint.Store
	rows, bytes int
}

func (r *read) Read(ctx context.Context, prefix string) ([]checkpoint.Row, error) {
	rows, err := r.Store.Read(ctx, prefix)
	r.rows += len(rows)
	for _, row := range rows {
		r.bytes += len(row.Key) + len(row.Data)
	}
	return rows, err
}

// A worker reads a load's parts every two seconds. It does not read the rows of finished parts each
// time, and gets the same parts as a worker that does. The rows of the largest load are below a
// megabyte.
func TestALookReadsNoPartsThatAreDone(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		const parts, open = 1024, 350
		store := &read{Store: p.store}
		l := openOn(t, ctx, store, "a", lease)
		state := loading(t, ctx, l, parts)
		free, _ := look(t, ctx, l, l.NewWatch())
		finish := func(part checkpoint.Part) {
			t.Helper()
			held, err := l.TakePart(ctx, part)
			check(t, err)
			check(t, held.Finish(ctx, checkpoint.PartProgress{Items: 123_456_789, Bytes: 123_456_789_012}))
		}
		for _, part := range free {
			if part.Index != open && part.Index != parts-1 {
				finish(part)
			}
		}
		sums := func(of *checkpoint.Ledger) checkpoint.Sums {
			t.Helper()
			rows, err := of.Parts(ctx, state, checkpoint.PhaseCopy)
			check(t, err)
			for i := range rows[1:] {
				if rows[i].Index >= rows[i+1].Index {
					t.Fatalf("part %d is before part %d", rows[i].Index, rows[i+1].Index)
				}
			}
			return checkpoint.PartsDone(rows, parts)
		}
		first := sums(l)
		store.rows, store.bytes = 0, 0
		if again := sums(l); again != first || again.Done != parts-2 || again.Complete() {
			t.Errorf("%+v, and then %+v", first, again)
		}
		if store.rows > 125 {
			t.Errorf("%d rows are read for two parts that are open", store.rows)
		}
		store.bytes = 0
		if other := sums(openOn(t, ctx, store, "b", lease)); other != first || store.bytes > 1<<20 {
			t.Errorf("another worker: %+v of %d bytes", other, store.bytes)
		}
		finish(free[open])
		finish(free[parts-1])
		if all := sums(l); !all.Complete() {
			t.Errorf("%+v", all)
		}
		store.rows = 0
		if all := sums(l); !all.Complete() || store.rows > 0 {
			t.Errorf("%+v, %d rows are read for %d parts that are done", all, store.rows, parts)
		}
	})
}

// What is known about one load is not used for the next, and a block with parts of two divisions is
// read again.
func TestWhatIsDoneBelongsToItsLoad(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		state := loading(t, ctx, l, 3)
		free, _ := look(t, ctx, l, l.NewWatch())
		for _, part := range free {
			held, err := l.TakePart(ctx, part)
			check(t, err)
			check(t, held.Finish(ctx, checkpoint.PartProgress{}))
		}
		for range 2 {
			if rows, err := l.Parts(ctx, state, checkpoint.PhaseCopy); err != nil || len(rows) != 3 {
				t.Errorf("%d rows, %v", len(rows), err)
			}
		}
		for name, of := range map[string]checkpoint.Part{
			"another load":       {Source: source, Generation: state.Generation, Number: state.Load.Number + 1, Phase: checkpoint.PhaseCopy},
			"another phase":      {Source: source, Generation: state.Generation, Number: state.Load.Number, Phase: checkpoint.PhaseSweep(1)},
			"another generation": {Source: source, Generation: state.Generation + 1, Number: state.Load.Number, Phase: checkpoint.PhaseCopy},
		} {
			if rows, err := l.PartsOf(ctx, of); err != nil || len(rows) > 0 {
				t.Errorf("%s: %d rows, %v", name, len(rows), err)
			}
		}
	})
}
