package engine

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// pageSlots is how many pages the shards that are behind hold at once, over all tables of the
// process. A full page with both images, mapped, takes about 5 MB, so that they take 120 MB however
// many shards one worker is left with after an outage. More would not be faster: the writer has no
// more requests under way than a fraction of one page.
const pageSlots = 24

// Patience is how long a page that cannot be written is kept while other shards wait for its place.
const Patience = 5 * time.Second

// ErrPutBack ends the repetition of a page that gives its place to another shard's. It is read
// again.
var ErrPutBack = errors.New("the page released its slot for waiting shards")

const (
	// SettleBytes is how much the pages and messages that wait to be settled may take, over all tables
	// of a process.
	SettleBytes = 128 << 20
	// PageBytes is about what a page or a message takes beside its batch.
	PageBytes = 1 << 10
)

// PageSlot holds the page of one shard. A shard that found nothing the last time is about to read
// what came since, and takes no place: thousands are asked every second. Any other may get a full
// page, and waits for a place before it asks. Who holds one waits for nothing that another place
// gives, and what fails gives it back: a read at once, a write when others wait.
type PageSlot struct {
	slots  *task.Limit // nil: no bound
	calls  *Reads
	behind bool // the next page may be a full one
	Held   bool
}

// NewPageSlot is for a shard of which nothing is known: what the ledger says of it may be hours
// old.
func NewPageSlot(places *task.Limit, calls *Reads) *PageSlot {
	return &PageSlot{slots: places, calls: calls, behind: true}
}

// take waits for a place, if the next page needs one, until a stop ends that.
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

// Drop gives the place back, and says whether the next page may be a full one.
func (h *PageSlot) Drop(behind bool) {
	if h.Held {
		h.slots.Release(1)
	}
	h.Held, h.behind = false, behind
}

// wanted reports whether a page that has been in vain since a moment should give its place up.
// Without that, a target table that is missing would take all places for as long as it is, and the
// shards of other tables would stand.
func (h *PageSlot) wanted(inVain time.Duration) bool {
	return h.slots != nil && inVain >= Patience && h.slots.Awaited()
}
