package cdc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// changeVersion is the version of the encoding of changes. A stored change outlives the release
// that wrote it, so a reader must know its format.
const changeVersion = 1

// MarshalChange encodes a change completely, with a version.
func MarshalChange(c Change) ([]byte, error) {
	if c.Event < Insert || c.Event > Remove {
		return nil, fmt.Errorf("%w: a change without an event", attribute.ErrDynamoDBJSON)
	}
	b := fmt.Appendf(nil, `{"v":%d,"event":%q,"sequence":%q`, changeVersion, c.Event, c.Sequence)
	if !writable(c.Time) {
		return nil, fmt.Errorf("%w: a change in a year that is not of four digits", attribute.ErrDynamoDBJSON)
	}
	if !c.Time.IsZero() {
		b = append(b, `,"time":"`...)
		b = c.Time.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	if c.Expired {
		b = append(b, `,"expired":true`...)
	}
	for _, image := range []struct {
		name string
		item attribute.Item
	}{{"keys", c.Keys}, {"old", c.Old}, {"new", c.New}} {
		if !image.item.Exists() {
			continue
		}
		text, err := attribute.MarshalItem(image.item)
		if err != nil {
			return nil, fmt.Errorf("%s image: %w", image.name, err)
		}
		b = append(fmt.Appendf(b, ",%q:", image.name), text...)
	}
	return append(b, '}'), nil
}

// writable reports whether RFC 3339 can hold a time.
func writable(t time.Time) bool { return t.UTC().Year() >= 0 && t.UTC().Year() <= 9999 }

// storedChange is the form of an encoded change.
type storedChange struct {
	V        int             `json:"v"`
	Event    string          `json:"event"`
	Sequence string          `json:"sequence"`
	Time     string          `json:"time"`
	Expired  bool            `json:"expired"`
	Keys     json.RawMessage `json:"keys"`
	Old      json.RawMessage `json:"old"`
	New      json.RawMessage `json:"new"`
}

// UnmarshalChange is the inverse of MarshalChange. It rejects unknown versions. Its errors quote no
// data.
func UnmarshalChange(text []byte) (Change, error) {
	fault := func(what string) (Change, error) {
		return Change{}, fmt.Errorf("%w: %s", attribute.ErrDynamoDBJSON, what)
	}
	var stored storedChange
	if !utf8.Valid(text) { // encoding/json would replace invalid bytes
		return fault("the text is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&stored); err != nil {
		return fault("not the JSON of a change") // the cause may quote data
	}
	if _, err := d.Token(); err != io.EOF {
		return fault("more text after the end")
	}
	if stored.V != changeVersion {
		return fault(fmt.Sprintf("not a change of version %d", changeVersion))
	}
	c := Change{Expired: stored.Expired}
	var known bool
	var err error
	if c.Event, known = parseEvent(stored.Event); !known {
		return fault("a change without an event, or of an unknown one")
	}
	if c.Sequence, err = ParseSequenceNumber(stored.Sequence); err != nil {
		return fault("not a sequence number")
	}
	if stored.Time != "" {
		if c.Time, err = time.Parse(time.RFC3339Nano, stored.Time); err != nil || !writable(c.Time) {
			return fault("not a time")
		}
	}
	for _, image := range []struct {
		name string
		text json.RawMessage
		to   *attribute.Item
	}{{"keys", stored.Keys, &c.Keys}, {"old", stored.Old, &c.Old}, {"new", stored.New, &c.New}} {
		if image.text == nil {
			continue
		}
		if *image.to, err = attribute.UnmarshalItem(image.text); err != nil {
			return Change{}, fmt.Errorf("%s image: %w", image.name, err)
		}
	}
	return c, nil
}
