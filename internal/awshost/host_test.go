package awshost

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// The partition of a region that AWS does not have is unknown, although the SDK guesses one.
func TestKnownPartition(t *testing.T) {
	for region, want := range map[string]string{"eu-west-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "eusc-de-east-1": "aws-eusc", "eu-west-99": "", "": ""} {
		if got, known := KnownPartition(region); got != want || known != (want != "") {
			t.Errorf("region %q is in partition %q (%t), want %q", region, got, known, want)
		}
	}
}

// The partition of each known region equals the SDK's, and none is missing.
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

// Every host that the SDK chooses by itself is Amazon's: in every region, with IPv6, with FIPS, per
// account.
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
				for host, service := range map[string]string{tables.URI.Host: Tables, account.URI.Host: Tables, streams.URI.Host: Streams,
					"vpce-0a-1b." + ofVPC(tables.URI.Host, region): Tables, "vpce-0a-1b-" + region + "a." + ofVPC(streams.URI.Host, region): Streams} {
					if at, in := Find(host); !slices.Contains(at, service) || in != region {
						t.Errorf("%s of %s is taken for one of %v in %q", host, service, at, in)
					}
				}
			}
		}
	}
}

// ofVPC returns a public host name of a VPC endpoint for DynamoDB.
func ofVPC(host, region string) string {
	return strings.Replace(host, region+".", region+".vpce.", 1)
}

// Anybody can rent hosts in Amazon's domains. Only names at which a service has its endpoints
// count.
func TestRentedHostsAreNotAmazons(t *testing.T) {
	for _, host := range []string{
		"ec2-1-2-3-4.compute-1.amazonaws.com", "ec2-1-2-3-4.eu-west-1.compute.amazonaws.com", "ec2-1-2-3-4.cn-north-1.compute.amazonaws.com.cn",
		"my-lb-1.us-east-1.elb.amazonaws.com", "my-lb.elb.us-east-1.amazonaws.com", "abc.execute-api.us-east-1.amazonaws.com", "abc.execute-api.us-east-1.api.aws",
		"bucket.s3-website-us-east-1.amazonaws.com", "bucket.s3-website.eu-central-1.amazonaws.com", "bucket.s3.eu-west-1.amazonaws.com", "dynamodb.s3.us-east-1.amazonaws.com",
		"d.us-east-1.awsapprunner.com", "search-x.us-east-1.es.amazonaws.com", "db.abc.us-east-1.rds.amazonaws.com", "x.lambda-url.us-east-1.on.aws",
		"vpce-0a.vpce-svc-0b.us-east-1.vpce.amazonaws.com", "vpce-0a.execute-api.us-east-1.vpce.amazonaws.com", "dynamodb.us-east-1.elb.amazonaws.com",
		"x.dynamodb.us-east-1.amazonaws.com", "us-east-1.amazonaws.com", "amazonaws.com", "dynamodb.us-east-1.example.org", "REGION.dynamodb.amazonaws.com",
		"dynamodb.region.amazonaws.com", "sqs.us-east-1.amazonaws.com", "",
	} {
		if services, _ := Find(host); len(services) > 0 {
			t.Errorf("%s is taken for an endpoint of %v", host, services)
		}
	}
	for host, want := range map[string]string{
		"dynamodb.us-east-9.amazonaws.com": Tables, "dynamodb-fips.us-east-1.amazonaws.com": Tables, "111122223333.ddb.eu-west-1.amazonaws.com": Tables,
		"vpce-0a-1b.dynamodb.us-east-1.vpce.amazonaws.com": Tables, "vpce-0a-1b.dynamodb-fips.us-east-1.vpce.amazonaws.com": Tables,
		"vpce-0a-1b.streams.dynamodb.us-east-1.vpce.amazonaws.com": Streams, "streams-dynamodb.eu-west-1.api.aws": Streams,
		"streams-dynamodb.eusc-de-east-1.api.amazonwebservices.eu": Streams,
		"bucket.vpce-0a-1b.s3.us-east-1.vpce.amazonaws.com":        "S3", "s3.amazonaws.com": "S3", "s3.dualstack.eu-west-1.amazonaws.com": "S3",
		"sts.amazonaws.com": "STS", "vpce-0a-1b.sts.us-east-1.vpce.amazonaws.com": "STS", "portal.sso.eu-west-1.amazonaws.com": "SSO", "oidc.eu-west-1.amazonaws.com": "SSO OIDC",
	} {
		if services, _ := Find(host); !slices.Equal(services, []string{want}) {
			t.Errorf("%s: %v, want %s", host, services, want)
		}
	}
}
