package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Allowed are the endpoints that the command line accepts besides those of the clouds.
type Allowed struct {
	Emulator bool // --allow-emulator
	Insecure bool // --allow-insecure-endpoint
}

// Anything is for commands that only read: they name an emulator, and do not refuse it.
var Anything = Allowed{Emulator: true, Insecure: true}

// serviceEndpoints are the variables that redirect the services that are asked here: data, streams, and those that give credentials.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
var serviceEndpoints = []string{awsEndpoint, tableEndpoint, streamsEndpoint,
	"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL_SSO", "AWS_ENDPOINT_URL_SSO_OIDC", "AWS_ENDPOINT_URL_SIGNIN"}

// awsDomains are Amazon's, under which the endpoints of its services and VPC endpoints have their names.
// Source: https://docs.aws.amazon.com/general/latest/gr/ddb.html and https://docs.aws.amazon.com/general/latest/gr/rande.html
var awsDomains = []string{"amazonaws.com", "amazonaws.com.cn", "api.aws", "api.amazonwebservices.com.cn", "on.aws",
	"amazonaws.eu", "c2s.ic.gov", "sc2s.sgov.gov", "cloud.adc-e.uk", "csp.hci.ic.gov"}

// IsAWSHost tells whether a host is in a domain of Amazon's.
func IsAWSHost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	for _, domain := range awsDomains {
		if strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}

// isLoopback tells whether a host is this machine by definition: an address of the loopback, or a name that is reserved for it (RFC 6761).
func isLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// CheckEndpoint judges an endpoint that replaces one of Amazon's; where is the setting that names it.
func CheckEndpoint(where, endpoint string, allowed Allowed) diag.List {
	var found diag.List
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" {
		return diag.List{{Code: diag.EmulatorNotAllowed, What: where + " is no URL (" + shown(endpoint) + ")", Cause: "an endpoint is a scheme, a host and a port",
			Fix: "write it as https://HOST, or leave it out"}}
	}
	secure, address := strings.EqualFold(u.Scheme, "https"), u.Scheme+"://"+u.Host // without a path, a query or a password
	if !allowed.Emulator && !(secure && IsAWSHost(u.Hostname())) {
		cause := "the host is none of Amazon's, and gets every request of the AWS SDK"
		if IsAWSHost(u.Hostname()) {
			cause = "requests to Amazon's own host would go there unencrypted"
		}
		found = append(found, &diag.Error{Code: diag.EmulatorNotAllowed, What: fmt.Sprintf("%s is set (%s)", where, shown(address)), Cause: cause,
			Fix: "unset it, or pass --allow-emulator"})
	}
	if !allowed.Insecure && !secure && !isLoopback(u.Hostname()) {
		found = append(found, &diag.Error{Code: diag.InsecureEndpoint, What: fmt.Sprintf("%s names a host that is not this one, without https (%s)", where, shown(address)),
			Cause: "items and session tokens would cross the network unencrypted", Fix: "write it with https://, or pass --allow-insecure-endpoint"})
	}
	return found
}
