package sink_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Small Writes within one context share deadlines. A request that hangs still ends by its timeout,
// and the requests of other Writes, and of a batch of several rows, do not end with it.
func TestWritesWithinAContextShareDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory()
		var mu sync.Mutex
		contexts := map[context.Context]bool{}
		w := sink.NewWriter(sink.Options{Parking: newLot(), Timeout: 20 * time.Second, Table: tableFunc(func(ctx context.Context, r *sink.Request) (bool, error) {
			mu.Lock()
			contexts[ctx] = true
			mu.Unlock()
			if r.Row == "hangs" {
				return false, task.NewEvent(ctx).Wait(ctx)
			}
			if task.Sleep(ctx, 100*time.Millisecond) != nil {
				return false, unknown()
			}
			return inner.Apply(ctx, r)
		})})
		within, end := w.Within(t.Context())
		write := func(keys ...string) error {
			b := fold(keys...)
			return within.Write(t.Context(), sink.Unfenced(), &b)
		}
		var all sync.WaitGroup
		all.Go(func() {
			start := time.Now()
			if err := write("hangs"); !sink.Is(err, sink.Unknown) || time.Since(start) > 20*time.Second || time.Since(start) < 19*time.Second {
				t.Errorf("%v after %s", err, time.Since(start))
			}
		})
		for _, keys := range [][]string{{"a"}, {"b", "c"}, {"d"}} {
			if err := write(keys...); err != nil {
				t.Error(err)
			}
		}
		if rows := readAll(t, inner, "t"); len(rows) != 4 || len(contexts) != 1 {
			t.Errorf("%d rows by requests of %d contexts", len(rows), len(contexts))
		}
		all.Wait()
		if err := write("e"); err != nil || len(contexts) != 2 {
			t.Errorf("after the timeout: %v, %d contexts", err, len(contexts))
		}
		end()
		for ctx := range contexts {
			if ctx.Err() == nil {
				t.Error("a context outlives the writer")
			}
		}
	})
}
