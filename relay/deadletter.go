package relay

import "strings"

// ReasonAttribute is the attribute of a message in the dead-letter topic that says why an applier
// refused it. Pub/Sub itself moves messages there without it.
const ReasonAttribute = "replicator-reason"

// mostAttribute bounds the value of an attribute, in bytes; the service's limit is 1,024.
// Source: https://docs.cloud.google.com/pubsub/quotas#resource_limits
const mostAttribute = 512

// DeadLetter returns the dead-letter message for a message that an applier refused. It has the
// unchanged data, and the reason as an attribute. The reason holds no item data.
func DeadLetter(data []byte, c Change, reason string) Message {
	return Message{Data: data, Attributes: map[string]string{
		"content-type": ContentType, "table": short(c.Table), "event": c.EventName(), "version": string(c.Version()), "schema": SchemaV1, ReasonAttribute: short(reason),
	}}
}

// short cuts a value: names in an untrusted message may have any length.
func short(text string) string {
	if len(text) > mostAttribute {
		text = text[:mostAttribute]
	}
	return strings.ToValidUTF8(text, "")
}
