package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Each cause that Google's services share has its fix, whichever service reports it, and the
// service's own message is kept.
func TestTheFixFitsTheCause(t *testing.T) {
	for _, c := range []struct{ said, code, fix string }{
		{"Cloud Bigtable API has not been used in project 1 before or it is disabled. Enable it by visiting the console.", "", "gcloud services enable"},
		{"Caller does not have required permission to use project demo. Grant the caller a role with the serviceusage.services.use permission.", "", "roles/serviceusage.serviceUsageConsumer"},
		{"Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: abc", "", "VPC Service Controls"},
		{"This API method requires billing to be enabled. Please enable billing on project #1.", "", "gcloud billing projects link"},
		{"The pubsub.googleapis.com API requires a quota project, which is not set by default.", "", "set-quota-project"},
		{"Quota exceeded for quota metric 'Tables per instance'", "", "remove unused tables"},
		{"Quota exceeded for quota metric 'Regional publisher throughput, kB'", "", "raise the quota"},
		{"Request had invalid authentication credentials. Expected OAuth 2 access token.", "", "keys list"},
		{"transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority", "", "SSL_CERT_FILE"},
		{`transport: per-RPC creds failed due to error: auth: "invalid_grant" "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values"`, diag.ClockWrong, "timedatectl"},
		{"tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2020-01-01T00:00:00Z is before 2025", diag.ClockWrong, "clock of this host"},
		{`auth: "invalid_grant" "Token has been expired or revoked."`, diag.NoGCPCredentials, "application-default login"},
		{`auth: "invalid_grant" "Invalid JWT Signature."`, diag.NoGCPCredentials, "create a new key"},
		{`Get "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token": dial tcp 169.254.169.254:80: i/o timeout`, diag.NoGCPCredentials, "metadata server"},
		{"transport: per-RPC creds failed due to error: credentials: cannot fetch token: compute: Received 403 `Unable to generate access token`", diag.NoGCPCredentials, "metadata server"},
		{`metadata: GCE metadata "instance/service-accounts/default/token" not defined`, diag.NoGCPCredentials, "metadata server"},
		{`Post "https://oauth2.googleapis.com/token": proxyconnect tcp: dial tcp 10.0.0.1:3128: connect: connection refused`, diag.NoGCPCredentials, "HTTPS_PROXY"},
		{"credentials: could not find default credentials", diag.NoGCPCredentials, ""},
		{"The project acme-billing refuses the caller", "", ""}, // names prove nothing
	} {
		for from, err := range map[string]error{
			"a ping of Bigtable": ExplainTarget("what", &sink.Error{Op: "PingAndWarm", Reason: sink.Denied, Code: "PermissionDenied", Text: c.said}),
			"the ledger":         ExplainTarget("what", status.Error(codes.PermissionDenied, c.said)),
			"Pub/Sub":            ExplainTopic("what", &relay.Error{Op: "Publish", Reason: relay.Denied, Code: "PermissionDenied", Text: c.said}),
			"Cloud Storage":      ImagesFailed("gs://b/AWSDynamoDB/01", errors.New(c.said)),
		} {
			var e *diag.Error
			if !errors.As(err, &e) || c.code != "" && e.Code != c.code || !strings.Contains(e.Facts().Fix, c.fix) || !strings.Contains(e.Facts().Cause, c.said) {
				t.Errorf("%s of %s: %+v", c.said, from, e)
			}
			if strings.Contains(e.Fix, "{") {
				t.Errorf("%s: %s", from, e.Fix)
			}
		}
	}
	var e *diag.Error
	if err := ImagesFailed("s3://b/AWSDynamoDB/01", errors.New("Quota exceeded")); !errors.As(err, &e) || strings.Contains(e.Fix, "quota") {
		t.Errorf("S3 has the fix of Google: %+v", e)
	}
}

