package admin

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// OnLoopback reports whether a listener accepts connections only from this machine.
func OnLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// closedDomains are domains in which outsiders cannot register a name. Sources: RFC 6761, 6762 and
// 8375, and ICANN's resolution 2024.07.29.06. Under svc are the services that Kubernetes resolves
// within a cluster.
var closedDomains = []string{"localhost", "local", "internal", "home.arpa", "svc"}

// Hosts returns a function that judges the Host header of requests, as protection against DNS
// rebinding. In that attack, the name of an attacker's site suddenly resolves to an address that
// only the victim's browser can reach. The Host header of the browser's requests still has the
// attacker's name. So Hosts accepts only hosts that an outsider cannot have registered: addresses,
// names without a dot, names of closed domains, this machine's own name, and the name of the listen
// address. For a listener on the loopback, Hosts accepts only the loopback and the name in the
// listen address.
func Hosts(listen string, bound net.Addr, machine string) func(host string) bool {
	own, _, _ := net.SplitHostPort(listen) // "" if it listens on all addresses
	return func(header string) bool {
		host := bare(header)
		// Only browsers can be attacked in this way, and browsers always send the host.
		if host == "" || host == bare(own) {
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

// bare returns a host in lower case. It removes the port, the brackets of an address, and a final
// dot.
func bare(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	host, _, _ = strings.Cut(host, "%") // the zone of an address
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
