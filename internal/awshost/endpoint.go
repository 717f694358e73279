package awshost

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// AnyService is the environment variable that redirects all AWS services to another endpoint.
const AnyService = "AWS_ENDPOINT_URL"

// Endpoint is the URL to which a setting redirects a service, and the name of the setting.
type Endpoint struct{ Where, URL string }

// Endpoints holds the endpoints from the environment and its AWS profile. A test checks that the
// SDK's clients use the same endpoints. Source:
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
type Endpoints struct {
	env     func(name string) (string, bool)
	Name    string // of the profile
	Profile awsconfig.SharedConfig
}

// EndpointsOf reads the profile. A profile that cannot be read counts as one without endpoints. The
// SDK reports the error when it makes clients.
func EndpointsOf(env func(name string) (string, bool)) Endpoints {
	e := Endpoints{env: env, Name: "default"}
	for _, variable := range []string{"AWS_DEFAULT_PROFILE", "AWS_PROFILE"} {
		if name := e.variable(variable); name != "" {
			e.Name = name
		}
	}
	profile, err := awsconfig.LoadSharedConfigProfile(context.Background(), e.Name, func(o *awsconfig.LoadSharedConfigOptions) {
		if file := e.variable("AWS_CONFIG_FILE"); file != "" {
			o.ConfigFiles = []string{file}
		}
		if file := e.variable("AWS_SHARED_CREDENTIALS_FILE"); file != "" {
			o.CredentialsFiles = []string{file}
		}
	})
	if err == nil {
		e.Profile = profile
	}
	return e
}

func (e Endpoints) variable(name string) string {
	value, _ := e.env(name)
	return value
}

// ignored reports whether the SDK is set to ignore all endpoint settings.
func (e Endpoints) ignored() bool {
	if value := e.variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"); value != "" {
		return strings.EqualFold(value, "true")
	}
	ignored := e.Profile.IgnoreConfiguredEndpoints
	return ignored != nil && *ignored
}

// Of returns the endpoint to which a service is redirected; zero if it is not. A setting for the
// service takes precedence over a setting for all services, and the environment takes precedence
// over the profile. There is one exception: if the variable for all services is set, even to an
// empty value, it overrides the services of a profile. The SDK has the same exception.
func (e Endpoints) Of(service string) Endpoint {
	if e.ignored() {
		return Endpoint{}
	}
	own := OwnVariable(service)
	if url := e.variable(own); url != "" {
		return Endpoint{own, url}
	}
	_, ownSet := e.env(own)
	_, anySet := e.env(AnyService)
	url, inProfile, _ := e.Profile.GetServiceBaseEndpoint(context.Background(), service)
	switch {
	case inProfile && (ownSet || !anySet):
		return Endpoint{e.inProfile(service), url}
	case e.variable(AnyService) != "":
		return Endpoint{AnyService, e.variable(AnyService)}
	case e.Profile.BaseEndpoint != "":
		return Endpoint{e.ofProfile(), e.Profile.BaseEndpoint}
	}
	return Endpoint{}
}

// Used returns the distinct endpoints to which services are redirected.
func (e Endpoints) Used() (used []Endpoint) {
	for _, service := range Services {
		if one := e.Of(service); one.URL != "" && !slices.Contains(used, one) {
			used = append(used, one)
		}
	}
	return used
}

// CheckPair refuses settings that redirect tables to an emulator but streams to AWS, or the
// reverse. Tables and streams are both in AWS if only one is redirected, to an AWS endpoint.
func (e Endpoints) CheckPair() diag.List {
	led, other, affected := e.Of(Tables), Streams, "the stream would be read from real AWS"
	if isElsewhere(led) == isElsewhere(e.Of(Streams)) {
		return nil
	}
	if !isElsewhere(led) {
		led, other, affected = e.Of(Streams), Tables, "the table would be read from real AWS"
	}
	missing, lacks := e.Of(other).Where, " names an AWS endpoint"
	if missing == "" {
		missing, lacks = e.settingLike(led, other), " is not"
	}
	return diag.List{{Code: diag.OneEndpoint, What: led.Where + " is set, but " + missing + lacks,
		Cause: "DynamoDB and DynamoDB Streams have separate endpoints: " + affected,
		Fix:   "set " + e.settingLike(led, other) + " too (most emulators have one address for both), or unset " + led.Where}}
}

// isElsewhere reports whether a service is redirected to a host outside AWS.
func isElsewhere(e Endpoint) bool { return e.URL != "" && !IsEndpoint(e.URL) }

// settingLike returns the setting that redirects another service, in the same place as the setting
// of `set`.
func (e Endpoints) settingLike(set Endpoint, service string) string {
	if strings.HasPrefix(set.Where, AnyService) {
		return OwnVariable(service)
	}
	return e.inProfile(service)
}

// CheckServices refuses an AWS endpoint that belongs to another service, such as the endpoint of
// streams for tables. Such an endpoint rejects every request. An endpoint for all services must
// serve the two services that are always used.
func (e Endpoints) CheckServices() (found diag.List) {
	for _, service := range Services {
		at := e.Of(service)
		ofAll := at.Where == AnyService || at.Where == e.ofProfile()
		if !IsEndpoint(at.URL) || ofAll && service != Tables && service != Streams {
			continue
		}
		u, _ := url.Parse(at.URL) // it was parsed above
		there, _ := Find(u.Hostname())
		if slices.Contains(there, service) {
			continue
		}
		fix := "set " + at.Where + " to an endpoint of " + service + ", or unset it"
		if ofAll {
			fix = "set " + e.settingLike(at, there[0]) + " in place of " + at.Where
		}
		found = append(found, &diag.Error{Code: diag.OneEndpoint, What: fmt.Sprintf("%s sends requests for %s to an endpoint of %s (%s)",
			at.Where, service, strings.Join(there, ", "), strconv.Quote(u.Host)), Cause: "each service has its own endpoint, and rejects requests for another", Fix: fix})
	}
	return found
}

// OwnVariable returns the environment variable that redirects a service to another endpoint.
func OwnVariable(service string) string {
	return AnyService + "_" + strings.ToUpper(strings.ReplaceAll(service, " ", "_"))
}

func (e Endpoints) inProfile(service string) string {
	return "endpoint_url of " + strings.ToLower(strings.ReplaceAll(service, " ", "_")) + " in the services of AWS profile " + e.Name
}

// ofProfile returns the setting of the profile that redirects all services.
func (e Endpoints) ofProfile() string { return "endpoint_url of AWS profile " + e.Name }
