package notify

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
)

// Statuses are accepted, final, or retried.
func TestStatuses(t *testing.T) {
	for status, want := range map[int]string{200: sent, 202: sent, 301: refused, 307: refused, 400: refused, 401: refused, 404: refused, 408: failed, 429: failed, 500: failed, 503: failed} {
		got := sent
		if err := judge(status); err != nil {
			got = failed
			if _, final := err.(*refusedError); final {
				got = refused
			}
		}
		if got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}

// received returns the receivers of a configuration in a folder with the given files.
func received(t *testing.T, notify string, files map[string]string) (*config.Config, []*receiver, string) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Parse(filepath.Join(folder, "replicator.yaml"), []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders }]\nnotify: "+notify+"\n"), environment)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, receivers(cfg, environment), folder
}

// Addresses and secrets are read before each call, from the configuration's folder, so that they can
// be replaced. A file that cannot be used is named, without its content.
func TestFilesAreReadBeforeEachCall(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(signatureHeader) == "" || r.URL.Path != "/topsecret" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	_, to, folder := received(t, "{ to: [{ url_file: address, secret_file: key }] }", nil)
	for _, c := range []struct{ address, key, want string }{
		{"", "", "cannot read notify.to[0].url_file: "},
		{" \n", "k", "the file is empty"},
		{"topsecret", "k", "is not supported"},
		{"http://topsecret.example/", "k", "use https"},
		{"https://u:topsecret@h.example/", "k", "a user or a password"},
		{server.URL + "/topsecret\n", "", "cannot read notify.to[0].secret_file: "},
		{server.URL + "/topsecret\n", " k\n", ""},
		{server.URL + "/other", "k", "HTTP status 418"},
		{"http://127.0.0.1:9/topsecret", "k", "no answer: "},
	} {
		for name, content := range map[string]string{"address": c.address, "key": c.key} {
			path := filepath.Join(folder, name)
			if _ = os.Remove(path); content == "" {
				continue
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := to[0].send(t.Context(), hook.NewClient(nil), begunEvent())
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "topsecret")) {
			t.Errorf("%q: %v, want %q", c.address, err, c.want)
		}
	}
}

// A redirect is not followed, so that no other host gets the body.
func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	_, to, _ := received(t, `{ to: [{ url: "`+server.URL+`" }] }`, nil)
	if err := to[0].send(t.Context(), hook.NewClient(nil), begunEvent()); err == nil || followed || !strings.Contains(err.Error(), "redirects are not followed") {
		t.Errorf("%v, followed: %t", err, followed)
	}
}

// A notification and a heartbeat name the program and its version.
func TestRequestsNameTheProgram(t *testing.T) {
	var agents []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { agents = append(agents, r.UserAgent()) }))
	defer server.Close()
	_, to, _ := received(t, `{ to: [{ url: "`+server.URL+`" }] }`, nil)
	client := hook.NewClient(nil)
	if err := errors.Join(to[0].send(t.Context(), client, begunEvent()), ask(t.Context(), client, server.URL)); err != nil {
		t.Fatal(err)
	}
	if want := []string{build.UserAgent(), build.UserAgent()}; !slices.Equal(agents, want) {
		t.Errorf("%q, want %q", agents, want)
	}
}

// Receivers are named by number and host. Their hashes differ, and do not depend on their order.
func TestReceiversAreNamed(t *testing.T) {
	_, to, _ := received(t, `{ to: [{ url: "https://a.example/topsecret" }, { url_file: x, format: slack }, { format: pagerduty, secret_env: KEY }] }`, nil)
	_, again, _ := received(t, `{ to: [{ format: pagerduty, secret_env: KEY }, { url: "https://a.example/topsecret" }] }`, nil)
	for i, want := range []string{"1 (json, a.example)", "2 (slack, address of url_file)", "3 (pagerduty, events.pagerduty.com)"} {
		if to[i].name != want {
			t.Errorf("%q, want %q", to[i].name, want)
		}
	}
	if to[0].hash != again[1].hash || to[2].hash != again[0].hash || to[0].hash == to[1].hash {
		t.Error("hashes depend on the order, or are equal")
	}
}

// A warning names a file with a secret that every user may read.
func TestExposedFilesAreNamed(t *testing.T) {
	cfg, _, folder := received(t, "{ to: [{ url_file: address, secret_file: key }] }", map[string]string{"address": "x", "key": "topsecret"})
	var log bytes.Buffer
	start := func() string {
		log.Reset()
		New(Options{Config: cfg, Env: environment, Log: slog.New(slog.NewTextHandler(io.MultiWriter(&log), nil))})
		return log.String()
	}
	if text := start(); text != "" {
		t.Error(text)
	}
	if err := os.Chmod(filepath.Join(folder, "key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := start(); !strings.Contains(text, folder+"/key") || strings.Contains(text, "/address") || strings.Contains(text, "topsecret") {
		t.Error(text)
	}
}

// The key of an incident names the place of the ledger, so pipelines of one name in two instances
// have incidents of their own.
func TestIncidentsNameTheLedger(t *testing.T) {
	_, to, _ := received(t, "{ to: [{ format: pagerduty, secret_file: key }] }", map[string]string{"key": "k"})
	_, all, err := to[0].prepare(parkedEvent(begins, "A"))
	if err != nil || len(all) != 1 || !strings.Contains(string(all[0].body), `"dedup_key":"p/i/replicator_state/p/parked/A"`) {
		t.Errorf("%s, %v", all, err)
	}
}
