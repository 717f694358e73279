package status

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Survey follows a migration from one reading of its ledger to the next. Its zero value has read
// nothing. It belongs to one task.
type Survey struct {
	ledger *Input    // the last reading that succeeded; nil before the first
	at     time.Time // when that was
	last   *Document // its status then
}

// Take makes the status of a reading, and says what has happened since the one before. If the
// reading failed, the last one that did not is judged by the time that has passed since, and
// nothing is known to have happened. The status is nil before the first reading that succeeded.
func (s *Survey) Take(l *Input, err error, env config.Lookup, hints string, now time.Time) (*Document, []admin.Event) {
	if err == nil {
		s.ledger, s.at = l, now
		l.readAt = now
	}
	if s.ledger == nil {
		return nil, nil
	}
	m := s.ledger.Judge(env, hints, now)
	if err != nil {
		return m, nil
	}
	var events []admin.Event
	if s.last != nil {
		events = happened(s.last, m)
	}
	s.last = m
	return m, events
}

// ReadAt is when the ledger was read last.
func (s *Survey) ReadAt() time.Time { return s.at }
