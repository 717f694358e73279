package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/dynamodb-bigtable/replicator/relay"
)

// picky rejects a whole request if it contains one of certain ids.
type picky struct {
	refuses map[string]bool
	code    codes.Code
	taken   []string
	asked   int
}

func (p *picky) React(request any) (bool, any, error) {
	p.asked++
	r := request.(interface{ GetAckIds() []string })
	if slices.ContainsFunc(r.GetAckIds(), func(id string) bool { return p.refuses[id] }) {
		return true, nil, status.Error(p.code, "Some acknowledgement ids in the request were invalid.")
	}
	p.taken = append(p.taken, r.GetAckIds()...)
	return true, &emptypb.Empty{}, nil
}

// An id that the service no longer accepts does not fail the others, and is not retried forever,
// because its message comes again. A failure for another reason is an error, and so is a rejection
// of all ids.
func TestAnExpiredIDFailsNoOther(t *testing.T) {
	var ids []string
	for i := range 2500 {
		ids = append(ids, fmt.Sprint("id", i))
	}
	for name, c := range map[string]struct {
		refuses []string
		ids     []string
		code    codes.Code
		taken   int
		failed  relay.Reason
	}{
		"none":             {nil, ids, codes.InvalidArgument, 2500, ""},
		"two":              {[]string{"id7", "id2499"}, ids, codes.InvalidArgument, 2498, ""},
		"exactly once":     {[]string{"id7"}, ids, codes.FailedPrecondition, 2499, ""},
		"the only one":     {[]string{"id7"}, ids[7:8], codes.InvalidArgument, 0, ""},
		"all":              {ids[:4], ids[:4], codes.InvalidArgument, 0, relay.Refused},
		"for other causes": {[]string{"id7"}, ids[:10], codes.Unavailable, 0, relay.Unavailable},
	} {
		for op, call := range map[string]func(s *relay.PubSubscription) error{
			"Acknowledge":       func(s *relay.PubSubscription) error { return s.Ack(t.Context(), c.ids) },
			"ModifyAckDeadline": func(s *relay.PubSubscription) error { return s.Extend(t.Context(), c.ids, time.Minute) },
		} {
			p := &picky{refuses: map[string]bool{}, code: c.code}
			for _, id := range c.refuses {
				p.refuses[id] = true
			}
			server := pstest.NewServer(pstest.ServerReactorOption{FuncName: op, Reactor: p})
			t.Cleanup(func() { _ = server.Close() })
			s, err := relay.OpenSubscription(t.Context(), "p", "projects/p/subscriptions/s", option.WithEndpoint(server.Addr), option.WithoutAuthentication(),
				option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if err := call(s); reason(err) != c.failed || len(p.taken) != c.taken || p.asked > 50 {
				t.Errorf("%s, %s: %d of %d are taken by %d requests, %v", op, name, len(p.taken), len(c.ids), p.asked, err)
			}
		}
	}
}

// gate holds requests until it is opened, and fails the first one.
type gate struct {
	came, open chan struct{}

	mu   sync.Mutex
	sent []string // the data of messages, in the order in which their requests ended
}

func (g *gate) React(request any) (bool, any, error) {
	g.came <- struct{}{}
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	r := request.(*pubsubpb.PublishRequest)
	if len(g.sent) == 0 {
		g.sent = append(g.sent, "failed")
		return true, nil, status.Error(codes.Unavailable, "try again")
	}
	answer := &pubsubpb.PublishResponse{}
	for _, m := range r.Messages {
		g.sent = append(g.sent, string(m.Data))
		answer.MessageIds = append(answer.MessageIds, "m")
	}
	return true, answer, nil
}

// I11: a call that ends before the outcome of a message is known does not resume the key. No
// message of the key is sent until the outcome is known; then publishing continues in order.
func TestI11_AKeyIsResumedOnceItsOutcomesAreKnown(t *testing.T) {
	g := &gate{came: make(chan struct{}, 10), open: make(chan struct{})}
	_, topic := open(t, pstest.ServerReactorOption{FuncName: "Publish", Reactor: g})
	one, two := []relay.Message{{Data: []byte("1"), Key: "k"}}, []relay.Message{{Data: []byte("2"), Key: "k"}}

	hasty, cancel := context.WithCancel(t.Context())
	go func() { <-g.came; cancel() }()
	if outcomes, blocked := topic.Publish(hasty, one); !errors.Is(outcomes[0], context.Canceled) || blocked != 1 {
		t.Fatalf("%v, %d blocked", outcomes, blocked)
	}
	if outcomes, _ := topic.Publish(hasty, two); !errors.Is(outcomes[0], context.Canceled) || len(g.came) > 0 {
		t.Fatalf("another message of the key: %v, %d requests", outcomes, len(g.came))
	}
	close(g.open)
	for _, m := range [][]relay.Message{one, two} {
		if outcomes, _ := topic.Publish(t.Context(), m); outcomes[0] != nil {
			t.Fatalf("afterwards: %v", outcomes)
		}
	}
	if !slices.Equal(g.sent, []string{"failed", "1", "2"}) {
		t.Errorf("sent %q", g.sent)
	}
}
