package switchover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// A driver asks with every pass. An answer is kept for minutes, a problem for seconds, and an error
// not at all.
func TestAnswersOfTheWayBackAreKept(t *testing.T) {
	type step struct {
		after  time.Duration
		source string
		asks   bool
		found  cutover.WayBack
		fails  bool
	}
	const window, wait = 5 * time.Minute, 8 * time.Minute
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	good := fallback.Checked{Window: window, Wait: wait, From: begin}
	bad := fallback.Checked{Window: window, Problems: []fallback.Problem{{Figure: "first", Cure: "do this"}, {Figure: "second", Cure: "and that"}}}
	possible, refused := cutover.WayBack{Window: window, Wait: wait, From: begin}, cutover.WayBack{Window: window, Problem: "first; second", Cure: "do this"}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		answer fallback.Checked
		err    error
		steps  []step
	}{
		"possible": {good, nil, []step{{0, "Orders", true, possible, false}, {goodFor - 1, "Orders", false, possible, false}, {0, "Parts", true, possible, false}, {1, "Orders", true, possible, false}}},
		"refused":  {bad, nil, []step{{0, "Orders", true, refused, false}, {badFor - 1, "Orders", false, refused, false}, {1, "Orders", true, refused, false}}},
		"broken":   {good, broken, []step{{0, "Orders", true, cutover.WayBack{}, true}, {0, "Orders", true, cutover.WayBack{}, true}}},
	} {
		asked := 0
		b := &backCheck{kept: map[string]keptCheck{}, run: func(context.Context, string) (fallback.Checked, error) {
			asked++
			return c.answer, c.err
		}}
		err := virtual.NewWorld(1, begin, false).Run(time.Hour, func(ctx context.Context) {
			for i, s := range c.steps {
				_ = task.Sleep(ctx, s.after)
				before := asked
				found, err := b.of(ctx, s.source)
				if found != s.found || errors.Is(err, broken) != s.fails || (asked > before) != s.asks {
					t.Errorf("%s, step %d: %+v, %v, asked %t", name, i, found, err, asked > before)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
