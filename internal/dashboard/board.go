// Package dashboard renders the web page of a running worker. It renders the page once for all
// readers. The page shows no item data.
package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/page"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

var (
	//go:embed dashboard.css
	ownStyle string
	//go:embed dashboard.js
	script string
	//go:embed dashboard.html
	text string
	//go:embed pages.html
	leaves string

	templates = template.Must(template.New("").Parse(text + leaves))
	style     = page.Style() + template.CSS(ownStyle)
	policy    = page.LivePolicy(style, template.JS(script))
)

// icon is the page's own icon, so that browsers do not request one. It shows a source and its copy.
const icon template.URL = "data:image/svg+xml,%3Csvg xmlns='http:%2F%2Fwww.w3.org/2000/svg' viewBox='0 0 16 16'%3E" +
	"%3Crect x='1' y='3' width='6' height='10' rx='1' fill='%23777'/%3E%3Crect x='9' y='3' width='6' height='10' rx='1' fill='%23116b3a'/%3E%3C/svg%3E"

const (
	// tick is the interval at which each page receives an event. A page that has received no event
	// for five seconds shows that it is stale.
	tick = time.Second
	// mostClients bounds the number of pages that are kept up to date.
	mostClients = 64
	// shownEvents is the number of latest events that are shown.
	shownEvents = 20
)

// Board is the current page. It is safe for concurrent use.
type Board struct {
	version string // of the program
	build   string // hash of the version, the style, the script and the template
	events  func(most int) []admin.Event

	mu      sync.Mutex
	title   string // the page's title
	latest  *status.Document
	view    *view  // what body must show; nil if it shows that already
	body    []byte // the part that changes
	event   []byte // the event that sends body to the pages
	number  uint64 // the number of the current body; 0 before the first
	trail   trail
	clients int
	closed  bool
}

// New returns a page without data. It shows the version of the program. The argument `events` returns
// the latest events, newest first.
func New(version string, events func(most int) []admin.Event) *Board {
	build := fmt.Sprintf("%x", sha256.Sum256([]byte(version+string(style)+script+text)))[:16]
	return &Board{version: version, build: build, events: events, view: &view{}, title: (&view{}).Title()}
}

// Show updates the page. The argument `fresh` must be true if the ledger was just read. Otherwise
// the document is a new judgement of the last reading, of the time readAt.
func (b *Board) Show(m *status.Document, fresh bool, readAt time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fresh {
		b.trail.add(m)
	}
	v := viewOf(m, readAt, fresh, b.trail, b.events(shownEvents))
	b.view, b.title, b.latest = &v, v.Title(), m
	b.number++
}

// render renders what was shown last. Most pages are never looked at, so Show does not render.
func (b *Board) render() {
	if b.view == nil {
		return
	}
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, "body", b.view); err != nil {
		panic("dashboard: " + err.Error()) // the data of a view always fits its template, and a buffer returns no error
	}
	b.body, b.view = body.Bytes(), nil
	b.event = fmt.Appendf(nil, "id: %d\nevent: page\ndata: %s\n\n", b.number, bytes.ReplaceAll(b.body, []byte("\n"), []byte("\ndata: ")))
}

// Close ends the streams of all pages. A server must call it before a shutdown. The shutdown waits
// for all requests, and streams never end by themselves.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Page serves the current page. In a browser without scripts, the page reloads every five seconds.
func (b *Board) Page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		b.render()
		body, title := b.body, b.title
		b.mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		_ = templates.ExecuteTemplate(w, "page", struct { // an error means that the client has disconnected
			Build, Title, Version string
			Icon                  template.URL
			Style                 template.CSS
			Script                template.JS
			Body                  template.HTML
		}{b.build, title, b.version, icon, style, template.JS(script), template.HTML(body)})
	})
}

// errTooMany and errClosed are the reasons for which a stream is refused.
var (
	errTooMany = errors.New("too many pages are open")
	errClosed  = errors.New("the process is stopping")
)

func (b *Board) join() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errClosed
	case b.clients >= mostClients:
		return errTooMany
	}
	b.clients++
	return nil
}

func (b *Board) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients--
}

// Live serves the changes of the page as server-sent events. The first event is `build`, which
// identifies style and script. After each change, it sends an event `page` with the changed part.
// In a second without a change, it sends an event `tick`.
func (b *Board) Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := b.join(); err != nil {
			w.Header().Set("Retry-After", "5")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer b.leave()
		s, err := admin.OpenStream(w, r)
		if err != nil {
			return
		}
		b.follow(r.Context(), s.Send)
	})
}

// next returns the next event for a page. The argument `has` is the number of the body that the
// page shows now. The result `number` is the number of the body that the page shows after the
// event.
func (b *Board) next(has uint64) (event []byte, number uint64, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.number == has {
		return tickEvent, has, b.closed
	}
	b.render()
	return b.event, b.number, b.closed
}

var tickEvent = []byte("event: tick\ndata:\n\n")

func (b *Board) follow(ctx context.Context, send func(text []byte) error) {
	if send([]byte("retry: 2000\nevent: build\ndata: "+b.build+"\n\n")) != nil {
		return
	}
	for has := uint64(0); ; {
		event, number, closed := b.next(has)
		if closed || send(event) != nil {
			return
		}
		has = number
		if task.Sleep(ctx, tick) != nil {
			return
		}
	}
}
