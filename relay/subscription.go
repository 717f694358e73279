package relay

import (
	"context"
	"time"
)

// Delivery is a message that a subscription delivered.
type Delivery struct {
	ID   string // identifies this delivery, to acknowledge it
	Data []byte
	// Attributes are the attributes that the publisher gave the message.
	Attributes map[string]string
	Attempt    int // number of the delivery attempt; 0 without a dead-letter policy
}

// Subscription delivers messages. It delivers each message at least once, in any order.
// *PubSubscription implements it.
type Subscription interface {
	// Pull returns at most `most` messages. It may wait for messages, and may return none.
	Pull(ctx context.Context, most int) ([]Delivery, error)
	// Ack acknowledges deliveries. A message whose deadline has passed may nevertheless be
	// delivered again.
	Ack(ctx context.Context, ids []string) error
	// Extend gives deliveries a new deadline: the duration `by` from now. If `by` is 0, the service
	// delivers them again.
	Extend(ctx context.Context, ids []string, by time.Duration) error
}

// Destination is the service to which a subscription pushes messages, in words for the operator.
type Destination string

// The destinations.
const (
	Pulled         Destination = "" // none: messages are pulled
	Pushed         Destination = "an endpoint"
	ToBigQuery     Destination = "BigQuery"
	ToCloudStorage Destination = "Cloud Storage"
	ToBigtable     Destination = "Bigtable"
)

// SubscriptionFacts are facts about a subscription from the service.
type SubscriptionFacts struct {
	Topic       string
	Retention   time.Duration // how long it may deliver a message: its own retention or, if longer, the topic's
	Ordered     bool
	ExactlyOnce bool
	Filtered    bool        // it delivers only some of the messages
	Detached    bool        // detached from its topic, so it delivers no messages
	Transformed bool        // it changes messages before it delivers them
	Delivers    Destination // where it pushes messages
	DeadLetter  string      // topic; "" if it has none
	Attempts    int         // delivery attempts before the message moves to the dead-letter topic
	BacksOff    bool        // it waits between attempts
}
