package checkpoint

import (
	"context"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// served is the source's clock as its last answer showed it. It goes on with the monotonic clock,
// so that no worker's wall clock has a part in what coverage rests on (H64).
type served struct {
	mu     sync.Mutex
	at     time.Time     // of the last answer; zero before the first
	heard  time.Duration // when the answer came, on the monotonic clock
	offset time.Duration // how far this host's wall clock was ahead of it
}

// Heard notes the time that an answer of the source carries. Zero says nothing.
func (l *Ledger) Heard(ctx context.Context, at time.Time) {
	if at.IsZero() {
		return
	}
	l.served.mu.Lock()
	defer l.served.mu.Unlock()
	l.served.at, l.served.heard, l.served.offset = at, task.Mono(ctx), task.Now(ctx).Sub(at)
}

// ServiceTime is the source's time now: never later than its own clock, and earlier by what an
// answer is under way. It is zero until an answer came, and nothing may be claimed by then.
func (l *Ledger) ServiceTime(ctx context.Context) time.Time {
	l.served.mu.Lock()
	defer l.served.mu.Unlock()
	if l.served.at.IsZero() {
		return time.Time{}
	}
	return l.served.at.Add(task.Mono(ctx) - l.served.heard).UTC()
}

// Now is the source's time where an answer has shown it, and this process's otherwise. Ages of what
// the ledger holds are shown by it; what is claimed rests on ServiceTime alone.
func (l *Ledger) Now(ctx context.Context) time.Time {
	if at := l.ServiceTime(ctx); !at.IsZero() {
		return at
	}
	return task.Now(ctx).UTC()
}

// ClockOffset is how far this host's clock is ahead of the source's, to about a second; false until
// an answer came.
func (l *Ledger) ClockOffset() (time.Duration, bool) {
	l.served.mu.Lock()
	defer l.served.mu.Unlock()
	return l.served.offset, !l.served.at.IsZero()
}

// ClockTolerance is how far a host's clock may be off before anybody is told.
const ClockTolerance = time.Minute

// wrongBy is what a worker tells of its clock in its leases, in seconds; 0 while it is right.
func (l *Ledger) wrongBy() float64 {
	if offset, _ := l.ClockOffset(); offset.Abs() > ClockTolerance {
		return offset.Round(time.Second).Seconds()
	}
	return 0
}
