package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asked returns the answer to one request for the status.
func asked(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/status", nil).WithContext(ctx))
	return w
}

// However many clients ask, the ledger is read once a second, by one reader at a time. No answer is
// older than a second plus the time of its reading.
func TestManyAskForOneStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings, running := 0, 0
		s := &sharedStatus{read: func(context.Context) (any, error) {
			if readings++; running > 0 {
				t.Error("two readings at once")
			}
			running++
			time.Sleep(300 * time.Millisecond)
			running--
			return map[string]int{"reading": readings}, nil
		}}
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				if w := asked(t.Context(), s); w.Code != 200 || !strings.Contains(w.Body.String(), "reading") {
					t.Errorf("%d: %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
		if readings != 2 {
			t.Errorf("200 requests within 2 s cost %d readings", readings)
		}
		time.Sleep(sharedFor)
		if w := asked(t.Context(), s); !strings.Contains(w.Body.String(), "3") {
			t.Errorf("an old answer: %s", w.Body)
		}
	})
}

// A client that disconnects does not end the reading for others, and is not waited for. A failure
// is shared like an answer, and the ledger is read again after a second. A reading that hangs ends.
func TestAStatusOutlivesWhoAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("the ledger cannot be read")
		readings := 0
		s := &sharedStatus{read: func(ctx context.Context) (any, error) {
			if readings++; readings == 3 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			time.Sleep(500 * time.Millisecond)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, failed
		}}
		first, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { defer close(gone); asked(first, s) }()
		time.Sleep(100 * time.Millisecond)
		leave()
		<-gone
		if w := asked(t.Context(), s); w.Code != 503 || !strings.Contains(w.Body.String(), failed.Error()) || readings != 1 {
			t.Errorf("%d after %d readings: %s", w.Code, readings, w.Body)
		}
		time.Sleep(sharedFor)
		if w := asked(t.Context(), s); w.Code != 503 || readings != 2 {
			t.Errorf("%d after %d readings: %s", w.Code, readings, w.Body)
		}
		time.Sleep(sharedFor)
		began := time.Now()
		if w := asked(t.Context(), s); w.Code != 503 || time.Since(began) != writeWithin {
			t.Errorf("%d after %s: %s", w.Code, time.Since(began), w.Body)
		}
	})
}
