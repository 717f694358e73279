package checkpoint

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Announced is the record that a reader writes before it publishes changes of a shard without a
// position. A shard without a position is read from the trim horizon, and such a read returns no
// error if changes were trimmed. The record lets the next reader check whether the first change
// that it reads is the announced one (I11).
type Announced struct {
	// First is the change with the first number; zero if nothing was announced.
	First cdc.SequenceNumber `json:"first,omitzero"`
	// Through is the highest number that may be published.
	Through uint64 `json:"through,omitempty"`
}

// Announce must be called before a page of changes is published. It writes the row only while the
// shard has no position and the page is not announced yet: usually once per shard. It returns the
// number that precedes the page's first number. If the first announced changes of a former lease
// are trimmed now, this number is the last announced one. Otherwise it is p.Applied. The numbers of
// trimmed changes are never reused. The reader detects the missing changes (cdc.Reader).
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

// announce records a page in the row, and reports whether the page was recorded already.
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
		// It also reports true if an earlier attempt with an unknown outcome recorded the page.
		applied = s.Applied
	}
	switch through := applied + changes; {
	case s.Announced.First.IsZero():
		s.Announced = Announced{first, through}
	case through > s.Announced.Through:
		// If changes must settle first, several pages are published before a commit. Announcing
		// twice the count keeps these writes rare.
		s.Announced.Through = through + through - s.NumberedFrom
	}
	return applied, s.Announced == was
}
