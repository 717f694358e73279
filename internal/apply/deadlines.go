package apply

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Deadlines of what is held. An applier that stands still for longer than heldFor gives its messages
// to others, without being asked. A delivery that is new has the subscription's own deadline, of 10
// seconds at least, which is Pub/Sub's default: so it is extended much sooner. Each deadline that
// passes counts towards the dead letter, as if the message could not be read.
const (
	heldFor     = 60 * time.Second
	extendEach  = 20 * time.Second
	extendFirst = 4 * time.Second
)

// deadlines keeps messages that are held from being delivered again.
type deadlines struct {
	mu  sync.Mutex
	due map[string]time.Duration // by delivery: when it is to be extended next, on the monotonic clock
}

func (d *deadlines) hold(got []relay.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, delivery := range got {
		d.due[delivery.ID] = 0
	}
}

func (d *deadlines) forget(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.due, id)
	}
}

// take returns the deliveries that are to be extended now, and plans when each is next.
func (d *deadlines) take(now time.Duration) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for id, due := range d.due {
		if due <= now {
			ids = append(ids, id)
			d.due[id] = now + extendEach
		}
	}
	slices.Sort(ids)
	return ids
}

// again has deliveries extended at once whose extension failed, those that are held still.
func (d *deadlines) again(ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if _, held := d.due[id]; held {
			d.due[id] = 0
		}
	}
}

// extend keeps the deadlines of what is held from passing.
func (a *appliers) extend(ctx context.Context) error {
	for task.Sleep(ctx, extendFirst) == nil {
		ids := a.held.take(task.Mono(ctx))
		if len(ids) == 0 {
			continue
		}
		if err := a.Subscription.Extend(ctx, ids, heldFor); err != nil {
			a.held.again(ids)
			a.Retrier.Events.Retry("", "extend deadlines (ModifyAckDeadline)", extendFirst, err) // what comes again is refused as stale
		}
	}
	return nil
}
