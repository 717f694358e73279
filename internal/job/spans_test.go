package job

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// A part has a span for each worker that works on it. A part that is released is no failure.
func TestPartsHaveSpans(t *testing.T) {
	for name, c := range map[string]struct {
		lasts    time.Duration
		fails    int // first attempts that fail
		outcomes []string
		items    int64 // at the end of the first span
	}{
		"done":     {time.Minute, 0, []string{"done"}, pages},
		"released": {time.Second, 0, []string{"released"}, 0},
		"failed":   {time.Hour, 1, []string{"failed", "done"}, 0},
	} {
		play(t, 1, 1, func(ctx context.Context, w *counting) {
			spans, left := &enginetest.Spans{}, c.fails
			w.table.Tracer = spans
			w.page = func(context.Context, checkpoint.Part) error {
				if left--; left >= 0 {
					return errors.New("broken")
				}
				return nil
			}
			w.check(w.run(ctx, c.lasts, 0, nil))
			all := spans.Named("count part")
			if len(all) != len(c.outcomes) {
				t.Fatalf("%s: %s", name, spans.Tree())
			}
			for i, span := range all {
				want := engine.SpanFacts{Table: "Orders", Phase: "copy", Part: 0, Parts: 1}
				if span.Facts != want || span.Last.Outcome != c.outcomes[i] || (span.Err != nil) != (c.outcomes[i] == "failed") || span.Ended != 1 {
					t.Errorf("%s: %+v, then %+v, %v", name, span.Facts, span.Last, span.Err)
				}
			}
			if got := all[0].Last.Items; c.items > 0 && got != c.items {
				t.Errorf("%s: %s items", name, fmt.Sprint(got))
			}
		})
	}
}
