package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// sharedFor is the maximum age of a reading that answers a status request. So all concurrent pages
// and scripts together cause at most one reading of the ledger per second.
const sharedFor = time.Second

// sharedStatus shares one reading of the ledger among requests. It answers all requests that arrive
// during the reading, or within a second after the reading began.
type sharedStatus struct {
	read func(ctx context.Context) (any, error)

	mu   sync.Mutex
	last *statusReading // nil before the first
}

// statusReading is one reading of the ledger for status requests. Code and body are valid once done
// is closed.
type statusReading struct {
	began time.Duration // on the monotonic clock
	done  chan struct{}
	code  int
	body  []byte
}

// current returns the reading that answers a request. The reading may still be running.
func (s *sharedStatus) current(ctx context.Context) *statusReading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		select {
		case <-s.last.done:
			if task.Mono(ctx)-s.last.began < sharedFor {
				return s.last
			}
		default:
			return s.last
		}
	}
	s.last = &statusReading{began: task.Mono(ctx), done: make(chan struct{})}
	// Not the caller's own context: this caller may disconnect while other callers wait.
	go s.last.take(context.WithoutCancel(ctx), s.read)
	return s.last
}

// take reads the ledger and stores the answer.
func (r *statusReading) take(ctx context.Context, read func(context.Context) (any, error)) {
	defer close(r.done)
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	document, err := read(ctx)
	r.code = http.StatusOK
	if err == nil {
		r.body, err = json.MarshalIndent(document, "", "  ")
	}
	if err != nil {
		r.code = http.StatusServiceUnavailable
		if r.body, err = json.MarshalIndent(map[string]string{"error": err.Error()}, "", "  "); err != nil {
			r.body = []byte("{}") // cannot happen: a map of strings can always be encoded
		}
	}
	r.body = append(r.body, '\n')
}

func (s *sharedStatus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reading := s.current(r.Context())
	select {
	case <-reading.done:
	case <-r.Context().Done():
		return // no caller waits for the answer
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reading.code)
	_, _ = w.Write(reading.body)
}
