package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

type receiverKey struct{}

// receiver is a receiver of notifications.
type receiver struct {
	mu    sync.Mutex
	calls []string // method, path, signature and body of each call, one line each
	// called is closed at the next call, and replaced. It is nil while nobody waits for one.
	called chan struct{}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, call *http.Request) {
	body, _ := io.ReadAll(call.Body)
	r.mu.Lock()
	r.calls = append(r.calls, strings.Join([]string{call.Method, call.URL.Path, call.Header.Get("Replicator-Signature"), string(body)}, " "))
	if r.called != nil {
		close(r.called)
		r.called = nil
	}
	r.mu.Unlock()
	if strings.HasPrefix(call.URL.Path, "/refuses") {
		w.WriteHeader(http.StatusForbidden)
	}
}

// matching returns how many calls match, and a channel that is closed at the next call.
func (r *receiver) matching(pattern *regexp.Regexp) (n int, next <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.called == nil {
		r.called = make(chan struct{})
	}
	for _, call := range r.calls {
		if pattern.MatchString(call) {
			n++
		}
	}
	return n, r.called
}

// withReceiver starts a receiver of notifications, and sets RECEIVER to its address.
func withReceiver(ts *testscript.TestScript, _ bool, _ []string) {
	r := ts.Value(receiverKey{}).(*receiver)
	server := httptest.NewServer(r)
	ts.Defer(server.Close)
	ts.Setenv("RECEIVER", server.URL)
}

// received PATTERN N waits for a call of the receiver that matches, and checks that N of them do.
func received(ts *testscript.TestScript, _ bool, args []string) {
	r, pattern := ts.Value(receiverKey{}).(*receiver), regexp.MustCompile(args[0])
	limit := time.After(time.Minute)
	for n, next := r.matching(pattern); args[1] != "0" && n == 0; n, next = r.matching(pattern) {
		select {
		case <-next:
		case <-limit:
			ts.Fatalf("no call matches %s:\n%s", args[0], strings.Join(r.calls, "\n"))
		}
	}
	if n, _ := r.matching(pattern); fmt.Sprint(n) != args[1] {
		ts.Fatalf("%d calls match %s, want %s:\n%s", n, args[0], args[1], strings.Join(r.calls, "\n"))
	}
}
