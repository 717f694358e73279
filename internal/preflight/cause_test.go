package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Each cause that Google's services have in common has its fix, whichever of them meets it, and the
// service's own words stay.
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
		{"The project acme-billing refuses the caller", "", ""}, // names tell nothing
	} {
		for from, err := range map[string]error{
			"a ping of Bigtable": ExplainTarget("what", &sink.Error{Op: "PingAndWarm", Reason: sink.Denied, Code: "PermissionDenied", Text: c.said}),
			"the ledger":         ExplainTarget("what", status.Error(codes.PermissionDenied, c.said)),
			"Pub/Sub":            explainTopic("what", &relay.Error{Op: "Publish", Reason: relay.Denied, Code: "PermissionDenied", Text: c.said}),
			"Cloud Storage":      ExportFailed("gs://b/AWSDynamoDB/01", errors.New(c.said)),
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
	if err := ExportFailed("s3://b/AWSDynamoDB/01", errors.New("Quota exceeded")); !errors.As(err, &e) || strings.Contains(e.Fix, "quota") {
		t.Errorf("S3 has the fix of Google: %+v", e)
	}
}

// All three clients report a file of credentials that cannot be used as that, and never advise to
// check the network.
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
		filepath.Join(folder, "missing.json"):      "correct GOOGLE_APPLICATION_CREDENTIALS",
		folder:                                     "not to its folder",
		write("empty.json", ""):                    "no whole JSON",
		write("cut.json", `{"type": "service_acc`): "no whole JSON",
		write("list.json", `[]`):                   "no whole JSON",
		write("unknown.json", `{}`):                "the key of a service account",
		write("other.json", `{"type": "other"}`):   "the key of a service account",
		write("badkey.json", `{"type": "service_account", "client_email": "a@b", "private_key": "x", "token_uri": "https://oauth2.googleapis.com/token"}`): "the key of a service account",
	} {
		t.Setenv(credentialsVariable, path)
		_, bigtable := ConnectTarget(t.Context(), cfg)
		_, _, pubsub := openTopic(t.Context(), "projects/p/topics/t")
		const address = "gs://b/AWSDynamoDB/01"
		_, storage := OpenExport(t.Context(), nil, func(string) (string, bool) { return "", false }, address)
		for from, err := range map[string]error{"Bigtable": bigtable, "Pub/Sub": pubsub, "Cloud Storage": ExportFailed(address, storage)} {
			var e *diag.Error
			if !errors.As(err, &e) || e.Code != diag.NoGCPCredentials || !strings.Contains(e.Fix, fix) || !strings.Contains(e.Cause, path) {
				t.Errorf("%s, %s: %+v, %v", filepath.Base(path), from, e, err)
			}
		}
	}
	unreadable := &os.PathError{Op: "open", Path: "key.json", Err: os.ErrPermission} // root reads every file
	var e *diag.Error
	if err := notConnected(cfg, fmt.Errorf("open: %w", unreadable)); !errors.As(err, &e) || e.Code != diag.NoGCPCredentials || !strings.Contains(e.Fix, "allow this user") {
		t.Errorf("%+v", e)
	}
	if err := ExplainTarget("cannot read the ledger", unreadable); !diag.Has(err, diag.TargetUnreachable) {
		t.Errorf("only opening reads a file of credentials: %v", err)
	}
}

// What is refused for want of capacity has a code of its own.
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
