package worker

import (
	"context"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// history summarizes each hour of the tables that this process coordinates. The ledger gets one row
// for each table and hour. It is safe for concurrent use.
type history struct {
	mu      sync.Mutex
	current map[string]*noted // by table
	ended   []noted           // hours that the ledger lacks
}

// noted is the summary of one hour of a table.
type noted struct {
	source string
	from   time.Time
	checkpoint.HourPart
	// applied holds the changes that were applied from each shard at the last reading; nil if this
	// process did not coordinate the table then.
	applied map[string]uint64
}

// mostEnded bounds the hours that wait for a ledger that cannot be written. Older hours are lost.
const mostEnded = 10_000

// add adds a reading of the ledger to the summaries. The argument `worker` is this process. It reports
// whether an hour has ended, so that its summaries must be written.
func (h *history) add(m *status.Document, worker string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil {
		h.current = map[string]*noted{}
	}
	from := m.At.UTC().Truncate(time.Hour)
	for i := range m.Tables {
		t := &m.Tables[i]
		n := h.current[t.Source]
		if n == nil {
			n = &noted{source: t.Source, from: from}
			h.current[t.Source] = n
		}
		if !n.from.Equal(from) {
			if !n.Until.IsZero() {
				h.ended = append(h.ended, *n)
			}
			*n = noted{source: t.Source, from: from, applied: n.applied}
		}
		if t.CoordinatedBy(worker) {
			n.read(m, t)
		} else {
			n.applied = nil // another coordinator counts the changes from here on
		}
	}
	h.ended = h.ended[max(0, len(h.ended)-mostEnded):]
	return len(h.ended) > 0
}

// read adds one reading. The first one only shows from where changes count.
func (n *noted) read(m *status.Document, t *status.Table) {
	applied := map[string]uint64{}
	for _, s := range m.Shards {
		if s.Source != t.Source {
			continue
		}
		id := s.Stream + "/" + s.ID
		applied[id] = s.Changes
		// A shard that was not listed at the last reading has begun since.
		if before := n.applied[id]; n.applied != nil && s.Changes > before {
			n.Changes += s.Changes - before
		}
	}
	n.applied = applied
	if lag := t.LagSeconds; lag != nil && (n.Lag == nil || *lag > *n.Lag) {
		n.Lag = lag
	}
	if left := t.HeadroomSeconds; left != nil && (n.Headroom == nil || *left < *n.Headroom) {
		n.Headroom = left
	}
	n.Until, n.Parked, n.State = m.At.UTC(), t.Parked, string(t.State)
}

// take returns the summaries to write. If `all` is true, it also returns those of the current hour.
func (h *history) take(all bool) []noted {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.ended
	h.ended = nil
	if all {
		for _, n := range h.current {
			if !n.Until.IsZero() {
				out = append(out, *n)
			}
		}
	}
	return out
}

// write writes summaries of the hours that have ended. Those that cannot be written wait for the next
// reading. If `all` is true, it also writes those of the current hour, which later ones replace.
func (h *history) write(ctx context.Context, all bool, put func(ctx context.Context, n noted) error) error {
	todo := h.take(all)
	for i, n := range todo {
		if err := put(ctx, n); err != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.ended = append(h.ended, todo[i:]...)
			return err
		}
	}
	return nil
}

// record writes the summaries of ended hours to the ledger. A failure is only logged, because the
// history is for display, and the next attempt writes the same rows.
func (w *Worker) record(ctx context.Context, h *history, all bool) {
	if w.ledger == nil {
		return
	}
	limited, cancel := task.WithTimeout(context.WithoutCancel(ctx), w.Config.State.Lease)
	defer cancel()
	err := h.write(limited, all, func(ctx context.Context, n noted) error { return w.ledger.NoteHour(ctx, n.source, n.from, n.HourPart) })
	if err != nil {
		w.Log.Debug("failed to write the history of an hour", admin.KeyError, err.Error())
	}
}
