package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// pageSlots is how many pages the shards that are behind may hold together, over all tables of the
// process. A full page with both images, mapped, takes about 5 MB, so they take 120 MB regardless
// of how many shards one worker has after an outage. More would not be faster, because all requests
// that the writer has in flight are a fraction of one page.
const pageSlots = 24

// Patience is how long a page that cannot be written keeps its slot while other shards wait for
// one.
const Patience = 5 * time.Second

// ErrPutBack ends the retries of a page that releases its slot to another shard. The page is read
// again.
var ErrPutBack = errors.New("the page released its slot for waiting shards")

const (
	// SettleBytes is the most memory that pages and messages waiting to be settled take, over all
	// tables of a process.
	SettleBytes = 128 << 20
	// PageBytes is the approximate size of a page or a message without its batch.
	PageBytes = 1 << 10
)

// PageSlot holds the page of one shard. A shard whose last page was empty takes no slot, because
// its next page is small, and thousands of such shards are read every second. Any other shard may
// get a full page, so it waits for a slot before it reads. A holder of a slot never waits for
// another slot. After a failed read it releases the slot immediately, after a failed write when
// others wait.
type PageSlot struct {
	slots  *task.Limit // nil: unlimited
	calls  *Reads
	behind bool // the next page may be a full one
	Held   bool
}

// NewPageSlot returns the slot of a shard about which nothing is known yet: its ledger row may be
// hours old.
func NewPageSlot(places *task.Limit, calls *Reads) *PageSlot {
	return &PageSlot{slots: places, calls: calls, behind: true}
}

// take waits for a slot if the next page needs one, until a stop.
func (h *PageSlot) take(ctx context.Context) error {
	if h.slots == nil || !h.behind || h.Held {
		return nil
	}
	waiting, end := h.calls.begin(ctx)
	defer end()
	err := h.slots.Acquire(waiting, 1)
	h.Held = err == nil
	return err
}

// Drop releases the slot, and records whether the next page may be a full one.
func (h *PageSlot) Drop(behind bool) {
	if h.Held {
		h.slots.Release(1)
	}
	h.Held, h.behind = false, behind
}

// wanted reports whether a page that has failed since a given moment should release its slot.
// Otherwise a missing target table would take all slots, and shards of other tables would wait for
// as long as it is missing.
func (h *PageSlot) wanted(inVain time.Duration) bool {
	return h.slots != nil && inVain >= Patience && h.slots.Awaited()
}
