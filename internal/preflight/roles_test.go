package preflight

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

const (
	stepRole   = "arn:aws:iam::111122223333:role/step"
	readerRole = "arn:aws:iam::444455556666:role/reader"
	ordersARN  = "arn:aws:dynamodb:eu-west-1:444455556666:table/Orders"
)

// tokens is an STS that writes down who assumes which role, with which external id. The access key
// of a role's session is the last part of its ARN.
type tokens struct {
	*httptest.Server
	lasts  time.Duration // length of a session
	denies string        // role that may not be assumed

	mu    sync.Mutex
	asked []string
}

func issueTokens(t *testing.T, lasts time.Duration) *tokens {
	t.Helper()
	s := &tokens{lasts: lasts}
	s.Server = httptest.NewServer(http.HandlerFunc(s.assume))
	t.Cleanup(s.Close)
	awsEnvironment(t, map[string]string{"AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL_STS": s.URL})
	return s
}

func (s *tokens) assume(w http.ResponseWriter, r *http.Request) {
	role := r.PostFormValue("RoleArn")
	_, name, _ := strings.Cut(role, ":role/")
	_, caller, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	caller, _, _ = strings.Cut(caller, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, caller+" assumes "+name+" "+r.PostFormValue("ExternalId"))
	if role == s.denies {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>User %s is not authorized to perform: sts:AssumeRole on resource: %s</Message></Error></ErrorResponse>", caller, role)
		return
	}
	_, _ = fmt.Fprintf(w, "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"+
		"<Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>", name, time.Now().Add(s.lasts).UTC().Format(time.RFC3339))
}

// takeAsked returns the requests since the last call.
func (s *tokens) takeAsked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// Each role is assumed with the one before it, and only the last request has the external id. A
// session that ends within the margin is renewed, and so is each session before it.
func TestChainOfRoles(t *testing.T) {
	chain := config.Source{Region: "eu-west-1", Roles: []string{stepRole, readerRole}, ExternalID: "acme"}
	steps := []string{"own assumes step ", "step assumes reader acme"}
	for _, c := range []struct {
		name   string
		source config.Source
		lasts  time.Duration
		first  []string
		second []string
	}{
		{"no role", config.Source{Region: "eu-west-1"}, time.Hour, nil, nil},
		{"one role", config.Source{Region: "eu-west-1", Roles: []string{readerRole}, ExternalID: "acme"}, time.Hour, []string{"own assumes reader acme"}, nil},
		{"one role without an external id", config.Source{Region: "eu-west-1", Roles: []string{readerRole}}, time.Hour, []string{"own assumes reader "}, nil},
		{"a chain", chain, time.Hour, steps, nil},
		{"a chain that expires", chain, renewBefore - time.Minute, steps, steps},
	} {
		sts := issueTokens(t, c.lasts)
		ac, err := LoadAWS(t.Context(), &config.Config{Source: c.source}, FetchTime)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]string{c.first, c.second} {
			got, err := ac.Credentials.Retrieve(t.Context())
			if asked := sts.takeAsked(); err != nil || !slices.Equal(asked, want) {
				t.Errorf("%s, call %d: %q, want %q (%v)", c.name, i, asked, want, err)
			}
			if role := c.source.Role(); role != "" && got.AccessKeyID != "reader" || role == "" && got.AccessKeyID != "own" {
				t.Errorf("%s: requests are signed by %s", c.name, got.AccessKeyID)
			}
		}
	}
}

// The error names the role of the chain that was refused, once.
func TestRefusedRoleIsNamed(t *testing.T) {
	for _, denied := range []string{stepRole, readerRole} {
		sts := issueTokens(t, time.Hour)
		sts.denies = denied
		ac, err := LoadAWS(t.Context(), &config.Config{Source: config.Source{Region: "eu-west-1", Roles: []string{stepRole, readerRole}}}, FetchTime)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ac.Credentials.Retrieve(t.Context())
		e := explainCredentials("what", &credentialsError{err})
		if !strings.HasPrefix(e.Cause, "cannot assume role "+denied+": ") || strings.Count(e.Cause, "cannot assume") != 1 || e.Code != diag.SourceDenied || !strings.Contains(e.Fix, "source.external_id") {
			t.Errorf("%s denied: %s %q %q", denied, e.Code, e.Cause, e.Fix)
		}
	}
}

// The client of another role is assumed with the source's identity, without the external id of that
// identity. It too requests tables by their ARNs.
func TestClientAsAnotherRole(t *testing.T) {
	sts := issueTokens(t, time.Hour)
	var body, signer string
	tables := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body, signer = string(text), r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, "{}")
	}))
	defer tables.Close()
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", tables.URL)
	cfg, err := config.Parse("replicator.yaml", []byte("version: 1\nsource: {region: eu-west-1, role_arn: "+readerRole+", external_id: acme}\ntarget: {project: p, instance: i}\ntables: [{from: '"+ordersARN+"'}]\n"),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	s, err := ConnectSource(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		client *dynamodb.Client
		signer string
		asked  []string
	}{
		{s.Client(), "Credential=reader/", []string{"own assumes reader acme"}},
		{s.ClientAs("arn:aws:iam::444455556666:role/probe"), "Credential=probe/", []string{"reader assumes probe "}},
	} {
		_, err := c.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("Orders")})
		if asked := sts.takeAsked(); !slices.Equal(asked, c.asked) || !strings.Contains(signer, c.signer) || !strings.Contains(body, `"TableName":"`+ordersARN+`"`) {
			t.Errorf("%q, signed by %s: %s (%v)", asked, signer, body, err)
		}
	}
}

// The SDK's own settings of endpoints reach both clients.
func TestEndpointVariants(t *testing.T) {
	for _, on := range []string{"", "true"} {
		awsEnvironment(t, map[string]string{"AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_USE_FIPS_ENDPOINT": on, "AWS_USE_DUALSTACK_ENDPOINT": on})
		s, err := ConnectSource(t.Context(), &config.Config{Source: config.Source{Region: "us-east-1"}})
		if err != nil {
			t.Fatal(err)
		}
		tables, streams := s.Client().Options().EndpointOptions, s.streams.Options().EndpointOptions
		for name, got := range map[string]bool{
			"FIPS for tables": tables.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled, "FIPS for streams": streams.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled,
			"IPv6 for tables": tables.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled, "IPv6 for streams": streams.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled,
		} {
			if got != (on == "true") {
				t.Errorf("%s with %q: %t", name, on, got)
			}
		}
	}
}
