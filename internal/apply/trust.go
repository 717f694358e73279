package apply

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Whoever may publish to the topic is trusted like a writer of the target. Still, one message must
// not freeze a row: nothing may outrank what the relay will publish. So a message of the relay's
// own ledger is applied only if the ledger has had its generation, its shard with its hop, and its
// sequence number. The relay writes its checkpoint at least once a second, so a message that is
// ahead of it waits for that long. What the ledger has not had after doubtFor, and will not have,
// is published to the dead-letter topic with its reason.

// verdict is what becomes of a message.
type verdict uint8

// The verdicts.
const (
	write   verdict = iota // to be written
	settled                // nothing to write, and applied
	drop                   // a load has asserted what it says, or will: to be forgotten
	later                  // the ledger has not had it
)

// doubt is why a message waits for the ledger. Sure tells that by what the ledger says now the
// relay has not published the message: if that does not change within doubtFor, it is refused.
type doubt struct {
	why      string // without item data
	sure     bool
	ofRecord bool // the table's record may have changed since it was read
}

// doubtFor is how long the ledger may take to have what a message says.
const doubtFor = time.Minute

// admit judges a message by the table's record, as it was read with the proof of the right to
// write, and by the ledger and the mapping of this process (H114). A message of an older generation
// is written for as long as no load of a newer one has begun: until then it is what keeps the
// target fresh. Afterwards it might bring back what the load's sweep removes, or what a target that
// was created anew and loaded never held; and a further generation does not change that.
func admit(s checkpoint.TableState, c relay.Change, ledger, hash string) (verdict, doubt) {
	switch {
	case c.Loaded:
		return drop, doubt{} // the relay has written it itself
	case c.Ledger != ledger:
		return drop, doubt{} // of a ledger that was lost; what follows in this one is of higher generations
	case c.Generation > s.Generation:
		return later, doubt{fmt.Sprintf("generation %d is above the ledger's, %d", c.Generation, s.Generation), true, true}
	case c.Generation < s.Load.Begun() || c.Generation < s.Generation && c.MappingHash != hash:
		return drop, doubt{}
	case c.MappingHash != hash:
		return later, doubt{"the mapping's hash is not that of the generation", true, true}
	case c.Omitted != "":
		return settled, doubt{}
	}
	return write, doubt{}
}

const (
	// apart is by how much record times of one shard may be out of order, or two clocks differ.
	apart = 10 * time.Second
	// ahead is how far in the future the time of a change may be.
	ahead = 10 * time.Minute
)

// bounded reports whether the ledger has had a message of the table's generation: its shard, hop,
// number and sequence number (H131). Numbers of dual writes are ahead of the position by what
// settles. A shard that nobody has read yet bounds its hop alone.
func bounded(s checkpoint.Shard, known bool, c relay.Change, now time.Time) (bool, doubt) {
	published := c.Number <= s.Applied+s.Settling.Changes
	reached := s.Settling.Changes > 0 || c.Sequence.Compare(s.Position) <= 0
	unread := s.Position.IsZero() && s.FirstRead.IsZero() && s.Announced == (checkpoint.Announced{})
	switch {
	case !known:
		return false, doubt{"the ledger never had shard " + c.Shard, true, false}
	case c.Hop != s.Hop:
		return false, doubt{fmt.Sprintf("hop %d is not that of the shard, %d", c.Hop, s.Hop), true, false}
	case s.Generation > c.Generation: // raised since the record was read
		return true, doubt{}
	case s.Generation == c.Generation && (unread || published && reached):
		return true, doubt{}
	}
	// Everything up to some time is published, and the message is not among that.
	passed := s.State == checkpoint.Done || s.PositionTime().After(c.Time.Add(apart)) || c.Time.After(now.Add(ahead))
	if !published {
		return false, doubt{fmt.Sprintf("number %d is beyond what the relay has published, %d", c.Number, s.Applied), passed, false}
	}
	return false, doubt{"the sequence number is beyond what the relay has published", passed, false}
}
