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

// A connection that died silently must not block a shard forever, so every request has its own
// timeout. Tests with real processes break connections on purpose.
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

// hanging does not answer until the caller's context ends, like a client that waits for
// credentials.
type hanging struct{ API }

var errCredentials = errors.New("waiting for credentials")

func (hanging) GetRecords(ctx context.Context, _ *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", errCredentials, ctx.Err())
}

// A call that hangs before its request is sent fails like any other, and is retried and reported.
// The end of the caller's context is returned as such.
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

// rounds is a service that answers only when all participants have asked, so that each round needs
// as many connections.
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

// The shards of a worker call one host all the time, so connections are kept for the next round.
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
