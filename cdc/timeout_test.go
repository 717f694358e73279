package cdc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// A connection that died silently must not hold a shard for ever: every request has an end of its own (rounds of real processes
// forget connections on purpose).
func TestRequestsAreBounded(t *testing.T) {
	o := dynamodbstreams.Options{HTTPClient: awshttp.NewBuildableClient()}
	ClientOptions(&o)
	wrapped, ok := o.HTTPClient.(wholeRequests)
	if !ok {
		t.Fatalf("the client is a %T", o.HTTPClient)
	}
	bounded, ok := wrapped.HTTPClient.(*awshttp.BuildableClient)
	if !ok || bounded.GetTimeout() != requestTimeout {
		t.Fatalf("a request is not bounded: %T", wrapped.HTTPClient)
	}
}

// hanging answers nothing until the caller goes away, as the client does that waits for credentials which do not come.
type hanging struct{ API }

var errCredentials = errors.New("waiting for credentials")

func (hanging) GetRecords(ctx context.Context, _ *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", errCredentials, ctx.Err())
}

// What hangs before the request is sent is a failure like any other, which is repeated and told; what the caller ended is the caller's affair.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSource(hanging{}, "arn")
		began := time.Now()
		_, err := s.Read(t.Context(), "i")
		if took := time.Since(began); took != callTime || callTime <= requestTimeout {
			t.Errorf("ended after %s", took)
		}
		if !Is(err, Unavailable) || !errors.Is(err, errCredentials) || !strings.Contains(err.Error(), "no answer within 30s") {
			t.Errorf("got %v", err)
		}
		ended, cancel := context.WithCancelCause(t.Context())
		asked := errors.New("asked to stop")
		cancel(asked)
		if _, err := s.Read(ended, "i"); !Is(err, Unavailable) || !errors.Is(err, asked) {
			t.Errorf("got %v", err)
		}
	})
}

// rounds is a service that answers when as many have asked as take part, so that each round takes as many connections at once.
type rounds struct {
	many int

	mu      sync.Mutex
	waiting []chan struct{}
}

func (s *rounds) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	turn := make(chan struct{})
	s.mu.Lock()
	if s.waiting = append(s.waiting, turn); len(s.waiting) == s.many {
		for _, w := range s.waiting {
			close(w)
		}
		s.waiting = nil
	}
	s.mu.Unlock()
	<-turn
	rw.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_, _ = fmt.Fprint(rw, `{"Records":[],"NextShardIterator":"i"}`)
}

// The shards of a worker ask one host all the time: connections are kept for the next round.
func TestConnectionsAreKept(t *testing.T) {
	const shards = 100
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(&rounds{many: shards})
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	s := NewSource(dynamodbstreams.New(newClient(server.URL).Options(), ClientOptions), "arn")
	for range 3 {
		var all sync.WaitGroup
		for range shards {
			all.Go(func() {
				if _, err := s.Read(t.Context(), "i"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if n := opened.Load(); n > shards+shards/10 {
		t.Errorf("three rounds of %d calls opened %d connections", shards, n)
	}
}
