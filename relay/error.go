package relay

import "fmt"

// Reason says what may be done about an Error.
type Reason string

// The reasons.
const (
	Unavailable Reason = "unavailable" // the same may succeed later
	Throttled   Reason = "throttled"   // a quota is used up: the same may succeed later
	NotFound    Reason = "not found"   // there is no such topic or subscription
	Denied      Reason = "denied"      // the identity may not do this
	Refused     Reason = "refused"     // the service takes no such request
)

// Error is a failed call of Pub/Sub. It quotes no data.
type Error struct {
	Op     string // the method
	Name   string // of the topic or subscription
	Reason Reason
	Code   string // of gRPC
	Text   string // the service's own words, which speak of topics, quotas and permissions
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s of %s: %s", e.Op, e.Name, e.Code)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}
