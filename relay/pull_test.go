package relay

import (
	"context"
	"errors"
	"net"
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

// held answers no pull before it is given up.
type held struct{ until <-chan struct{} }

func (h held) React(any) (bool, any, error) {
	<-h.until
	return true, &pubsubpb.PullResponse{}, nil
}

// A pull that waits for messages and gets none has found nothing. One that fails, or that
// cannot be sent, has not: an applier that cannot reach Pub/Sub would look like one without work.
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
		_ = s.Close()
	}
	close(done)
}

type failing struct{ code codes.Code }

func (f failing) React(any) (bool, any, error) { return true, nil, status.Error(f.code, "why") }

func serve(t *testing.T, pull pstest.Reactor) string {
	t.Helper()
	server := pstest.NewServer(pstest.ServerReactorOption{FuncName: "Pull", Reactor: pull})
	t.Cleanup(func() { _ = server.Close() })
	return server.Addr
}
