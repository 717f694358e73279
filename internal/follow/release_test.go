package follow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// TestReleases: after a cutover fenced the target, a reader whose write was refused must not leave
// a lease that makes its process look alive to finalize. A shard that is lost is declared under the
// lease, and a lease that is gone has nothing to release.
func TestReleases(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"the shard was read to its end", nil, true},
		{"a write was refused", fmt.Errorf("page: %w", sink.ErrFenced), true},
		{"another worker is to try it", engine.ErrYield, true},
		{"the tables were cut over", checkpoint.ErrCutOver, true},
		{"the lease was lost", checkpoint.ErrLeaseLost, false},
		{"the stream no longer has it", &cdc.Error{Reason: cdc.Trimmed}, false},
		{"anything else", errors.New("broken"), false},
	} {
		if got := releases(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A drain commits what was settled since the last commit, and retries a commit that fails. Else the
// next worker would read and write it again.
func TestADrainCommitsWhatIsSettled(t *testing.T) {
	for name, c := range map[string]struct {
		pages, settled int
		end, fails     bool
		at             int
		waits          uint64
	}{
		"all is settled":         {pages: 3, settled: 3, at: 3},
		"one page waits":         {pages: 3, settled: 2, at: 2, waits: 1},
		"none is settled":        {pages: 2, waits: 2},
		"read to its end":        {pages: 2, settled: 1, end: true, at: 1, waits: 1},
		"the first commit fails": {pages: 1, settled: 1, fails: true, at: 1},
		"only a first read":      {},
	} {
		playScene(t, func(s *scene) {
			s.Late = time.Minute
			w := s.settler()
			w.add(s.ctx, settledPage(0), 0, checkpoint.Progress{}, upTo(0), false)
			for n := range c.pages {
				w.add(s.ctx, settledPage(n+1), 1, upTo(n), upTo(n+1), c.end && n == c.pages-1)
			}
			for range c.settled {
				w.pop()
			}
			w.stopReading()
			s.store.OnSwap = func(_ context.Context, _ string, do func() bool) (bool, error) {
				if c.fails {
					c.fails = false
					return false, errors.New("away")
				}
				return do(), nil
			}
			drained, end := context.WithCancel(s.ctx)
			end()
			began := task.Mono(s.ctx)
			s.must(w.run(engine.Lifecycle{Drain: drained, Work: s.ctx}))
			row := s.row("s")
			if s.at() != c.at || row.Applied != uint64(c.at) || row.FirstRead.IsZero() || row.Settling.Changes != c.waits || row.Ended() != c.end || row.State == checkpoint.Done || task.Mono(s.ctx)-began > 10*time.Second {
				t.Errorf("%s: at %d, %+v", name, s.at(), row)
			}
		})
	}
}
