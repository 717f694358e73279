package status

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Survey compares each reading of a migration's ledger with the previous one. The zero value has no
// reading. It is not safe for concurrent use.
type Survey struct {
	ledger *Input            // the last reading that succeeded; nil before the first
	at     time.Time         // time of the last reading
	last   *Document         // status that the last reading had at that time
	watch  *checkpoint.Watch // watch of the driver's lease
}

// Take returns the status of a reading, and the events since the previous reading. If the reading
// failed, it judges the last successful reading again, at the current time, and returns no events.
// The status is nil before the first successful reading.
func (s *Survey) Take(l *Input, err error, env config.Lookup, hints string, now time.Time) (*Document, []admin.Event) {
	if err == nil {
		s.ledger, s.at = l, now
		l.readAt = now
		s.lookForDrivers()
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

// lookForDrivers forgets each driver that has not renewed its lease for the duration of a lease.
func (s *Survey) lookForDrivers() {
	l := s.ledger
	for i := range l.Drivers {
		d := &l.Drivers[i]
		if d.Process == "" {
			continue
		}
		if s.watch == nil {
			s.watch = l.Ledger.NewWatch()
		}
		if s.watch.CoordinatorLeaseFree(d.lease, d.mono) {
			d.Process = ""
		}
	}
}

// ReadAt returns the time at which the ledger was last read.
func (s *Survey) ReadAt() time.Time { return s.at }
