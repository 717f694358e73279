package dynamodbtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/dynamodbtest/item"
)

// apiError is an error as the services answer it: an HTTP status, the error's type
// without its namespace, and a message without item data.
type apiError struct {
	status  int
	code    string
	message string
	// item is the existing item that ConditionalCheckFailedException may carry.
	item []byte
	// reasons are the CancellationReasons of TransactionCanceledException.
	reasons []cancellation
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// Namespaces of error types, as the services send them in __type. Clients look only
// at what follows the '#'.
const (
	namespaceDynamoDB = "com.amazonaws.dynamodb.v20120810#"
	namespaceValidate = "com.amazon.coral.validate#"
	namespaceService  = "com.amazon.coral.service#"
)

// errorNamespaces lists the error types that do not come from DynamoDB itself.
var errorNamespaces = map[string]string{
	"ValidationException":         namespaceValidate,
	"SerializationException":      namespaceService,
	"UnknownOperationException":   namespaceService,
	"ExpiredTokenException":       namespaceService,
	"UnrecognizedClientException": namespaceService,
	"AccessDeniedException":       namespaceService,
	"ServiceUnavailable":          namespaceService,
}

// newError makes an error of the named type with the HTTP status the service uses for
// it: 500 for InternalServerError, 503 for ServiceUnavailable, else 400.
func newError(code, message string) *apiError {
	status := http.StatusBadRequest
	switch code {
	case "InternalServerError", "InternalFailure":
		status = http.StatusInternalServerError
	case "ServiceUnavailable":
		status = http.StatusServiceUnavailable
	}
	return &apiError{status: status, code: code, message: message}
}

func validation(format string, args ...any) *apiError {
	return newError("ValidationException", fmt.Sprintf(format, args...))
}

// unsupported refuses a request member that the service knows and this server does not.
func unsupported(member string) *apiError {
	return validation("%s is not supported by this server", member)
}

func resourceNotFound(format string, args ...any) *apiError {
	return newError("ResourceNotFoundException", fmt.Sprintf(format, args...))
}

// asAPIError turns any error of a handler into one with a type and a status.
func asAPIError(err error) *apiError {
	var api *apiError
	if errors.As(err, &api) {
		return api
	}
	var invalid *item.ValidationError
	if errors.As(err, &invalid) {
		return validation("%s", invalid.Message)
	}
	var syntax *item.SyntaxError
	if errors.As(err, &syntax) {
		return newError("SerializationException", syntax.Message)
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return newError("SerializationException", "Unexpected JSON type for member "+wrongType.Field)
	}
	// encoding/json has no type for this error, only its text.
	if member, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return unsupported("Request member " + strings.Trim(member, `"`))
	}
	return newError("SerializationException", "The request body is not valid JSON for this operation")
}

// cancellation is one entry of TransactionCanceledException's CancellationReasons.
type cancellation struct {
	Code    string          `json:"Code"`
	Message string          `json:"Message,omitempty"`
	Item    json.RawMessage `json:"Item,omitempty"`
}

// body is the JSON of the error. The word before the reasons in the type of a
// cancelled transaction's member is "Message" with a capital, as the service has it.
func (e *apiError) body() []byte {
	namespace, ok := errorNamespaces[e.code]
	if !ok {
		namespace = namespaceDynamoDB
	}
	body := struct {
		Type    string          `json:"__type"`
		Message string          `json:"message"`
		Item    json.RawMessage `json:"Item,omitempty"`
		Reasons []cancellation  `json:"CancellationReasons,omitempty"`
	}{namespace + e.code, e.message, e.item, e.reasons}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic("dynamodbtest: an error body always encodes: " + err.Error())
	}
	return encoded
}
