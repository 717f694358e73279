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

// A worker that cannot reach the source (its credentials, its network) still renews what it holds,
// because leases live in the target's store: nobody else would ever read its shards, or keep its
// tables. So it gives up what it has not got on with for Timing.Yield, and leaves it alone for a
// while, so that another worker may take it first. Where there is no other, or the source is down
// for all, it takes it back.

// ErrYield is why a worker gives up a lease that it still holds.
var ErrYield = errors.New("released for another worker, because DynamoDB does not answer this one")

// YieldBackoff is how long a worker leaves alone what it gave up. In each pass all others look for
// what is free.
func (t Timing) YieldBackoff() time.Duration { return 3 * t.Pass }

// Outages remember since when the source has not answered this worker, over all the leases that it
// gave up because of that and took back, by shard; the coordinator lease goes by no name.
type Outages struct {
	mu    sync.Mutex
	tries map[string]attempts
}

type attempts struct {
	trouble checkpoint.Trouble // the last that was told
	given   time.Duration      // when a lease was last given up for it
	left    bool               // one was
}

// sameOutage is how long after the last lease was given up a failure of the same step goes on with
// those before.
const sameOutage = 10 * time.Minute

// Noting returns a function that notes troubles as tell does, but since when they began under a
// lease before.
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

// GiveUp notes that a lease was given up at now, for the last trouble that was told under it.
func (v *Outages) GiveUp(id string, now time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.tries, func(_ string, a attempts) bool { return a.left && now-a.given > sameOutage }) // others may have it for good
	if before, ok := v.tries[id]; ok {
		before.given, before.left = now, true
		v.tries[id] = before
	}
}

// Answered ends it: what fails next begins then.
func (v *Outages) Answered(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.tries, id)
}

// silence measures for how long the source has not answered a step.
type silence struct {
	began bool
	since time.Duration // on the monotonic clock
}

// lasts notes a failure at now, and returns for how long there was nothing else. Throttles among
// the others are nothing by themselves: they come as well where most calls fail.
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

// yield is ErrYield with the failure that made it so, when a step's failures have lasted for longer
// than its life allows; nil until then.
func (s *silence) yield(life Lifecycle, failure error) error {
	if life.Yield == 0 {
		return nil
	}
	if lasted := s.lasts(failure, task.Mono(life.Work)); lasted >= life.Yield {
		return fmt.Errorf("%w, for %s: %w", ErrYield, lasted.Truncate(time.Second), failure)
	}
	return nil
}

// unanswered tells whether the source failed in a way in which it may not fail another worker: not
// because it is throttled, which every worker of the account shares. An answer that is malformed may
// come from something between the two, but a record that cannot be read is the same for all.
func unanswered(err error) bool {
	return cdc.Is(err, cdc.Unavailable) || cdc.Is(err, cdc.Denied) || cdc.Is(err, cdc.Malformed)
}
