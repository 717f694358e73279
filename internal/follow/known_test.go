package follow

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/known"
)

// knownAt is when these tests begin.
var knownAt = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// Under dual writes a change after the freeze is in the shard's row as soon as it is read, not only
// once it settled up to ten minutes later: a cutover looks there for late writes.
func TestALateWriteIsSeenBeforeItSettles(t *testing.T) {
	s := &settler{follower: &follower{Common: &engine.Common{}, late: 10 * time.Minute, room: &SettleRoom{left: 1 << 20}}, reading: true}
	to := checkpoint.Progress{Position: cdc.Position{After: cdc.SequenceOf(7)}, EventTime: knownAt, Cutover: checkpoint.Sighted{WrittenAt: knownAt, Written: "hash"}}
	s.hold(settledPage(1), 1, checkpoint.Progress{}, to, 10*time.Minute)
	s.read = to
	p := s.progress()
	known.Defect(t, 46, "changes that settle: 1; the time of the late write is hidden",
		known.Expect(p.Cutover.WrittenAt.Equal(knownAt), "changes that settle: %d; the time of the late write is hidden", p.Settling.Changes))
}
