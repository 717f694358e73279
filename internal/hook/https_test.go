package hook

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
)

// served makes hooks that ask a server with TLS.
func served(t *testing.T, answer http.HandlerFunc) *Hooks {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	parsed, err := Parse(server.URL+"/hooks?key=secret", "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Hook{}
	for _, name := range cutover.HookNames {
		all[name] = parsed
	}
	h, err := New(all, server.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAnAddressGetsTokenAndStep(t *testing.T) {
	call := cutover.Call{Hook: cutover.Switch, Token: "2.7.4", Step: "switching", Tables: []string{"Orders", "Users"}}
	var got http.Header
	var sent body
	h := served(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || r.Method != http.MethodPost {
			t.Error(r.Method, err)
		}
		_, _ = io.WriteString(w, "flag is on")
	})
	output, outcome := h.Call(t.Context(), call)
	if outcome != cutover.HookDone || output != "200 OK: flag is on" {
		t.Errorf("%s: %s", outcome, output)
	}
	for name, want := range map[string]string{HookHeader: "switch", TokenHeader: "2.7.4", stepHeader: "switching", tablesHeader: "Orders,Users", ProbeHeader: "", "User-Agent": build.UserAgent()} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
	}
	if want := (body{Schema: bodySchema, Hook: "switch", Token: "2.7.4", Step: "switching", Direction: cutover.Forward, Tables: []string{"Orders", "Users"}}); !reflect.DeepEqual(sent, want) || got.Get(deadlineHeader) != "" {
		t.Errorf("%+v, want %+v", sent, want)
	}
	limited := call
	limited.Deadline, limited.Left = time.Date(2026, 11, 28, 12, 0, 30, 0, time.UTC), 29900*time.Millisecond
	_, _ = h.Call(t.Context(), limited)
	if sent.Deadline != "2026-11-28T12:00:30Z" || sent.DeadlineSeconds != "29" || got.Get(deadlineHeader) != sent.Deadline || got.Get(deadlineSecondsHeader) != "29" {
		t.Errorf("deadline %+v, %v", sent, got)
	}
	sent = body{}
	if _, outcome := h.Call(t.Context(), cutover.Call{Hook: cutover.Switch, Step: "probe", Probe: true, Token: "1.1.1"}); outcome != cutover.HookDone || got.Get(ProbeHeader) != "true" || got.Get(TokenHeader) != "" || !sent.Probe {
		t.Errorf("%s: %v, %+v", outcome, got, sent)
	}
}

// cut answers once, with less than it says, or only to the first use of a connection.
type cut struct {
	status int
	calls  int
	again  bool // whether the request could be sent again
	closed int  // answers
}

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls++
	c.again = c.again || r.GetBody != nil
	return &http.Response{StatusCode: c.status, Status: http.StatusText(c.status), Header: http.Header{OutcomeHeader: {"Refused"}},
		Body: answer{io.MultiReader(strings.NewReader("said"), iotest.ErrReader(io.ErrUnexpectedEOF)), c}}, nil
}

// answer is the body of an answer.
type answer struct {
	io.Reader
	of *cut
}

func (a answer) Close() error {
	a.of.closed++
	return nil
}

// An answer that breaks off is no word that it is done; a request is sent once, with the means to repeat
// it taken away, and its connection is given back.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	for status, want := range map[int]cutover.Outcome{200: cutover.HookUnknown, 299: cutover.HookUnknown, 499: cutover.HookRefused, 399: cutover.HookUnknown, 500: cutover.HookUnknown} {
		h := served(t, nil)
		c := &cut{status: status}
		h.client.Transport = c
		if output, outcome := h.Call(t.Context(), freezeCall); outcome != want || c.calls != 1 || c.closed != 1 || c.again || !strings.HasSuffix(output, "said") {
			t.Errorf("%d: %s after %d calls: %s", status, outcome, c.calls, output)
		}
	}
}

