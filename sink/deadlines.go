package sink

import (
	"context"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// deadlines bound the requests of one batch, or of one Within. Requests that begin at about the
// same time share one context with a deadline, because a context and a timer for each would cost a
// tenth of a request. So a request has at least nineteen twentieths of the timeout, and never more
// than the timeout.
type deadlines struct {
	ctx     context.Context // of the requests
	timeout time.Duration

	mu     sync.Mutex
	shared context.Context // of the latest requests; nil at first
	since  time.Duration   // when it was made, on the monotonic clock
	ends   []deadlineEnd
}

// deadlineEnd releases a context that has ended at a time.
type deadlineEnd struct {
	at  time.Duration
	end context.CancelFunc
}

// at returns a context for a request that begins now.
func (d *deadlines) at(now time.Duration) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shared == nil || now-d.since > d.timeout/20 {
		var end context.CancelFunc
		d.shared, end = task.WithTimeout(d.ctx, d.timeout)
		d.since = now
		for len(d.ends) > 0 && d.ends[0].at < now {
			d.ends[0].end()
			d.ends = d.ends[1:]
		}
		d.ends = append(d.ends, deadlineEnd{now + d.timeout, end})
	}
	return d.shared
}

// end releases the contexts. All requests must have returned.
func (d *deadlines) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.ends {
		e.end()
	}
}
