package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The kinds of events. docs/http.md lists the members of each.
const (
	// Events of any worker. Every process reads them from the ledger, and reports the same events
	// within seconds.
	EventPhase         = "phase"
	EventShardStarted  = "shard_started"
	EventShardDone     = "shard_done"
	EventGap           = "gap"
	EventGeneration    = "generation"
	EventNeedsLoad     = "needs_load"
	EventTableJoined   = "table_joined"
	EventTableSetAside = "table_set_aside"
	EventCopyStarted   = "copy_started"
	EventCopyProgress  = "copy_progress"
	EventCopyDone      = "copy_done"
	EventParked        = "parked"
	EventMismatch      = "verify_mismatch"
	EventWorkerCame    = "worker_came"
	EventWorkerSilent  = "worker_silent"
	EventWorkerLeft    = "worker_left"
	// Events of this process, reported immediately.
	EventLeaseTaken  = "lease_taken"
	EventLeaseLeft   = "lease_left"
	EventCoordinator = "keeper"
	EventThrottled   = "throttled"
	// sent to one client: some events that it asked for are no longer available
	eventReset = "reset"
)

// EventKinds lists all kinds.
var EventKinds = []string{EventPhase, EventShardStarted, EventShardDone, EventGap, EventGeneration, EventNeedsLoad, EventTableJoined, EventTableSetAside, EventCopyStarted, EventCopyProgress,
	EventCopyDone, EventParked, EventMismatch, EventWorkerCame, EventWorkerSilent, EventWorkerLeft, EventLeaseTaken, EventLeaseLeft, EventCoordinator, EventThrottled, eventReset}