// Only the application itself can promise that nothing was done; whatever stands between says nothing.
func TestOutcomesOfAnAddress(t *testing.T) {
	for _, c := range []struct {
		status  int
		refused string
		outcome cutover.Outcome
	}{
		{204, "", cutover.HookDone}, {409, "refused", cutover.HookRefused}, {404, "", cutover.HookUnknown}, {403, "no", cutover.HookUnknown},
		{500, "refused", cutover.HookUnknown}, {503, "", cutover.HookUnknown},
		{200, "quiet", cutover.HookQuiet}, {204, "Quiet", cutover.HookQuiet}, {200, "not quiet", cutover.HookDone}, {200, "refused", cutover.HookDone},
		{409, "quiet", cutover.HookUnknown}, {302, "quiet", cutover.HookUnknown},
	} {
		h := served(t, func(w http.ResponseWriter, _ *http.Request) {
			if c.refused != "" {
				w.Header().Set(OutcomeHeader, c.refused)
			}
			w.WriteHeader(c.status)
		})
		if output, outcome := h.Call(t.Context(), freezeCall); outcome != c.outcome {
			t.Errorf("%d: %s, want %s: %s", c.status, outcome, c.outcome, output)
		}
	}
}

var freezeCall = cutover.Call{Hook: cutover.FreezeWrites, Token: "3.3.1", Step: "freeze"}

func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := 0
	h := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	if output, outcome := h.Call(t.Context(), freezeCall); outcome != cutover.HookUnknown || asked != 1 || !strings.Contains(output, "redirects") {
		t.Errorf("asked %d times, %s: %s", asked, outcome, output)
	}
}

func TestAnAddressThatHangsIsLeftAtTheDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	defer close(over) // before the server ends, which waits for its handlers
	h := served(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-over
	})
	output, outcome := h.Call(ctx, freezeCall)
	if outcome != cutover.HookUnknown || !strings.Contains(output, "did not answer") || strings.Contains(output, "secret") {
		t.Errorf("%s: %s", outcome, output)
	}
}

// A server that nobody vouches for does not get the token.
func TestTheServerMustBeTrusted(t *testing.T) {
	asked := false
	h := served(t, func(http.ResponseWriter, *http.Request) { asked = true })
	h.client.Transport = nil
	if output, outcome := h.Call(t.Context(), freezeCall); outcome != cutover.HookUnknown || asked || strings.Contains(output, "secret") {
		t.Errorf("asked %v, %s: %s", asked, outcome, output)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want, refused string }{
		{"./freeze.sh", "/etc/r/freeze.sh", ""},
		{"hooks/freeze.sh now", "/etc/r/hooks/freeze.sh now", ""},
		{"./token.sh /var/lib/t ./freeze.sh", "/etc/r/token.sh /var/lib/t /etc/r/freeze.sh", ""},
		{"/usr/bin/true", "/usr/bin/true", ""},
		{"../freeze.sh", "/etc/freeze.sh", ""},
		{"kubectl ../a.yaml hooks/b.yaml ./c.yaml", "kubectl /etc/a.yaml hooks/b.yaml /etc/r/c.yaml", ""},
		{"$HOME/freeze.sh", "", "without a shell"},
		{"https://h.example/a b", "https://h.example/a%20b", ""},
		{"kubectl", "kubectl", ""},
		{"https://flags.example/on?key=secret", "https://flags.example/on", ""},
		{"http://127.0.0.1:8080/on", "http://127.0.0.1:8080/on", ""},
		{"http://[::1]/on", "http://[::1]/on", ""},
		{"http://localhost/on", "http://localhost/on", ""},
		{"http://flags.example/on", "", "unencrypted"},
		{"http://127.0.0.1.example/on", "", "unencrypted"},
		{"ftp://flags.example/on", "", "ftp:// is not supported"},
		{"https:///on", "", "has no host"},
		{"https://flags.example:secret/on", "", "not valid"},
		{"freeze.sh && other.sh", "", "without a shell"},
		{"", "", "neither"},
	} {
		h, err := Parse(c.text, "/etc/r")
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %v", c.text, err)
			}
		case err != nil || h.String() != c.want:
			t.Errorf("%q: %s, %v", c.text, h, err)
		}
	}
	if h, err := Parse("./a.sh", ""); err != nil || h.String() != "./a.sh" {
		t.Errorf("%s, %v", h, err)
	}
	for i, missing := range cutover.HookNames {
		all := map[string]Hook{}
		for j, name := range cutover.HookNames {
			if all[name] = (Hook{URL: &url.URL{}}); j%2 == 0 {
				all[name] = Hook{Command: []string{"true"}}
			}
		}
		if _, err := New(all, nil); err != nil {
			t.Error(err)
		}
		all[missing] = Hook{Command: []string{}}
		if _, err := New(all, nil); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("hook %d is missing: %v", i, err)
		}
	}
}
