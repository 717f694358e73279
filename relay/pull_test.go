package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// held answers no pull until the pull is cancelled.
type held struct{ until <-chan struct{} }

func (h held) React(any) (bool, any, error) {
	<-h.until
	return true, &pubsubpb.PullResponse{}, nil
}

// A pull that waits and gets no message has found nothing. A pull that fails, or cannot be sent,
// has not: otherwise an applier that cannot reach Pub/Sub would seem to have no work.
func TestAPullThatFindsNothing(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // it accepts no connection
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	done := make(chan struct{})
	for name, c := range map[string]struct {
		address string
		reason  Reason // "": nothing is found
	}{
		"waits":     {serve(t, held{done}), ""},
		"throttled": {serve(t, failing{codes.ResourceExhausted}), Throttled},
		"fails":     {serve(t, failing{codes.Unavailable}), Unavailable},
		"deaf":      {deaf.Addr().String(), Unavailable},
		"ends it":   {serve(t, failing{codes.DeadlineExceeded}), ""},
	} {
		s, err := OpenSubscription(context.WithoutCancel(t.Context()), "p", "projects/p/subscriptions/s", option.WithEndpoint(c.address), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
		if err != nil {
			t.Fatal(err)
		}
		s.wait = 200 * time.Millisecond
		got, err := s.Pull(t.Context(), 1)
		var e *Error
		if len(got) != 0 || (err == nil) != (c.reason == "") || err != nil && (!errors.As(err, &e) || e.Reason != c.reason) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		ended, end := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, end)
		s.wait = time.Minute
		if got, err := s.Pull(ended, 1); name == "waits" && (got != nil || err == nil) {
			t.Errorf("a pull whose caller ends it: %v, %v", got, err)
		}
		_ = s.Close()
	}
	close(done)
}

// recorded returns prepared answers, and records the requests.
type recorded struct {
	answer any
	err    error
	asked  []any
}

func (r *recorded) React(request any) (bool, any, error) {
	r.asked = append(r.asked, request)
	return true, r.answer, r.err
}

