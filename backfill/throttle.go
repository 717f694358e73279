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

// Take accounts for n rows and waits until the limit allows them. It returns how long that took, and the context's cause if
// that ended first. A nil throttle never waits.
func (t *Throttle) Take(ctx context.Context, n int) (time.Duration, error) {
	if t == nil {
		return 0, nil
	}
	var waited time.Duration
	for n > 0 && t.limiter.Limit() != rate.Inf {
		// In portions, so that a new limit takes hold within about a second.
		portion := min(n, t.limiter.Burst())
		now := instant(ctx)
		reservation := t.limiter.ReserveN(now, portion)
		if !reservation.OK() {
			continue // the burst became smaller since it was asked for
		}
		if delay := reservation.DelayFrom(now); delay > 0 {
			if err := task.Sleep(ctx, delay); err != nil {
				return waited, err
			}
			waited += delay
		}
		n -= portion
	}
	return waited, nil
}

// pageLimit is how many items a request asks for when so many segments share the limit: about a second's worth, so that the
// load moves evenly and little is repeated after a stop. 0 asks for full pages of 1 MB, which cost the fewest requests.
func (t *Throttle) pageLimit(parallel int) int {
	if t == nil {
		return 0
	}
	limit := float64(t.limiter.Limit()) / float64(parallel)
	if limit > mostItemsPerPage {
		return 0
	}
	// A page is charged in units of 4 KB as a whole: pages of very few small items would waste capacity.
	return max(int(limit), fewestItemsPerPage)
}

const (
	fewestItemsPerPage = 25
	// mostItemsPerPage bounds what an explicit limit is worth: 1 MB seldom holds more items.
	mostItemsPerPage = 10_000
)
