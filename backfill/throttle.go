package backfill

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Throttle paces loads to a number of rows a second. One may be shared by several loads, and its limit may be changed while
// they run. It may be used by many tasks at once.
type Throttle struct{ limiter *rate.Limiter }

// NewThrottle returns a throttle of so many rows a second; zero or less means no limit.
func NewThrottle(rowsPerSecond float64) *Throttle {
	limit, burst := allowance(rowsPerSecond)
	return &Throttle{rate.NewLimiter(limit, burst)}
}

// Set changes the limit for everything that is not waiting already.
func (t *Throttle) Set(ctx context.Context, rowsPerSecond float64) {
	limit, burst := allowance(rowsPerSecond)
	now := instant(ctx)
	t.limiter.SetBurstAt(now, burst)
	t.limiter.SetLimitAt(now, limit)
}

// allowance is the limit with a burst of one second of it, so that short stalls do not lower the rate.
func allowance(rowsPerSecond float64) (rate.Limit, int) {
	if rowsPerSecond <= 0 {
		return rate.Inf, 1
	}
	return rate.Limit(rowsPerSecond), max(1, int(min(math.Ceil(rowsPerSecond), math.MaxInt32)))
}

// instant is the limiter's time: the monotonic clock, because a wall clock that jumps would stop or flood the load.
func instant(ctx context.Context) time.Time { return time.Unix(0, 0).Add(task.Mono(ctx)) }

// perSecond is the limit; infinite if there is none.
func (t *Throttle) perSecond() float64 {
	if limit := t.limiter.Limit(); limit != rate.Inf {
		return float64(limit)
	}
	return math.Inf(1)
}

// reserve pays for at most n, in a portion of about a second, and says how long to wait for it.
func (t *Throttle) reserve(ctx context.Context, n int) (portion int, delay time.Duration) {
	for n > 0 && t.limiter.Limit() != rate.Inf {
		portion = min(n, t.limiter.Burst())
		now := instant(ctx)
		// It is refused if the burst became smaller since it was asked for.
		if r := t.limiter.ReserveN(now, portion); r.OK() {
			return portion, r.DelayFrom(now)
		}
	}
	return n, 0
}

// Take accounts for n rows and waits until the limit allows them. It returns how long that took, and an error if one of the
// contexts ended first. A nil throttle never waits.
func (t *Throttle) Take(drain, ctx context.Context, n int) (time.Duration, error) {
	if t == nil {
		return 0, nil
	}
	var waited time.Duration
	for n > 0 {
		// In portions, so that a new limit takes hold within about a second.
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

// pageOf is how many items a request asks for at so many a second. 0 asks for full pages.
func pageOf(perSecond float64) int {
	if perSecond > mostItemsPerPage {
		return 0
	}
	// A page is charged in units of 4 KB as a whole: pages of very few small items would waste capacity.
	return max(int(perSecond), fewestItemsPerPage)
}

const (
	fewestItemsPerPage = 25
	// mostItemsPerPage bounds what an explicit limit is worth: 1 MB seldom holds more items.
	mostItemsPerPage = 10_000
)
