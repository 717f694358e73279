package config

import (
	"context"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/signin"
)

// defaultPartition is where the AWS SDK looks for a region that it does not know.
const defaultPartition = "aws"

// Partition is the AWS partition of a region: the second part of every ARN in it. The table of
// partitions is the SDK's, which exports it only through the resolvers of its services.
func Partition(region string) string {
	endpoint, err := dynamodb.NewDefaultEndpointResolver().ResolveEndpoint(region, dynamodb.EndpointResolverOptions{})
	if err != nil { // no region is given
		return defaultPartition
	}
	return endpoint.PartitionID
}

// awsDomains are the domains in which the SDK's services have their endpoints, of all partitions,
// with and without IPv6. Endpoints of VPCs and of accounts, and those for FIPS, are in them too.
var awsDomains = sync.OnceValue(func() map[string]bool {
	domains := map[string]bool{}
	for _, region := range regions {
		for _, dualStack := range []bool{false, true} {
			for _, host := range awsHosts(region, dualStack) {
				if _, domain, ok := strings.Cut(host, region+"."); ok {
					domains[domain] = true
				}
			}
		}
	}
	return domains
})

// awsHosts are hosts of a region: one of a service like most others, and one of the sign-in service,
// which has domains of its own.
func awsHosts(region string, dualStack bool) (hosts []string) {
	ctx := context.Background()
	table, err := dynamodb.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
		dynamodb.EndpointParameters{Region: &region, UseDualStack: &dualStack, UseFIPS: aws.Bool(false)})
	if err == nil {
		hosts = append(hosts, table.URI.Host)
	}
	login, err := signin.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx,
		signin.EndpointParameters{Region: &region, UseDualStack: &dualStack, UseFIPS: aws.Bool(false)})
	if err == nil {
		hosts = append(hosts, login.URI.Host)
	}
	return hosts
}

// IsAWSHost tells whether a host is in a domain of Amazon's.
func IsAWSHost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	for {
		_, domain, ok := strings.Cut(host, ".")
		if !ok {
			return false
		}
		if awsDomains()[domain] {
			return true
		}
		host = domain
	}
}
