package config

import (
	"context"
	"slices"
	"strings"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// The AWS SDK's ids of the services that are asked here: tables, their streams, exports, and those
// that give credentials.
const (
	tableService   = "DynamoDB"
	streamsService = "DynamoDB Streams"
)

var awsServices = []string{tableService, streamsService, "S3", "STS", "SSO", "SSO OIDC", "Signin"}

// anyService is the variable that redirects all services.
const anyService = "AWS_ENDPOINT_URL"

// endpoint is where a setting redirects a service to.
type endpoint struct{ where, url string }

// awsEndpoints are the endpoints that the environment and its AWS profile name. The SDK's clients
// lead where these say; a test holds the two against each other.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
type awsEndpoints struct {
	env     Lookup
	name    string // of the profile
	profile awsconfig.SharedConfig
}

// endpointsOf reads the profile. One that cannot be read has no endpoints: the SDK refuses it when
// clients are made.
func endpointsOf(env Lookup) awsEndpoints {
	e := awsEndpoints{env: env, name: "default"}
	for _, variable := range []string{"AWS_DEFAULT_PROFILE", "AWS_PROFILE"} {
		if name := e.variable(variable); name != "" {
			e.name = name
		}
	}
	profile, err := awsconfig.LoadSharedConfigProfile(context.Background(), e.name, func(o *awsconfig.LoadSharedConfigOptions) {
		if file := e.variable("AWS_CONFIG_FILE"); file != "" {
			o.ConfigFiles = []string{file}
		}
		if file := e.variable("AWS_SHARED_CREDENTIALS_FILE"); file != "" {
			o.CredentialsFiles = []string{file}
		}
	})
	if err == nil {
		e.profile = profile
	}
	return e
}

func (e awsEndpoints) variable(name string) string {
	value, _ := e.env(name)
	return value
}

// ignored tells whether the SDK is set to ask Amazon's own endpoints whatever else is set.
func (e awsEndpoints) ignored() bool {
	if value := e.variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"); value != "" {
		return strings.EqualFold(value, "true")
	}
	ignored := e.profile.IgnoreConfiguredEndpoints
	return ignored != nil && *ignored
}

// of is where a service is redirected to; nothing if it is Amazon's own. The more specific setting
// wins, and then the environment. To the SDK, though, the general variable overrides the services of
// a profile as soon as it is set, even to nothing.
func (e awsEndpoints) of(service string) endpoint {
	if e.ignored() {
		return endpoint{}
	}
	own := ownVariable(service)
	if url := e.variable(own); url != "" {
		return endpoint{own, url}
	}
	_, ownSet := e.env(own)
	_, anySet := e.env(anyService)
	url, inProfile, _ := e.profile.GetServiceBaseEndpoint(context.Background(), service)
	switch {
	case inProfile && (ownSet || !anySet):
		return endpoint{e.inProfile(service), url}
	case e.variable(anyService) != "":
		return endpoint{anyService, e.variable(anyService)}
	case e.profile.BaseEndpoint != "":
		return endpoint{"endpoint_url of AWS profile " + e.name, e.profile.BaseEndpoint}
	}
	return endpoint{}
}

// used are the endpoints that any service is redirected to, each once.
func (e awsEndpoints) used() (used []endpoint) {
	for _, service := range awsServices {
		if one := e.of(service); one.url != "" && !slices.Contains(used, one) {
			used = append(used, one)
		}
	}
	return used
}

// checkPair refuses to redirect tables without their streams, or the other way round.
func (e awsEndpoints) checkPair() diag.List {
	set, missing, affected := e.of(tableService), streamsService, "the stream would be read from real AWS"
	streams := e.of(streamsService)
	if set.url == "" {
		set, missing, affected = streams, tableService, "the table would be read from real AWS"
	} else if streams.url != "" {
		return nil
	}
	if set.url == "" {
		return nil
	}
	other := ownVariable(missing)
	if !strings.HasPrefix(set.where, anyService) {
		other = e.inProfile(missing)
	}
	return diag.List{{Code: diag.OneEndpoint, What: set.where + " is set, but " + other + " is not",
		Cause: "DynamoDB and DynamoDB Streams have an endpoint each: " + affected,
		Fix:   "set " + other + " too (most emulators have one address for both), or unset " + set.where}}
}

// SourceEndpoints are the URLs that the environment, or its AWS profile, redirects the clients of
// tables and of streams to; "" for one that asks Amazon's own.
func SourceEndpoints(env Lookup) (tables, streams string) {
	e := endpointsOf(env)
	return e.of(tableService).url, e.of(streamsService).url
}

func ownVariable(service string) string {
	return anyService + "_" + strings.ToUpper(strings.ReplaceAll(service, " ", "_"))
}

func (e awsEndpoints) inProfile(service string) string {
	return "endpoint_url of " + strings.ToLower(strings.ReplaceAll(service, " ", "_")) + " in the services of AWS profile " + e.name
}
