package relay

import (
	"context"
	"time"
)

// Delivery is a message as a subscription gives it.
type Delivery struct {
	ID      string // by which this delivery is acknowledged
	Data    []byte
	Attempt int // how often it was delivered, where a dead letter counts that; else 0
}

// Subscription gives messages, each at least once, in any order. *PubSubscription is one.
type Subscription interface {
	// Pull gives at most so many messages. It may wait for some, and give none.
	Pull(ctx context.Context, most int) ([]Delivery, error)
	// Ack ends the delivery of messages. One whose deadline has passed may come again all the same.
	Ack(ctx context.Context, ids []string) error
	// Extend sets the deadlines of deliveries to so long from now; 0 gives them back.
	Extend(ctx context.Context, ids []string, by time.Duration) error
}
