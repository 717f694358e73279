package config

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// anyService is the environment variable that redirects all AWS services to another endpoint.
const anyService = "AWS_ENDPOINT_URL"

// endpoint is the URL to which a setting redirects a service, and the name of the setting.
type endpoint struct{ where, url string }

// awsEndpoints holds the endpoints from the environment and its AWS profile. A test checks that the
// SDK's clients use the same endpoints. Source:
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
type awsEndpoints struct {
	env     Lookup
	name    string // name of the profile
	profile awsconfig.SharedConfig
}

// endpointsOf reads the profile. A profile that cannot be read counts as one without endpoints. The
// SDK reports the error when it makes clients.
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

// ignored reports whether the SDK is set to ignore all endpoint settings.
func (e awsEndpoints) ignored() bool {
	if value := e.variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"); value != "" {
		return strings.EqualFold(value, "true")
	}
	ignored := e.profile.IgnoreConfiguredEndpoints
	return ignored != nil && *ignored
}

// of returns the endpoint to which a service is redirected; zero if it is not. A setting for the
// service takes precedence over a setting for all services, and the environment takes precedence
// over the profile. There is one exception: if the variable for all services is set, even to an
// empty value, it overrides the services of a profile. The SDK has the same exception.
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
		return endpoint{e.ofProfile(), e.profile.BaseEndpoint}
	}
	return endpoint{}
}

// used returns the distinct endpoints to which services are redirected.
func (e awsEndpoints) used() (used []endpoint) {
	for _, service := range awshost.Services {
		if one := e.of(service); one.url != "" && !slices.Contains(used, one) {
			used = append(used, one)
		}
	}
	return used
}

// checkPair refuses settings that redirect tables to an emulator but streams to AWS, or the
// reverse. Tables and streams are both in AWS if only one is redirected, to an AWS endpoint.
func (e awsEndpoints) checkPair() diag.List {
	led, other, affected := e.of(awshost.Tables), awshost.Streams, "the stream would be read from real AWS"
	if isElsewhere(led) == isElsewhere(e.of(awshost.Streams)) {
		return nil
	}
	if !isElsewhere(led) {
		led, other, affected = e.of(awshost.Streams), awshost.Tables, "the table would be read from real AWS"
	}
	missing, lacks := e.of(other).where, " names an AWS endpoint"
	if missing == "" {
		missing, lacks = e.settingLike(led, other), " is not"
	}
	return diag.List{{Code: diag.OneEndpoint, What: led.where + " is set, but " + missing + lacks,
		Cause: "DynamoDB and DynamoDB Streams have separate endpoints: " + affected,
		Fix:   "set " + e.settingLike(led, other) + " too (most emulators have one address for both), or unset " + led.where}}
}

// isElsewhere reports whether a service is redirected to a host outside AWS.
func isElsewhere(e endpoint) bool { return e.url != "" && !awshost.IsEndpoint(e.url) }

// settingLike returns the setting that redirects another service, in the same place as the setting
// of `set`.
func (e awsEndpoints) settingLike(set endpoint, service string) string {
	if strings.HasPrefix(set.where, anyService) {
		return ownVariable(service)
	}
	return e.inProfile(service)
}

// checkServices refuses an AWS endpoint that belongs to another service, such as the endpoint of
// streams for tables. Such an endpoint rejects every request. An endpoint for all services must
// serve the two services that are always used.
func (e awsEndpoints) checkServices() (found diag.List) {
	for _, service := range awshost.Services {
		at := e.of(service)
		ofAll := at.where == anyService || at.where == e.ofProfile()
		if !awshost.IsEndpoint(at.url) || ofAll && service != awshost.Tables && service != awshost.Streams {
			continue
		}
		u, _ := url.Parse(at.url) // it was parsed above
		there, _ := awshost.Find(u.Hostname())
		if slices.Contains(there, service) {
			continue
		}
		fix := "set " + at.where + " to an endpoint of " + service + ", or unset it"
		if ofAll {
			fix = "set " + e.settingLike(at, there[0]) + " in place of " + at.where
		}
		found = append(found, &diag.Error{Code: diag.OneEndpoint, What: fmt.Sprintf("%s sends requests for %s to an endpoint of %s (%s)",
			at.where, service, strings.Join(there, ", "), shown(u.Host)), Cause: "each service has its own endpoint, and rejects requests for another", Fix: fix})
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
	return &diag.Error{Code: diag.OneEndpoint, What: fmt.Sprintf("the AWS region is %s, but the endpoint belongs to %s (%s)", shown(region), at, shown(u.Host)),
		Cause: "AWS rejects requests that are signed for another region",
		Fix:   "set source.region or AWS_REGION to " + at + ", or use an endpoint of region " + shown(region)}
}

// SourceEndpoints returns the URLs to which the environment or its AWS profile redirects the
// clients of tables and of streams. A URL is "" if the client is not redirected.
func SourceEndpoints(env Lookup) (tables, streams string) {
	e := endpointsOf(env)
	return e.of(awshost.Tables).url, e.of(awshost.Streams).url
}

func ownVariable(service string) string {
	return anyService + "_" + strings.ToUpper(strings.ReplaceAll(service, " ", "_"))
}

func (e awsEndpoints) inProfile(service string) string {
	return "endpoint_url of " + strings.ToLower(strings.ReplaceAll(service, " ", "_")) + " in the services of AWS profile " + e.name
}

// ofProfile returns the setting of the profile that redirects all services.
func (e awsEndpoints) ofProfile() string { return "endpoint_url of AWS profile " + e.name }
