package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// follower is a client of a feed inside a bubble, without a network.
type follower struct {
	mu     sync.Mutex
	header http.Header
	code   int
	text   strings.Builder
	stuck  chan bool // if not nil, writes wait for it
}

func (w *follower) Header() http.Header { return w.header }
func (w *follower) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code = code
}
func (w *follower) Flush() {}
func (w *follower) Write(b []byte) (int, error) {
	if w.stuck != nil {
		<-w.stuck
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *follower) got() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// follow connects a client; done is closed when its request is over.
func follow(ctx context.Context, f *Feed, w *follower, lastSeen string) (done chan bool) {
	if w.header == nil {
		w.header = http.Header{}
	}
	r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events", nil)
	if lastSeen != "" {
		r.Header.Set("Last-Event-ID", lastSeen)
	}
	done = make(chan bool)
	go func() {
		defer close(done)
		f.ServeHTTP(w, r)
	}()
	return done
}

// ids returns the ids of the events that a client received.
func ids(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "id: "); ok {
			out = append(out, id)
		}
	}
	return out
}

func TestEventsReachClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed(time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		f.Publish(Event{Kind: EventPhase, Phase: "copy"})
		early, late := &follower{}, &follower{}
		first := follow(ctx, f, early, "")
		synctest.Wait()
		items := int64(0)
		f.Publish(Event{Kind: EventParked, Table: "Orders", Items: &items})
		synctest.Wait()
		second := follow(ctx, f, late, ids(early.got())[0])
		synctest.Wait()
		if got := early.got(); !strings.HasPrefix(got, "retry: 2000\n\nid: ") || len(ids(got)) != 2 || early.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s", got)
		}
		const parked = "event: parked\ndata: {\"kind\":\"parked\",\"at\":\"2000-01-01T00:00:00Z\",\"table\":\"Orders\",\"items\":0}\n\n"
		if got := late.got(); len(ids(got)) != 1 || !strings.HasSuffix(got, parked) {
			t.Errorf("whoever comes back is not told the rest alone: %q", got)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := strings.Count(late.got(), ": heartbeat\n\n"); n != 2 {
			t.Errorf("%d heartbeats in 31 s", n)
		}
		cancel()
		<-first
		<-second
		if len(f.clients) != 0 {
			t.Error("clients that went away are kept")
		}
	})
}

func TestLateClientsAreToldThatEventsAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed(time.Now)
		for range keptEvents + 10 {
			f.Publish(Event{Kind: EventShardDone})
		}
		for _, c := range []struct {
			seen   string
			reset  bool
			events int
		}{
			{"", false, keptEvents},
			{fmt.Sprintf("%s-%d", f.boot, 9), true, keptEvents}, // number 10 was dropped
			{fmt.Sprintf("%s-%d", f.boot, 10), false, keptEvents},
			{fmt.Sprintf("%s-%d", f.boot, keptEvents+10), false, 0},
			{fmt.Sprintf("%s-%d", f.boot, keptEvents+11), true, keptEvents}, // never issued
			{"another-5", true, keptEvents},
			{f.boot, true, keptEvents},
			{"-", true, keptEvents},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			w := &follower{}
			done := follow(ctx, f, w, c.seen)
			synctest.Wait()
			cancel()
			<-done
			if reset := strings.Contains(w.got(), "event: reset\ndata: {"); reset != c.reset || len(ids(w.got())) != c.events {
				t.Errorf("%q: reset %t, %d events", c.seen, reset, len(ids(w.got())))
			}
		}
	})
}

func TestSlowClientsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed(time.Now)
		slow, quick := &follower{stuck: make(chan bool)}, &follower{}
		left := follow(t.Context(), f, slow, "")
		ctx, cancel := context.WithCancel(t.Context())
		stays := follow(ctx, f, quick, "")
		synctest.Wait()
		for range pendingEvents + 1 {
			f.Publish(Event{Kind: EventShardDone})
			synctest.Wait()
		}
		if len(f.clients) != 1 {
			t.Errorf("%d clients are left", len(f.clients))
		}
		close(slow.stuck) // it resumes and receives the pending events, and the reason for its end
		<-left
		if got := slow.got(); len(ids(got)) != pendingEvents || !strings.HasSuffix(got, ": too slow: reconnect with the id of the last event\n\n") {
			t.Errorf("%d events, %q", len(ids(got)), got[max(0, len(got)-100):])
		}
		if n := len(ids(quick.got())); n != pendingEvents+1 {
			t.Errorf("the quick one got %d events", n)
		}
		cancel()
		<-stays
	})
}

func TestClientsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed(time.Now)
		var all []chan bool
		for range maxClients {
			all = append(all, follow(t.Context(), f, &follower{}, ""))
		}
		synctest.Wait()
		more := &follower{}
		<-follow(t.Context(), f, more, "")
		if more.code != http.StatusServiceUnavailable || more.header.Get("Retry-After") == "" {
			t.Errorf("status %d", more.code)
		}
		f.Close()
		for _, done := range all {
			<-done
		}
		f.Publish(Event{Kind: EventPhase})
		<-follow(t.Context(), f, more, "")
		if f.last != 0 || more.code != http.StatusServiceUnavailable {
			t.Error("a closed feed goes on")
		}
	})
}

// TestEventsOverTheServer: through the real server, whose time limits must not end the stream. The
// stream must end with the feed.
func TestEventsOverTheServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	now := start
	o := options(&now)
	o.Events = NewFeed(time.Now)
	o.Events.Publish(Event{Kind: EventPhase, Phase: "copy"})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, Handler(o), slog.New(slog.DiscardHandler)) }()
	response, err := http.Get("http://" + l.Addr().String() + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	next := func() Event {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e Event
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatal(err)
				}
				return e
			}
		}
		t.Fatal("the stream ended")
		return Event{}
	}
	if e := next(); e.Kind != EventPhase || e.Phase != "copy" {
		t.Errorf("%+v", e)
	}
	o.Events.Publish(Event{Kind: EventLeaseTaken, Table: "Orders", Shard: "s", Epoch: 3})
	if e := next(); e.Kind != EventLeaseTaken || e.Epoch != 3 {
		t.Errorf("%+v", e)
	}
	o.Events.Close()
	cancel()
	for lines.Scan() {
		if text := lines.Text(); text != "" && text != ": the process ends" {
			t.Errorf("%q", text)
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestEventsAreDocumented: every kind and every member is documented.
func TestEventsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range EventKinds {
		if !strings.Contains(string(text), "| `"+kind+"` |") {
			t.Errorf("docs/http.md does not name %s", kind)
		}
	}
	one := int64(1)
	document, err := json.Marshal(Event{Kind: "k", Table: "t", Shard: "s", Worker: "w", Phase: "p", Reason: "r", Epoch: 1, Generation: 1, Items: &one, Estimate: &one, Seconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(document, &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/http.md does not name the member %s", name)
		}
	}
}

// Missed events stay unchanged while they are sent to a client, although the feed drops its oldest
// events meanwhile.
func TestWhatWasMissedStays(t *testing.T) {
	f := NewFeed(time.Now)
	for range keptEvents {
		f.Publish(Event{Kind: EventCoordinator})
	}
	_, missed, _, err := f.join("")
	if err != nil {
		t.Fatal(err)
	}
	f.Publish(Event{Kind: EventCoordinator})
	for i, m := range missed {
		if m.id != uint64(i+1) {
			t.Fatalf("the event at %d is number %d", i, m.id)
		}
	}
}
