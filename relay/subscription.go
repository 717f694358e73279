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

// Destination is where a subscription delivers messages by itself, in words for the operator.
type Destination string

// The destinations.
const (
	Pulled         Destination = "" // nowhere: they are pulled
	Pushed         Destination = "an endpoint"
	ToBigQuery     Destination = "BigQuery"
	ToCloudStorage Destination = "Cloud Storage"
	ToBigtable     Destination = "Bigtable"
)

// SubscriptionFacts are what a service says of a subscription.
type SubscriptionFacts struct {
	Topic       string
	Retention   time.Duration // how long it may still deliver a message: the topic's retention, if that is longer
	Ordered     bool
	ExactlyOnce bool
	Filtered    bool        // it delivers only some of the messages
	Detached    bool        // from its topic: it delivers none
	Transformed bool        // it changes messages before it delivers them
	Delivers    Destination // by itself
	DeadLetter  string      // topic; "" if it has none
	Attempts    int         // of a delivery, before the dead letter takes the message
	BacksOff    bool        // between attempts
}
