package dynamodbtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
	"github.com/dynamodb-bigtable/replicator/expression"
)

// Error is an error answer of the services. The controls of Server return it too.
type Error struct {
	// Code is the error's type without its namespace, such as "ValidationException".
	Code string
	// Message contains no item data.
	Message string

	status int // HTTP status
	kind   errorKind
	// item is the existing item that ConditionalCheckFailedException may carry.
	item []byte
	// reasons are the CancellationReasons of TransactionCanceledException.
	reasons []cancellation
}

// errorKind distinguishes errors of the same code that operations treat differently.
type errorKind uint8

const (
	otherError    errorKind = iota
	keyMismatch             // a key attribute is missing or has another type
	indexMismatch           // a key attribute of an index has another type
	emptyIndexKey           // a key attribute of an index is empty
)

// isMismatch reports whether an item lacks a key of its table's schema.
func isMismatch(err error) bool { return kindOf(err) == keyMismatch }

func kindOf(err error) errorKind {
	var api *Error
	if !errors.As(err, &api) {
		return otherError
	}
	return api.kind
}

// of sets the kind of an error.
func (e *Error) of(kind errorKind) *Error {
	e.kind = kind
	return e
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Namespaces of error types, as the services send them in __type. Clients use only the part after
// the '#'.
const (
	namespaceDynamoDB = "com.amazonaws.dynamodb.v20120810#"
	namespaceValidate = "com.amazon.coral.validate#"
	namespaceService  = "com.amazon.coral.service#"
)

// errorNamespaces lists the error types that do not come from DynamoDB itself.
var errorNamespaces = map[string]string{
	"ValidationException":          namespaceValidate,
	"InvalidSignatureException":    namespaceService,
	"IncompleteSignatureException": namespaceService,
	"SerializationException":       namespaceService,
	"UnknownOperationException":    namespaceService,
	"ExpiredTokenException":        namespaceService,
	"UnrecognizedClientException":  namespaceService,
	"AccessDeniedException":        namespaceService,
	"ServiceUnavailable":           namespaceService,
}

// newError makes an error of the named type with the HTTP status that the service uses for this
// type. The status is 500 for InternalServerError, 503 for ServiceUnavailable, and 400 otherwise.
func newError(code, message string) *Error {
	status := http.StatusBadRequest
	switch code {
	case "InternalServerError", "InternalFailure":
		status = http.StatusInternalServerError
	case "ServiceUnavailable":
		status = http.StatusServiceUnavailable
	}
	return &Error{status: status, Code: code, Message: message}
}

func validation(format string, args ...any) *Error {
	return newError("ValidationException", fmt.Sprintf(format, args...))
}

// unsupported returns the error for a request member that the service supports but this server does
// not.
func unsupported(member string) *Error {
	return validation("%s is not supported by this server", member)
}

func resourceNotFound(format string, args ...any) *Error {
	return newError("ResourceNotFoundException", fmt.Sprintf(format, args...))
}

// asError turns any error of a handler into an *Error.
func asError(err error) *Error {
	var api *Error
	if errors.As(err, &api) {
		return api
	}
	var invalid *item.ValidationError
	if errors.As(err, &invalid) {
		return validation("%s", invalid.Message)
	}
	var refused *expression.Error
	if errors.As(err, &refused) {
		return validation("%s", refused.Message)
	}
	var syntax *item.SyntaxError
	if errors.As(err, &syntax) {
		return newError("SerializationException", syntax.Message)
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return newError("SerializationException", "Unexpected JSON type for member "+wrongType.Field)
	}
	// encoding/json has no type for this error, only a text.
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

// body returns the JSON of the error. As in the service, the member with the text is "message" in
// an error, but "Message" in a cancellation reason.
func (e *Error) body() []byte {
	namespace, ok := errorNamespaces[e.Code]
	if !ok {
		namespace = namespaceDynamoDB
	}
	body := struct {
		Type    string          `json:"__type"`
		Message string          `json:"message"`
		Item    json.RawMessage `json:"Item,omitempty"`
		Reasons []cancellation  `json:"CancellationReasons,omitempty"`
	}{namespace + e.Code, e.Message, e.item, e.reasons}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic("dynamodbtest: an error body always encodes: " + err.Error())
	}
	return encoded
}
