package relay_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dynamodb-bigtable/replicator/relay"
)

// answers returns one error from a method, and counts its calls.
type answers struct {
	err   error
	asked atomic.Int32
}

func (a *answers) React(any) (bool, any, error) {
	a.asked.Add(1)
	return true, nil, a.err
}

// A failure is returned immediately, with the service's message: the client does not retry until
// its deadline has passed.
func TestTheServicesWordsAreKept(t *testing.T) {
	const quota = "Quota exceeded for quota metric 'Regional publisher throughput, kB'"
	for _, c := range []struct {
		code   codes.Code
		text   string
		reason relay.Reason
	}{
		{codes.ResourceExhausted, quota, relay.Throttled},
		{codes.FailedPrecondition, "The topic has no schema any more", relay.Unavailable},
		{codes.Unavailable, "The service is currently unavailable", relay.Unavailable},
		{codes.Internal, "An internal error occurred", relay.Unavailable},
		{codes.PermissionDenied, "Cloud Pub/Sub API has not been used in project 1 before or it is disabled.", relay.Denied},
		{codes.InvalidArgument, "Message failed schema validation", relay.Refused},
		{codes.NotFound, "Resource not found", relay.NotFound},
	} {
		a := &answers{err: status.Error(c.code, c.text)}
		_, topic := open(t, pstest.ServerReactorOption{FuncName: "Publish", Reactor: a}, pstest.ServerReactorOption{FuncName: "GetTopic", Reactor: a})
		p, err := relay.NewPage(origin, relay.Number{}, page(t, "a"), 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, ask := range map[string]func() error{
			"Publish":  func() error { _, err := p.Publish(t.Context(), topic); return err },
			"GetTopic": func() error { _, err := topic.Look(t.Context()); return err },
		} {
			a.asked.Store(0)
			if err := ask(); reason(err) != c.reason || !strings.Contains(err.Error(), c.code.String()+": "+c.text) || a.asked.Load() != 1 {
				t.Errorf("%s: %v of reason %q after %d calls", name, err, reason(err), a.asked.Load())
			}
		}
	}
}

func TestSubscriptionFacts(t *testing.T) {
	const name, topic = "projects/p/subscriptions/s", "projects/p/topics/t"
	transform := &pubsubpb.MessageTransform{Transform: &pubsubpb.MessageTransform_JavascriptUdf{JavascriptUdf: &pubsubpb.JavaScriptUDF{FunctionName: "f"}}}
	off := &pubsubpb.MessageTransform{Transform: transform.Transform, Disabled: true}
	plain := relay.SubscriptionFacts{Topic: topic, Retention: 7 * 24 * time.Hour}
	for about, c := range map[string]struct {
		have *pubsubpb.Subscription
		want func(f *relay.SubscriptionFacts)
	}{
		"plain":         {&pubsubpb.Subscription{}, func(*relay.SubscriptionFacts) {}},
		"ordered":       {&pubsubpb.Subscription{EnableMessageOrdering: true}, func(f *relay.SubscriptionFacts) { f.Ordered = true }},
		"exactly once":  {&pubsubpb.Subscription{EnableExactlyOnceDelivery: true}, func(f *relay.SubscriptionFacts) { f.ExactlyOnce = true }},
		"filter":        {&pubsubpb.Subscription{Filter: `attributes.table = "x"`}, func(f *relay.SubscriptionFacts) { f.Filtered = true }},
		"detached":      {&pubsubpb.Subscription{Detached: true}, func(f *relay.SubscriptionFacts) { f.Detached = true }},
		"transform":     {&pubsubpb.Subscription{MessageTransforms: []*pubsubpb.MessageTransform{off, transform}}, func(f *relay.SubscriptionFacts) { f.Transformed = true }},
		"transform off": {&pubsubpb.Subscription{MessageTransforms: []*pubsubpb.MessageTransform{off}}, func(*relay.SubscriptionFacts) {}},
		"push":          {&pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{PushEndpoint: "https://x.example"}}, func(f *relay.SubscriptionFacts) { f.Delivers = relay.Pushed }},
		"no push":       {&pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{}}, func(*relay.SubscriptionFacts) {}},
		"BigQuery":      {&pubsubpb.Subscription{BigqueryConfig: &pubsubpb.BigQueryConfig{Table: "p.d.t"}}, func(f *relay.SubscriptionFacts) { f.Delivers = relay.ToBigQuery }},
		"Cloud Storage": {&pubsubpb.Subscription{CloudStorageConfig: &pubsubpb.CloudStorageConfig{Bucket: "b"}}, func(f *relay.SubscriptionFacts) { f.Delivers = relay.ToCloudStorage }},
		"Bigtable":      {&pubsubpb.Subscription{BigtableConfig: &pubsubpb.BigtableConfig{Table: "t"}}, func(f *relay.SubscriptionFacts) { f.Delivers = relay.ToBigtable }},
		"dead letter": {&pubsubpb.Subscription{DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: "projects/p/topics/dead", MaxDeliveryAttempts: 7},
			RetryPolicy: &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)}}, func(f *relay.SubscriptionFacts) {
			f.DeadLetter, f.Attempts, f.BacksOff = "projects/p/topics/dead", 7, true
		}},
	} {
		t.Run(about, func(t *testing.T) {
			c.have.Name, c.have.Topic, c.have.MessageRetentionDuration = name, topic, durationpb.New(7*24*time.Hour)
			answer := subscriptionServer{answer: c.have}
			s := answer.open(t)
			want := plain
			c.want(&want)
			if got, err := s.Look(t.Context()); err != nil || got != want {
				t.Errorf("%+v, want %+v, %v", got, want, err)
			}
		})
	}
}

// subscriptionServer answers GetSubscription, because pstest rejects some settings that the service
// accepts.
type subscriptionServer struct {
	answer *pubsubpb.Subscription
}

func (s subscriptionServer) React(any) (bool, any, error) { return true, s.answer, nil }

func (s subscriptionServer) open(t *testing.T) *relay.PubSubscription {
	t.Helper()
	server := pstest.NewServer(pstest.ServerReactorOption{FuncName: "GetSubscription", Reactor: s})
	t.Cleanup(func() { _ = server.Close() })
	conn, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	subscription, err := relay.OpenSubscription(context.WithoutCancel(t.Context()), "p", s.answer.Name, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = subscription.Close() })
	return subscription
}
