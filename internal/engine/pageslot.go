package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// pageSlots is the maximum number of pages that all shards with backlog may hold together, over all
// tables of the process. A full page of mapped changes with both images takes about 5 MB. So the
// pages take at most 120 MB, even if one worker has very many shards after an outage. More pages
// would not speed up the work: the writer's in-flight requests are only a fraction of one page.
const pageSlots = 24

// Patience is how long a page that cannot be written keeps its slot while other shards wait for a
// slot.
const Patience = 5 * time.Second

// ErrPutBack ends the retries of a page that releases its slot to another shard. The page is read
// again.
var ErrPutBack = errors.New("the page released its slot for waiting shards")

const (
	// SettleBytes is the maximum memory of all pages and messages that wait to be settled, over all
	// tables of a process.
	SettleBytes = 128 << 20
	// PageBytes is the approximate size of a page or a message without its batch.
	PageBytes = 1 << 10
)

// PageSlot holds the page of one shard. If the last page of a shard was empty, the shard takes no
// slot: its next page is small, and thousands of such shards are read every second. Any other shard
// may get a full page, so it must wait for a slot before it reads. A shard with a slot never waits
// for a second slot. After a failed read, it releases the slot at once. After a failed write, it
// releases the slot if other shards wait.
type PageSlot struct {
	slots  *task.Limit // nil: unlimited
	calls  *Reads
	behind bool // the next page may be full
	Held   bool
}

// NewPageSlot returns the slot of a shard that this process has not read yet. Such a shard may have
// a backlog, because its ledger row may be hours old.
func NewPageSlot(places *task.Limit, calls *Reads) *PageSlot {
	return &PageSlot{slots: places, calls: calls, behind: true}
}

// take waits for a slot if the next page needs one. A stop ends the wait.
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

// Drop releases the slot, and records whether the next page may be full.
func (h *PageSlot) Drop(behind bool) {
	if h.Held {
		h.slots.Release(1)
	}
	h.Held, h.behind = false, behind
}

// wanted reports whether a page should release its slot, after its writes have failed for the given
// time. Without this rule, pages for a missing target table would occupy all slots, and block the
// shards of other tables.
func (h *PageSlot) wanted(inVain time.Duration) bool {
	return h.slots != nil && inVain >= Patience && h.slots.Awaited()
}
