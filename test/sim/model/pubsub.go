package model

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// Topic is a topic of Pub/Sub as its client shows it. Messages of one key go in one request, those
// of several keys in any order. A failed request blocks its key until Publish returns. A request
// whose answer was lost may be executed later, or twice.
type Topic struct {
	// Latency is about how long a request takes. Fail, LoseReply and Late are the parts of requests
	// that are not executed, executed without an answer, and executed after the caller gave up.
	Latency               time.Duration
	Fail, LoseReply, Late float64
	// Down, if not nil, tells whether nobody who calls now reaches the topic.
	Down func() bool
	// Stored sees each message as it is stored.
	Stored func(relay.Message)

	world *virtual.World
}

// NewTopic makes a topic that never fails.
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
		for len(batch) > 0 { // the client may cut what is for one key anywhere
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
