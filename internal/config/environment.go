package config

import (
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// The variables by which the AWS SDK redirects its services. The service id of the streams client is "DynamoDB Streams",
// hence the name (docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html).
const (
	awsEndpoint     = "AWS_ENDPOINT_URL"
	tableEndpoint   = "AWS_ENDPOINT_URL_DYNAMODB"
	streamsEndpoint = "AWS_ENDPOINT_URL_DYNAMODB_STREAMS"
)

// emulators are the variables that Google's clients honour without being asked to.
var emulators = []string{"BIGTABLE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "STORAGE_EMULATOR_HOST"}

// CheckEnvironment finds settings of the environment that would silently send data to the wrong place. An empty variable
// counts as not set, as the vendors' clients have it.
func CheckEnvironment(env Lookup, allowed Allowed) diag.List {
	var found diag.List
	set := func(name string) string {
		value, _ := env(name)
		return value
	}
	one, other := tableEndpoint, streamsEndpoint
	if set(one) == "" {
		one, other = other, one
	}
	if set(one) != "" && set(other) == "" && set(awsEndpoint) == "" {
		affected := "the stream would be read from real AWS"
		if other == tableEndpoint {
			affected = "the table would be read from real AWS"
		}
		found = append(found, &diag.Error{Code: diag.OneEndpoint, What: one + " is set, but " + other + " is not",
			Cause: "DynamoDB and DynamoDB Streams have an endpoint each: " + affected,
			Fix:   "set " + other + " too (most emulators have one address for both), or unset " + one})
	}
	if !strings.EqualFold(set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), "true") {
		for _, name := range serviceEndpoints {
			if value := set(name); value != "" {
				found = append(found, CheckEndpoint(name, value, allowed)...)
			}
		}
	}
	for _, name := range emulators {
		if value := set(name); value != "" && !allowed.Emulator {
			found = append(found, &diag.Error{Code: diag.EmulatorNotAllowed, What: fmt.Sprintf("%s is set (%s)", name, shown(value)),
				Cause: "Google's client would send everything there, unencrypted, instead of to Google Cloud",
				Fix:   "unset " + name + ", or pass --allow-emulator"})
		}
	}
	return found
}