// Event is something that happened. None of its members can contain item data: shards, workers and
// tables are names, and reasons are fixed words. Members that do not apply are left out.
type Event struct {
	Kind       string    `json:"kind"`
	At         time.Time `json:"at"` // when the event was noticed; set by Publish
	Table      string    `json:"table,omitempty"`
	Shard      string    `json:"shard,omitempty"`
	Worker     string    `json:"worker,omitempty"`
	Phase      string    `json:"phase,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Epoch      uint64    `json:"epoch,omitempty"`
	Generation uint32    `json:"generation,omitempty"`
	Items      *int64    `json:"items,omitempty"`
	Estimate   *int64    `json:"estimate,omitempty"`
	Seconds    float64   `json:"seconds,omitempty"`
}

// Bounds of a feed. A client with more than pendingEvents unsent events is dropped. A client that
// was dropped may reconnect with the id of the last event that it received, and then gets the later
// events. Browsers do so automatically.
const (
	keptEvents     = 512
	pendingEvents  = 64
	maxClients     = 32
	heartbeatEvery = 15 * time.Second
	eventWithin    = 10 * time.Second // a client that takes longer to receive one write is dropped
)

// Feed sends events to any number of clients as server-sent events. It keeps the latest events for
// clients that connect late or reconnect. It is safe for concurrent use, and never waits for a
// client.
type Feed struct {
	clock func() time.Time
	boot  string // distinguishes the ids of this process from those of others

	mu      sync.Mutex
	last    uint64  // id of the last event
	kept    []frame // ordered by id, without gaps
	clients map[*client]bool
	closed  bool
}

// frame is an event in the form in which it is sent.
type frame struct {
	id    uint64
	text  string
	event Event
}

type client struct {
	frames chan frame // closed when the client is dropped, or the feed ends
	why    string     // set before frames is closed
}

// NewFeed returns a feed without events.
func NewFeed(clock func() time.Time) *Feed {
	var boot [6]byte
	_, _ = rand.Read(boot[:]) // according to its documentation, it never fails
	return &Feed{clock: clock, boot: fmt.Sprintf("%x", boot), clients: map[*client]bool{}}
}

// Publish sends an event to every client. It drops clients that have too many unsent events.
func (f *Feed) Publish(e Event) {
	e.At = f.clock().UTC()
	data, err := json.Marshal(e)
	if err != nil {
		panic("admin: " + err.Error()) // an event is plain data
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.last++
	next := frame{f.last, fmt.Sprintf("id: %s-%d\nevent: %s\ndata: %s\n\n", f.boot, f.last, e.Kind, data), e}
	if len(f.kept) == keptEvents {
		f.kept = slices.Delete(f.kept, 0, 1)
	}
	f.kept = append(f.kept, next)
	for c := range f.clients {
		select {
		case c.frames <- next:
		default:
			f.drop(c, "too slow: reconnect with the id of the last event")
		}
	}
}

// Recent returns the latest events, at most the given number, newest first.
func (f *Feed) Recent(most int) (events []Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.kept) - 1; i >= 0 && len(events) < most; i-- {
		events = append(events, f.kept[i].event)
	}
	return events
}

// drop disconnects a client. The caller holds the mutex.
func (f *Feed) drop(c *client, why string) {
	delete(f.clients, c)
	c.why = why
	close(c.frames)
}

// Close disconnects every client, and accepts no further events. A server must call it before a
// shutdown: the shutdown waits for all requests, and event streams never end by themselves.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.clients {
		f.drop(c, "the process ends")
	}
}

// Errors of join.
var (
	errTooManyClients = errors.New("too many clients read the events")
	errFeedClosed     = errors.New("the process ends")
)

// join adds a client, and returns the events that the client has missed. These are the events after
// the last event that the client received. For a new client, they are all events that the feed
// keeps. If the feed no longer keeps some of the missed events, the result `gone` is true.
func (f *Feed) join(lastSeen string) (c *client, missed []frame, gone bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, nil, false, errFeedClosed
	case len(f.clients) >= maxClients:
		return nil, nil, false, errTooManyClients
	}
	c = &client{frames: make(chan frame, pendingEvents)}
	f.clients[c] = true
	missed = slices.Clone(f.kept)
	if lastSeen == "" {
		return c, missed, false, nil
	}
	boot, number, _ := strings.Cut(lastSeen, "-")
	seen, err := strconv.ParseUint(number, 10, 64)
	first := f.last + 1 - uint64(len(f.kept)) // the oldest kept event, or the next one if none is kept
	if boot != f.boot || err != nil || seen > f.last || seen+1 < first {
		return c, missed, true, nil
	}
	return c, missed[seen+1-first:], false, nil
}

func (f *Feed) leave(c *client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clients, c)
}

// ServeHTTP sends events until the client disconnects or is dropped, or the feed ends. Source of
// the format: https://html.spec.whatwg.org/multipage/server-sent-events.html
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, missed, gone, err := f.join(r.Header.Get("Last-Event-ID"))
	if err != nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer f.leave(c)
	s, err := OpenStream(w, r)
	if err != nil {
		return
	}
	begin := "retry: 2000\n\n"
	if gone {
		begin += fmt.Sprintf("event: %s\ndata: {\"kind\":%q,\"reason\":\"earlier events are no longer available\"}\n\n", eventReset, eventReset)
	}
	for _, m := range missed {
		begin += m.text
	}
	if s.Send([]byte(begin)) == nil {
		f.follow(r.Context(), s, c)
	}
}

func (f *Feed) follow(ctx context.Context, s *Stream, c *client) {
	heartbeat := time.NewTicker(heartbeatEvery)
	defer heartbeat.Stop()
	for {
		text := ""
		select {
		case <-ctx.Done():
			return
		case <-heartbeat.C:
			text = ": heartbeat\n\n"
		case next, more := <-c.frames:
			if !more {
				_ = s.Send([]byte(": " + c.why + "\n\n")) // the client may have disconnected
				return
			}
			text = next.text
		}
		if s.Send([]byte(text)) != nil {
			return
		}
	}
}

// Stream is a response of server-sent events that is sent in pieces.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	clock   func() time.Time
}

// OpenStream begins a response of server-sent events, to which the server's time limits do not
// apply.
func OpenStream(w http.ResponseWriter, r *http.Request) (*Stream, error) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies must not collect events
	s := &Stream{w, http.NewResponseController(w), task.Clock(r.Context())}
	// This request was already read. Without this call, the server's time limit for reading would
	// still end the connection later.
	if err := s.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return s, nil
}

// Send sends the text immediately. It fails if the client does not receive the text within a few
// seconds.
func (s *Stream) Send(text []byte) error {
	if err := s.control.SetWriteDeadline(s.clock().Add(eventWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}
