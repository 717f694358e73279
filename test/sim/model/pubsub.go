package model

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// Topic is a Pub/Sub topic as its client presents it. Messages of one key go in one request, those
// of different keys in any order. A failed request blocks its key until Publish returns. A request
// whose answer was lost may be executed later, or twice.
type Topic struct {
	// Latency is the approximate duration of a request. Fail, LoseReply and Late are the shares of
	// requests that are not executed, that are executed without an answer, and that are executed
	// after the caller gave up.
	Latency               time.Duration
	Fail, LoseReply, Late float64
	// Down, if not nil, reports whether the topic is unreachable for the caller.
	Down func() bool
	// Stored is called for each message as it is stored.
	Stored func(relay.Message)

	world *virtual.World
}

// NewTopic returns a topic that never fails.
func NewTopic(w *virtual.World) *Topic {
	return &Topic{world: w, Latency: 5 * time.Millisecond, Stored: func(relay.Message) {}}
}

// Publish implements relay.Topic.
func (t *Topic) Publish(ctx context.Context, messages []relay.Message) (outcomes []error, blocked int) {
	outcomes = make([]error, len(messages))
	batches, keys := map[string][]int{}, []string{}
	for i, m := range messages {
		if batches[m.Key] == nil {
			keys = append(keys, m.Key)
		}
		batches[m.Key] = append(batches[m.Key], i)
	}
	t.world.Rand().Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys {
		batch := batches[key]
		failed := false
		for len(batch) > 0 { // the client may split the messages of one key anywhere
			n := 1 + t.world.Rand().IntN(len(batch))
			if err := t.request(ctx, messages, batch[:n], failed); err != nil {
				failed = true
				for _, i := range batch[:n] {
					outcomes[i] = err
				}
			}
			batch = batch[n:]
		}
		if failed {
			blocked++
		}
	}
	return outcomes, blocked
}

// request stores messages of one key, unless an earlier request of the key has failed.
func (t *Topic) request(ctx context.Context, messages []relay.Message, batch []int, paused bool) error {
	fail := func(code string) error {
		return &relay.Error{Op: "Publish", Name: "topic", Reason: relay.Unavailable, Code: code}
	}
	if paused {
		t.world.Inject("message behind a blocked key")
		return fail("Paused")
	}
	if err := task.Sleep(ctx, t.world.Travel(t.Latency)); err != nil {
		return err
	}
	store := func() {
		for _, i := range batch {
			t.Stored(messages[i])
		}
	}
	switch {
	case t.Down != nil && t.Down():
		return fail("Unavailable")
	case t.world.Chance(t.Fail):
		t.world.Inject("publish failed")
		return fail("Unavailable")
	case t.world.Chance(t.Late):
		t.world.Inject("publish executed late")
		t.world.After(t.world.UpTo(time.Minute), store)
		return fail("DeadlineExceeded")
	}
	store()
	if t.world.Chance(t.LoseReply) {
		t.world.Inject("answer of a publish lost")
		return fail("DeadlineExceeded")
	}
	return task.Sleep(ctx, t.world.Travel(t.Latency))
}

// Subscription is a subscription without ordering. It delivers messages in any order, each until it
// is acknowledged. It ignores acknowledgements of deliveries whose deadline has passed.
type Subscription struct {
	// Deadline is the deadline of a delivery. Twice is the share of messages that are delivered
	// twice. Forget is the share of acknowledgements that are answered but not executed. Fail is
	// the share of requests that are not executed.
	Deadline            time.Duration
	Twice, Forget, Fail float64
	// Kept is how long an unacknowledged message is kept; 0 means for ever. Expired counts the
	// messages dropped after that, delivered or not.
	Kept    time.Duration
	Expired int
	Latency time.Duration
	// Down, if not nil, reports whether the service is unreachable for the caller.
	Down func() bool

	world   *virtual.World
	backlog []*waiting
	given   int
	Nacked  int
}

// waiting is an unacknowledged message.
type waiting struct {
	data  []byte
	at    time.Duration   // when it was stored
	until time.Duration   // invisible until then
	ids   map[string]bool // of its deliveries
}

// NewSubscription returns a subscription that never fails.
func NewSubscription(w *virtual.World) *Subscription {
	return &Subscription{world: w, Deadline: time.Minute, Latency: 5 * time.Millisecond}
}

// Take stores a message of the topic.
func (s *Subscription) Take(m relay.Message) {
	s.backlog = append(s.backlog, &waiting{data: m.Data, at: s.world.Elapsed(), ids: map[string]bool{}})
}

// Backlog returns the number of unacknowledged messages.
func (s *Subscription) Backlog() int {
	s.expire()
	return len(s.backlog)
}

func (s *Subscription) expire() {
	old := func(w *waiting) bool { return s.Kept > 0 && s.world.Elapsed()-w.at > s.Kept }
	for len(s.backlog) > 0 && old(s.backlog[0]) { // they are in the order in which they were stored
		s.world.Inject("message expired")
		s.Expired++
		s.backlog = s.backlog[1:]
	}
}

func (s *Subscription) call(ctx context.Context, op string) error {
	if err := task.Sleep(ctx, s.world.Travel(s.Latency)); err != nil {
		return err
	}
	if s.world.Chance(s.Fail) || s.Down != nil && s.Down() {
		return &relay.Error{Op: op, Name: "subscription", Reason: relay.Unavailable, Code: "Unavailable"}
	}
	return nil
}

// Pull implements relay.Subscription.
func (s *Subscription) Pull(ctx context.Context, most int) ([]relay.Delivery, error) {
	if err := s.call(ctx, "Pull"); err != nil {
		return nil, err
	}
	s.expire()
	var out []relay.Delivery
	for _, i := range s.world.Rand().Perm(len(s.backlog)) {
		w := s.backlog[i]
		again := s.world.Chance(s.Twice)
		if len(out) == most || w.until > s.world.Elapsed() && !again {
			continue
		}
		if again || len(w.ids) > 0 {
			s.world.Inject("message delivered again")
		}
		s.given++
		id := fmt.Sprint(s.given)
		w.ids[id], w.until = true, s.world.Elapsed()+s.Deadline
		out = append(out, relay.Delivery{ID: id, Data: w.data})
	}
	return out, task.Sleep(ctx, s.world.Travel(s.Latency))
}

// Ack implements relay.Subscription.
func (s *Subscription) Ack(ctx context.Context, ids []string) error {
	if err := s.call(ctx, "Acknowledge"); err != nil {
		return err
	}
	for _, id := range ids {
		if s.world.Chance(s.Forget) {
			s.world.Inject("acknowledgement lost")
			continue
		}
		s.backlog = slices.DeleteFunc(s.backlog, func(w *waiting) bool {
			if w.ids[id] {
				c, _ := relay.Decode(w.data)
				s.world.Tracef("message %d of generation %d of shard %s is acknowledged", c.Number, c.Generation, c.Shard)
			}
			return w.ids[id]
		})
	}
	return nil
}

// Extend implements relay.Subscription.
func (s *Subscription) Extend(ctx context.Context, ids []string, by time.Duration) error {
	if err := s.call(ctx, "ModifyAckDeadline"); err != nil {
		return err
	}
	for _, id := range ids {
		for _, w := range s.backlog {
			if w.ids[id] {
				w.until = s.world.Elapsed() + by
			}
		}
		if by == 0 {
			s.Nacked++
		}
	}
	return nil
}