// A delivery has its id, data and attempt. Any number of ids can be acknowledged and extended, in
// requests of at most a thousand, and a deadline is in seconds.
func TestRequestsOfASubscription(t *testing.T) {
	pull := &recorded{answer: &pubsubpb.PullResponse{ReceivedMessages: []*pubsubpb.ReceivedMessage{{AckId: "id", DeliveryAttempt: 3, Message: &pubsubpb.PubsubMessage{Data: []byte("data")}}}}}
	ack, extend := &recorded{answer: &emptypb.Empty{}}, &recorded{answer: &emptypb.Empty{}}
	server := pstest.NewServer(pstest.ServerReactorOption{FuncName: "Pull", Reactor: pull}, pstest.ServerReactorOption{FuncName: "Acknowledge", Reactor: ack},
		pstest.ServerReactorOption{FuncName: "ModifyAckDeadline", Reactor: extend})
	defer server.Close()
	const name = "projects/p/subscriptions/s"
	s, err := OpenSubscription(t.Context(), "p", name, option.WithEndpoint(server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Pull(t.Context(), 7)
	if asked := pull.asked[0].(*pubsubpb.PullRequest); err != nil || len(got) != 1 || got[0].ID != "id" || string(got[0].Data) != "data" || got[0].Attempt != 3 ||
		asked.MaxMessages != 7 || asked.Subscription != name {
		t.Errorf("%+v by %v, %v", got, asked, err)
	}
	ids := make([]string, 2*idsAtOnce+1)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	if err := errors.Join(s.Ack(t.Context(), ids), s.Extend(t.Context(), ids, 90*time.Second), s.Extend(t.Context(), ids[:1], 0)); err != nil {
		t.Fatal(err)
	}
	var acked, extended []string
	for _, r := range ack.asked {
		a := r.(*pubsubpb.AcknowledgeRequest)
		if acked = append(acked, a.AckIds...); len(a.AckIds) > 1000 || a.Subscription != name {
			t.Errorf("%d ids of %s at once", len(a.AckIds), a.Subscription)
		}
	}
	for i, r := range extend.asked {
		e := r.(*pubsubpb.ModifyAckDeadlineRequest)
		if last := i == len(extend.asked)-1; e.AckDeadlineSeconds != map[bool]int32{false: 90}[last] || e.Subscription != name || len(e.AckIds) > 1000 || last && !slices.Equal(e.AckIds, ids[:1]) {
			t.Errorf("%d ids for %d seconds", len(e.AckIds), e.AckDeadlineSeconds)
		} else if !last {
			extended = append(extended, e.AckIds...)
		}
	}
	if !slices.Equal(acked, ids) || !slices.Equal(extended, ids) || len(ack.asked) != 3 {
		t.Errorf("%d acknowledged by %d requests, %d extended", len(acked), len(ack.asked), len(extended))
	}
}

// The reason of a failure decides whether it is retried. The end of the caller's own context is not
// a failure of Pub/Sub.
func TestReasonsOfFailures(t *testing.T) {
	over := context.DeadlineExceeded
	for _, c := range []struct {
		err    error
		reason Reason // "": it is returned unchanged
		code   string
	}{
		{nil, "", ""}, {context.Canceled, "", ""}, {fmt.Errorf("wrapped: %w", over), "", ""},
		{status.Error(codes.DeadlineExceeded, "late"), Unavailable, "DeadlineExceeded"},
		{status.Error(codes.Unauthenticated, "who"), Denied, "Unauthenticated"},
		{status.Error(codes.Aborted, "again"), Unavailable, "Aborted"},
		{fmt.Errorf("wrapped: %w", pubsub.ErrPublishingPaused{OrderingKey: "k"}), Unavailable, "Paused"},
		{fmt.Errorf("wrapped: %w", pubsub.ErrOversizedMessage), Refused, "Oversized"},
	} {
		var e *Error
		switch err := explain("Op", "name", c.err); {
		case c.reason == "" && err != c.err:
			t.Errorf("%v becomes %v", c.err, err)
		case c.reason != "" && (!errors.As(err, &e) || e.Reason != c.reason || e.Code != c.code || e.Op != "Op" || e.Name != "name"):
			t.Errorf("%v becomes %v", c.err, err)
		}
	}
}

// A message may be delivered until the longer of the two retentions ends.
func TestFactsOfTopicAndSubscription(t *testing.T) {
	short, long := durationpb.New(time.Hour), durationpb.New(31*24*time.Hour)
	for _, s := range []*pubsubpb.Subscription{{MessageRetentionDuration: short, TopicMessageRetentionDuration: long}, {MessageRetentionDuration: long, TopicMessageRetentionDuration: short}} {
		if got := factsOf(s).Retention; got != long.AsDuration() {
			t.Errorf("retention of %s", got)
		}
	}
	server := pstest.NewServer(pstest.ServerReactorOption{FuncName: "GetTopic", Reactor: &recorded{answer: &pubsubpb.Topic{MessageRetentionDuration: short, MessageTransforms: []*pubsubpb.MessageTransform{{}}}}})
	defer server.Close()
	topic, err := OpenTopic(t.Context(), "p", "projects/p/topics/t", option.WithEndpoint(server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	if got, err := topic.Look(t.Context()); err != nil || got != (TopicFacts{Retention: time.Hour, Transformed: true}) {
		t.Errorf("%+v, %v", got, err)
	}
}

type failing struct{ code codes.Code }

func (f failing) React(any) (bool, any, error) { return true, nil, status.Error(f.code, "why") }

func serve(t *testing.T, pull pstest.Reactor) string {
	t.Helper()
	server := pstest.NewServer(pstest.ServerReactorOption{FuncName: "Pull", Reactor: pull})
	t.Cleanup(func() { _ = server.Close() })
	return server.Addr
}

// Each request is sent once, whatever fails, because the caller retries and reports. A retry by the
// client would hide for minutes that nothing is acknowledged.
func TestEachRequestIsSentOnce(t *testing.T) {
	const name = "projects/p/subscriptions/s"
	methods := []string{"Pull", "Acknowledge", "ModifyAckDeadline", "GetSubscription"}
	asked := map[string]*recorded{}
	var reactors []pstest.ServerReactorOption
	for _, m := range methods {
		asked[m] = &recorded{err: status.Error(codes.Unavailable, "away")}
		reactors = append(reactors, pstest.ServerReactorOption{FuncName: m, Reactor: asked[m]})
	}
	server := pstest.NewServer(reactors...)
	defer server.Close()
	s, err := OpenSubscription(t.Context(), "p", name, option.WithEndpoint(server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, pulled := s.Pull(ctx, 1)
	_, looked := s.Look(ctx)
	for method, err := range map[string]error{"Pull": pulled, "Acknowledge": s.Ack(ctx, []string{"a"}), "ModifyAckDeadline": s.Extend(ctx, []string{"a"}, time.Second), "GetSubscription": looked} {
		var e *Error
		if !errors.As(err, &e) || e.Reason != Unavailable || e.Op != method || e.Name != name || len(asked[method].asked) != 1 {
			t.Errorf("%s is sent %d times: %v", method, len(asked[method].asked), err)
		}
	}
	if r := asked["GetSubscription"].asked[0].(*pubsubpb.GetSubscriptionRequest); r.Subscription != name {
		t.Errorf("it looks at %s", r.Subscription)
	}
}

// The client accepts a bounded number of messages and bytes, and further ones wait. A publish
// without an answer ends. A message has its attributes, by which subscriptions filter.
func TestBoundsOfATopic(t *testing.T) {
	publish := &recorded{answer: &pubsubpb.PublishResponse{MessageIds: []string{"1"}}}
	server := pstest.NewServer(pstest.ServerReactorOption{FuncName: "Publish", Reactor: publish})
	defer server.Close()
	topic, err := OpenTopic(t.Context(), "p", "projects/p/topics/t", option.WithEndpoint(server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	s := topic.publisher.PublishSettings
	if f := s.FlowControlSettings; f.MaxOutstandingMessages != 10_000 || f.MaxOutstandingBytes != 64<<20 || f.LimitExceededBehavior != pubsub.FlowControlBlock {
		t.Errorf("%+v", f)
	}
	if s.Timeout != 30*time.Second || s.DelayThreshold != 5*time.Millisecond || s.CountThreshold != 1000 || s.ByteThreshold != 1<<20 {
		t.Errorf("%+v", s)
	}
	outcomes, blocked := topic.Publish(t.Context(), []Message{{Data: []byte("data"), Attributes: map[string]string{"table": "T"}, Key: "k"}})
	if len(outcomes) != 1 || outcomes[0] != nil || blocked != 0 || len(publish.asked) != 1 {
		t.Fatalf("%v, %d blocked", outcomes, blocked)
	}
	r := publish.asked[0].(*pubsubpb.PublishRequest)
	if m := r.Messages[0]; r.Topic != "projects/p/topics/t" || string(m.Data) != "data" || m.OrderingKey != "k" || m.Attributes["table"] != "T" {
		t.Errorf("%+v", r)
	}
	if err := topic.Close(); err != nil {
		t.Error(err)
	}
	if outcomes, _ := topic.Publish(t.Context(), []Message{{Data: []byte("late"), Key: "k"}}); outcomes[0] == nil || len(publish.asked) != 1 {
		t.Errorf("after the close %v, asked %d times", outcomes, len(publish.asked))
	}
}

// The size of a message grows with each of its parts, because it bounds what is sent together.
func TestSizeOfAMessage(t *testing.T) {
	bare := (&Message{}).Size()
	for name, m := range map[string]*Message{"data": {Data: make([]byte, 100)}, "key": {Key: strconv.Itoa(1e9)[:10]}, "name": {Attributes: map[string]string{"name": ""}}, "value": {Attributes: map[string]string{"": "value"}}} {
		n := len(m.Data) + len(m.Key)
		for k, v := range m.Attributes {
			n += len(k) + len(v)
		}
		if got := m.Size() - bare; bare <= 0 || got < n || got > n+20 {
			t.Errorf("%s: %d bytes beside %d, of %d", name, got, bare, n)
		}
	}
}
