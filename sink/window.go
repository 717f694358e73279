package sink

import (
	"context"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A window bounds the concurrent requests to one target table. More concurrent requests hide the
// network's latency. Beyond the capacity of the target and this process, further requests only wait
// in another place. So the window grows while responses are as fast as the fastest so far. It
// shrinks if responses take longer or fail.
type window struct {
	limit  *task.Limit
	bounds bounds

	mu    sync.Mutex
	pace  pace
	round round
}

// bounds are the first, the least and the largest size of a window. Options.InFlight and
// Options.Bytes bound the windows of all tables together.
type bounds struct{ first, least, most int }

var (
	// rowBounds are the bounds for requests of one row.
	rowBounds = bounds{first: 64, least: 16, most: DefaultInFlight}
	// bulkBounds are the bounds for requests of many rows. Each keeps several servers busy.
	bulkBounds = bounds{first: 4, least: 2, most: 64}
)

func newWindow(b bounds) *window {
	return &window{limit: task.NewLimit(int64(b.first)), bounds: b, pace: pace{size: b.first}}
}

// pace is the size of a window, and the response time without waiting.
type pace struct {
	size int
	best time.Duration
}

// round sums up as many requests as the window holds.
type round struct {
	answers, failures int
	took              time.Duration // total of all responses
	awaited           bool          // a request waited for a place, so a larger window would have been used
}

// next returns the pace after a round.
func (p pace) next(r round, b bounds) pace {
	if r.failures > 0 {
		p.size /= 2
	}
	if r.answers > 0 {
		mean := r.took / time.Duration(r.answers)
		// In the smallest window requests do not wait for each other. If they take longer, the
		// latency itself has grown.
		if p.best == 0 || mean < p.best || p.size == b.least {
			p.best = mean
		}
		switch {
		case r.failures > 0 || !r.awaited:
		case mean <= 2*p.best:
			p.size += max(1, p.size/4)
		default:
			p.size -= max(1, p.size/8)
		}
	}
	p.size = min(max(p.size, b.least), b.most)
	return p
}

func (w *window) acquire(ctx context.Context) error { return w.limit.Acquire(ctx, 1) }

func (w *window) release() { w.limit.Release(1) }

// note records the outcome of a request. It ignores a request that was rejected for its content,
// because such a rejection is no sign of overload.
func (w *window) note(took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.round.answers++
		w.round.took += took
	case Is(err, Throttled) || Is(err, Unknown):
		w.round.failures++
	}
	w.round.awaited = w.round.awaited || w.limit.Awaited()
	if w.round.answers+w.round.failures < w.pace.size {
		return
	}
	was := w.pace.size
	w.pace, w.round = w.pace.next(w.round, w.bounds), round{}
	if w.pace.size != was {
		w.limit.Resize(int64(w.pace.size))
	}
}

// windows holds the windows of all target tables.
type windows struct {
	bounds bounds

	mu     sync.Mutex
	tables map[string]*window
}

func (w *windows) of(table string) *window {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tables[table] == nil {
		w.tables[table] = newWindow(w.bounds)
	}
	return w.tables[table]
}
