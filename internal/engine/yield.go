package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A worker that cannot reach the source (credentials, network) can still renew its leases, because
// leases are stored in the target. If it renewed them forever, no other worker could read its
// shards or coordinate its tables. So it releases a lease that has made no progress for
// Timing.Yield. For a while, it leaves that lease to other workers. If none acquires the lease, it
// acquires the lease again.

// ErrYield is the reason for the release of a lease that the worker could still renew.
var ErrYield = errors.New("released for another worker, because DynamoDB does not answer this one")

// YieldBackoff returns how long a worker must not acquire a lease that it released. Other workers
// look for free leases in each pass, so they can acquire it in that time.
func (t Timing) YieldBackoff() time.Duration { return 3 * t.Pass }

// Outages records since when the source has not answered this worker. An outage continues even if
// the worker releases a lease and acquires it again. Outages are stored by shard, or by "" for the
// coordinator lease.
type Outages struct {
	mu    sync.Mutex
	tries map[string]attempts
}

type attempts struct {
	trouble checkpoint.Trouble // the last reported failure
	given   time.Duration      // when the lease was last released because of the outage
	left    bool               // the lease is released
}

// sameOutage is the maximum time after the last release in which a failure of the same step
// continues the earlier outage.
const sameOutage = 10 * time.Minute

// Noting returns a function that passes failures to `tell`. The function adds the time at which the
// outage began, even if that was under an earlier lease.
func (v *Outages) Noting(ctx context.Context, id string, tell func(checkpoint.Trouble)) func(checkpoint.Trouble) {
	return func(t checkpoint.Trouble) {
		if t != (checkpoint.Trouble{}) {
			t = v.Since(id, t, task.Mono(ctx))
		}
		tell(t)
	}
}

func (v *Outages) Since(id string, t checkpoint.Trouble, now time.Duration) checkpoint.Trouble {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.tries[id]
	if before.left && now-before.given <= sameOutage && before.trouble.Step == t.Step && before.trouble.Since.Before(t.Since) {
		t.Since = before.trouble.Since
	}
	if v.tries == nil {
		v.tries = map[string]attempts{}
	}
	before.trouble = t
	v.tries[id] = before
	return t
}

// GiveUp records that a lease was released at time `now`. The cause is the last failure that was
// reported under the lease.
func (v *Outages) GiveUp(id string, now time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	// Entries are removed, because another worker may keep the lease permanently.
	maps.DeleteFunc(v.tries, func(_ string, a attempts) bool { return a.left && now-a.given > sameOutage })
	if before, ok := v.tries[id]; ok {
		before.given, before.left = now, true
		v.tries[id] = before
	}
}

// Answered ends the outage. The next failure begins another outage.
func (v *Outages) Answered(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.tries, id)
}

// silence measures how long the source has not answered a step.
type silence struct {
	began bool
	since time.Duration // on the monotonic clock
}

// lasts records a failure at time `now`, and returns how long the source has not answered.
// Throttled calls in between do not count as answers, because some calls may be throttled while
// most calls fail.
func (s *silence) lasts(failure error, now time.Duration) time.Duration {
	switch {
	case cdc.Is(failure, cdc.Throttled) && s.began:
	case !unanswered(failure):
		s.began, s.since = false, now
	case !s.began:
		s.began, s.since = true, now
	}
	return now - s.since
}

// yield returns ErrYield with the last failure, if the step has failed for longer than its
// lifecycle allows. Otherwise it returns nil.
func (s *silence) yield(life Lifecycle, failure error) error {
	if life.Yield == 0 {
		return nil
	}
	if lasted := s.lasts(failure, task.Mono(life.Work)); lasted >= life.Yield {
		return fmt.Errorf("%w, for %s: %w", ErrYield, lasted.Truncate(time.Second), failure)
	}
	return nil
}

// unanswered reports whether another worker might get an answer from the source. Throttling does
// not count, because it affects all workers of the account. A malformed answer counts, because it
// may come from a proxy. A malformed record does not, because it is the same for all workers.
func unanswered(err error) bool {
	return cdc.Is(err, cdc.Unavailable) || cdc.Is(err, cdc.Denied) || cdc.Is(err, cdc.Malformed)
}
