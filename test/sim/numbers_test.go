package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// I11: a worker dies after its first publish from a shard that it read from the horizon, before its
// first checkpoint. Then the shard's first records are trimmed. Its successor does not give their
// numbers to other records, and everything published is confirmed as applied.
func TestI11_NumbersOfTrimmedRecordsAreNotReused(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		p := lay(s, checkpoint.LongestKept)
		for i := range 6 {
			s.put(fmt.Sprint("k", i), "before")
			s.sleep(time.Second)
		}
		var relayer *Worker
		numbers, lost := map[string]cdc.SequenceNumber{}, cdc.SequenceNumber{}
		p.topic.Stored = func(m relay.Message) {
			p.subscription.Take(m)
			c, err := relay.Decode(m.Data)
			if err != nil || c.Loaded {
				return
			}
			number := fmt.Sprint(c.Generation, "/", c.Shard, "/", c.Number)
			if was, ok := numbers[number]; ok && was.Compare(c.Sequence) != 0 {
				s.failf("number %s is %s and %s", number, was, c.Sequence)
			}
			numbers[number] = c.Sequence
			if lost.IsZero() {
				lost = c.Sequence
				s.Source.Stream().Trim(s.only().Records[1+s.World.Rand().IntN(3)].At)
				relayer.Kill() // this also ends the current call
			}
		}
		relayer = p.relays()
		s.until(4*time.Hour, "the first message", func() bool { return !lost.IsZero() })
		p.relays()
		p.applies()
		s.until(6*time.Hour, "loaded", func() bool { return s.State().Loaded() })
		s.put("k0", "after")
		s.inSync(4 * time.Hour)
		s.until(4*time.Hour, "all is known to be applied", func() bool { return p.unapplied() == 0 })
		if len(s.Gaps) > 0 {
			s.failf("gaps %v", s.Gaps)
		}
	})
}
