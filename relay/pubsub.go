package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
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

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Only this file uses the client of Pub/Sub.

// These constants bound the messages that the client has accepted but not confirmed, and the
// client's batches.
const (
	outstandingMessages = 10_000
	outstandingBytes    = 64 << 20
	batchDelay          = 5 * time.Millisecond
	batchMessages       = 1000
	batchBytes          = 1 << 20
	publishTimeout      = 30 * time.Second
	// requests bounds the concurrent requests. The client's default depends on the number of
	// processors, but a request mostly waits for the service. A page may have a request for each
	// bucket.
	requests = 256
)

// connect opens a client that tries each request once, because the caller retries. The client's own
// retries would end with an error about the deadline, without the service's message.
func connect(ctx context.Context, project string, o ...option.ClientOption) (*pubsub.Client, error) {
	try := []gax.CallOption{gax.WithRetry(func() gax.Retryer { return once{} })}
	return pubsub.NewClientWithConfig(ctx, project, &pubsub.ClientConfig{
		TopicAdminCallOptions: &pubsubapi.TopicAdminCallOptions{Publish: try, GetTopic: try},
		SubscriptionAdminCallOptions: &pubsubapi.SubscriptionAdminCallOptions{
			GetSubscription: try, Pull: try, Acknowledge: try, ModifyAckDeadline: try,
		},
	}, append([]option.ClientOption{option.WithUserAgent(build.UserAgent())}, o...)...)
}

// once is a gax.Retryer that never retries a call.
type once struct{}

func (once) Retry(error) (time.Duration, bool) { return 0, false }

// PubSub is a topic of Cloud Pub/Sub.
type PubSub struct {
	client    *pubsub.Client
	publisher *pubsub.Publisher
	name      string

	mu   sync.Mutex
	open map[string][]*pubsub.PublishResult // by key: messages whose outcomes no call has seen
}

