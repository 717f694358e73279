package cdc

import "strings"

// reasonsOfCodes says what the services' error codes mean. A code may come with the word Exception at its end or without it.
// Sources: the "Errors" of https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Operations_Amazon_DynamoDB_Streams.html,
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html
// and https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
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

// ReasonOf says what an answer of DynamoDB or of its streams means, with the given error code ("" if
// it has none) and HTTP status (0 if unknown). Most codes come with status 400, so that the code
// decides where it is known.
func ReasonOf(code string, status int) Reason {
	code = strings.TrimSuffix(code, "Exception")
	if reason, ok := reasonsOfCodes[code]; ok {
		return reason
	}
	if strings.HasPrefix(code, "KMS") { // of the key that a table is encrypted with; status 400
		return reasonOfKey(code)
	}
	return reasonOfStatus(status)
}

// reasonOfKey says what an answer about a key of KMS means: that it is denied, disabled or gone.
func reasonOfKey(code string) Reason {
	if strings.Contains(code, "Throttling") {
		return Throttled
	}
	return Denied
}

// reasonOfStatus says what an answer without a known error code means. What the service refuses for reasons unknown to us
// (a ValidationException, an endpoint that is something else) is Malformed: not understood, on one side or the other.
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
	default: // a fault of the service, of something before it, or of the network while the answer was fetched
		return Unavailable
	}
}
