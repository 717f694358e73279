package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// The pages of `verify --report` and of a cutover's evidence, as stored by their packages' tests,
// have the same style and pass the same checks.
func TestReports(t *testing.T) {
	for name, path := range map[string]string{"verify": "../../internal/comparison/testdata/verify.html", "evidence": "../../internal/evidence/testdata/index.html"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			html, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				if r.URL.Path != "/" { // a file has no icon either
					w.WriteHeader(http.StatusNoContent)
					return
				}
				_, _ = w.Write(html)
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