// OpenTopic connects to a topic, projects/P/topics/T. It sends nothing before the first call.
func OpenTopic(ctx context.Context, project, topic string, o ...option.ClientOption) (*PubSub, error) {
	client, err := connect(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	p := client.Publisher(topic)
	p.EnableMessageOrdering = true // some consumers need ordered messages
	p.PublishSettings.DelayThreshold = batchDelay
	p.PublishSettings.CountThreshold = batchMessages
	p.PublishSettings.ByteThreshold = batchBytes
	p.PublishSettings.Timeout = publishTimeout
	p.PublishSettings.NumGoroutines = requests
	p.PublishSettings.FlowControlSettings = pubsub.FlowControlSettings{
		MaxOutstandingMessages: outstandingMessages, MaxOutstandingBytes: outstandingBytes, LimitExceededBehavior: pubsub.FlowControlBlock,
	}
	return &PubSub{client: client, publisher: p, name: topic, open: map[string][]*pubsub.PublishResult{}}, nil
}

// Publish implements Topic. The client puts messages of one key into one request, sends requests of
// different keys concurrently, and blocks a key after a failure until it is resumed. Later messages
// of a blocked key fail, so no message is sent out of order. Publish resumes a key once the
// outcomes of all its messages are known. If ctx ends before that, the next call waits for these
// outcomes first.
func (t *PubSub) Publish(ctx context.Context, messages []Message) (outcomes []error, blocked int) {
	outcomes = make([]error, len(messages))
	results := make([]*pubsub.PublishResult, len(messages))
	for i, m := range messages {
		if !t.clear(ctx, m.Key) {
			outcomes[i] = context.Cause(ctx)
			continue
		}
		results[i] = t.publisher.Publish(ctx, &pubsub.Message{Data: m.Data, Attributes: m.Attributes, OrderingKey: m.Key})
	}
	failed, open := map[string]bool{}, map[string][]*pubsub.PublishResult{}
	for i, r := range results {
		if r == nil {
			continue
		}
		key := messages[i].Key
		if _, err := r.Get(ctx); err != nil {
			outcomes[i] = explain("Publish", t.name, err)
			failed[key] = true
			if ctx.Err() != nil { // the outcome may not be known
				open[key] = append(open[key], r)
			}
		}
	}
	for key := range failed {
		if len(open[key]) == 0 {
			t.publisher.ResumePublish(key)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, results := range open {
		t.open[key] = append(t.open[key], results...)
	}
	return outcomes, len(failed)
}

// clear waits until the outcomes of all earlier messages of a key are known, and then resumes the
// key. It reports whether all outcomes are known.
func (t *PubSub) clear(ctx context.Context, key string) bool {
	t.mu.Lock()
	open := slices.Clone(t.open[key])
	t.mu.Unlock()
	if len(open) == 0 {
		return true
	}
	for _, r := range open {
		if _, _ = r.Get(ctx); ctx.Err() != nil {
			return false // the wait ended, perhaps before the outcome of r
		}
	}
	t.publisher.ResumePublish(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	left := slices.DeleteFunc(t.open[key], func(r *pubsub.PublishResult) bool { return slices.Contains(open, r) })
	if t.open[key] = left; len(left) == 0 {
		delete(t.open, key)
	}
	return true
}

// TopicFacts are facts about a topic from the service.
type TopicFacts struct {
	// Retention is how long the topic keeps messages, acknowledged or not. 0 means that it keeps
	// none.
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

// pullTime bounds a pull that finds no message. The service answers as soon as it has a message.
const pullTime = 5 * time.Second

// PubSubscription is a subscription of Cloud Pub/Sub.
type PubSubscription struct {
	client *pubsub.Client
	name   string
	wait   time.Duration // pullTime
}

// OpenSubscription connects to a subscription, projects/P/subscriptions/S. It sends nothing before
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
	var answer pullCodec
	_, err := s.client.SubscriptionAdminClient.Pull(limited, &pubsubpb.PullRequest{Subscription: s.name, MaxMessages: int32(most)},
		gax.WithGRPCOptions(grpc.Peer(&sentTo), grpc.ForceCodecV2(&answer)))
	if err != nil {
		// A pull that was never sent does not show whether the subscription has messages. The
		// server may end the pull at the deadline a moment before this process does.
		over := limited.Err() != nil || status.Code(err) == codes.DeadlineExceeded
		if ctx.Err() == nil && over && sentTo.Addr != nil {
			return nil, nil
		}
		return nil, explain("Pull", s.name, err)
	}
	return answer.got, nil
}

// Ack implements Subscription.
func (s *PubSubscription) Ack(ctx context.Context, ids []string) error {
	return s.inChunks(ids, "Acknowledge", func(chunk []string) error {
		return s.client.SubscriptionAdminClient.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: s.name, AckIds: chunk})
	})
}

// Extend implements Subscription.
func (s *PubSubscription) Extend(ctx context.Context, ids []string, by time.Duration) error {
	return s.inChunks(ids, "ModifyAckDeadline", func(chunk []string) error {
		return s.client.SubscriptionAdminClient.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: s.name, AckIds: chunk, AckDeadlineSeconds: int32(by / time.Second)})
	})
}

// inChunks makes requests for ids. The service may refuse a whole request because of one id, for
// example because that id has expired. If an id is refused alone, inChunks skips it, because its
// message will be delivered again. If all of several ids are refused, inChunks returns an error.
func (s *PubSubscription) inChunks(ids []string, op string, request func(chunk []string) error) error {
	for chunk := range slices.Chunk(ids, idsAtOnce) {
		taken, err := halved(chunk, request)
		if err != nil && (taken == 0 && len(chunk) > 1 || !refused(err)) {
			return explain(op, s.name, err)
		}
	}
	return nil
}

// halved makes a request for ids. If the request is refused, it makes one for each half of the ids.
// It returns how many ids were taken, and the last refusal or the error that ended it.
func halved(ids []string, request func(ids []string) error) (taken int, err error) {
	err = request(ids)
	switch {
	case err == nil:
		return len(ids), nil
	case !refused(err) || len(ids) == 1:
		return 0, err
	}
	for _, part := range [][]string{ids[:len(ids)/2], ids[len(ids)/2:]} {
		n, failed := halved(part, request)
		taken += n
		if failed != nil && !refused(failed) {
			return taken, failed
		}
	}
	return taken, err
}

// refused reports whether the service rejected the content of a request.
func refused(err error) bool {
	code := status.Code(err)
	return code == codes.InvalidArgument || code == codes.FailedPrecondition
}

// idsAtOnce bounds the ids in one request. An id has about 200 bytes, so a request stays below 512
// KiB.
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
		e.Code = "Paused" // an earlier message of the same key failed
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