// All three clients report an unusable credentials file as that, and never advise checking the
// network.
func TestFilesOfCredentials(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("BIGTABLE_EMULATOR_HOST", "")
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	cfg := &config.Config{Target: config.Target{Project: "p", Instance: "i"}}
	for path, fix := range map[string]string{
		filepath.Join(folder, "missing.json"):                                  "correct GOOGLE_APPLICATION_CREDENTIALS",
		folder:                                                                 "not to its folder",
		write("empty.json", ""):                                                "again",
		write("cut.json", `{"type": "service_acc`):                             "its JSON is incomplete",
		write("list.json", `[]`):                                               "the key of a service account",
		write("text.json", `"foo"`):                                            "the key of a service account",
		write("mark.json", "\ufeff{}"):                                         "without a byte order mark",
		write("wide.json", "\xff\xfe{\x00}\x00"):                               "without a byte order mark",
		write("base64.json", "eyJ0eXBlIjoieCJ9\n"):                             "base64 --decode",
		write("key.pem", "-----BEGIN PRIVATE KEY-----\n"):                      "the key of a service account",
		write("impersonated.json", `{"type": "impersonated_service_account"}`): "the key of a service account",
		write("external.json", `{"type": "external_account"}`):                 "the key of a service account",
		write("external2.json", `{"type": "external_account", "audience": "a", "token_url": "https://sts.googleapis.com", "subject_token_type": "t"}`): "the key of a service account",
		write("gdch.json", `{"type": "gdch_service_account"}`):             "the key of a service account",
		write("user.json", `{"type": "external_account_authorized_user"}`): "the key of a service account",
		write("authorized.json", `{"type": "authorized_user"}`):            "the key of a service account",
		write("unknown.json", `{}`):                                        "the key of a service account",
		write("other.json", `{"type": "other"}`):                           "the key of a service account",
		write("badkey.json", `{"type": "service_account", "client_email": "a@b", "private_key": "x", "token_uri": "https://oauth2.googleapis.com/token"}`): "the key of a service account",
	} {
		t.Setenv(credentialsVariable, path)
		_, bigtable := ConnectTarget(t.Context(), cfg)
		_, _, pubsub := openTopic(t.Context(), "projects/p/topics/t")
		const address = "gs://b/AWSDynamoDB/01"
		storage := reading(t, address)
		for from, err := range map[string]error{"Bigtable": bigtable, "Pub/Sub": pubsub, "Cloud Storage": ImagesFailed(address, storage)} {
			var e *diag.Error
			if !errors.As(err, &e) || e.Code != diag.NoGCPCredentials || !strings.Contains(e.Fix, fix) || !strings.Contains(e.Cause, path) {
				t.Errorf("%s, %s: %+v, %v", filepath.Base(path), from, e, err)
			}
		}
	}
	// Root can read every file.
	unreadable := &os.PathError{Op: "open", Path: "key.json", Err: os.ErrPermission}
	var e *diag.Error
	if err := notConnected(cfg, fmt.Errorf("open: %w", unreadable)); !errors.As(err, &e) || e.Code != diag.NoGCPCredentials || !strings.Contains(e.Fix, "allow this user") {
		t.Errorf("%+v", e)
	}
	if err := ExplainTarget("cannot read the ledger", unreadable); !diag.Has(err, diag.TargetUnreachable) {
		t.Errorf("only opening reads a file of credentials: %v", err)
	}
}

// A refusal for lack of capacity has its own code.
func TestThrottledIsNoNetwork(t *testing.T) {
	for from, err := range map[string]error{
		"CreateTable": ExplainTarget("what", &sink.Error{Op: "CreateTable", Reason: sink.Throttled, Code: "ResourceExhausted"}),
		"the ledger":  ExplainTarget("what", status.Error(codes.ResourceExhausted, "busy")),
		"Publish":     Explain("what", fmt.Errorf("publish: %w", &relay.Error{Op: "Publish", Reason: relay.Throttled, Code: "ResourceExhausted"})),
	} {
		var e *diag.Error
		if !errors.As(err, &e) || e.Code != diag.QuotaExceeded || strings.Contains(e.Facts().Fix, "network") {
			t.Errorf("%s: %+v", from, e)
		}
	}
	for _, code := range []string{"FailedPrecondition", "InvalidArgument", "Unimplemented"} {
		err := ExplainTarget("what", &sink.Error{Op: "PingAndWarm", Reason: sink.Permanent, Code: code, Text: "why"})
		var e *diag.Error
		if !errors.As(err, &e) || strings.Contains(e.Facts().Fix, "network") || e.Code == diag.ProfileNoTxn {
			t.Errorf("%s of a ping: %+v", code, e)
		}
	}
}

