package preflight

import (
	"errors"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"google.golang.org/api/googleapi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// faultOfGoogle reports whether a Google service answered with an internal error.
func faultOfGoogle(err error) bool {
	var (
		target *sink.Error
		topic  *relay.Error
		answer *googleapi.Error
		code   string
	)
	switch {
	case errors.As(err, &answer):
		return answer.Code >= http.StatusInternalServerError
	case errors.As(err, &target):
		code = target.Code
	case errors.As(err, &topic):
		code = topic.Code
	default:
		code = status.Code(err).String()
	}
	return code == codes.Internal.String() || code == codes.DataLoss.String()
}

const faultOfAWSFix = "wait, then try again: the service, or a proxy in front of it, answered with an internal error; https://health.aws.amazon.com/health/status shows known ones"

// refusedByAWS reports whether AWS answered that a request is wrong or not allowed. The SDK does not
// say so for all errors of STS.
func refusedByAWS(err error) bool {
	var response *smithyhttp.ResponseError
	return errors.As(err, &response) && response.Response != nil && response.Response.Response != nil &&
		response.HTTPStatusCode() >= http.StatusBadRequest && response.HTTPStatusCode() < http.StatusInternalServerError
}

// faultOfAWS reports whether AWS, or a gateway or proxy in front of it, answered with an internal
// error.
func faultOfAWS(err error) bool {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil && response.Response.Response != nil {
		return response.HTTPStatusCode() >= http.StatusInternalServerError
	}
	var answer smithy.APIError
	return errors.As(err, &answer) && answer.ErrorFault() == smithy.FaultServer
}
