package relay

import (
	"context"
	"errors"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2"
	pubsubapi "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Only this file uses the client of Pub/Sub.

// Bounds of the messages that the client has accepted but not confirmed, and of its batches.
const (
	outstandingMessages = 10_000
	outstandingBytes    = 64 << 20
	batchDelay          = 5 * time.Millisecond
	batchMessages       = 1000
	batchBytes          = 1 << 20
	publishTimeout      = 30 * time.Second
)

// connect opens a client that tries each request once; the caller retries. The client's own retries
// would end with an error about the deadline, without the service's message.
func connect(ctx context.Context, project string, o ...option.ClientOption) (*pubsub.Client, error) {
	try := []gax.CallOption{gax.WithRetry(func() gax.Retryer { return once{} })}
	return pubsub.NewClientWithConfig(ctx, project, &pubsub.ClientConfig{
		TopicAdminCallOptions: &pubsubapi.TopicAdminCallOptions{Publish: try, GetTopic: try},
		SubscriptionAdminCallOptions: &pubsubapi.SubscriptionAdminCallOptions{
			GetSubscription: try, Pull: try, Acknowledge: try, ModifyAckDeadline: try,
		},
	}, o...)
}

// once is a gax.Retryer that never retries.
type once struct{}

func (once) Retry(error) (time.Duration, bool) { return 0, false }

// PubSub is a topic of Cloud Pub/Sub.
type PubSub struct {
	client    *pubsub.Client
	publisher *pubsub.Publisher
	name      string
}

// OpenTopic connects to a topic, projects/P/topics/T. Nothing is sent before the first call.
func OpenTopic(ctx context.Context, project, topic string, o ...option.ClientOption) (*PubSub, error) {
	client, err := connect(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	p := client.Publisher(topic)
	p.EnableMessageOrdering = true // for consumers that ask for it
	p.PublishSettings.DelayThreshold = batchDelay
	p.PublishSettings.CountThreshold = batchMessages
	p.PublishSettings.ByteThreshold = batchBytes
	p.PublishSettings.Timeout = publishTimeout
	p.PublishSettings.FlowControlSettings = pubsub.FlowControlSettings{
		MaxOutstandingMessages: outstandingMessages, MaxOutstandingBytes: outstandingBytes, LimitExceededBehavior: pubsub.FlowControlBlock,
	}
	return &PubSub{client: client, publisher: p, name: topic}, nil
}

// Publish implements Topic. The client puts messages of one key into one request, sends requests of
// different keys concurrently, and blocks a key after a failure until it is resumed. Later messages
// of a blocked key fail, so no message is sent out of order.
func (t *PubSub) Publish(ctx context.Context, messages []Message) (outcomes []error, blocked int) {
	results := make([]*pubsub.PublishResult, len(messages))
	for i, m := range messages {
		results[i] = t.publisher.Publish(ctx, &pubsub.Message{Data: m.Data, Attributes: m.Attributes, OrderingKey: m.Key})
	}
	outcomes = make([]error, len(messages))
	failed := map[string]bool{}
	for i, r := range results {
		if _, err := r.Get(ctx); err != nil {
			outcomes[i] = explain("Publish", t.name, err)
			failed[messages[i].Key] = true
		}
	}
	// Not before all outcomes are known: a later message of the key must not overtake the failed one.
	for key := range failed {
		t.publisher.ResumePublish(key)
	}
	return outcomes, len(failed)
}

// TopicFacts are facts about a topic from the service.
type TopicFacts struct {
	// Retention is how long the topic keeps messages, acknowledged or not; 0: it keeps none.
	Retention time.Duration
	// Transformed reports that the topic changes messages before they are delivered.
	Transformed bool
}

// Look reads the facts about the topic. It fails with an Error of reason NotFound if there is no
// such topic.
func (t *PubSub) Look(ctx context.Context) (TopicFacts, error) {
	topic, err := t.client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: t.name})
	if err != nil {
		return TopicFacts{}, explain("GetTopic", t.name, err)
	}
	return TopicFacts{Retention: topic.GetMessageRetentionDuration().AsDuration(), Transformed: transforms(topic.MessageTransforms)}, nil
}

// Close sends pending messages and closes the connections.
func (t *PubSub) Close() error {
	t.publisher.Stop()
	return t.client.Close()
}

// pullTime bounds a pull that finds no message. The service answers as soon as there is one.
const pullTime = 5 * time.Second

// PubSubscription is a subscription of Cloud Pub/Sub.
type PubSubscription struct {
	client *pubsub.Client
	name   string
	wait   time.Duration // pullTime
}

