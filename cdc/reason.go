package cdc

import "strings"

// reasonsOfCodes holds the meaning of the services' error codes. A code may or may not end with the
// word Exception. Sources: the "Errors" of
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Operations_Amazon_DynamoDB_Streams.html,
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html and
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
var reasonsOfCodes = map[string]Reason{
	"ExpiredIterator":   Expired,
	"TrimmedDataAccess": Trimmed,
	"ResourceNotFound":  NotFound,
	"TableNotFound":     NotFound,

	"LimitExceeded":                 Throttled,
	"ProvisionedThroughputExceeded": Throttled,
	"Throttling":                    Throttled,
	"Throttled":                     Throttled,
	"RequestThrottled":              Throttled,
	"RequestLimitExceeded":          Throttled,
	"TooManyRequests":               Throttled,
	"SlowDown":                      Throttled,

	"AccessDenied":               Denied,
	"UnrecognizedClient":         Denied,
	"InvalidClientTokenId":       Denied,
	"ExpiredToken":               Denied,
	"InvalidSignature":           Denied,
	"SignatureDoesNotMatch":      Denied,
	"IncompleteSignature":        Denied,
	"MissingAuthenticationToken": Denied,
	"NotAuthorized":              Denied,
	"OptInRequired":              Denied,
	"RequestExpired":             Denied,
	"RequestTimeTooSkewed":       Denied,
	"TokenRefreshRequired":       Denied,
	"InvalidToken":               Denied,
	"InvalidAccessKeyId":         Denied,
	"SubscriptionRequired":       Denied,

	"InternalServerError": Unavailable,
	"InternalFailure":     Unavailable,
	"ServiceUnavailable":  Unavailable,
	"RequestTimeout":      Unavailable,

	"Validation":    Malformed,
	"Serialization": Malformed,
}

// ReasonOf returns the reason for an error answer of DynamoDB or of its streams. The argument
// `code` is the answer's error code, or "" if it has none. The argument `status` is its HTTP
// status, or 0 if that is unknown. Most codes come with status 400, so a known code decides before
// the status.
func ReasonOf(code string, status int) Reason {
	code = strings.TrimSuffix(code, "Exception")
	if reason, ok := reasonsOfCodes[code]; ok {
		return reason
	}
	if strings.HasPrefix(code, "KMS") { // the error concerns the key that encrypts the table; status 400
		return reasonOfKey(code)
	}
	return reasonOfStatus(status)
}

// reasonOfKey returns the reason for an error about a KMS key. Such an error means that the key is
// denied, disabled or deleted.
func reasonOfKey(code string) Reason {
	if strings.Contains(code, "Throttling") {
		return Throttled
	}
	return Denied
}

// reasonOfStatus returns the reason for an answer without a known error code. Other rejections are
// Malformed, for example a ValidationException or an answer of an endpoint that is not DynamoDB.
// Then the client and the service do not understand each other.
func reasonOfStatus(status int) Reason {
	switch {
	case status == 401 || status == 403 || status == 407:
		return Denied
	case status == 408:
		return Unavailable
	case status == 429:
		return Throttled
	case status >= 400 && status < 500:
		return Malformed
	default: // a fault of the service, of a proxy, or of the network while the answer was read
		return Unavailable
	}
}
