package pipeline

// These tests move with the files of the product that they concern:
//
//	settle.go: TestALateWriteIsSeenBeforeItSettles

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/known"
)

// Under dual writes a change after the freeze is in the shard's row as soon as it is read, not only
// once it settled up to ten minutes later: a cutover looks there for late writes.
func TestALateWriteIsSeenBeforeItSettles(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	s := &settler{follower: &follower{common: &common{}, late: 10 * time.Minute, room: &settleRoom{left: 1 << 20}}, reading: true}
	to := checkpoint.Progress{Position: cdc.Position{After: cdc.SequenceOf(7)}, EventTime: now, Cutover: checkpoint.Sighted{WrittenAt: now, Written: "hash"}}
	s.hold(settledPage(1), 1, checkpoint.Progress{}, to, 10*time.Minute)
	s.read = to
	p := s.progress()
	known.Defect(t, 46, "changes that settle: 1; the time of the late write is hidden",
		known.Expect(p.Cutover.WrittenAt.Equal(now), "changes that settle: %d; the time of the late write is hidden", p.Settling.Changes))
}
