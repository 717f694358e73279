package preflight

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	smithy "github.com/aws/smithy-go/middleware"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Every request to AWS names the program and its version, beside the SDK: those for tables, streams
// and identities. An AWS configuration of the program stays as it was.
func TestRequestsToAWSNameTheProgram(t *testing.T) {
	agents := map[string]string{}
	embedded := dynamodbtest.New(dynamodbtest.Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := r.Header.Get("X-Amz-Target")
		agents[operation[strings.LastIndexByte(operation, '.')+1:]] = r.UserAgent()
		embedded.ServeHTTP(w, r)
	}))
	defer server.Close()
	for name, value := range map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": server.URL} {
		t.Setenv(name, value)
	}
	given := aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("own", "secret", ""), BaseEndpoint: &server.URL, APIOptions: make([]func(*smithy.Stack) error, 0, 4)}
	for name, clients := range map[string]Clients{"the environment": {}, "a program": {AWS: &given}} {
		clear(agents)
		s, err := ConnectSource(WithClients(context.Background(), clients), &config.Config{})
		if err != nil {
			t.Fatal(err)
		}
		// The answers do not matter here: there is no table.
		_, _ = s.Describe(t.Context(), "Orders")
		_, _ = s.Stream("arn:aws:dynamodb:eu-west-1:000000000000:table/Orders/stream/2026-11-02T12:00:00.000").Describe(t.Context())
		_, _ = s.Caller(t.Context())
		for _, operation := range []string{"DescribeTable", "DescribeStream", ""} { // STS names its operations in the body
			agent := agents[operation]
			if !strings.HasPrefix(agent, "aws-sdk-go-v2/") || !strings.Contains(agent, " "+build.UserAgent()) {
				t.Errorf("%s: %s has the User-Agent %q; all: %v", name, operation, agent, agents)
			}
		}
	}
	if of := given.APIOptions; len(of) != 0 || of[:1][0] != nil {
		t.Errorf("the program's own configuration has changed: %v", of)
	}
}
