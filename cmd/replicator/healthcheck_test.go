package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// TestHealthcheck: the exit status alone tells a container engine the state of the process.
func TestHealthcheck(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("loop: " + r.URL.Path + "\n"))
	}))
	address := server.Listener.Addr().String()
	_, port, _ := strings.Cut(address, ":")
	silent := httptest.NewServer(http.NotFoundHandler())
	silent.Close()
	for name, c := range map[string]struct {
		args   []string
		listen string
		status int
		says   string
	}{
		"live":                 {[]string{"live", "--address", address}, "", 0, "loop: /healthz"},
		"where it listens":     {[]string{"live"}, ":" + port, 0, "loop: /healthz"},
		"not ready":            {[]string{"ready", "--address", address}, "", 1, "answers /readyz with status 503"},
		"nobody is there":      {[]string{"live", "--address", silent.Listener.Addr().String()}, "", 1, "nothing answers at "},
		"no such check":        {[]string{"well", "--address", address}, "", 2, "\"well\" is not a health check"},
		"no port":              {[]string{"live", "--address", "localhost"}, "", 2, "has no port"},
		"nothing is asked for": {nil, "", 2, "needs one argument: live or ready"},
	} {
		var out, errors bytes.Buffer
		env := func(name string) (string, bool) { return c.listen, name == "REPLICATOR_HTTP_LISTEN" && c.listen != "" }
		p := &program{Console: terminal.Console{Stdout: &out, Stderr: &errors, Env: env}}
		if status := execute(append([]string{"healthcheck"}, c.args...), p); status != c.status || !strings.Contains(out.String()+errors.String(), c.says) {
			t.Errorf("%s: status %d: %s%s", name, status, out.String(), errors.String())
		}
	}
	server.Close()
}
