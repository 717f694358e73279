package relay

import "strings"

// ReasonAttribute is a message attribute in the dead-letter topic. It explains why an applier
// refused the message. Pub/Sub itself also moves messages to this topic, without the attribute.
const ReasonAttribute = "replicator-reason"

// mostAttribute bounds the value of an attribute, in bytes. The service's limit is 1,024 bytes.
// Source: https://docs.cloud.google.com/pubsub/quotas#resource_limits
const mostAttribute = 512

// DeadLetter returns the dead-letter message for a message that an applier refused. It has the
// message's unchanged data, and the reason as an attribute. The reason holds no item data.
func DeadLetter(data []byte, c Change, reason string) Message {
	return Message{Data: data, Attributes: map[string]string{
		"content-type": ContentType, "table": short(c.Table), "event": c.EventName(), "version": string(c.Version()), "schema": SchemaV1, ReasonAttribute: short(reason),
	}}
}

// short cuts a value, because names in an untrusted message may have any length.
func short(text string) string {
	if len(text) > mostAttribute {
		text = text[:mostAttribute]
	}
	return strings.ToValidUTF8(text, "")
}
