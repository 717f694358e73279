package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
)

// The pages of `verify --report` and of a cutover's evidence have the same style, and stand up to the same looks.
func TestReports(t *testing.T) {
	evidence, err := os.ReadFile("../../internal/evidence/testdata/index.html")
	if err != nil {
		t.Fatal(err)
	}
	for name, html := range map[string]string{"verify": compared(t), "evidence": string(evidence)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				if r.URL.Path != "/" { // a file has no icon either
					w.WriteHeader(http.StatusNoContent)
					return
				}
				_, _ = w.Write([]byte(html))
			}))
			t.Cleanup(server.Close)
			p := open(t)
			p.visit(server.URL)
			if h1 := p.text(`document.querySelector("main > h1").textContent`); h1 == "" {
				t.Error("no heading")
			}
			for _, l := range []look{{"light", desk}, {"dark", phone}} {
				p.scheme(l.scheme)
				p.sized(l.width)
				p.fits(name + ", " + l.scheme)
				p.accessible(name + ", " + l.scheme)
			}
		})
	}
}

// compared is the page of a verify that found something.
func compared(t *testing.T) string {
	reason, hash := "written by another program", "9f86d081884c7d65"
	d := &comparison.Document{Name: "acme-2026", At: at, Tables: []comparison.Table{
		{Source: "VideoApp", Target: "video_app", State: comparison.StateDone, Result: &comparison.Result{Clean: true, BegunAt: at.Add(-time.Hour), EndedAt: at, Way: "live", Why: "changes come in",
			Items: 136_000_000, Rows: 136_000_000, Compared: 136_000_000, Blind: []string{"rows that nobody wrote since"}}},
		{Source: "Billing", Target: "billing", State: comparison.StateDone, Result: &comparison.Result{BegunAt: at.Add(-time.Hour), EndedAt: at, Way: "quiet",
			Items: 1_800_000, Rows: 1_800_000, Compared: 1_800_000, Different: 1, Extra: 1, Kept: 3, Unmapped: 1, Findings: []comparison.Finding{
				{Kind: "different", Target: "billing", KeyHash: hash, Columns: []comparison.Column{{Column: "d:total", WantHash: &hash, HaveHash: &hash}}, Reason: &reason},
				{Kind: "extra", Target: "billing", KeyHash: hash, Columns: []comparison.Column{}}}},
			Repair: &repair.Document{Findings: 2, Repaired: 1}},
		{Source: "Sessions", Target: "sessions", State: comparison.StateNever},
	}, NextSteps: []comparison.NextStep{{Command: "replicator verify --repair --table Billing", Why: "2 rows differ"}}}
	var html strings.Builder
	if err := comparison.Page(&html, d); err != nil {
		t.Fatal(err)
	}
	return html.String()
}
