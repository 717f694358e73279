package relay

import "fmt"

// Reason classifies an Error by its remedy.
type Reason string

// The reasons.
const (
	Unavailable Reason = "unavailable" // the same call may succeed later
	Throttled   Reason = "throttled"   // a quota is used up; the same call may succeed later
	NotFound    Reason = "not found"   // the topic or subscription does not exist
	Denied      Reason = "denied"      // the identity may not do this
	Refused     Reason = "refused"     // the service does not accept such a request
)

// Error reports a failed call of Pub/Sub. It quotes no data.
type Error struct {
	Op     string // the method
	Name   string // the topic or subscription
	Reason Reason
	Code   string // the gRPC code
	Text   string // the service's message, about topics, quotas and permissions
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s of %s: %s", e.Op, e.Name, e.Code)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}
