package preflight

import (
	"context"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"google.golang.org/api/option"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

// Settings of a program replace those of the environment, for the tables and for their streams.
func TestClientsOfAProgram(t *testing.T) {
	t.Setenv("AWS_REGION", "us-west-2")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:1")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "http://localhost:1")
	given := aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("own", "secret", ""), HTTPClient: http.DefaultClient, RetryMaxAttempts: 9}
	for _, c := range []struct {
		name             string
		clients          Clients
		cfg              config.Config
		region, endpoint string
	}{
		{"none", Clients{}, config.Config{}, "us-west-2", "http://localhost:1"},
		{"an endpoint", Clients{Endpoint: "http://localhost:2"}, config.Config{}, "us-west-2", "http://localhost:2"},
		{"an AWS configuration", Clients{AWS: &given, Endpoint: "http://localhost:2"}, config.Config{}, "eu-west-1", "http://localhost:2"},
		{"a region of the migration", Clients{AWS: &given}, config.Config{Source: config.Source{Region: "eu-central-1"}}, "eu-central-1", ""},
	} {
		s, err := ConnectSource(WithClients(context.Background(), c.clients), &c.cfg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		tables, streams := s.client.Options(), s.streams.Options()
		if s.Region != c.region || aws.ToString(tables.BaseEndpoint) != c.endpoint || aws.ToString(streams.BaseEndpoint) != c.endpoint {
			t.Errorf("%s: region %s, tables at %v, streams at %v", c.name, s.Region, aws.ToString(tables.BaseEndpoint), aws.ToString(streams.BaseEndpoint))
		}
		if c.clients.AWS == nil {
			continue
		}
		if key, err := tables.Credentials.Retrieve(t.Context()); err != nil || key.AccessKeyID != "own" || s.config.RetryMaxAttempts != 1 || s.config.Logger == nil {
			t.Errorf("%s: key %q, %v; %d attempts", c.name, key.AccessKeyID, err, s.config.RetryMaxAttempts)
		}
	}
	if given.Region != "eu-west-1" || given.RetryMaxAttempts != 9 || given.Logger != nil {
		t.Errorf("the program's own configuration has changed: %+v", given)
	}
}

// The engine sees the endpoints of a program, and the check of the environment does not.
func TestLookupOfClients(t *testing.T) {
	t.Setenv("BIGTABLE_EMULATOR_HOST", "localhost:1")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:1")
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://localhost:1")
	all := Clients{Endpoint: "http://localhost:2", Emulator: "localhost:3"}
	for _, c := range []struct {
		clients           Clients
		name, seen, check string
	}{
		{Clients{}, "BIGTABLE_EMULATOR_HOST", "localhost:1", "localhost:1"},
		{all, "BIGTABLE_EMULATOR_HOST", "localhost:3", ""},
		{all, "AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:2", ""},
		{all, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "http://localhost:2", ""},
		{all, "AWS_ENDPOINT_URL_S3", "http://localhost:1", "http://localhost:1"},
		{Clients{Endpoint: "http://localhost:2"}, "BIGTABLE_EMULATOR_HOST", "localhost:1", "localhost:1"},
		{Clients{Emulator: "localhost:3"}, "AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:1", "http://localhost:1"},
	} {
		seen, _ := c.clients.Lookup(c.name)
		check, _ := c.clients.Inherited(c.name)
		if seen != c.seen || check != c.check {
			t.Errorf("%+v: %s is %q, and %q for the check", c.clients, c.name, seen, check)
		}
	}
}

// A program that has its own Google credentials needs none in the environment.
func TestNoTokenWithOwnCredentials(t *testing.T) {
	t.Setenv(environment.GoogleCredentials, "/does/not/exist")
	if err := noToken(t.Context()); err == nil {
		t.Error("without own credentials, the missing file is no reason")
	}
	if err := noToken(WithClients(t.Context(), Clients{Google: []option.ClientOption{option.WithoutAuthentication()}})); err != nil {
		t.Errorf("with own credentials: %v", err)
	}
}
