package checkpoint

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Announced is noted before changes of a shard are published that has no position yet. Such a shard
// is read from the horizon, which gives no error for what it trimmed: who reads it next must see
// whether the numbers begin with the same change (I11).
type Announced struct {
	// First is the change with the first number; zero if nothing was announced.
	First cdc.SequenceNumber `json:"first,omitzero"`
	// Through is the highest number that may be published.
	Through uint64 `json:"through,omitempty"`
}

// Announce is to be called before a page of changes is published. It writes the row only while the
// shard has no position, and only if the page is not announced yet: once for a shard as a rule.
// Returned is how many changes the numbers of the page follow: p.Applied, or, where the first
// changes that a former lease announced are trimmed since, all that it announced. Their numbers are
// not given to other changes; that they are missing is the reader's business (cdc.Reader).
func (l *Lease) Announce(ctx context.Context, p Progress, first cdc.SequenceNumber, changes int) (uint64, error) {
	s := l.Shard()
	if applied, known := s.announce(p, first, uint64(changes)); known {
		return applied, nil
	}
	applied := p.Applied
	err := l.change(ctx, func(s *Shard) error {
		applied, _ = s.announce(p, first, uint64(changes))
		return nil
	})
	return applied, err
}

// announce notes a page in the row, and reports whether it did not have to.
func (s *Shard) announce(p Progress, first cdc.SequenceNumber, changes uint64) (applied uint64, known bool) {
	if !s.Position.IsZero() {
		return p.Applied, true
	}
	was, applied := s.Announced, p.Applied
	if p.Position.AtHorizon() {
		if !was.First.IsZero() && was.First.Compare(first) != 0 {
			s.Applied = max(s.Applied, was.Through)
			s.NumberedFrom, s.Announced = s.Applied, Announced{}
		}
		// Also if the outcome of an attempt before was not known, and it took place.
		applied = s.Applied
	}
	switch through := applied + changes; {
	case s.Announced.First.IsZero():
		s.Announced = Announced{first, through}
	case through > s.Announced.Through:
		// Where changes settle before they are committed, pages follow pages. Twice the count makes
		// the writes few.
		s.Announced.Through = through + through - s.NumberedFrom
	}
	return applied, s.Announced == was
}
