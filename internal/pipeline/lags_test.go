package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// A shard counts as soon as it is held. A restart whose first page cannot be written must not make
// the shard look caught up.
func TestLagOfAShardWhoseFirstPageIsNotWritten(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) // the world of play begins then
	for name, c := range map[string]struct {
		as  func(s *checkpoint.Shard)
		lag time.Duration // at the beginning; negative: none is reported
	}{
		"behind": {func(s *checkpoint.Shard) { s.EventTime, s.ReadAt = begin.Add(-time.Hour), begin.Add(-time.Minute) }, time.Hour},
		"found empty": {func(s *checkpoint.Shard) {
			s.CaughtUp, s.EventTime, s.ReadAt = true, begin.Add(-5*time.Hour), begin.Add(-2*time.Hour)
		}, 2 * time.Hour},
		"had nothing so far":   {func(s *checkpoint.Shard) { s.ReadAt = begin.Add(-3 * time.Hour) }, 3 * time.Hour},
		"a child":              {func(s *checkpoint.Shard) { s.CoveredTo = begin.Add(-4*time.Hour - checkpoint.Slack) }, 4 * time.Hour},
		"a root":               {func(*checkpoint.Shard) {}, -1},
		"a clock that is late": {func(s *checkpoint.Shard) { s.EventTime, s.ReadAt = begin.Add(time.Hour), begin.Add(time.Hour) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			told, least := 0, time.Duration(0)
			o := crowd(t, newBacklog(5), enginetest.Targets{Missing: "orders"}, "Orders")
			o.Events.Lag = func(_ string, lag, _ time.Duration) {
				if told++; told == 1 || lag < least {
					least = lag
				}
			}
			play(t, &checkpointtest.Memory{}, time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
				if err := enginetest.Behind(0, "Orders")(ctx, l); err != nil {
					return err
				}
				s := checkpoint.Shard{Source: "Orders", Label: "L", StreamARN: "arn/Orders", ID: "s", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 7}
				c.as(&s)
				return l.CreateShard(ctx, s)
			})
			if c.lag < 0 && told > 0 || c.lag >= 0 && (told < 10 || least < c.lag || least > c.lag+10*time.Second) {
				t.Errorf("told %d times, at the least %s; want %s", told, least, c.lag)
			}
		})
	}
}
