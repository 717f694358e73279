package backfill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// answered returns the SDK's error for an answer with a status, and with a code unless that is
// empty.
func answered(service string, status int, code string) error {
	err := error(&smithy.DeserializationError{Err: errors.New("no JSON")})
	if code != "" {
		err = &smithy.GenericAPIError{Code: code, Message: "m"}
	}
	if status > 0 {
		err = &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err}
	}
	return &smithy.OperationError{ServiceID: service, OperationName: "Scan", Err: err}
}

// Most codes of the service come with status 400, so only the code shows what to do: wait, stop for
// an operator, or continue without the table. An unknown or missing code counts by the class of its
// status.
func TestEveryCodeAndStatusHasItsReason(t *testing.T) {
	for want, codes := range map[cdc.Reason]string{
		cdc.NotFound: "ResourceNotFoundException TableNotFoundException",
		cdc.Throttled: "ProvisionedThroughputExceededException ThrottlingException Throttling RequestLimitExceeded LimitExceededException " +
			"TooManyRequestsException ThrottledException RequestThrottled RequestThrottledException SlowDown",
		cdc.Unavailable: "InternalServerError InternalFailure ServiceUnavailable RequestTimeout RequestTimeoutException",
		cdc.Denied: "AccessDeniedException AccessDenied UnrecognizedClientException InvalidClientTokenId ExpiredTokenException ExpiredToken " +
			"InvalidSignatureException SignatureDoesNotMatch IncompleteSignature IncompleteSignatureException MissingAuthenticationToken " +
			"MissingAuthenticationTokenException NotAuthorized OptInRequired RequestExpired",
		cdc.Malformed: "ValidationException SerializationException",
	} {
		for code := range strings.FieldsSeq(codes) {
			for _, status := range []int{0, 400, 403, 429, 500} {
				if err := failure(t.Context(), "Scan", answered(dynamodb.ServiceID, status, code), false); !cdc.Is(err, want) {
					t.Errorf("%s with status %d: %v, want %s", code, status, err, want)
				}
			}
		}
	}
	for status, want := range map[int]cdc.Reason{
		400: cdc.Malformed, 401: cdc.Denied, 403: cdc.Denied, 404: cdc.Malformed, 407: cdc.Denied, 408: cdc.Unavailable, 413: cdc.Malformed, 428: cdc.Malformed,
		429: cdc.Throttled, 430: cdc.Malformed, 499: cdc.Malformed, 500: cdc.Unavailable, 502: cdc.Unavailable, 503: cdc.Unavailable, 504: cdc.Unavailable,
		302: cdc.Unavailable,
	} {
		for _, code := range []string{"", "NewException"} {
			if err := failure(t.Context(), "Scan", answered(dynamodb.ServiceID, status, code), false); !cdc.Is(err, want) {
				t.Errorf("%q with status %d: %v, want %s", code, status, err, want)
			}
		}
	}
}

// A failure without an answer of the table's own service belongs to the place where it arose.
func TestReasonsOfFailuresOnTheWay(t *testing.T) {
	of := func(err error) error {
		return &smithy.OperationError{ServiceID: dynamodb.ServiceID, OperationName: "Scan", Err: err}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want cdc.Reason
	}{
		"credentials were throttled":         {t.Context(), of(answered("STS", 400, "ThrottlingException")), cdc.Denied},
		"the credentials' role is not there": {t.Context(), of(fmt.Errorf("credentials: %w", answered("SSO", 404, "ResourceNotFoundException"))), cdc.Denied},
		"an answer of this service, wrapped": {t.Context(), of(fmt.Errorf("once: %w", answered(dynamodb.ServiceID, 400, "ThrottlingException"))), cdc.Throttled},
		"unknown code without an answer":     {t.Context(), answered(dynamodb.ServiceID, 0, "NewException"), cdc.Unavailable},
		"not sent":                           {t.Context(), of(&smithyhttp.RequestSendError{Err: errors.New("refused")}), cdc.Unavailable},
		"not signed":                         {t.Context(), of(errors.New("no credentials")), cdc.Denied},
		"broken off":                         {t.Context(), of(&smithy.DeserializationError{Err: io.ErrUnexpectedEOF}), cdc.Unavailable},
		"damaged":                            {t.Context(), of(&smithy.DeserializationError{Err: cdc.ErrChecksum}), cdc.Unavailable},
		"no answer that can be decoded":      {t.Context(), answered(dynamodb.ServiceID, 200, ""), cdc.Malformed},
		"a value of an unknown type":         {t.Context(), of(&smithy.DeserializationError{Err: errUnknownType}), cdc.Malformed},
		"in vain, and stopped meanwhile":     {ended, answered(dynamodb.ServiceID, 400, "AccessDeniedException"), cdc.Unavailable},
	} {
		if err := failure(c.ctx, "Scan", c.err, false); !cdc.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
