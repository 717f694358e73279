package admin

import (
	"net"
	"net/http/httptest"
	"testing"
)

// If a page of another site makes its name resolve to this process, the browser still sends that
// name, and the request is refused.
func TestForeignHostsAreRefused(t *testing.T) {
	loopback, everywhere := &net.TCPAddr{IP: net.ParseIP("127.0.0.1"), Port: 8080}, &net.TCPAddr{IP: net.IPv6zero, Port: 8080}
	for _, c := range []struct {
		host                           string
		onLoopback, elsewhere, ofNamed bool
	}{
		{"", true, true, true},
		{"localhost:8080", true, true, true},
		{"Localhost.", true, true, true},
		{"replicator.localhost", true, true, true},
		{"127.0.0.1:8080", true, true, true},
		{"[::1]:8080", true, true, true},
		{"::1", true, true, true},
		{"10.1.2.3:8080", false, true, true},
		{"[fd00::7]:8080", false, true, true},
		{"[fe80::7%25eth0]:8080", false, true, true},
		{"replicator:8080", false, true, true},
		{"replicator.migration.svc", false, true, true},
		{"replicator.migration.svc.cluster.local:8080", false, true, true},
		{"ip-10-0-0-7.eu-west-1.compute.internal", false, true, true},
		{"vm.example.com", false, true, true},
		{"www.example.com:8080", false, false, true},
		{"evil.example", false, false, false},
		{"127.0.0.1.evil.example", false, false, false},
		{"localhost.evil.example:8080", false, false, false},
		{"vm.example.com.evil.example", false, false, false},
		{"svc.evil.example", false, false, false},
		{"notlocal.evil", false, false, false},
	} {
		for _, l := range []struct {
			listen string
			bound  net.Addr
			want   bool
		}{
			{"127.0.0.1:8080", loopback, c.onLoopback},
			{":8080", everywhere, c.elsewhere},
			{"www.example.com:8080", &net.TCPAddr{IP: net.ParseIP("10.1.2.3")}, c.ofNamed},
		} {
			if got := Hosts(l.listen, l.bound, "VM.example.com")(c.host); got != l.want {
				t.Errorf("host %q on %s: %t", c.host, l.listen, got)
			}
		}
	}
	if !Hosts("vm:8080", loopback, "")("vm:8080") {
		t.Error("a name that the machine has on its loopback is refused, though it was chosen")
	}
	now := start
	o := options(&now)
	o.Host = Hosts("127.0.0.1:8080", loopback, "")
	for host, want := range map[string]int{"evil.example": 403, "localhost:8080": 200} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/api/v1/status", nil)
		r.Host = host
		Handler(o).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
}

// A page of another site gets no answer, whatever its name resolves to. Requests without an origin
// do not come from a page.
func TestAForeignOriginIsRefused(t *testing.T) {
	now := start
	for origin, want := range map[string]int{"": 200, "http://localhost:8080": 200, "http://localhost:3000": 403, "https://evil.example": 403, "null": 403} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/api/v1/status", nil)
		r.Host = "localhost:8080"
		r.Header.Set("Origin", origin)
		Handler(options(&now)).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d %s", origin, w.Code, w.Body)
		}
	}
}

// Only loopback addresses are limited to this machine.
func TestOnLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "127.8.0.1": true, "::1": true, "0.0.0.0": false, "::": false, "10.0.0.7": false} {
		if got := OnLoopback(&net.TCPAddr{IP: net.ParseIP(address)}); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
	if OnLoopback(&net.UnixAddr{}) {
		t.Error("what is no TCP is taken for the loopback")
	}
}
