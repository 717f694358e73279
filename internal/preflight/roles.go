package preflight

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/dynamodb-bigtable/replicator/backfill"
)

// ClientAs returns a client of DynamoDB that uses another role. The identity of the source assumes
// that role. The client shares its connections with no other.
func (s *Source) ClientAs(role string) *dynamodb.Client {
	ac := s.config.Copy()
	provider := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(s.config), role)
	ac.Credentials = checkedCredentials{aws.NewCredentialsCache(provider, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = renewBefore })}
	ac.HTTPClient = awshttp.NewBuildableClient().WithTimeout(FetchTime)
	return dynamodb.NewFromConfig(ac, backfill.ClientOptions, s.byARN)
}

// Caller returns the ARN of the identity that reads the source.
func (s *Source) Caller(ctx context.Context) (string, error) {
	out, err := sts.NewFromConfig(s.config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", ExplainSource("cannot find out which AWS role this process uses", "", err)
	}
	return aws.ToString(out.Arn), nil
}
