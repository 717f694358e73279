package awshost

import "github.com/aws/aws-sdk-go-v2/service/dynamodb"

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
