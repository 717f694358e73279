package dashboard

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

const document = `{"name": "acme", "phase": "copy", "at": "2026-11-02T10:42:07Z", "source": "eu-west-1", "target": "p/i", "leases": 3,
"workers": [{"id": "w-a", "leases": 3, "keeps": ["Orders"], "silent": true}],
"tables": [{"source": "Orders", "target": "orders", "phase": "copy", "state": "paused", "copy": {"state": "running", "items": 30, "estimate": 100, "eta_seconds": 4200},
  "lag_seconds": 0.8, "headroom_seconds": 85260, "changes_per_second": 1200, "parked": 2, "paused": {"since": "2026-11-02T10:00:00Z", "reason": "<script>alert(1)</script>"}},
 {"source": "Bills", "target": "bills", "phase": "in_sync", "state": "in_sync", "copy": {"state": "not_started"}}],
"shards": [{"source": "Orders", "stream": "l", "id": "s-1", "state": "done"}, {"source": "Orders", "stream": "l", "id": "s-2", "parent": "s-1", "state": "reading", "owner": "w-a"}],
"cutover": {"ready": false, "open_gates": ["copy", "verify"], "gates": [{"gate": "copy", "table": "Orders", "figure": "is not copied yet"},
 {"gate": "verify", "table": "Bills", "figure": "2 rows differ"}, {"gate": "lag", "table": "Orders", "ready": true, "figure": "held since the copy"}]},
"next_steps": [{"command": "replicator parked list --table Orders", "why": "2 items need a decision"}]}`

func read(t *testing.T, at time.Time) *status.Document {
	t.Helper()
	m := &status.Document{}
	if err := json.Unmarshal([]byte(document), m); err != nil {
		t.Fatal(err)
	}
	if !at.IsZero() {
		m.At = at
	}
	return m
}

func board() *Board {
	return New("v1.2.3", func(int) []admin.Event { return []admin.Event{{Kind: admin.EventCopyStarted, Table: "Orders"}} })
}

func served(b *Board) (string, http.Header) {
	w := httptest.NewRecorder()
	b.Page().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Body.String(), w.Header()
}

