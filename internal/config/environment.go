package config

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// emulators are the variables that redirect Google's clients without any further setting.
var emulators = []string{"BIGTABLE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"}

// CheckEnvironment finds settings of the environment, and of its AWS profile, that would silently
// send data to the wrong place. An empty variable counts as not set.
func CheckEnvironment(env Lookup, allowed Allowed) diag.List {
	found := checkProxies(env)
	set := func(name string) string {
		value, _ := env(name)
		return value
	}
	endpoints := endpointsOf(env)
	found = append(found, endpoints.checkPair()...)
	found = append(found, endpoints.checkServices()...)
	for _, e := range endpoints.used() {
		found = append(found, checkEndpoint(e.where, e.url, allowed)...)
	}
	for _, name := range emulators {
		if value := set(name); value != "" && !allowed.Emulator {
			found = append(found, &diag.Error{Code: diag.EmulatorNotAllowed, What: fmt.Sprintf("%s is set (%s)", name, shown(WithoutPassword(value))),
				Cause: "Google's client would send everything there, unencrypted, instead of to Google Cloud",
				Fix:   "unset " + name + ", or " + allowed.fix("--allow-emulator")})
		}
	}
	return found
}
