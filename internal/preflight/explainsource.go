package preflight

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/clock"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// ExplainSource explains errors of DynamoDB. The argument `table` is the requested table; "" if the
// request was for no table or for several tables.
func ExplainSource(what, table string, err error) error {
	var noKey *credentialsError
	if errors.As(err, &noKey) {
		e := explainCredentials(what, noKey)
		e.Err = err
		return e
	}
	e := &diag.Error{Code: diag.SourceUnreachable, What: what, Err: err}
	switch {
	case cdc.Is(err, cdc.NotFound) && table != "":
		e.Code = diag.SourceNotFound
	case cdc.Is(err, cdc.Malformed), cdc.Is(err, cdc.Unreadable):
		e.Code = diag.SourceMalformed
		if answer := (smithy.APIError)(nil); errors.As(err, &answer) && aboutKMS(nil, strings.ToLower(answer.ErrorCode()+": "+answer.ErrorMessage())) {
			e.Code = diag.SourceDenied // DynamoDB reports an unusable KMS key as an invalid request
			remediedByAWS(e)
		}
	case cdc.Is(err, cdc.Throttled):
		e.Fix = throttledFix
	case cdc.Is(err, cdc.Denied):
		e.Code = diag.SourceDenied
		notByAWS(e)
		remediedByAWS(e)
	default:
		if faultOfAWS(err) {
			e.Fix = faultOfAWSFix
		}
		remediedByAWS(e)
	}
	return e
}

const throttledFix = "wait a moment, then start again. DynamoDB allows 10 DescribeStream calls per second and account, and limits reads to the table's capacity"

// notByAWS corrects the fix of an error that did not come from AWS.
func notByAWS(e *diag.Error) {
	var (
		answer   smithy.APIError
		response *smithyhttp.ResponseError
		call     *smithy.OperationError
	)
	switch {
	case errors.As(e.Err, &answer):
	case errors.As(e.Err, &response):
		e.Fix = "check what answers instead of AWS: the proxy of HTTPS_PROXY, or the host of AWS_ENDPOINT_URL…"
	case errors.As(e.Err, &call): // the client sent no request
		e.Code, e.Fix = diag.SourceUnreachable, "correct what the cause names: the region, AWS_USE_FIPS_ENDPOINT or AWS_USE_DUALSTACK_ENDPOINT"
	}
}

// explainCredentials explains an error about credentials. It distinguishes missing credentials,
// credentials that a service refused, and credentials that no request can carry.
func explainCredentials(what string, err error) *diag.Error {
	e := &diag.Error{Code: diag.NoAWSCredentials, What: what, Cause: err.Error(), Err: err}
	var (
		strange *strangeCredentials
		asked   *smithy.OperationError
		broken  net.Error
		answer  smithy.APIError
	)
	switch {
	case errors.As(err, &strange):
		e.Cause, e.Fix = strange.Error(), strange.fix()
	case halfKey(os.LookupEnv) != "" && lastPlace(err):
		e.Cause, e.Fix = halfKey(os.LookupEnv), "set both or neither; with neither, the AWS SDK tries other sources"
	case lastPlace(err):
		// The SDK tries the metadata service of EC2 last, even on hosts without this service. So no
		// other source of credentials was configured.
	case errors.As(err, &answer) && cdc.ReasonOf(answer.ErrorCode(), 0) == cdc.Throttled:
		e.Code, e.Fix = diag.SourceUnreachable, "wait a moment, then start again: the service that issues the credentials throttles"
	case errors.As(err, &answer) && (answer.ErrorFault() == smithy.FaultClient || refusedByAWS(err)):
		e.Code, e.Fix = diag.SourceDenied, "compare the role's trust policy (source.role_arn, source.external_id, AWS_ROLE_ARN) with the identity that assumes it"
		remediedByAWS(e)
	case faultOfAWS(err):
		e.Code, e.Fix = diag.SourceUnreachable, faultOfAWSFix
		remediedByAWS(e)
	case errors.As(err, &asked), errors.As(err, &broken):
		e.Code, e.Fix = diag.SourceUnreachable, "check the network and AWS_ENDPOINT_URL_STS, then start again"
		remediedByAWS(e)
	default:
		remediedByAWS(e)
	}
	return e
}

// lastPlace reports whether the SDK found no credentials in its last attempt, the metadata service
// of EC2.
func lastPlace(err error) bool {
	return says("no EC2 IMDS role found", "access disabled to EC2 IMDS")(err, err.Error())
}

// remediedByAWS adds to an error the code and the fix for its cause, if the cause is known.
func remediedByAWS(e *diag.Error) {
	said, known := e.Err.Error(), awsFailures
	var answer smithy.APIError
	if errors.As(e.Err, &answer) {
		said, known = answer.ErrorCode()+": "+answer.ErrorMessage(), awsRemedies
	}
	for _, r := range known {
		if !r.met(e.Err, strings.ToLower(said)) {
			continue
		}
		e.Fix = r.fix
		if r.code != "" {
			e.Code = r.code
		}
		if e.Code == diag.ClockWrong {
			e.Cause = clockCause(e.Err, said)
		}
		return
	}
}

// clockCause adds to the cause the error of this host's clock, if the answer contains the time.
func clockCause(err error, said string) string {
	var response *smithyhttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil {
		return said
	}
	at, parsing := http.ParseTime(response.Response.Header.Get("Date"))
	offset := clock.Ahead(at)
	if parsing != nil || offset.Abs() < time.Minute { // a proxy may have set the header Date
		return said
	}
	return fmt.Sprintf("this host's clock is %s AWS's: %s", clock.Text(offset), said)
}
