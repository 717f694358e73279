package checkpoint

import (
	"context"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// served is the source's clock according to its last response. It advances with the monotonic
// clock. So coverage does not depend on any worker's wall clock (H64).
type served struct {
	mu     sync.Mutex
	at     time.Time     // time of the last response; zero before the first
	heard  time.Duration // when the response arrived, on the monotonic clock
	offset time.Duration // how far this host's wall clock was ahead of the source's
}

// Heard records the time in a response from the source. It ignores zero.
func (l *Ledger) Heard(ctx context.Context, at time.Time) {
	if at.IsZero() {
		return
	}
	l.served.mu.Lock()
	defer l.served.mu.Unlock()
	l.served.at, l.served.heard, l.served.offset = at, task.Mono(ctx), task.Now(ctx).Sub(at)
}

// ServiceTime returns the source's time now. It is never ahead of the source's clock. It may be
// behind by the travel time of the last response. It is zero before the first response. Then the
// caller must not claim coverage.
func (l *Ledger) ServiceTime(ctx context.Context) time.Time {
	l.served.mu.Lock()
	defer l.served.mu.Unlock()
	if l.served.at.IsZero() {
		return time.Time{}
	}
	return l.served.at.Add(task.Mono(ctx) - l.served.heard).UTC()
}

// Now returns the source's time if known, otherwise this process's time. Use it only to show ages;
// claims of coverage must use ServiceTime.
func (l *Ledger) Now(ctx context.Context) time.Time {
	if at := l.ServiceTime(ctx); !at.IsZero() {
		return at
	}
	return task.Now(ctx).UTC()
}

// ClockOffset returns how far this host's clock is ahead of the source's clock, to about a second.
// It returns false before the first response.
func (l *Ledger) ClockOffset() (time.Duration, bool) {
	l.served.mu.Lock()
	defer l.served.mu.Unlock()
	return l.served.offset, !l.served.at.IsZero()
}

// ClockTolerance is how far a host's clock may be off before the offset is reported.
const ClockTolerance = time.Minute

// wrongBy returns the clock offset that a worker writes into its leases, in seconds. It is 0 within
// ClockTolerance.
func (l *Ledger) wrongBy() float64 {
	if offset, _ := l.ClockOffset(); offset.Abs() > ClockTolerance {
		return offset.Round(time.Second).Seconds()
	}
	return 0
}
