package dashboard

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/page"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// pagePolicy is the Content-Security-Policy of the pages below the first one. They have no script.
var pagePolicy = page.LivePolicy(style, "")

// leaf is a page below the first one: a table, its parked items, its findings, a shard, a cutover, or
// the list of pipelines. Such a page does not update itself.
type leaf struct {
	Root    string // the relative address of the first page
	Title   string
	Version string // of the program
	Icon    template.URL
	Style   template.CSS
	Body    template.HTML
}

// errNoSuch is the answer for a name that the migration does not have.
var errNoSuch = errors.New("this migration has nothing of that name")

// Pages serves the pages below the first one, from the last document. What the document lacks is
// read from the ledger when such a page is opened.
func (b *Board) Pages(ledger *Ledger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /tables/{table}", b.leaf("../", "table", func(ctx context.Context, m *status.Document, r *http.Request) (string, any, error) {
		v, err := tablePageOf(ctx, m, ledger, r.PathValue("table"))
		return r.PathValue("table"), v, err
	}))
	mux.Handle("GET /tables/{table}/parked", b.leaf("../../", "parked", func(ctx context.Context, m *status.Document, r *http.Request) (string, any, error) {
		v, err := parkedPageOf(ctx, m, ledger, r.PathValue("table"))
		return "Parked items of " + r.PathValue("table"), v, err
	}))
	mux.Handle("GET /tables/{table}/verify", b.leaf("../../", "verify", func(ctx context.Context, m *status.Document, r *http.Request) (string, any, error) {
		v, err := verifyPageOf(ctx, m, ledger, r.PathValue("table"))
		return "Verify of " + r.PathValue("table"), v, err
	}))
	mux.Handle("GET /tables/{table}/shards/{shard}", b.leaf("../../../", "shard", func(_ context.Context, m *status.Document, r *http.Request) (string, any, error) {
		v, err := shardPageOf(m, r.PathValue("table"), r.PathValue("shard"))
		return "Shard " + r.PathValue("shard"), v, err
	}))
	mux.Handle("GET /cutovers/{group}", b.leaf("../", "cutover", func(_ context.Context, m *status.Document, r *http.Request) (string, any, error) {
		v, err := cutoverPageOf(m, r.PathValue("group"))
		return "Cutover of " + r.PathValue("group"), v, err
	}))
	mux.Handle("GET /pipelines", b.leaf("./", "pipelines", func(ctx context.Context, m *status.Document, _ *http.Request) (string, any, error) {
		v, err := pipelinesPageOf(ctx, m, ledger)
		return "Pipelines", v, err
	}))
	return mux
}

// leaf serves one kind of page. The argument `root` is the relative address of the first page, and
// `of` returns the page's heading and the data for its template.
func (b *Board) leaf(root, name string, of func(ctx context.Context, m *status.Document, r *http.Request) (string, any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		m := b.latest
		b.mu.Unlock()
		if m == nil {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "the ledger has not been read yet", http.StatusServiceUnavailable)
			return
		}
		title, data, err := of(r.Context(), m, r)
		switch {
		case errors.Is(err, errNoSuch):
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		var body strings.Builder
		if err := templates.ExecuteTemplate(&body, name, data); err != nil {
			panic("dashboard: " + err.Error()) // the data of a page always fits its template
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		// An error means that the client has disconnected.
		_ = templates.ExecuteTemplate(w, "leaf", leaf{root, title, b.version, icon, style, template.HTML(body.String())})
	})
}

// tableOf returns a table of a document.
func tableOf(m *status.Document, name string) (*status.Table, error) {
	i := slices.IndexFunc(m.Tables, func(t status.Table) bool { return t.Source == name })
	if i < 0 {
		return nil, errNoSuch
	}
	return &m.Tables[i], nil
}
