package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Each cause has its fix, whichever AWS service reports it, and the service's own message is kept.
func TestTheFixFitsTheCauseAtAWS(t *testing.T) {
	const user, on = "User: arn:aws:sts::111122223333:assumed-role/r/s is not authorized to perform: dynamodb:DescribeTable", " on resource: arn:aws:dynamodb:eu-west-1:111122223333:table/Orders"
	kms := "User: arn:aws:iam::111122223333:user/u is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:eu-west-1:111122223333:key/k"
	for _, c := range []struct{ code, message, want, fix string }{
		{"ExpiredTokenException", "The security token included in the request is expired", "", "get new credentials"},
		{"ExpiredToken", "The provided token has expired.", "", "get new credentials"},
		{"ExpiredTokenException", "Token expired: current date/time 1 must be before the expiration date/time 0", "", "AWS_WEB_IDENTITY_TOKEN_FILE"},
		{"UnrecognizedClientException", "The security token included in the request is invalid.", "", "ASIA"},
		{"InvalidClientTokenId", "The security token included in the request is invalid", "", "ASIA"},
		{"InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", "", "ASIA"},
		{"InvalidSignatureException", "The request signature we calculated does not match the signature you provided.", "", "secret access key again"},
		{"SignatureDoesNotMatch", "The request signature we calculated does not match", "", "secret access key again"},
		{"InvalidSignatureException", "Signature not yet current: 20261126T170000Z is still later than 20261126T160000Z (20261126T155500Z + 5 min.)", diag.ClockWrong, "timedatectl"},
		{"InvalidSignatureException", "Signature expired: 20261126T150000Z is now earlier than 20261126T155500Z (20261126T160000Z - 5 min.)", diag.ClockWrong, "timedatectl"},
		{"SignatureDoesNotMatch", "Signature expired: 20261126T150000Z is now earlier than 20261126T155500Z", diag.ClockWrong, "timedatectl"},
		{"RequestTimeTooSkewed", "The difference between the request time and the current time is too large.", diag.ClockWrong, "timedatectl"},
		{"MissingAuthenticationTokenException", "Request is missing Authentication Token", "", "HTTPS_PROXY"},
		{"OptInRequired", "The AWS Access Key Id needs a subscription for the service", "", "registration"},
		{"AccessDeniedException", user + on + " because no VPC endpoint policy allows the dynamodb:DescribeTable action", "", "modify-vpc-endpoint"},
		{"AccessDeniedException", user + on + " with an explicit deny in a VPC endpoint policy", "", "modify-vpc-endpoint"},
		{"AccessDeniedException", user + on + " with an explicit deny in a service control policy: arn:aws:organizations::1:policy/o/service_control_policy/p", "", "(SCP)"},
		{"AccessDeniedException", user + on + " because no service control policy allows the dynamodb:DescribeTable action", "", "(SCP)"},
		{"AccessDeniedException", user + on + " with an explicit deny in a resource control policy", "", "(RCP)"},
		{"AccessDeniedException", user + on + " because no permissions boundary allows the dynamodb:DescribeTable action", "", "permissions boundary of the role"},
		{"AccessDeniedException", user + on + " with an explicit deny in a permissions boundary", "", "permissions boundary of the role"},
		{"AccessDeniedException", user + on + " because no session policy allows the dynamodb:DescribeTable action", "", "start the session without"},
		{"AccessDeniedException", user + on + " with an explicit deny in a session policy", "", "start the session without"},
		{"AccessDeniedException", user + on + " with an explicit deny in a resource-based policy", "", "get-resource-policy"},
		{"AccessDeniedException", user + on + " because no resource-based policy allows the dynamodb:DescribeTable action", "", "another account"},
		{"AccessDeniedException", user + on + " with an explicit deny in an identity-based policy", "", "remove the Deny"},
		{"AccessDenied", user + on + " with an explicit deny", "", "remove the Deny"},
		{"AccessDeniedException", kms + " because no identity-based policy allows the kms:Decrypt action", "", "kms:Decrypt"},
		{"AccessDenied", kms + " because no resource-based policy allows the kms:Decrypt action", "", "key's policy"},
		{"AccessDeniedException", kms + " with an explicit deny in a service control policy", "", "(SCP)"},
		{"AccessDeniedException", "KMS key access denied error: com.amazonaws.services.kms.model.AWSKMSException: The ciphertext refers to a customer master key that does not exist", "", "key's policy"},
		{"AccessDeniedException", "KMS key access denied error: com.amazonaws.services.kms.model.DisabledException: arn:aws:kms:eu-west-1:1:key/k is disabled.", "", "enable-key"},
		{"AccessDeniedException", "KMS key access denied error: com.amazonaws.services.kms.model.KMSInvalidStateException: arn:aws:kms:eu-west-1:1:key/k is pending deletion.", "", "cancel-key-deletion"},
		{"KMSAccessDeniedException", "The caller may not use the key", "", "key's policy"},
		{"KMSDisabledException", "The key is off", "", "enable-key"},
		{"KMS.DisabledException", "The key is off", "", "enable-key"},
	} {
		answer := func(service string) error {
			return &smithy.OperationError{ServiceID: service, OperationName: "Ask", Err: &smithyhttp.ResponseError{
				Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}}},
				Err:      &smithy.GenericAPIError{Code: c.code, Message: c.message, Fault: smithy.FaultClient}}}
		}
		for from, err := range map[string]error{
			"DynamoDB": ExplainSource("what", "Orders", &cdc.Error{Op: "DescribeTable", Reason: cdc.ReasonOf(c.code, http.StatusBadRequest), Err: answer("DynamoDB")}),
			"STS":      explainCredentials("what", &credentialsError{answer("STS")}),
			"STS for a request": ExplainSource("what", "Orders", &cdc.Error{Op: "DescribeTable", Reason: cdc.Denied, Err: &smithy.OperationError{ServiceID: "DynamoDB",
				Err: &credentialsError{fmt.Errorf("failed to refresh cached credentials, %w", answer("STS"))}}}),
			"S3": ImagesFailed("s3://b/AWSDynamoDB/01", fmt.Errorf("s3://b: %w: %w", fs.ErrPermission, answer("S3"))),
		} {
			want := c.want
			switch {
			case want == "" && from == "S3":
				want = diag.LoadRefused
			case want == "":
				want = diag.SourceDenied
			}
			var e *diag.Error
			if !errors.As(err, &e) || e.Code != want || !strings.Contains(e.Facts().Fix, c.fix) || !strings.Contains(e.Facts().Cause, c.message) {
				t.Errorf("%s: %s of %s: %+v", c.code, c.message, from, e)
			}
		}
	}
}

