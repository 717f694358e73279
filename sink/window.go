package sink

import (
	"context"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A window is how many requests to one target table are under way at once. More of them hide the latency of the way, and beyond
// what the target and this process take at once they only wait elsewhere. So it grows while answers come as fast as they ever
// did, and shrinks when they take longer or fail.
type window struct {
	limit *task.Limit

	mu    sync.Mutex
	pace  pace
	round round
}

// The bounds of a window. Windows of all tables together are bounded by Options.InFlight, and by bytes.
const (
	firstWindow = 64
	leastWindow = 16
	mostWindow  = DefaultInFlight
)

func newWindow() *window {
	return &window{limit: task.NewLimit(firstWindow), pace: pace{size: firstWindow}}
}

// pace is the size of a window, and how long an answer takes when nothing waits.
type pace struct {
	size int
	best time.Duration
}

// round is what was seen of as many requests as the window holds.
type round struct {
	answers, failures int
	took              time.Duration // by all answers together
	awaited           bool          // somebody waited for a place: a larger window would have been used
}

// next is the pace after a round.
func (p pace) next(r round) pace {
	if r.failures > 0 {
		p.size /= 2
	}
	if r.answers > 0 {
		mean := r.took / time.Duration(r.answers)
		// As few requests as that do not wait for each other: if they take longer, then the way has become longer.
		if p.best == 0 || mean < p.best || p.size == leastWindow {
			p.best = mean
		}
		switch {
		case r.failures > 0 || !r.awaited:
		case mean <= 2*p.best:
			p.size += p.size / 4
		default:
			p.size -= p.size / 8
		}
	}
	p.size = min(max(p.size, leastWindow), mostWindow)
	return p
}

func (w *window) acquire(ctx context.Context) error { return w.limit.Acquire(ctx, 1) }

func (w *window) release() { w.limit.Release(1) }

// note takes down what became of a request. A request that was refused for what it contains says nothing of the target.
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
	w.pace, w.round = w.pace.next(w.round), round{}
	if w.pace.size != was {
		w.limit.Resize(int64(w.pace.size))
	}
}

// windows are those of all target tables.
type windows struct {
	mu     sync.Mutex
	tables map[string]*window
}

func (w *windows) of(table string) *window {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tables[table] == nil {
		w.tables[table] = newWindow()
	}
	return w.tables[table]
}
