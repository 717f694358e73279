package apply

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// A publisher to the topic is as trusted as a writer of the target. Still, a single message must
// not block a row. A row is blocked if its version is higher than all versions that the relay will
// publish. So a message of this ledger is applied only if the ledger knows its generation, its
// shard with its hop, and its sequence number. The relay writes its checkpoint at least once a
// second. So a message that is ahead of the checkpoint waits for about a second. A message that the
// ledger still does not know after doubtFor is published to the dead-letter topic with its reason.

// verdict is the decision about a message.
type verdict uint8

// The verdicts.
const (
	write   verdict = iota // the message must be written
	settled                // the message needs no write, and counts as applied
	drop                   // a load covers the message, or will cover it
	later                  // the ledger does not know the message's change yet
)

// doubt is why a message waits for the ledger. If `sure` is true, the ledger proves that the relay
// has not published the message. If the doubt lasts longer than doubtFor, the message is refused.
type doubt struct {
	why      string // without item data
	sure     bool
	ofRecord bool // a newer read of the table's record may resolve the doubt
}

// doubtFor is how long the ledger may take to catch up with a message.
const doubtFor = time.Minute

// admit judges a message by the table's record, and by the ledger and the mapping of this process
// (H114). The record was read together with the proof of the right to write. A message of an older
// generation is written until the load of a newer generation begins, to keep the target fresh.
// After that, such a message might restore a row that the load's sweep removes, or that a recreated
// target never held. Later generations do not change this rule.
func admit(s *checkpoint.TableState, c *relay.Change, ledger, hash string) (verdict, doubt) {
	switch {
	case c.Loaded:
		return drop, doubt{} // the relay has written this change itself
	case c.Ledger != ledger:
		return drop, doubt{} // the message is from a lost ledger; the current ledger has higher generations
	case c.Generation > s.Generation:
		return later, doubt{fmt.Sprintf("generation %d is above the ledger's, %d", c.Generation, s.Generation), true, true}
	case c.Generation < s.Load.Begun() || c.Generation < s.Generation && c.MappingHash != hash:
		return drop, doubt{}
	case c.MappingHash != hash:
		return later, doubt{"the mapping's hash differs from the generation's", true, true}
	case c.Omitted != "":
		return settled, doubt{}
	}
	return write, doubt{}
}

const (
	// apart is how far the record times of one shard may be out of order, or how far two clocks may
	// differ.
	apart = 10 * time.Second
	// ahead is how far in the future the time of a change may be.
	ahead = 10 * time.Minute
)

// bounded reports whether the ledger knows the change of a message of the current generation: its
// shard, hop, number and sequence number (H131). With dual writes, a message's number may exceed
// the shard's position by the number of unsettled changes. For a shard that was never read, only
// the hop is compared.
func bounded(s *checkpoint.Shard, known bool, c *relay.Change, now time.Time) (bool, doubt) {
	published := c.Number <= s.Applied+s.Settling.Changes
	reached := s.Settling.Changes > 0 || c.Sequence.Compare(s.Position) <= 0
	unread := s.Position.IsZero() && s.FirstRead.IsZero() && s.Announced == (checkpoint.Announced{})
	switch {
	case !known:
		return false, doubt{"the ledger never had shard " + c.Shard, true, false}
	case c.Hop != s.Hop:
		return false, doubt{fmt.Sprintf("hop %d differs from the shard's, %d", c.Hop, s.Hop), true, false}
	case s.Generation > c.Generation: // the generation was raised after the record was read
		return true, doubt{}
	case s.Generation == c.Generation && (unread || published && reached):
		return true, doubt{}
	}
	// passed is true if the relay has published all changes up to the message's time, so it did not
	// publish this message.
	passed := s.State == checkpoint.Done || s.PositionTime().After(c.Time.Add(apart)) || c.Time.After(now.Add(ahead))
	if !published {
		return false, doubt{fmt.Sprintf("number %d is beyond what the relay has published, %d", c.Number, s.Applied), passed, false}
	}
	return false, doubt{"the sequence number is beyond what the relay has published", passed, false}
}
