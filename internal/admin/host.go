package admin

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// OnLoopback reports whether only this machine reaches a listener.
func OnLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// closedDomains hold no name that somebody outside could register: RFC 6761 and 6762, RFC 8375, ICANN's resolution 2024.07.29.06, and the
// names of services that Kubernetes resolves within a cluster.
var closedDomains = []string{"localhost", "local", "internal", "home.arpa", "svc"}

// Hosts judges the Host header of requests. A page of an attacker's site may let its own name resolve to an address that it cannot reach itself,
// and have a browser ask there (DNS rebinding); the Host header still says that name. Accepted are therefore hosts that no page can have of a name
// that somebody registered: addresses, names without a dot, names of closed domains, this machine's own, and that of the listen address. A
// listener on the loopback accepts the loopback alone, and the name it was given.
func Hosts(listen string, bound net.Addr, machine string) func(host string) bool {
	own, _, _ := net.SplitHostPort(listen) // "" for all addresses
	return func(header string) bool {
		host := bare(header)
		if host == "" || host == bare(own) { // only a browser can be misled, and browsers name the host
			return true
		}
		address, err := netip.ParseAddr(host)
		if OnLoopback(bound) {
			return err == nil && address.Unmap().IsLoopback() || within(host, "localhost")
		}
		return err == nil || !strings.Contains(host, ".") || host == bare(machine) ||
			slices.ContainsFunc(closedDomains, func(domain string) bool { return within(host, domain) })
	}
}

// within reports whether a name is a domain or below it.
func within(host, domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }

// bare is a host without its port, the brackets of an address, the dot of the root, and capitals.
func bare(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	host, _, _ = strings.Cut(host, "%") // the zone of an address
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
