package backfill

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Throttle paces loads to a number of rows a second. Several loads may share it, and its limit may
// be changed while they run. It is safe for concurrent use.
type Throttle struct{ limiter *rate.Limiter }

// NewThrottle returns a throttle of rowsPerSecond; zero or less means no limit.
func NewThrottle(rowsPerSecond float64) *Throttle {
	limit, burst := allowance(rowsPerSecond)
	return &Throttle{rate.NewLimiter(limit, burst)}
}

// Set changes the limit for all calls that do not already wait.
func (t *Throttle) Set(ctx context.Context, rowsPerSecond float64) {
	limit, burst := allowance(rowsPerSecond)
	now := instant(ctx)
	t.limiter.SetBurstAt(now, burst)
	t.limiter.SetLimitAt(now, limit)
}

// allowance returns the limit, and a burst of one second at this limit. With the burst, short
// stalls do not lower the rate.
func allowance(rowsPerSecond float64) (rate.Limit, int) {
	if rowsPerSecond <= 0 {
		return rate.Inf, 1
	}
	return rate.Limit(rowsPerSecond), max(1, int(min(math.Ceil(rowsPerSecond), math.MaxInt32)))
}

// instant returns the limiter's time, from the monotonic clock. A wall clock that jumps would stop
// or flood the load.
func instant(ctx context.Context) time.Time { return time.Unix(0, 0).Add(task.Mono(ctx)) }

// perSecond returns the limit; infinite if there is none.
func (t *Throttle) perSecond() float64 {
	if limit := t.limiter.Limit(); limit != rate.Inf {
		return float64(limit)
	}
	return math.Inf(1)
}

// reserve pays for a portion of n rows, at most for about a second's worth. It returns the portion
// and how long to wait for it.
func (t *Throttle) reserve(ctx context.Context, n int) (portion int, delay time.Duration) {
	for n > 0 && t.limiter.Limit() != rate.Inf {
		portion = min(n, t.limiter.Burst())
		now := instant(ctx)
		// The reservation fails if the burst was lowered meanwhile.
		if r := t.limiter.ReserveN(now, portion); r.OK() {
			return portion, r.DelayFrom(now)
		}
	}
	return n, 0
}

// portion returns about how many rows the limit allows in a second.
func (t *Throttle) portion() int {
	if t.limiter.Limit() == rate.Inf {
		return math.MaxInt
	}
	return t.limiter.Burst()
}

// reserveAll pays for n rows, and returns how long to wait for all of them.
func (t *Throttle) reserveAll(ctx context.Context, n int) (delay time.Duration) {
	for n > 0 {
		var paid int
		paid, delay = t.reserve(ctx, n)
		n -= paid
	}
	return delay
}

// Take accounts for n rows and waits until the limit allows them. It returns how long the wait
// took, and an error if one of the contexts ended first. A nil throttle never waits.
func (t *Throttle) Take(drain, ctx context.Context, n int) (time.Duration, error) {
	if t == nil {
		return 0, nil
	}
	var waited time.Duration
	for n > 0 {
		// Take pays in portions, so a new limit takes effect within about a second.
		portion, delay := t.reserve(ctx, n)
		if delay > 0 {
			if err := task.SleepWithin(ctx, drain, delay); err != nil {
				return waited, err
			}
			waited += delay
		}
		n -= portion
	}
	return waited, nil
}

// pageOf returns the item limit of a request at perSecond items a second; 0 means full pages.
func pageOf(perSecond float64) int {
	if perSecond > mostItemsPerPage {
		return 0
	}
	// Each page is charged in whole units of 4 KB, so pages of few small items would waste
	// capacity.
	return max(int(perSecond), fewestItemsPerPage)
}

const (
	fewestItemsPerPage = 25
	// mostItemsPerPage is the largest explicit limit, because 1 MB seldom holds more items.
	mostItemsPerPage = 10_000
)
