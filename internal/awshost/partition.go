package awshost

import "github.com/aws/aws-sdk-go-v2/service/dynamodb"

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
