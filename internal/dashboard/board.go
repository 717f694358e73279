// Package dashboard renders the web page of a running worker. It is rendered here, once for all who
// look at it, and shows no item data.
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

	templates = template.Must(template.New("").Parse(text))
	style     = page.Style() + template.CSS(ownStyle)
	policy    = page.LivePolicy(style, template.JS(script))
	build     = fmt.Sprintf("%x", sha256.Sum256([]byte(string(style)+script+text)))[:16]
)

// icon is the page's own, so that browsers ask for none: a source and, beside it, what it is copied to.
const icon template.URL = "data:image/svg+xml,%3Csvg xmlns='http:%2F%2Fwww.w3.org/2000/svg' viewBox='0 0 16 16'%3E" +
	"%3Crect x='1' y='3' width='6' height='10' rx='1' fill='%23777'/%3E%3Crect x='9' y='3' width='6' height='10' rx='1' fill='%23116b3a'/%3E%3C/svg%3E"

const (
	// Tick is how often each page hears of us; one that has not for five seconds is stale.
	tick = time.Second
	// mostClients bounds the pages that follow at once.
	mostClients = 64
	// shownEvents are the last ones of the list.
	shownEvents = 20
)

// Board is the page as it is now. Its methods may be called by many tasks at once.
type Board struct {
	events func(most int) []admin.Event

	mu      sync.Mutex
	name    string // of the migration
	body    []byte // the part that changes
	event   []byte // that brings it to the pages
	number  uint64 // of body; 0 before the first
	trail   trail
	clients int
	closed  bool
}

// New returns a page that says that nothing is known yet. Events gives the last ones, the newest first.
func New(events func(most int) []admin.Event) *Board {
	b := &Board{events: events}
	b.render(view{})
	b.number = 0
	return b
}

// Show brings the page up to date. Fresh tells that the ledger was read just now; else the document judges the last reading.
func (b *Board) Show(m *status.Document, fresh bool, readAt time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fresh {
		b.trail.add(m)
	}
	b.name = m.Name
	b.render(viewOf(m, readAt, fresh, b.trail, b.events(shownEvents)))
}

func (b *Board) render(v view) {
	var body bytes.Buffer
	if err := templates.ExecuteTemplate(&body, "body", v); err != nil {
		panic("dashboard: " + err.Error()) // a view is plain data, and a buffer takes everything
	}
	b.body = body.Bytes()
	b.number++
	b.event = fmt.Appendf(nil, "id: %d\nevent: page\ndata: %s\n\n", b.number, bytes.ReplaceAll(b.body, []byte("\n"), []byte("\ndata: ")))
}

// Close ends all pages' streams. A server that shuts down waits for its requests, and these have no end of their own.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Page serves the page as it is now. Without scripts it asks again every five seconds.
func (b *Board) Page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		body, title := b.body, "replicator"
		if b.name != "" {
			title = b.name + " · replicator"
		}
		b.mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		_ = templates.ExecuteTemplate(w, "page", struct { // the caller went away: nobody is left to tell
			Build, Title string
			Icon         template.URL
			Style        template.CSS
			Script       template.JS
			Body         template.HTML
		}{build, title, icon, style, template.JS(script), template.HTML(body)})
	})
}

// errTooMany and errClosed are why no stream begins.
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

// Live serves the changes of the page as server-sent events: build, which names style and script, then page with the part that
// has changed, and else tick, every second.
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

// next is the event for a page that has so many of the bodies, and how many it has then.
func (b *Board) next(has uint64) (event []byte, number uint64, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.number == has {
		return tickEvent, has, b.closed
	}
	return b.event, b.number, b.closed
}

var tickEvent = []byte("event: tick\ndata:\n\n")

func (b *Board) follow(ctx context.Context, send func(text []byte) error) {
	if send([]byte("retry: 2000\nevent: build\ndata: "+build+"\n\n")) != nil {
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