func TestWhatMayPass(t *testing.T) {
	for _, c := range []struct {
		err  error
		pass bool
		late bool
	}{
		{&sink.Error{Reason: sink.Throttled, Code: "ResourceExhausted"}, true, false},
		{&sink.Error{Reason: sink.Unknown, Code: "Unavailable", Text: "the service is unavailable"}, true, false},
		{&sink.Error{Reason: sink.Unknown, Code: "Unavailable", Text: `connection error: desc = "refused"`}, false, false},
		{&sink.Error{Reason: sink.Unknown, Code: "DeadlineExceeded"}, true, true},
		{&sink.Error{Reason: sink.Denied, Code: "PermissionDenied"}, false, false},
		{&sink.Error{Reason: sink.Permanent, Code: "NotFound"}, false, false},
		{&sink.SchemaError{Problem: sink.MissingTable}, false, false},
		{&relay.Error{Reason: relay.Throttled, Code: "ResourceExhausted"}, true, false},
		{&relay.Error{Reason: relay.Unavailable, Code: "Internal"}, true, false},
		{&relay.Error{Reason: relay.Unavailable, Code: "Unavailable", Text: "name resolver error: produced zero addresses"}, false, false},
		{&relay.Error{Reason: relay.NotFound, Code: "NotFound"}, false, false},
		{&relay.Error{Reason: relay.Unavailable, Code: "DeadlineExceeded"}, true, true},
		{status.Error(codes.ResourceExhausted, "busy"), true, false},
		{status.Error(codes.Unavailable, "busy"), true, false},
		{status.Error(codes.Unavailable, `connection error: desc = "refused"`), false, false},
		{status.Error(codes.DeadlineExceeded, "late"), true, true},
		{status.Error(codes.NotFound, "no table"), false, false},
		{context.DeadlineExceeded, false, true},
		{errors.New("other"), false, false},
	} {
		wrapped := &diag.Error{Code: diag.TargetUnreachable, Err: fmt.Errorf("in a step: %w", c.err)}
		if mayPass(wrapped) != c.pass || unanswered(wrapped) != c.late {
			t.Errorf("%+v: may pass %v, unanswered %v", c.err, mayPass(wrapped), unanswered(wrapped))
		}
	}
}

// If no variable names a credentials file, the error names the file that gcloud writes.
func TestTheFileOfGcloudIsNamed(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".config", "gcloud", "application_default_credentials.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"type": "authorized_us`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HOME": home, "BIGTABLE_EMULATOR_HOST": "", credentialsVariable: ""} {
		t.Setenv(name, value)
	}
	_, err := ConnectTarget(t.Context(), &config.Config{Target: config.Target{Project: "p", Instance: "i"}})
	var e *diag.Error
	if !errors.As(err, &e) || e.Code != diag.NoGCPCredentials || !strings.Contains(e.Cause, path) || e.Fix != notWhole {
		t.Errorf("%+v", e)
	}
}

// An error of opening a client counts as a credentials error only if the network is not involved.
func TestTheNetworkIsNoFileOfCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(credentialsVariable, path)
	for err, want := range map[error]string{
		&net.OpError{Op: "dial", Err: errors.New("network is unreachable")}:      diag.TargetUnreachable,
		&url.Error{Op: "Post", URL: "https://example.com", Err: errors.New("x")}: diag.TargetUnreachable,
		context.DeadlineExceeded: diag.TargetUnreachable,
		errors.New("a field that is new in this kind of file is missing"): diag.NoGCPCredentials,
	} {
		if got := notConnected(&config.Config{}, fmt.Errorf("open: %w", err)); !diag.Has(got, want) {
			t.Errorf("%v: %v, want %s", err, got, want)
		}
	}
}

// Credentials in place of their file name are refused before a client is opened, and are not shown.
func TestCredentialsInPlaceOfTheirFile(t *testing.T) {
	for _, emulator := range []string{"BIGTABLE_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST"} {
		t.Setenv(emulator, "")
	}
	t.Setenv(credentialsVariable, `{"private_key": "-----BEGIN PRIVATE KEY-----\nSECRETX"}`)
	_, bigtable := ConnectTarget(t.Context(), &config.Config{})
	_, _, topic := openTopic(t.Context(), "projects/p/topics/t")
	_, _, subscription := openSubscription(t.Context(), "what", "projects/p/subscriptions/s")
	storage := reading(t, "gs://b/AWSDynamoDB/01")
	for from, err := range map[string]error{"Bigtable": bigtable, "topic": topic, "subscription": subscription, "Cloud Storage": storage} {
		if !diag.Has(err, diag.NoGCPCredentials) || !strings.Contains(err.Error(), "holds JSON, not the path of a file") || strings.Contains(err.Error(), "SECRETX") {
			t.Errorf("%s: %v", from, err)
		}
	}
	t.Setenv("BIGTABLE_EMULATOR_HOST", "127.0.0.1:9")
	if err := checkGoogle("BIGTABLE_EMULATOR_HOST"); err != nil {
		t.Errorf("an emulator takes no credentials: %v", err)
	}
}

// reading returns the error of reading an address.
func reading(t *testing.T, address string) error {
	t.Helper()
	_, err := source.Open(t.Context(), source.Ends{Folders: func(ctx context.Context, address string) (exports.Store, string, error) {
		return (*Source)(nil).OpenFolder(ctx, func(string) (string, bool) { return "", false }, address)
	}}, address)
	return err
}
