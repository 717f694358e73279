package environment

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Allowed lists the endpoints that the command line accepts in addition to those of the clouds.
type Allowed struct {
	Emulator bool // --allow-emulator
	Insecure bool // --allow-insecure-endpoint
	// By is the instruction to allow an endpoint, for callers without flags; empty for callers with
	// both flags.
	By string
}

// fix returns the instruction to allow the endpoints that a flag allows.
func (a Allowed) fix(flag string) string {
	if a.By != "" {
		return a.By
	}
	return "pass " + flag
}

// Anything accepts every endpoint. It is for commands that only read, and that show the endpoint if
// it is an emulator.
var Anything = Allowed{Emulator: true, Insecure: true}

// IsLoopback reports whether a host is a loopback address or a name that RFC 6761 reserves for it.
func IsLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// checkEndpoint checks an endpoint that replaces an AWS endpoint. The argument `where` names its
// setting.
func checkEndpoint(where, endpoint string, allowed Allowed) diag.List {
	var found diag.List
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" {
		return diag.List{{Code: diag.EmulatorNotAllowed, What: where + " is not a URL (" + diag.Shortened(WithoutPassword(endpoint)) + ")", Cause: "an endpoint has a scheme, a host and a port",
			Fix: "write it as https://HOST, or remove it"}}
	}
	secure, address := strings.EqualFold(u.Scheme, "https"), u.Scheme+"://"+u.Host // without a path, a query or a password
	if !allowed.Emulator && !awshost.IsEndpoint(endpoint) {
		cause := "this host is not an AWS endpoint of a service used here, and every request of the AWS SDK would go there"
		if awshost.Is(u.Hostname()) {
			cause = "requests to Amazon's host would go there unencrypted"
		}
		found = append(found, &diag.Error{Code: diag.EmulatorNotAllowed, What: fmt.Sprintf("%s is set (%s)", where, diag.Shortened(address)), Cause: cause,
			Fix: "unset it, or " + allowed.fix("--allow-emulator")})
	}
	if !allowed.Insecure && !secure && !IsLoopback(u.Hostname()) {
		found = append(found, &diag.Error{Code: diag.InsecureEndpoint, What: fmt.Sprintf("%s names another host without https (%s)", where, diag.Shortened(address)),
			Cause: "items and session tokens would cross the network unencrypted", Fix: "write it with https://, or " + allowed.fix("--allow-insecure-endpoint")})
	}
	return found
}
