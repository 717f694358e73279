package awshost

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// defaultPartition is the partition that the AWS SDK uses for an unknown region.
const defaultPartition = "aws"

// Partition returns the AWS partition of a region, the second part of every ARN in it. It asks the
// resolver of a service, because the SDK does not export its table of partitions.
func Partition(region string) string {
	endpoint, err := dynamodb.NewDefaultEndpointResolver().ResolveEndpoint(region, dynamodb.EndpointResolverOptions{})
	if err != nil { // the region is empty
		return defaultPartition
	}
	return endpoint.PartitionID
}

// KnownPartition returns the partition of a region that AWS has. It returns false for any other
// region, because the SDK only guesses the partition of a region that may be newer than the SDK.
func KnownPartition(region string) (partition string, known bool) {
	if !slices.Contains(regions, region) {
		return "", false
	}
	return Partition(region), true
}