// Errors that are not refusals of AWS get no advice about policies.
func TestNotEveryDenialIsAPolicys(t *testing.T) {
	response := &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusForbidden}}, Err: errors.New("<html>")}
	for _, c := range []struct {
		name string
		err  error
		code string
		fix  string
	}{
		{"a proxy answers", &cdc.Error{Reason: cdc.Denied, Err: response}, diag.SourceDenied, "HTTPS_PROXY"},
		{"nothing was sent", &cdc.Error{Reason: cdc.Denied, Err: &smithy.OperationError{ServiceID: "DynamoDB", Err: errors.New("invalid input region")}}, diag.SourceUnreachable, "the region"},
		{"an identity without a policy", &cdc.Error{Reason: cdc.Denied, Err: &smithy.GenericAPIError{Code: "AccessDeniedException",
			Message: "not authorized because no identity-based policy allows the dynamodb:DescribeTable action"}}, diag.SourceDenied, "--print-iam aws"},
		{"throttled", &cdc.Error{Reason: cdc.Throttled, Err: &smithy.GenericAPIError{Code: "LimitExceededException"}}, diag.SourceUnreachable, "wait a moment"},
		{"an unknown authority", &cdc.Error{Reason: cdc.Unavailable, Err: errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority")}, diag.SourceUnreachable, "AWS_CA_BUNDLE"},
		{"an SSO session", &credentialsError{errors.New("the SSO session has expired or is invalid: file")}, diag.NoAWSCredentials, "aws sso login"},
	} {
		var e *diag.Error
		if err := ExplainSource("what", "Orders", c.err); !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Facts().Fix, c.fix) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

// The error states the clock's offset if the answer has a Date.
func TestTheClockOfARefusedRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(8*time.Minute+500*time.Millisecond).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"com.amazon.coral.service#InvalidSignatureException","message":"Signature expired: 20261126T150000Z is now earlier than 20261126T155500Z"}`))
	}))
	defer server.Close()
	awsEnvironment(t, map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": server.URL})
	source, err := ConnectSource(t.Context(), &config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, tables := DescribeTable(t.Context(), source.Tables, config.Table{From: "Orders"})
	_, streams := source.Stream("arn").Describe(t.Context())
	for name, err := range map[string]error{"tables": tables, "streams": ExplainSource("what", "", streams)} {
		var e *diag.Error
		if !errors.As(err, &e) || e.Code != diag.ClockWrong || !strings.Contains(e.Cause, "this host's clock is 8m0s behind AWS's") && !strings.Contains(e.Cause, "7m59s behind") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// Characters that no request can carry are described but not printed, such as a newline that a
// Kubernetes secret kept, wherever the credentials come from.
func TestCredentialsWithNewlines(t *testing.T) {
	process := filepath.Join(t.TempDir(), "process")
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, []byte("#!/bin/sh\nprintf '%s' '{\"Version\":1,\"SecretAccessKey\":\"SECRETX'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nprintf '%s' '{\"Version\":1,\"AccessKeyId\":\"AKIDX\",\"SecretAccessKey\":\"SECRETX\\n\"}'\n"
	if err := os.WriteFile(process, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(profile, []byte("[default]\ncredential_process = "+process+"\n[profile cut]\ncredential_process = "+cut+
		"\n[profile spaced]\naws_access_key_id = AKIDX\naws_secret_access_key = SECRETX SECRETX\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		want string // "": they are valid
	}{
		{"a key", map[string]string{"AWS_ACCESS_KEY_ID": "AKIDX\n", "AWS_SECRET_ACCESS_KEY": "SECRETX"}, "the access key ID from EnvConfigCredentials ends with a newline"},
		{"a secret", map[string]string{"AWS_ACCESS_KEY_ID": "AKIDX", "AWS_SECRET_ACCESS_KEY": "SECRETX\r\n"}, "the secret access key from EnvConfigCredentials ends with a newline"},
		{"a token", map[string]string{"AWS_ACCESS_KEY_ID": "AKIDX", "AWS_SECRET_ACCESS_KEY": "SECRETX", "AWS_SESSION_TOKEN": "TOKENX "}, "the session token from EnvConfigCredentials ends with a space"},
		{"a space before it", map[string]string{"AWS_ACCESS_KEY_ID": " AKIDX", "AWS_SECRET_ACCESS_KEY": "SECRETX"}, "begins with a space"},
		{"a newline within", map[string]string{"AWS_ACCESS_KEY_ID": "AKIDX", "AWS_SECRET_ACCESS_KEY": "SECRETX\nSECRETX"}, "contains a newline"},
		{"quotation marks", map[string]string{"AWS_ACCESS_KEY_ID": "'AKIDX'", "AWS_SECRET_ACCESS_KEY": "SECRETX"}, "a quotation mark"},
		{"a mark of the byte order", map[string]string{"AWS_ACCESS_KEY_ID": "\ufeffAKIDX", "AWS_SECRET_ACCESS_KEY": "SECRETX"}, "begins with a byte order mark"},
		{"a process", map[string]string{"AWS_CONFIG_FILE": profile}, "the secret access key from ProcessProvider ends with a newline"},
		{"a process that is cut off", map[string]string{"AWS_CONFIG_FILE": profile, "AWS_PROFILE": "cut"}, "the output of credential_process cannot be read: unexpected end of JSON input"},
		{"a file", map[string]string{"AWS_CONFIG_FILE": profile, "AWS_PROFILE": "spaced"}, "contains a space"},
		{"all is well", map[string]string{"AWS_ACCESS_KEY_ID": "AKIDX", "AWS_SECRET_ACCESS_KEY": "SEC/RET+X=", "AWS_SESSION_TOKEN": "TOKENX=="}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			awsEnvironment(t, c.env)
			source, err := ConnectSource(t.Context(), &config.Config{Source: config.Source{Region: "eu-west-1"}})
			if err != nil {
				t.Fatal(err)
			}
			_, probe := (&Prober{Source: source}).Credentials(t.Context())
			if c.want == "" {
				if probe != nil {
					t.Error(probe)
				}
				return
			}
			_, request := DescribeTable(t.Context(), source.Tables, config.Table{From: "Orders"})
			for _, err := range []error{probe, request} {
				var e *diag.Error
				if !errors.As(err, &e) || e.Code != diag.NoAWSCredentials || !strings.Contains(e.Facts().Cause, c.want) || e.Fix == "" {
					t.Fatalf("%+v, %v", e, err)
				}
				for _, secret := range []string{"AKIDX", "SECRETX", "TOKENX"} {
					if strings.Contains(e.Error()+e.Fix+e.What, secret) {
						t.Errorf("it is told: %v", e)
					}
				}
			}
		})
	}
}

// A newline in the region is reported as such. If the SDK treats the region as an emulator's for
// tables but not for streams, both endpoints are needed.
func TestRegionsThatAreNone(t *testing.T) {
	awsEnvironment(t, map[string]string{"AWS_REGION": "eu-west-1\n"})
	if _, err := ConnectSource(t.Context(), &config.Config{}); !diag.Has(err, diag.NoRegion) || !strings.Contains(err.Error(), "newline") {
		t.Error(err)
	}
	t.Setenv("AWS_REGION", "local")
	if _, err := ConnectSource(t.Context(), &config.Config{}); !diag.Has(err, diag.OneEndpoint) {
		t.Error(err)
	}
	t.Setenv("AWS_ENDPOINT_URL", "http://localhost:8000")
	if _, err := ConnectSource(t.Context(), &config.Config{}); err != nil {
		t.Error(err)
	}
}

// A probe repeats a request to AWS while that may help, and reports the last answer: "throttled",
// not "no answer".
func TestH141_AProbeOfAWSIsRepeated(t *testing.T) {
	throttled := &cdc.Error{Op: "DescribeStream", Reason: cdc.Throttled, Err: &smithy.GenericAPIError{Code: "LimitExceededException", Message: "too many"}}
	failed := &cdc.Error{Op: "DescribeTable", Reason: cdc.Unavailable, Err: errors.New("read: connection reset by peer")}
	sts := func(code string, fault smithy.ErrorFault) error {
		return &credentialsError{&smithy.OperationError{ServiceID: "STS", Err: &smithy.GenericAPIError{Code: code, Fault: fault}}}
	}
	for _, c := range []struct {
		name  string
		times int // number of failures; 0: always
		err   error
		asked int // number of requests; 0: several
		told  string
	}{
		{"throttled once", 1, throttled, 2, ""},
		{"throttled some times", 3, throttled, 4, ""},
		{"throttled all the time", 0, throttled, 0, "throttled: api error LimitExceededException"},
		{"a reset", 1, failed, 2, ""},
		{"resets all the time", 0, failed, 0, "connection reset by peer"},
		{"STS throttles", 2, sts("Throttling", smithy.FaultClient), 3, ""},
		{"STS fails", 2, sts("InternalFailure", smithy.FaultServer), 3, ""},
		{"STS refuses", 0, sts("AccessDenied", smithy.FaultClient), 1, "AccessDenied"},
		{"denied", 0, &cdc.Error{Reason: cdc.Denied, Err: errors.New("no")}, 1, "denied"},
		{"malformed", 0, &cdc.Error{Reason: cdc.Malformed, Err: errors.New("no")}, 1, "malformed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var told strings.Builder
			p, asked := &Prober{Out: &told, InFull: true}, 0
			ok := p.Ask(t.Context(), ProbeTime, "stream of Orders", func(context.Context) (string, error) {
				asked++
				if c.times > 0 && asked > c.times {
					return "NEW_IMAGE", nil
				}
				return "", ExplainSource("cannot read the stream of table Orders", "", c.err)
			})
			if ok != (c.told == "") || c.asked > 0 && asked != c.asked || c.asked == 0 && asked < 5 || !strings.Contains(told.String(), c.told) ||
				strings.Contains(told.String(), "no answer within") {
				t.Errorf("%s: asked %d times: %s", c.name, asked, told.String())
			}
		})
	}
	// If no process listens, there is no wait for an answer.
	refused := httptest.NewServer(http.NotFoundHandler())
	refused.Close()
	awsEnvironment(t, map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": refused.URL})
	source, err := ConnectSource(t.Context(), &config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DescribeTable(t.Context(), source.Tables, config.Table{From: "Orders"}); err == nil || mayPassAtAWS(err) {
		t.Errorf("it may pass: %v", err)
	}
	if _, err := source.Stream("arn").Describe(t.Context()); err == nil || mayPassAtAWS(err) {
		t.Errorf("it may pass: %v", err)
	}
}

// Many workers that start at the same time exceed the account's ten DescribeStream calls a second.
// A start is not refused because of that.
func TestAStartSurvivesThrottling(t *testing.T) {
	service := dynamodbtest.New(dynamodbtest.Options{})
	server := httptest.NewServer(service)
	defer server.Close()
	awsEnvironment(t, map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": server.URL})
	source, err := ConnectSource(t.Context(), &config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.Client().CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("f", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders }]\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range []dynamodbtest.Fault{
		{Operation: "DescribeStream", Error: "LimitExceededException", Times: 2},
		{Operation: "DescribeTable", Error: "ThrottlingException"},
		{Operation: "DescribeTable"}, // status 500
	} {
		service.Fail(fault)
		var told strings.Builder
		p := &Prober{Out: &told, Cfg: cfg, Source: source, InFull: true}
		p.table(t.Context(), cfg.Tables[0])
		if len(p.Failed) > 0 || len(p.Found.Tables) != 1 {
			t.Errorf("%+v: %s", fault, told.String())
		}
	}
}
