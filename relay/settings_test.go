package relay

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func local(address string) []option.ClientOption {
	return []option.ClientOption{option.WithEndpoint(address), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))}
}

// A delivery is all that the service says of it. An idle pull ends within seconds, so that a
// process can stop.
func TestDeliveriesAreWhole(t *testing.T) {
	attributes := map[string]string{ReasonAttribute: "why"}
	pull := &recorded{answer: &pubsubpb.PullResponse{ReceivedMessages: []*pubsubpb.ReceivedMessage{
		{AckId: "a", DeliveryAttempt: 3, Message: &pubsubpb.PubsubMessage{Data: []byte("1"), Attributes: attributes}},
		{AckId: "b", Message: &pubsubpb.PubsubMessage{Data: []byte("2")}},
	}}}
	server := pstest.NewServer(pstest.ServerReactorOption{FuncName: "Pull", Reactor: pull})
	defer server.Close()
	s, err := OpenSubscription(t.Context(), "p", "projects/p/subscriptions/s", local(server.Addr)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.wait != 5*time.Second {
		t.Errorf("a pull waits for %s", s.wait)
	}
	got, err := s.Pull(t.Context(), 2)
	want := []Delivery{{ID: "a", Data: []byte("1"), Attributes: attributes, Attempt: 3}, {ID: "b", Data: []byte("2")}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// withheld answers publishes only once it is opened: the first with a failure, the others with ids.
type withheld struct {
	came, open chan struct{}
	asked      int // by one request at a time
}

func (w *withheld) React(request any) (bool, any, error) {
	w.came <- struct{}{}
	<-w.open
	if w.asked++; w.asked == 1 {
		return true, nil, status.Error(codes.Unavailable, "try again")
	}
	answer := &pubsubpb.PublishResponse{}
	for range request.(*pubsubpb.PublishRequest).Messages {
		answer.MessageIds = append(answer.MessageIds, "m")
	}
	return true, answer, nil
}

// A publish that ends early keeps every outcome that it has not seen, and says why it ended. A
// later publish of the key waits for all of them, and a key without such an outcome does not wait.
func TestUnseenOutcomesOfAKeyAreKept(t *testing.T) {
	w := &withheld{came: make(chan struct{}, 10), open: make(chan struct{})}
	server := pstest.NewServer(pstest.ServerReactorOption{FuncName: "Publish", Reactor: w})
	defer server.Close()
	topic, err := OpenTopic(t.Context(), "p", "projects/p/topics/t", local(server.Addr)...)
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	if n := topic.publisher.PublishSettings.NumGoroutines; n != 256 || !topic.publisher.EnableMessageOrdering {
		t.Errorf("%d concurrent requests, ordered %t", n, topic.publisher.EnableMessageOrdering)
	}
	ended := errors.New("the lease is over")
	hasty, end := context.WithCancelCause(t.Context())
	go func() { <-w.came; end(ended) }()
	messages := []Message{{Data: []byte("1"), Key: "k"}, {Data: []byte("2"), Key: "k"}, {Data: []byte("3"), Key: "k"}}
	if outcomes, blocked := topic.Publish(hasty, messages); len(outcomes) != 3 || outcomes[0] == nil || outcomes[1] == nil || outcomes[2] == nil || blocked != 1 {
		t.Fatalf("%v, %d blocked", outcomes, blocked)
	}
	if n := len(topic.open["k"]); n != 3 || len(topic.open) != 1 {
		t.Errorf("%d outcomes of the key are kept", n)
	}
	if outcomes, blocked := topic.Publish(hasty, messages[:1]); !errors.Is(outcomes[0], ended) || blocked != 0 || len(topic.open["k"]) != 3 {
		t.Errorf("after the end: %v, %d blocked, %d kept", outcomes, blocked, len(topic.open["k"]))
	}
	close(w.open)
	if outcomes, blocked := topic.Publish(t.Context(), append(messages, Message{Data: []byte("4"), Key: "other"})); errors.Join(outcomes...) != nil || blocked != 0 || len(topic.open) != 0 {
		t.Errorf("afterwards: %v, %d blocked, %d keys kept", outcomes, blocked, len(topic.open))
	}
}

// Each code of the service has its reason, which decides what happens next. A code that is not
// known may pass.
func TestEachCodeHasItsReason(t *testing.T) {
	known := map[codes.Code]Reason{
		codes.NotFound: NotFound, codes.PermissionDenied: Denied, codes.Unauthenticated: Denied, codes.ResourceExhausted: Throttled, codes.InvalidArgument: Refused,
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		want, ok := known[code]
		if !ok {
			want = Unavailable
		}
		if got := reasonOf(code); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
		if got := refused(status.Error(code, "why")); got != (code == codes.InvalidArgument || code == codes.FailedPrecondition) {
			t.Errorf("%s: the content counts as rejected: %t", code, got)
		}
	}
}

// What is left of a request beside the data holds the longest names: a table, its attributes and an
// ordering key.
func TestARequestHasRoomBesideTheData(t *testing.T) {
	name := string(make([]byte, 1024)) // the service's limit of a key and of an attribute
	m := Message{Data: make([]byte, MaxData), Key: name, Attributes: map[string]string{}}
	for _, attribute := range []string{"content-type", "table", "event", "version", "schema", ReasonAttribute} {
		m.Attributes[attribute] = name
	}
	if size := m.Size(); size > MaxMessage {
		t.Errorf("a request of %d bytes", size)
	}
}
