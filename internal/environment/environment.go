// Package environment reads and checks the process's environment.
//
// The libraries of both clouds read variables of the environment, and those of AWS also a profile.
// Such a setting can send data elsewhere, or contain a secret that an error of a library shows. The
// checks of this package come first.
package environment

import (
	"fmt"
	"net/url"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Lookup finds an environment variable, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// emulators are the variables that redirect Google's clients without any further setting.
var emulators = []string{"BIGTABLE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"}

// Check finds settings of the environment, and of its AWS profile, that would silently
// send data to the wrong place. An empty variable counts as not set.
func Check(env Lookup, allowed Allowed) diag.List {
	found := checkProxies(env)
	set := func(name string) string {
		value, _ := env(name)
		return value
	}
	endpoints := awshost.EndpointsOf(env)
	found = append(found, endpoints.CheckPair()...)
	found = append(found, endpoints.CheckServices()...)
	for _, e := range endpoints.Used() {
		found = append(found, checkEndpoint(e.Where, e.URL, allowed)...)
	}
	for _, name := range emulators {
		if value := set(name); value != "" && !allowed.Emulator {
			found = append(found, &diag.Error{Code: diag.EmulatorNotAllowed, What: fmt.Sprintf("%s is set (%s)", name, diag.Shortened(WithoutPassword(value))),
				Cause: "Google's client would send everything there, unencrypted, instead of to Google Cloud",
				Fix:   "unset " + name + ", or " + allowed.fix("--allow-emulator")})
		}
	}
	return found
}

// CheckEndpointRegion refuses an AWS endpoint that is not in the region for which requests are
// signed. AWS would reject every request. It returns nil if the endpoint names no region, or
// belongs to an emulator.
func CheckEndpointRegion(endpoint, region string) error {
	if !awshost.IsEndpoint(endpoint) {
		return nil
	}
	u, _ := url.Parse(endpoint) // it was parsed above
	_, at := awshost.Find(u.Hostname())
	if at == "" || at == region {
		return nil
	}
	return &diag.Error{Code: diag.OneEndpoint, What: fmt.Sprintf("the AWS region is %s, but the endpoint belongs to %s (%s)", diag.Shortened(region), at, diag.Shortened(u.Host)),
		Cause: "AWS rejects requests that are signed for another region",
		Fix:   "set source.region or AWS_REGION to " + at + ", or use an endpoint of region " + diag.Shortened(region)}
}

// SourceEndpoints returns the URLs to which the environment or its AWS profile redirects the
// clients of tables and of streams. A URL is "" if the client is not redirected.
func SourceEndpoints(env Lookup) (tables, streams string) {
	e := awshost.EndpointsOf(env)
	return e.Of(awshost.Tables).URL, e.Of(awshost.Streams).URL
}
