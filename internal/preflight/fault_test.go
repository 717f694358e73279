package preflight

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// If a service answers with an internal error, it was reached, so the network is not at fault.
func TestAFaultOfTheServiceIsNoNetwork(t *testing.T) {
	response := func(status int, err error) error {
		return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err}
	}
	for from, err := range map[string]error{
		"a ping":           ExplainTarget("what", &sink.Error{Op: "PingAndWarm", Code: "Internal", Text: "boom"}),
		"the ledger":       ExplainTarget("what", fmt.Errorf("ReadRows: %w", status.Error(codes.Internal, "boom"))),
		"Pub/Sub":          ExplainTopic("what", &relay.Error{Op: "GetTopic", Reason: relay.Unavailable, Code: "Internal"}),
		"Cloud Storage":    ImagesFailed("gs://b/AWSDynamoDB/01", &googleapi.Error{Code: 503}),
		"DynamoDB":         ExplainSource("what", "", &cdc.Error{Reason: cdc.Unavailable, Err: response(500, &smithy.GenericAPIError{Code: "InternalServerError"})}),
		"a gateway":        ExplainSource("what", "", &cdc.Error{Reason: cdc.Unavailable, Err: response(502, errors.New("no JSON"))}),
		"credentials":      explainCredentials("what", &credentialsError{response(500, &smithy.GenericAPIError{Code: "InternalFailure"})}),
		"not by HTTP, AWS": ExplainSource("what", "", &cdc.Error{Reason: cdc.Unavailable, Err: &smithy.GenericAPIError{Code: "InternalServerError", Fault: smithy.FaultServer}}),
	} {
		var e *diag.Error
		if !errors.As(err, &e) || !strings.Contains(e.Facts().Fix, "internal error") {
			t.Errorf("%s: %+v", from, e)
		}
	}
	for from, err := range map[string]error{
		"a ping":   ExplainTarget("what", &sink.Error{Op: "PingAndWarm", Code: "Unavailable"}),
		"DynamoDB": ExplainSource("what", "", &cdc.Error{Reason: cdc.Unavailable, Err: errors.New("read: connection reset by peer")}),
	} {
		var e *diag.Error
		if !errors.As(err, &e) || !strings.Contains(e.Facts().Fix, "network") {
			t.Errorf("%s: %+v", from, e)
		}
	}
}

// create_missing is advised only where a table is created. The ledger's store names the denied
// operation.
func TestTheFixOfADenial(t *testing.T) {
	for op, want := range map[string]bool{"CreateTable": true, "ModifyColumnFamilies": true, "CreateAuthorizedView": true,
		"GetTable": false, "CheckAndMutateRow": false, "ReadRows": false, "PingAndWarm": false} {
		var e *diag.Error
		err := ExplainTarget("what", &sink.Error{Op: op, Reason: sink.Denied, Code: "PermissionDenied"})
		if !errors.As(err, &e) || e.Code != diag.TargetDenied || strings.Contains(e.Facts().Fix, "create_missing") != want || !strings.Contains(e.Facts().Fix, "--print-iam gcp") {
			t.Errorf("%s: %+v", op, e)
		}
	}
	err := ExplainTarget("what", fmt.Errorf("ReadRows of the ledger: %w", status.Error(codes.PermissionDenied, "no bigtable.tables.readRows")))
	var e *diag.Error
	if !errors.As(err, &e) || e.Code != diag.TargetDenied || e.Cause != "ReadRows of the ledger: PermissionDenied: no bigtable.tables.readRows" {
		t.Errorf("%+v", e)
	}
}

// No topic is created for a missing subscription.
func TestWhatDoesNotExistIsCreatedAsWhatItIs(t *testing.T) {
	for name, want := range map[string]string{
		"projects/p/subscriptions/s": "gcloud pubsub subscriptions create projects/p/subscriptions/s --topic=",
		"projects/p/topics/t":        "gcloud pubsub topics create projects/p/topics/t ",
	} {
		var e *diag.Error
		err := ExplainTopic("what", &relay.Error{Op: "Get", Name: name, Reason: relay.NotFound, Code: "NotFound", Text: "Resource not found"})
		if !errors.As(err, &e) || e.Code != diag.TopicUnusable || !strings.Contains(e.Fix, want) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// DynamoDB also reports an unusable key as an invalid request.
func TestKeysOfInvalidRequests(t *testing.T) {
	for _, c := range []struct{ code, message, want, fix string }{
		{"ValidationException", "KMS validation error: arn:aws:kms:eu-west-1:1:key/k is disabled.", diag.SourceDenied, "enable-key"},
		{"ValidationException", "KMS validation error: the key is pending deletion", diag.SourceDenied, "cancel-key-deletion"},
		{"InaccessibleEncryptionCredentialsException", "The table is inaccessible", diag.SourceDenied, "enable-key"},
		{"ValidationException", "One or more parameter values were invalid", diag.SourceMalformed, ""},
	} {
		var e *diag.Error
		err := ExplainSource("what", "Orders", &cdc.Error{Reason: cdc.ReasonOf(c.code, 400), Err: &smithy.GenericAPIError{Code: c.code, Message: c.message, Fault: smithy.FaultClient}})
		if !errors.As(err, &e) || e.Code != c.want || !strings.Contains(e.Fix, c.fix) || c.fix == "" && strings.Contains(e.Fix, "kms") {
			t.Errorf("%s: %s: %+v", c.code, c.message, e)
		}
	}
}
