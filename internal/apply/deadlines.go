package apply

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// These are the deadlines of held messages. If an applier pauses for longer than heldFor, Pub/Sub
// delivers its messages to other appliers. If an applier is killed, Pub/Sub does so when the
// deadlines have passed. A new delivery has the subscription's own deadline. Pub/Sub's default is
// 10 seconds, which is also the minimum. So a new delivery must be extended sooner than a delivery
// that was extended already. But most messages are applied before their first extension, so the
// messages of a killed applier come back early. Each deadline that passes uses up a delivery
// attempt, as a nack does. A message without attempts left goes to the dead letter. Messages that
// are set aside get the longest deadline that Pub/Sub allows.
const (
	heldFor     = 60 * time.Second
	extendEach  = 20 * time.Second
	extendFirst = 2 * time.Second // the minimum; the maximum is twice that
	asideFor    = 600 * time.Second
	asideEach   = 200 * time.Second
)

// deadlines extends the deadlines of held messages, so that they are not delivered again.
type deadlines struct {
	mu  sync.Mutex
	due map[string]deadline // by delivery
}

// deadline holds the time of a delivery's next extension, on the monotonic clock.
type deadline struct {
	at    time.Duration
	aside bool // only its id is kept
	last  bool // not even the id is kept after the extension
}

func (d *deadlines) hold(got []relay.Delivery, now time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, delivery := range got {
		d.due[delivery.ID] = deadline{at: now + extendFirst}
	}
}

func (d *deadlines) forget(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.due, id)
	}
}

// setAside marks a delivery as set aside: only its id is kept. If `last` is true, the delivery is
// extended for the last time.
func (d *deadlines) setAside(id string, last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due[id] = deadline{aside: true, last: last}
}

// take returns the deliveries that must be extended now, and schedules their next extension. It
// returns the deliveries that are set aside in a separate list.
func (d *deadlines) take(now time.Duration) (ids, aside []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, due := range d.due {
		if due.at > now {
			continue
		}
		switch {
		case due.last:
			aside = append(aside, id)
			delete(d.due, id)
		case due.aside:
			aside = append(aside, id)
			d.due[id] = deadline{at: now + asideEach, aside: true}
		default:
			ids = append(ids, id)
			d.due[id] = deadline{at: now + extendEach}
		}
	}
	slices.Sort(ids)
	slices.Sort(aside)
	return ids, aside
}

// again schedules another extension for deliveries after a failed extension. It skips deliveries
// that are no longer held.
func (d *deadlines) again(ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if due, held := d.due[id]; held {
			due.at = 0
			d.due[id] = due
		}
	}
}

// extend keeps extending the deadlines of held messages.
func (a *appliers) extend(ctx context.Context) error {
	for task.Sleep(ctx, extendFirst) == nil {
		a.Retrier.Events.Tick()
		ids, aside := a.held.take(task.Mono(ctx))
		a.extendBy(ctx, ids, heldFor)
		a.extendBy(ctx, aside, asideFor)
	}
	return nil
}

func (a *appliers) extendBy(ctx context.Context, ids []string, by time.Duration) {
	if len(ids) == 0 {
		return
	}
	if err := a.Subscription.Extend(ctx, ids, by); err != nil {
		a.held.again(ids)
		// If a message is delivered again, the guard rejects its write as stale.
		a.Retrier.Events.Retry("", "extend deadlines (ModifyAckDeadline)", extendFirst, err)
	}
}
