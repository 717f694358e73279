// Package awshost recognises the hosts and regions of AWS.
package awshost

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/signin"
	"github.com/aws/aws-sdk-go-v2/service/sso"
	"github.com/aws/aws-sdk-go-v2/service/ssooidc"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
)

// The AWS SDK's ids of the services that the program calls: tables and their streams.
const (
	Tables  = "DynamoDB"
	Streams = "DynamoDB Streams"
)

// Services are the ids of all services that the program calls: tables, streams, exports, and those
// that issue credentials.
var Services = []string{Tables, Streams, "S3", "STS", "SSO", "SSO OIDC", "Signin"}

// Placeholders for the variable parts of a host. A placeholder cannot occur in a host, because
// hosts have no capital letters.
const (
	anyRegion  = "REGION"
	anyAccount = "ACCOUNT"
)

// accountForm matches the account at the beginning of a host.
var accountForm = regexp.MustCompile(`^[0-9]{12}\.`)

// locality is the input of the SDK's resolvers.
type locality struct {
	region          string
	dualStack, fips bool
}

// awsResolvers return the hosts of the services that the program calls. A check of the domain would
// not be enough. Anyone can rent a host in an AWS domain: a machine, a load balancer or a website.
var awsResolvers = []struct {
	service string
	resolve func(context.Context, locality) (smithyendpoints.Endpoint, error)
}{
	{Tables, func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return dynamodb.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
			dynamodb.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack, UseFIPS: &p.fips})
	}},
	{Tables, func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return dynamodb.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, dynamodb.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack,
			UseFIPS: &p.fips, AccountId: aws.String("000000000000"), AccountIdEndpointMode: aws.String("preferred")})
	}},
	{Streams, func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return dynamodbstreams.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
			dynamodbstreams.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack, UseFIPS: &p.fips})
	}},
	{"S3", func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return s3.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
			s3.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack, UseFIPS: &p.fips})
	}},
	{"S3", func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return s3.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, s3.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack,
			UseFIPS: &p.fips, UseGlobalEndpoint: aws.Bool(true)})
	}},
	{"STS", func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return sts.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
			sts.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack, UseFIPS: &p.fips})
	}},
	{"STS", func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return sts.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, sts.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack,
			UseFIPS: &p.fips, UseGlobalEndpoint: aws.Bool(true)})
	}},
	{"SSO", func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return sso.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
			sso.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack, UseFIPS: &p.fips})
	}},
	{"SSO OIDC", func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return ssooidc.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
			ssooidc.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack, UseFIPS: &p.fips})
	}},
	{"Signin", func(ctx context.Context, p locality) (smithyendpoints.Endpoint, error) {
		return signin.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
			signin.EndpointParameters{Region: &p.region, UseDualStack: &p.dualStack, UseFIPS: &p.fips})
	}},
}

// awsForms are the forms of the services' hosts in all partitions, with the services at each. A
// service's name is accepted in all domains of the service. The SDK's table lacks some hosts that
// AWS documents, such as streams-dynamodb in domains with IPv6.
var awsForms = sync.OnceValue(func() map[string][]string {
	forms := map[string][]string{}
	add := func(form, service string) {
		if !slices.Contains(forms[form], service) {
			forms[form] = append(forms[form], service)
		}
	}
	names, domains := map[string][]string{}, map[string][]string{}
	for _, region := range regions {
		for _, r := range awsResolvers {
			for _, p := range []locality{{region, false, false}, {region, false, true}, {region, true, false}, {region, true, true}} {
				at, err := r.resolve(context.Background(), p)
				if err != nil { // the partition has no such endpoints
					continue
				}
				form, _, _ := formOf(at.URI.Hostname())
				add(form, r.service)
				if name, domain, found := strings.Cut(form, "."+anyRegion+"."); found {
					names[r.service], domains[r.service] = append(names[r.service], name), append(domains[r.service], domain)
				}
			}
		}
	}
	for _, service := range Services {
		slices.Sort(names[service])
		slices.Sort(domains[service])
		for _, name := range slices.Compact(names[service]) {
			for _, domain := range slices.Compact(domains[service]) {
				add(name+"."+anyRegion+"."+domain, service)
			}
		}
	}
	return forms
})

// formOf returns a host without its account and region, and the region. For the host of a VPC
// endpoint, it removes the endpoint's own names, so that the public form is left.
func formOf(host string) (form, region string, ofVPC bool) {
	host = accountForm.ReplaceAllString(strings.TrimSuffix(strings.ToLower(host), "."), anyAccount+".")
	labels := strings.Split(host, ".")
	i := slices.IndexFunc(labels, regionForm.MatchString)
	if i < 0 {
		return host, "", false
	}
	region, labels[i] = labels[i], anyRegion
	if ofVPC = i+1 < len(labels) && labels[i+1] == "vpce"; ofVPC {
		labels = slices.Delete(labels, i+1, i+2)
	}
	return strings.Join(labels, "."), region, ofVPC
}

// Find returns the services with an endpoint at a host, and the endpoint's region, or "" if the
// host names no region. It returns no services for a host that is not Amazon's, or that anyone can
// rent. Sources of the names of VPC endpoints:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/privatelink-interface-endpoints.html,
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/privatelink-interface-endpoints.html
func Find(host string) (services []string, region string) {
	form, region, ofVPC := formOf(host)
	for {
		if services = awsForms()[form]; len(services) > 0 {
			return services, region
		}
		_, rest, more := strings.Cut(form, ".")
		if !ofVPC || !more {
			return nil, ""
		}
		form = rest
	}
}

// Is reports whether a service that the program calls has an AWS endpoint at a host.
func Is(host string) bool {
	services, _ := Find(host)
	return len(services) > 0
}

// IsEndpoint reports whether a URL is an AWS endpoint with https.
func IsEndpoint(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && strings.EqualFold(u.Scheme, "https") && Is(u.Hostname())
}
