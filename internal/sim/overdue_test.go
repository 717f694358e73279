package sim

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// What a checker holds against somebody who could not know, or could not be asked.

// A worker that is told of another cluster knows that it is another when it has read the ledger. One that reads it, and goes on, is seen (H46).
func TestToldOfAnotherClusterWithoutTheLedger(t *testing.T) {
	for name, c := range map[string]struct {
		unread, heeds bool // the ledger cannot be read for an hour; the worker asks for the cluster
		want          string
	}{
		"the ledger cannot be read": {true, true, ""},
		"it does not heed it":       {false, false, "I6: worker1 goes on in another cluster"},
	} {
		var failures []string
		for seed := uint64(1); seed <= 24; seed++ {
			p := calmPlan(seed)
			p.clustered = c.heeds
			failures = append(failures, played(p, func(s *simulation, ctx context.Context) {
				if task.Sleep(ctx, 2*time.Hour+time.Duration(seed)*time.Minute) != nil {
					return
				}
				now := s.World.Elapsed()
				if c.unread {
					s.oneCall = failingCall{op: "ReadRows", table: stateTable, until: now + time.Hour, target: sink.Unknown}
					s.elsewhere = now + 2*time.Hour
					s.healthy = max(s.healthy, s.elsewhere)
				}
				if !c.heeds {
					s.truth.told["worker1"] = now
				}
			})...)
			if !c.heeds {
				break
			}
		}
		t.Run(name, func(t *testing.T) { expect(t, failures, c.want) })
	}
}
