package preflight

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/dynamodb-bigtable/replicator/backfill"
)

// assume returns the credentials of a role, which the identity of a configuration assumes. They are
// renewed before they expire. The SDK asks for sessions of 15 minutes, because STS limits a session
// of a role that another role assumed to one hour
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining). An
// empty external id is not sent.
func assume(with aws.Config, role, externalID string) aws.CredentialsProvider {
	provider := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(with), role, func(o *stscreds.AssumeRoleOptions) {
		if externalID != "" {
			o.ExternalID = &externalID
		}
	})
	return checkedCredentials{assumed{aws.NewCredentialsCache(provider, renewEarly), role}}
}

// assumed names the role in an error. In a chain of roles that is the first one that could not be
// assumed.
type assumed struct {
	aws.CredentialsProvider
	role string
}

// Retrieve implements aws.CredentialsProvider.
func (a assumed) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := a.CredentialsProvider.Retrieve(ctx)
	var earlier *notAssumed
	switch {
	case err == nil:
		return found, nil
	case errors.As(err, &earlier):
		return aws.Credentials{}, earlier
	}
	return aws.Credentials{}, &notAssumed{a.role, err}
}

// notAssumed is the reason why a role has no credentials.
type notAssumed struct {
	role string
	err  error
}

func (e *notAssumed) Error() string { return "cannot assume role " + e.role + ": " + e.err.Error() }

func (e *notAssumed) Unwrap() error { return e.err }

// ClientAs returns a client of DynamoDB that uses another role. The identity of the source assumes
// that role. The client shares its connections with no other.
func (s *Source) ClientAs(role string) *dynamodb.Client {
	ac := s.config.Copy()
	ac.Credentials = assume(s.config, role, "")
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
