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
// leases are stored in the target. Then no other worker would ever read its shards or coordinate
// its tables. So it releases a lease without progress for Timing.Yield and avoids it for a while,
// so that another worker can acquire it first. If there is no other worker, or the source is down
// for all, it acquires the lease again.

// ErrYield is the reason why a worker releases a lease that it still holds.
var ErrYield = errors.New("released for another worker, because DynamoDB does not answer this one")

// YieldBackoff returns how long a worker avoids a lease that it released. All others look for free
// leases in each pass.
func (t Timing) YieldBackoff() time.Duration { return 3 * t.Pass }

// Outages remembers since when the source has not answered this worker, across all leases that it
// released for that and acquired again. The key is the shard, or "" for the coordinator lease.
type Outages struct {
	mu    sync.Mutex
	tries map[string]attempts
}

type attempts struct {
	trouble checkpoint.Trouble // the last reported
	given   time.Duration      // when the lease was last released for it
	left    bool               // the lease is released
}

// sameOutage is how long after the last release a failure of the same step continues the earlier
// outage.
const sameOutage = 10 * time.Minute

// Noting returns a function that passes failures to tell, with the time since when they began, even
// under an earlier lease.
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

// GiveUp records that a lease was released at now, for the last failure reported under it.
func (v *Outages) GiveUp(id string, now time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.tries, func(_ string, a attempts) bool { return a.left && now-a.given > sameOutage }) // others may keep it permanently
	if before, ok := v.tries[id]; ok {
		before.given, before.left = now, true
		v.tries[id] = before
	}
}

// Answered ends the outage: the next failure begins another one.
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

// lasts records a failure at now, and returns for how long there were only such failures.
// Throttling between them does not end the silence, because it also occurs while most calls fail.
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

// yield returns ErrYield with the last failure if a step's failures have lasted longer than its
// life allows; nil until then.
func (s *silence) yield(life Lifecycle, failure error) error {
	if life.Yield == 0 {
		return nil
	}
	if lasted := s.lasts(failure, task.Mono(life.Work)); lasted >= life.Yield {
		return fmt.Errorf("%w, for %s: %w", ErrYield, lasted.Truncate(time.Second), failure)
	}
	return nil
}

// unanswered reports whether the source failed in a way that may not affect another worker.
// Throttling affects every worker of the account. A malformed answer may come from a proxy in
// between, but an unreadable record is the same for all workers.
func unanswered(err error) bool {
	return cdc.Is(err, cdc.Unavailable) || cdc.Is(err, cdc.Denied) || cdc.Is(err, cdc.Malformed)
}
