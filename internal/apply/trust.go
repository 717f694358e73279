package apply

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// A publisher to the topic is as trusted as a writer of the target. Still, a single message must
// not freeze a row: nothing may outrank what the relay will publish. So a message of this ledger is
// applied only if the ledger has had its generation, its shard with its hop, and its sequence
// number. The relay writes its checkpoint at least once a second, so a message that is ahead of the
// checkpoint waits about that long. A message that the ledger still has not had after doubtFor is
// published to the dead-letter topic with its reason.

// verdict is the decision about a message.
type verdict uint8

// The verdicts.
const (
	write   verdict = iota // to be written
	settled                // nothing to write; counts as applied
	drop                   // covered by a load that has run or will run
	later                  // the ledger has not had it
)

// doubt is why a message waits for the ledger. If sure, the ledger shows that the relay has not
// published the message. If that does not change within doubtFor, the message is refused.
type doubt struct {
	why      string // without item data
	sure     bool
	ofRecord bool // a newer read of the table's record may resolve it
}

// doubtFor is how long the ledger may take to catch up with a message.
const doubtFor = time.Minute

// admit judges a message by the table's record, and by the ledger and the mapping of this process
// (H114). The record was read with the proof of the right to write. A message of an older
// generation is written until a load of a newer one begins, because it keeps the target fresh.
// Later it might restore a row that the load's sweep removes, or that a recreated target never
// held. A further generation does not change that.
func admit(s checkpoint.TableState, c relay.Change, ledger, hash string) (verdict, doubt) {
	switch {
	case c.Loaded:
		return drop, doubt{} // the relay has written it itself
	case c.Ledger != ledger:
		return drop, doubt{} // of a lost ledger; this one has higher generations
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
	// apart bounds how far record times of one shard may be out of order, or two clocks may differ.
	apart = 10 * time.Second
	// ahead bounds how far in the future the time of a change may be.
	ahead = 10 * time.Minute
)

// bounded reports whether the ledger has had a message of the table's generation: its shard, hop,
// number and sequence number (H131). Numbers of dual writes are ahead of the position by the
// unsettled changes. A shard that was never read bounds only the hop.
func bounded(s checkpoint.Shard, known bool, c relay.Change, now time.Time) (bool, doubt) {
	published := c.Number <= s.Applied+s.Settling.Changes
	reached := s.Settling.Changes > 0 || c.Sequence.Compare(s.Position) <= 0
	unread := s.Position.IsZero() && s.FirstRead.IsZero() && s.Announced == (checkpoint.Announced{})
	switch {
	case !known:
		return false, doubt{"the ledger never had shard " + c.Shard, true, false}
	case c.Hop != s.Hop:
		return false, doubt{fmt.Sprintf("hop %d differs from the shard's, %d", c.Hop, s.Hop), true, false}
	case s.Generation > c.Generation: // raised since the record was read
		return true, doubt{}
	case s.Generation == c.Generation && (unread || published && reached):
		return true, doubt{}
	}
	// passed is true if everything up to that time is published, and the message was not part of
	// it.
	passed := s.State == checkpoint.Done || s.PositionTime().After(c.Time.Add(apart)) || c.Time.After(now.Add(ahead))
	if !published {
		return false, doubt{fmt.Sprintf("number %d is beyond what the relay has published, %d", c.Number, s.Applied), passed, false}
	}
	return false, doubt{"the sequence number is beyond what the relay has published", passed, false}
}
