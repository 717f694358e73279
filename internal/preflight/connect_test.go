package preflight

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

const testRole = "arn:aws:iam::123456789012:role/reader"

// roles returns a list of at most one role.
func roles(arn string) []string {
	if arn == "" {
		return nil
	}
	return []string{arn}
}

// awsEnvironment is an environment in which only the given values lead to credentials.
func awsEnvironment(t *testing.T, env map[string]string) {
	t.Helper()
	nowhere := filepath.Join(t.TempDir(), "none")
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS", "AWS_CA_BUNDLE",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", nowhere)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nowhere)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for name, value := range env {
		t.Setenv(name, value)
	}
}

// wayToCredentials is an environment and a configuration in which credentials come from the service
// at a URL.
type wayToCredentials struct {
	role string
	env  func(t *testing.T, url string) map[string]string
}

var waysToCredentials = map[string]wayToCredentials{
	"the configuration's role": {testRole, func(_ *testing.T, url string) map[string]string {
		return map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL_STS": url}
	}},
	"a web identity": {"", func(t *testing.T, url string) map[string]string {
		token := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
			t.Fatal(err)
		}
		return map[string]string{"AWS_ROLE_ARN": testRole, "AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ENDPOINT_URL_STS": url}
	}},
	"a container": {"", func(_ *testing.T, url string) map[string]string {
		return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}
	}},
}

// A service that accepts the connection and never answers blocks no caller forever: the request
// ends, and the next call tries again.
func TestCredentialsAreWaitedForSoLong(t *testing.T) {
	for name, way := range waysToCredentials {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			over := make(chan struct{})
			silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				asked.Add(1)
				<-over
			}))
			defer silent.Close()
			defer close(over)
			awsEnvironment(t, way.env(t, silent.URL))
			ac, err := LoadAWS(t.Context(), &config.Config{Source: config.Source{Region: "eu-west-1", Roles: roles(way.role)}}, 50*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			for asked.Load() < 2 {
				before := asked.Load()
				// This limit is far above the duration. It ends the test if nothing else does.
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				_, err := ac.Credentials.Retrieve(ctx)
				given := ctx.Err()
				cancel()
				if err == nil || given != nil || asked.Load() == before {
					t.Fatalf("after %d more requests: %v", asked.Load()-before, err)
				}
			}
		})
	}
}

// If a clock is behind by as much as DynamoDB accepts, no expired credentials are sent.
func TestCredentialsAreRenewedBeforeTheirEnd(t *testing.T) {
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	credentials := fmt.Sprintf("<Credentials><AccessKeyId>k</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"+
		"<Expiration>%s</Expiration></Credentials>", end.Format(time.RFC3339))
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprintf(w, `{"AccessKeyId":"k","SecretAccessKey":"s","Token":"t","Expiration":%q}`, end.Format(time.RFC3339))
			return
		}
		action := r.PostFormValue("Action")
		_, _ = fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, credentials)
	}))
	defer sts.Close()
	for name, way := range waysToCredentials {
		t.Run(name, func(t *testing.T) {
			awsEnvironment(t, way.env(t, sts.URL))
			ac, err := LoadAWS(t.Context(), &config.Config{Source: config.Source{Region: "eu-west-1", Roles: roles(way.role)}}, FetchTime)
			if err != nil {
				t.Fatal(err)
			}
			c, err := ac.Credentials.Retrieve(t.Context())
			if err != nil || !c.Expires.Equal(end.Add(-renewBefore)) {
				t.Errorf("they are used until %s before their end; %v", end.Sub(c.Expires), err)
			}
		})
	}
}

// The limit for credentials must not replace the limit for the source's own requests. Those options
// only configure a client that can be extended, and leave others unchanged.
func TestSourceRequestsKeepTheirOwnBounds(t *testing.T) {
	awsEnvironment(t, map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
	s, err := ConnectSource(t.Context(), &config.Config{Source: config.Source{Region: "eu-west-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if client, ok := s.config.HTTPClient.(*awshttp.BuildableClient); !ok || client.GetTimeout() != FetchTime {
		t.Errorf("requests for credentials are sent by a %T", s.config.HTTPClient)
	}
}

// The destination of the clients is checked and reported before clients exist, whatever the
// environment and its profile set.
func TestEndpointsAreThoseOfTheClients(t *testing.T) {
	const unset = "unset"
	own := []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS"}
	awsEnvironment(t, map[string]string{"AWS_PROFILE": "p", "AWS_REGION": "eu-west-1"})
	cases := 0
	for _, profile := range []string{"", "endpoint_url = https://any.profile", "services = s", "endpoint_url = https://any.profile\nservices = s"} {
		for _, ignored := range []string{"", "ignore_configured_endpoint_urls = true"} {
			file := filepath.Join(t.TempDir(), "config")
			content := "[profile p]\n" + profile + "\n" + ignored + "\n[services s]\ndynamodb =\n  endpoint_url = https://tables.profile\n"
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("AWS_CONFIG_FILE", file)
			for _, general := range []string{unset, "", "https://any.env"} {
				for _, specific := range []string{unset, "", "https://own.env"} {
					for _, ignore := range []string{"", "false", "True"} {
						for name, value := range map[string]string{"AWS_ENDPOINT_URL": general, own[0]: specific, own[1]: specific, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": ignore} {
							t.Setenv(name, value)
							if value == unset {
								os.Unsetenv(name)
							}
						}
						source, err := ConnectSource(t.Context(), &config.Config{})
						if err != nil {
							t.Fatal(err)
						}
						tables, streams := environment.SourceEndpoints(os.LookupEnv)
						if want := aws.ToString(source.client.Options().BaseEndpoint); tables != want {
							t.Errorf("%s\n%q %q %q: tables at %q, want %q", content, general, specific, ignore, tables, want)
						}
						if want := aws.ToString(source.streams.Options().BaseEndpoint); streams != want {
							t.Errorf("%s\n%q %q %q: streams at %q, want %q", content, general, specific, ignore, streams, want)
						}
						cases++
					}
				}
			}
		}
	}
	if cases != 4*2*27 {
		t.Errorf("%d cases", cases)
	}
}
