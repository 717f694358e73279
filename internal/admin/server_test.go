package admin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func options(now *time.Time) Options {
	clock := func() time.Time { return *now }
	return Options{
		Clock: clock, Health: NewHealth(clock, "Orders"), Metrics: NewMetrics("orders", Build{Version: "1"}),
		Status: func(context.Context) (any, error) {
			return map[string]any{"schema": "replicator.status/v1", "lag": nil}, nil
		},
	}
}

func get(h http.Handler, method, path string) (int, string, http.Header) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String(), w.Header()
}

func TestEndpoints(t *testing.T) {
	now := start
	o := options(&now)
	h := Handler(o)
	expect := func(method, path string, code int, texts ...string) {
		t.Helper()
		got, body, header := get(h, method, path)
		if got != code {
			t.Errorf("%s %s: %d %s", method, path, got, body)
		}
		for _, text := range texts {
			if !strings.Contains(body, text) {
				t.Errorf("%s %s: no %q in %s", method, path, text, body)
			}
		}
		if header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s may be cached", method, path)
		}
	}
	expect("GET", "/healthz", 200, "loop: ok")
	expect("GET", "/readyz", 503, "target: not ok: not reached yet\n", "source Orders: not ok: not reached yet\n")
	o.Health.TargetReached()
	o.Health.SourceReached("Orders")
	expect("GET", "/readyz", 503, "ledger: not ok: not read yet\n")
	o.Health.Looked("Orders", false)
	expect("GET", "/readyz", 200, "polls Orders: ok: no shards here\n")
	now = now.Add(time.Hour)
	expect("GET", "/healthz", 503, "loop: not ok: last pass 1h0m0s ago\n")
	expect("GET", "/readyz", 503, "ledger: not ok: last read 1h0m0s ago\n")
	o.Health.Tick()
	expect("HEAD", "/healthz", 200)
	expect("GET", "/metrics", 200, "replicator_build_info")
	expect("GET", "/api/v1/status", 200, `"schema": "replicator.status/v1"`, `"lag": null`)
	expect("POST", "/api/v1/status", 405)
	expect("GET", "/debug/pprof/", 404)
	expect("GET", "/elsewhere", 404)
	expect("GET", "/tables/Orders", 404)

	o.Pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page of "+r.URL.Path) })
	h = Handler(o)
	for _, path := range []string{"/tables/Orders/parked", "/cutovers/Orders"} {
		expect("GET", path, 200, "page of "+path)
		expect("POST", path, 405)
	}

	o.Profile = true
	h = Handler(o)
	expect("GET", "/debug/pprof/", 200, "goroutine")
	expect("GET", "/debug/pprof/heap", 200)

	o.Status = func(context.Context) (any, error) { return nil, errors.New("the ledger cannot be read") }
	h = Handler(o)
	expect("GET", "/api/v1/status", 503, `{`, `"error": "the ledger cannot be read"`)
	o.Status = func(context.Context) (any, error) { return make(chan int), nil }
	h = Handler(o)
	expect("GET", "/api/v1/status", 503, `"error": "json:`)
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	now := start
	o := options(&now)
	asked, answer := make(chan bool), make(chan bool)
	o.Status = func(context.Context) (any, error) {
		close(asked)
		<-answer
		return "slow", nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, Handler(o), slog.New(slog.DiscardHandler)) }()

	body := make(chan string, 1)
	go func() {
		r, err := http.Get("http://" + l.Addr().String() + "/api/v1/status")
		if err != nil {
			body <- err.Error()
			return
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			body <- err.Error()
			return
		}
		body <- string(text)
	}()
	<-asked
	cancel()
	close(answer) // a request in progress is still answered
	if got := <-body; got != "\"slow\"\n" {
		t.Errorf("got %s", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := Serve(context.Background(), l, Handler(o), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a closed listener was served")
	}
}
