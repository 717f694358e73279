package config

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// The partition of each region that is known is the SDK's, and none is left out.
func TestPartition(t *testing.T) {
	for region, want := range map[string]string{
		"eu-central-1": "aws", "us-east-9": "aws", "": "aws", "local": "aws",
		"cn-north-1": "aws-cn", "cn-northwest-7": "aws-cn",
		"us-gov-west-1": "aws-us-gov", "eusc-de-east-1": "aws-eusc",
		"us-iso-east-1": "aws-iso", "us-isob-east-1": "aws-iso-b", "eu-isoe-west-1": "aws-iso-e", "us-isof-south-1": "aws-iso-f",
	} {
		if got := Partition(region); got != want {
			t.Errorf("%s: %s, want %s", region, got, want)
		}
	}
}

// Whatever host the SDK leads to by itself is Amazon's: in every region, by IPv6, for FIPS, of an account.
func TestEveryHostOfTheSDKIsAmazons(t *testing.T) {
	for _, region := range regions {
		for _, dualStack := range []bool{false, true} {
			for _, fips := range []bool{false, true} {
				tables, err := dynamodb.NewDefaultEndpointResolverV2().ResolveEndpoint(context.Background(),
					dynamodb.EndpointParameters{Region: &region, UseDualStack: &dualStack, UseFIPS: &fips})
				if err != nil {
					t.Fatal(region, err)
				}
				account, err := dynamodb.NewDefaultEndpointResolverV2().ResolveEndpoint(context.Background(), dynamodb.EndpointParameters{
					Region: &region, UseDualStack: &dualStack, UseFIPS: aws.Bool(false), AccountId: aws.String("123456789012"), AccountIdEndpointMode: aws.String("preferred")})
				if err != nil {
					t.Fatal(region, err)
				}
				streams, err := dynamodbstreams.NewDefaultEndpointResolverV2().ResolveEndpoint(context.Background(),
					dynamodbstreams.EndpointParameters{Region: &region, UseDualStack: &dualStack, UseFIPS: &fips})
				if err != nil {
					t.Fatal(region, err)
				}
				for _, host := range []string{tables.URI.Host, account.URI.Host, streams.URI.Host, "vpce-0a-1b." + tables.URI.Host} {
					if !IsAWSHost(host) {
						t.Errorf("%s is taken for an emulator", host)
					}
				}
			}
		}
	}
}