// OpenSubscription connects to a subscription, projects/P/subscriptions/S. Nothing is sent before
// the first call.
func OpenSubscription(ctx context.Context, project, subscription string, o ...option.ClientOption) (*PubSubscription, error) {
	client, err := connect(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	return &PubSubscription{client, subscription, pullTime}, nil
}

// Pull implements Subscription.
func (s *PubSubscription) Pull(ctx context.Context, most int) ([]Delivery, error) {
	limited, cancel := task.WithTimeout(ctx, s.wait)
	defer cancel()
	var sentTo peer.Peer
	answer, err := s.client.SubscriptionAdminClient.Pull(limited, &pubsubpb.PullRequest{Subscription: s.name, MaxMessages: int32(most)},
		gax.WithGRPCOptions(grpc.Peer(&sentTo)))
	if err != nil {
		// A pull that was not even sent does not show that there is no message. The server may end
		// the pull at the deadline a moment before this process does.
		over := limited.Err() != nil || status.Code(err) == codes.DeadlineExceeded
		if ctx.Err() == nil && over && sentTo.Addr != nil {
			return nil, nil
		}
		return nil, explain("Pull", s.name, err)
	}
	out := make([]Delivery, len(answer.ReceivedMessages))
	for i, m := range answer.ReceivedMessages {
		out[i] = Delivery{ID: m.AckId, Data: m.Message.Data, Attributes: m.Message.Attributes, Attempt: int(m.DeliveryAttempt)}
	}
	return out, nil
}

// Ack implements Subscription.
func (s *PubSubscription) Ack(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, idsAtOnce) {
		if err := s.client.SubscriptionAdminClient.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: s.name, AckIds: chunk}); err != nil {
			return explain("Acknowledge", s.name, err)
		}
	}
	return nil
}

// Extend implements Subscription.
func (s *PubSubscription) Extend(ctx context.Context, ids []string, by time.Duration) error {
	for chunk := range slices.Chunk(ids, idsAtOnce) {
		err := s.client.SubscriptionAdminClient.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: s.name, AckIds: chunk, AckDeadlineSeconds: int32(by / time.Second)})
		if err != nil {
			return explain("ModifyAckDeadline", s.name, err)
		}
	}
	return nil
}

// idsAtOnce bounds the ids in a request, of about 200 bytes each, so that it stays below 512 KiB.
const idsAtOnce = 1000

// Look reads the facts about the subscription. It fails with an Error of reason NotFound if there
// is no such subscription.
func (s *PubSubscription) Look(ctx context.Context) (SubscriptionFacts, error) {
	got, err := s.client.SubscriptionAdminClient.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: s.name})
	if err != nil {
		return SubscriptionFacts{}, explain("GetSubscription", s.name, err)
	}
	return factsOf(got), nil
}

func factsOf(s *pubsubpb.Subscription) SubscriptionFacts {
	f := SubscriptionFacts{
		Topic:       s.Topic,
		Retention:   max(s.GetMessageRetentionDuration().AsDuration(), s.GetTopicMessageRetentionDuration().AsDuration()),
		Ordered:     s.EnableMessageOrdering,
		ExactlyOnce: s.EnableExactlyOnceDelivery,
		Filtered:    s.Filter != "",
		Detached:    s.Detached,
		Transformed: transforms(s.MessageTransforms),
		DeadLetter:  s.GetDeadLetterPolicy().GetDeadLetterTopic(),
		Attempts:    int(s.GetDeadLetterPolicy().GetMaxDeliveryAttempts()),
		BacksOff:    s.GetRetryPolicy() != nil,
	}
	switch {
	case s.GetPushConfig().GetPushEndpoint() != "":
		f.Delivers = Pushed
	case s.GetBigqueryConfig().GetTable() != "":
		f.Delivers = ToBigQuery
	case s.GetCloudStorageConfig().GetBucket() != "":
		f.Delivers = ToCloudStorage
	case s.GetBigtableConfig().GetTable() != "":
		f.Delivers = ToBigtable
	}
	return f
}

// transforms reports whether one of the transforms is enabled.
func transforms(all []*pubsubpb.MessageTransform) bool {
	return slices.ContainsFunc(all, func(t *pubsubpb.MessageTransform) bool { return !t.GetDisabled() })
}

// Close closes the connections.
func (s *PubSubscription) Close() error { return s.client.Close() }

func explain(op, name string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && status.Code(err) == codes.Unknown {
		return err
	}
	e := &Error{Op: op, Name: name, Reason: reasonOf(status.Code(err)), Code: status.Code(err).String()}
	if answer, ok := status.FromError(err); ok {
		e.Text = answer.Message()
	}
	var paused pubsub.ErrPublishingPaused
	switch {
	case errors.As(err, &paused):
		e.Code = "Paused" // after a failed message of its key
	case errors.Is(err, pubsub.ErrOversizedMessage):
		e.Code, e.Reason = "Oversized", Refused
	}
	return e
}

// reasonOf returns the reason for a gRPC code. Source:
// https://cloud.google.com/pubsub/docs/reference/error-codes
func reasonOf(code codes.Code) Reason {
	switch code {
	case codes.NotFound:
		return NotFound
	case codes.PermissionDenied, codes.Unauthenticated:
		return Denied
	case codes.ResourceExhausted:
		return Throttled
	case codes.InvalidArgument:
		return Refused
	}
	return Unavailable
}
