package sink

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// classify converts an error of the Bigtable client to *Error, and nil to nil.
//
// The reason depends on the code and message. A RetryInfo in the details is ignored. Services
// attach it to errors that no retry fixes, so following it would cause endless retries (H50).
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	code := status.Code(err)
	if code == codes.Unknown {
		// The error is no status. It is the context's error, or an error that the client found
		// before anything was sent.
		if errors.Is(err, context.DeadlineExceeded) {
			code = codes.DeadlineExceeded
		} else if errors.Is(err, context.Canceled) {
			code = codes.Canceled
		}
	}
	message := status.Convert(err).Message()
	return &Error{Op: op, Code: code.String(), Reason: reasonOf(code, message), Text: safeText(code, message)}
}

// classifyControl is like classify, for requests to the control plane. These requests name only
// tables, families, views and profiles, and so do the service's messages about them. So the message
// is kept as it is. Only the message distinguishes a disabled API from a missing permission, or a
// quota from a policy.
func classifyControl(op string, err error) error {
	failed := classify(op, err)
	var known *Error
	if message := status.Convert(err).Message(); errors.As(failed, &known) && message != "" && error(known) != err {
		known.Text = message
	}
	return ofTarget(failed)
}

// ofTarget converts reason Rejected to Permanent, because a request to the control plane concerns
// no row.
func ofTarget(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Reason != Rejected {
		return err
	}
	refused := *e
	refused.Reason = Permanent
	return &refused
}

// NoInstance reports whether a response means that the instance does not exist. A ping names the
// app profile too, so NotFound may mean that the profile does not exist.
func NoInstance(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Code != codes.NotFound.String() {
		return false
	}
	unnamed := withoutNames(e.Text)
	return strings.Contains(unnamed, "instance") && !strings.Contains(unnamed, "profile")
}

// ofNoTable reports whether a response means that an instance exists but has no table. Only the
// message distinguishes it from an instance that does not exist. Source:
// https://github.com/googleapis/google-cloud-go/issues/20067
func ofNoTable(err error) bool {
	return status.Code(err) == codes.NotFound && strings.Contains(withoutNames(status.Convert(err).Message()), "no tables found")
}

// refused returns the error for a table that could not be created. Its split keys are row keys,
// which the service may quote (S5). Messages about quotas and permissions do not quote them.
func (s TableSpec) refused(err error) error {
	switch code := status.Code(err); {
	case len(s.SplitKeys) == 0, code == codes.ResourceExhausted, code == codes.PermissionDenied:
		return classifyControl("CreateTable", err)
	}
	return ofTarget(classify("CreateTable", err))
}

// reasonOf returns the reason of a failed request. Sources:
// https://cloud.google.com/bigtable/docs/status-codes and https://grpc.io/docs/guides/status-codes.
func reasonOf(code codes.Code, message string) Reason {
	switch code {
	case codes.ResourceExhausted:
		if strings.Contains(message, "larger than max") || ofRowSize(message) {
			return Rejected // gRPC's limit on the message, or Bigtable's on the row: waiting does not help
		}
		return Throttled
	case codes.PermissionDenied, codes.Unauthenticated:
		return Denied
	case codes.InvalidArgument, codes.OutOfRange:
		return Rejected
	case codes.NotFound, codes.FailedPrecondition, codes.Unimplemented, codes.AlreadyExists:
		return Permanent
	case codes.Unknown:
		if strings.HasPrefix(message, "unknown family") {
			return Permanent // the emulator's message for a missing family
		}
		return Unknown
	default: // Unavailable, DeadlineExceeded, Canceled, Aborted, Internal, DataLoss
		return Unknown
	}
}

// permission matches the permissions that IAM reports as missing.
var permission = regexp.MustCompile(`bigtable\.(tables|instances|appProfiles|clusters)\.[a-zA-Z]{1,40}|serviceusage\.services\.use`)

// quota matches the message of Google's services for an exhausted quota, which they check before
// they read a request. The rest of the message is cut off, because only these four names certainly
// hold no item data.
var quota = regexp.MustCompile(`^Quota exceeded for quota (?:metric|group) '[\w .,:/%()-]{1,100}'` +
	`(?: and limit '[\w .,:/%()-]{1,100}')?(?: of service '[\w.-]{1,100}')?(?: for consumer '[\w:.-]{1,100}')?`)

// noToken begins the message that gRPC makes locally if no token was available. No request was sent
// then.
const noToken = "transport: per-RPC creds failed due to error: "

// naming matches names in a message. A name is a resource, quoted or not, and $1 is its last kind.
// Quoted text is a name too, because it may be a table's name or a row key.
var naming = regexp.MustCompile("[\"'`]?projects/[^/\\s]+(?:(/[a-zA-Z]+)/[^/\\s\"'`():,]+)*[\"'`]?|\"[^\"]*\"|'[^']*'|`[^`]*`")

// withoutNames returns a message in lower case without the names in it.
func withoutNames(message string) string {
	return strings.ToLower(naming.ReplaceAllString(message, "$1"))
}

// ofRowSize reports whether a message means that a row is larger than Bigtable allows. Source:
// https://cloud.google.com/bigtable/quotas#limits-data-size
func ofRowSize(message string) bool {
	unnamed := withoutNames(message)
	for _, words := range []string{"row size", "row too large", "row is too large"} {
		if strings.Contains(unnamed, words) {
			return true
		}
	}
	return false
}

// safeText describes the cause in fixed words, or in parts of the message that cannot hold item
// data. The whole message may hold item data ("Error while mutating the row '…'"). Names in it are
// ignored: a table may be called family_photos.
func safeText(code codes.Code, message string) string {
	unnamed := withoutNames(message)
	has := func(s string) bool { return strings.Contains(unnamed, s) }
	if strings.HasPrefix(message, noToken) {
		return message
	}
	switch code {
	case codes.PermissionDenied:
		if p := permission.FindString(message); p != "" {
			return "missing permission " + p
		}
		switch {
		case has("has not been used in project"):
			return "the API has not been used in this project before, or it is disabled"
		case has("vpcservicecontrols"):
			return "prohibited by the organization's policy (vpcServiceControls)"
		}
	case codes.NotFound, codes.FailedPrecondition, codes.Unknown:
		switch {
		case has("family"):
			return "a column family does not exist"
		case has("app profile") || has("appprofile") || has("single-row transaction") || has("transactional"):
			return "the app profile does not exist or does not allow single-row transactions"
		case code == codes.FailedPrecondition && ofRowSize(message):
			return "the row is larger than Bigtable allows"
		case code == codes.NotFound && has("instance") && !has("table"):
			return "the instance does not exist"
		case code == codes.NotFound && has("table"):
			return "the table does not exist"
		}
	case codes.ResourceExhausted:
		if has("larger than max") {
			return "the request is larger than the server accepts"
		}
		if ofRowSize(message) {
			return "the row is larger than Bigtable allows"
		}
		if named := quota.FindString(message); named != "" {
			return named
		}
		if has("quota") {
			return "quota exceeded"
		}
	case codes.Unavailable:
		// gRPC made this message locally, before any request was sent. It holds addresses and the
		// operating system's words.
		if strings.HasPrefix(message, "connection error: desc = ") || strings.HasPrefix(message, "name resolver error: ") {
			return message
		}
	}
	return ""
}