// The page shows the state of the migration, in words beside symbols, with figures for programs.
func TestThePageShowsTheMigration(t *testing.T) {
	b := board()
	if text, _ := served(b); !strings.Contains(text, "not been read yet") {
		t.Errorf("before the first reading: %s", text)
	}
	m := read(t, time.Time{})
	b.Show(m, true, m.At)
	b.Show(read(t, m.At.Add(5*time.Second)), true, m.At)
	text, _ := served(b)
	for _, want := range []string{
		`<span aria-hidden="true">✓</span> Plan`, `<span aria-hidden="true">◐</span> Copy and stream`, `<span aria-hidden="true">○</span> Done`,
		`id="lag" data-value="0.8">0.8s`, `<polyline points="119.3,`, `id="headroom" data-value="85260">23h41m`, `id="applied" data-value="1200">1.2k/s`,
		`id="copy" data-value="30">30 %, ETA 1h10m`, `5 of 7 gates ready`, `id="table-Orders-parked" data-value="2"`, `<progress max="100" value="30"`,
		`</span> paused`, `&lt;script&gt;alert(1)`, `id="table-Bills-lag" data-value=""><span>-</span>`, `<td>↳ <a id="shard-s-2" href="tables/Orders/shards/s-2">s-2</a></td>`, `</span> silent`, `copy started`,
		`</span> verify clean</span><span class="soft figure">Bills: 2 rows differ</span>`, `<dt>Lag <span>(Orders)</span></dt>`, `<path d="M210 23H226V23H242"/>`,
		`data-copy="replicator parked list --table Orders"`, `<meta http-equiv="refresh" content="5">`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	b.Show(read(t, m.At.Add(time.Minute)), false, m.At)
	if text, _ := served(b); !strings.Contains(text, "cannot be read</span> since 10:42:07 UTC") {
		t.Errorf("nothing says that the ledger cannot be read: %s", text)
	}
}

// Only the page's own style and script run, and nothing is loaded from elsewhere.
func TestThePolicyAdmitsWhatIsThere(t *testing.T) {
	b := board()
	m := read(t, time.Time{})
	b.Show(m, true, m.At)
	text, header := served(b)
	policy := header.Get("Content-Security-Policy")
	for element, directive := range map[string]string{"style": "style-src", "script": "script-src"} {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(text, -1)
		if len(found) != 1 {
			t.Fatalf("%d elements %s", len(found), element)
		}
		sum := sha256.Sum256([]byte(found[0][1]))
		if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("no %s in %s", want, policy)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %s", policy)
	}
	// Links to the documentation load nothing.
	text = strings.ReplaceAll(text, `href="`+diag.Document(""), `href="`)
	if refused := regexp.MustCompile(`https?://|\sstyle=|\son[a-z]+=`).FindAllString(text, -1); len(refused) > 0 {
		t.Errorf("the policy refuses %q", refused)
	}
}

// Each page receives an event every second: a change immediately, otherwise a sign of life. It does
// not prevent the server's end.
func TestPagesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := board()
		m := read(t, time.Now())
		b.Show(m, true, m.At)
		var heard []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.follow(t.Context(), func(text []byte) error {
				for line := range strings.Lines(string(text)) {
					if kind, ok := strings.CutPrefix(line, "event: "); ok {
						heard = append(heard, strings.TrimSpace(kind))
					}
				}
				return nil
			})
		}()
		time.Sleep(2500 * time.Millisecond)
		b.Show(m, true, m.At)
		time.Sleep(time.Second)
		b.Close()
		<-done
		if got, want := strings.Join(heard, " "), "build page tick tick page"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
		if b.join() == nil {
			t.Error("a page joins after the end")
		}
	})
}

// An open page costs little: 50 of them take as much as one, except for the writing.
func BenchmarkFiftyPages(b *testing.B) {
	board := board()
	m := &status.Document{}
	if err := json.Unmarshal([]byte(document), m); err != nil {
		b.Fatal(err)
	}
	for b.Loop() { // five seconds of 50 pages
		board.Show(m, true, m.At)
		for range 50 {
			_, _, _ = board.next(0)
		}
	}
}

// A worker that runs and holds no lease is shown as a standby.
func TestThePageShowsStandbys(t *testing.T) {
	m := &status.Document{}
	if err := json.Unmarshal([]byte(strings.Replace(document, `"workers": [`, `"workers": [{"id": "w-b", "keeps": []}, {"id": "w-c", "keeps": [], "idle": true}, `, 1)), m); err != nil {
		t.Fatal(err)
	}
	b := board()
	b.Show(m, true, m.At)
	text, _ := served(b)
	for _, want := range []string{`id="workers" data-value="3"`, `<th scope="row">w-c</th><td data-label="State"><span class="soft"><span aria-hidden="true">□</span> idle</span>`,
		`<th scope="row">w-b</th><td data-label="State"><span class="soft"><span aria-hidden="true">□</span> standby</span>`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// A page that nobody looks at is not rendered. Each look shows the latest document.
func TestOnlyPagesThatAreLookedAtAreRendered(t *testing.T) {
	b := board()
	m := read(t, time.Time{})
	for n := range 3 {
		b.Show(read(t, m.At.Add(time.Duration(n)*time.Minute)), true, m.At.Add(time.Duration(n)*time.Minute))
		if b.view == nil || b.body != nil {
			t.Error("it is rendered before a look")
		}
	}
	want := m.At.Add(2 * time.Minute).UTC().Format(time.TimeOnly)
	if text, _ := served(b); !strings.Contains(text, want) || b.view != nil {
		t.Errorf("not the reading of %s: %s", want, text)
	}
	if event, number, _ := b.next(0); number != 3 || !strings.Contains(string(event), want) {
		t.Errorf("event %d: %s", number, event)
	}
}
