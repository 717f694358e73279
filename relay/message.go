package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// These constants are the names in a message of a change.
const (
	// Type is the type of the CloudEvent.
	Type = "com.github.dynamodb-bigtable.replicator.change"
	// ContentType is the content type of a whole message, which is a CloudEvent in structured mode.
	ContentType = "application/cloudevents+json"
	// SchemaV1 names the format of Body. Later versions of the program may add members to it.
	SchemaV1 = "replicator.change/v1"
)

// Limits of a message.
const (
	// MaxMessage is the largest request of Pub/Sub, in bytes. So it also bounds a message with its
	// attributes and ordering key. Source:
	// https://docs.cloud.google.com/pubsub/quotas#resource_limits
	MaxMessage = 10_000_000
	// MaxData is the largest data that Encode makes, in bytes. The rest of a request is for the
	// attributes, the ordering key and the request itself.
	MaxData = MaxMessage - 16<<10
)

// Omission says why a message carries no images.
type Omission string

// The omissions.
const (
	// BeforeStart: the change precedes the time from which the table is followed.
	BeforeStart Omission = "before_start"
	// TooLarge: the images do not fit into a message. A consumer can read the item by its keys.
	TooLarge Omission = "too_large"
)

// Message is a message to publish to a topic.
type Message struct {
	Data       []byte
	Attributes map[string]string // for filters: table, event, version, schema, content-type
	Key        string            // the ordering key (Keying)
}

// Size returns approximately how many bytes the message takes on the wire.
func (m *Message) Size() int {
	n := len(m.Data) + len(m.Key) + 64
	for k, v := range m.Attributes {
		n += len(k) + len(v) + 16
	}
	return n
}

// Origin holds the facts that the changes of one shard share under one lease.
type Origin struct {
	Ledger      string // its id
	Table       string // source table
	StreamARN   string
	Label       string // the stream's label
	Shard       string
	Generation  uint32
	Hop         uint32
	MappingHash string // of the mapping under which the changes are applied
	Keying      Keying // of the ordering keys; the message does not contain it
}

// Change is a change with its position among the messages of its shard.
type Change struct {
	Origin
	// Number counts the shard's changes from 1, without holes within a generation.
	Number uint64
	cdc.Change
	// CellTime is the latest event time of the shard's changes up to and including this change. It
	// dates the cells of the change.
	CellTime time.Time
	// Omitted says why the change has no images; "" if it has them.
	Omitted Omission
	// Loaded reports that the message comes from a load that has read the item, not from a change
	// of the item. Such a message has no Number. Its Event is Insert, or Remove if the load found
	// that the item does not exist.
	Loaded bool
}

// LoadEvent is the event of a message for an item that a load has read.
const LoadEvent = "LOAD"

// EventName returns the event of the change's message.
func (c *Change) EventName() string {
	if c.Loaded {
		return LoadEvent
	}
	return c.Event.String()
}

// Version returns the rank of the change in the history of its item.
func (c *Change) Version() transform.Version {
	return transform.NewVersion(c.Generation, c.Hop, c.Sequence, transform.CountExact)
}

// Body is the data of a message's CloudEvent. The desc tags become the descriptions in its JSON
// Schema.
type Body struct {
	Schema      string          `json:"schema" desc:"replicator.change/v1" const:"replicator.change/v1"`
	Table       string          `json:"table" desc:"source table"`
	Event       string          `json:"event" desc:"change of the item; LOAD: no change, a load has read the item" enum:"INSERT,MODIFY,REMOVE,LOAD"`
	Version     string          `json:"version" desc:"rank of the change in the history of its item: generation.hop.sequence.count at fixed widths. Compare as text; a version below the last one seen of the item is old" pattern:"^[0-9]{8}\\.[0-9]{6}\\.[0-9]{40}\\.[0-9]{4}$"`
	Time        string          `json:"time" desc:"when the change was made, floored to the second by DynamoDB, or when the load read the item; do not order by it" format:"date-time"`
	Keys        json.RawMessage `json:"keys" desc:"primary key, in DynamoDB JSON"`
	Old         json.RawMessage `json:"old,omitempty" desc:"item before the change, in DynamoDB JSON; absent for an insert, if the stream has none, and if images are omitted"`
	New         json.RawMessage `json:"new,omitempty" desc:"item after the change, in DynamoDB JSON; absent for a remove, for LOAD of an item that no longer exists, and if images are omitted"`
	Expired     bool            `json:"expired,omitempty" desc:"DynamoDB's time to live removed the item"`
	Omitted     Omission        `json:"omitted,omitempty" desc:"why there are no images" enum:"before_start,too_large"`
	Sequence    string          `json:"sequence" desc:"sequence number of the stream's record, a decimal number of up to 40 digits; numbers of different shards cannot be compared. For LOAD, the second of the read" pattern:"^[0-9]{1,40}$"`
	Stream      string          `json:"stream" desc:"label of the stream"`
	Shard       string          `json:"shard" desc:"shard of the stream; for LOAD, the load and its part"`
	Number      uint64          `json:"number,omitempty" desc:"position of the message within (generation, stream, shard), without gaps; absent for LOAD" min:"1"`
	Generation  uint32          `json:"generation" desc:"raised whenever the continuity of the stream is broken" min:"1"`
	Hop         uint32          `json:"hop" desc:"depth of the shard in its lineage"`
	Ledger      string          `json:"ledger" desc:"id of the ledger of the migration that published the message"`
	MappingHash string          `json:"mapping_hash" desc:"hash of the mapping with which the migration applies the change"`
	CellTime    string          `json:"cell_time" desc:"latest time of the shard up to the change; the timestamp of cells" format:"date-time"`
}

// Encode returns the message of a change. Encode is pure, so the same change always gives the same
// message (R1). It leaves out images that do not fit, and the result `omitted` reports that.
func Encode(c Change) (m Message, omitted Omission, err error) {
	if m, err = encode(c); err != nil || len(m.Data) <= MaxData {
		return m, c.Omitted, err
	}
	if c.Loaded && c.Event == cdc.Remove { // a removal has no image
		c.Old = attribute.Item{}
		m, err = encode(c)
		return m, c.Omitted, err
	}
	c.Omitted = TooLarge
	m, err = encode(c)
	return m, c.Omitted, err
}

func encode(c Change) (Message, error) {
	if (c.Number == 0) != c.Loaded || c.Generation == 0 {
		return Message{}, errors.New("relay: a change without a number or generation")
	}
	version := string(c.Version())
	body := Body{
		Schema: SchemaV1, Table: c.Table, Event: c.EventName(), Version: version, Time: stamp(c.Time), Expired: c.Expired, Omitted: c.Omitted,
		Sequence: c.Sequence.String(), Stream: c.Label, Shard: c.Shard, Number: c.Number, Generation: c.Generation, Hop: c.Hop,
		Ledger: c.Ledger, MappingHash: c.MappingHash, CellTime: stamp(c.CellTime),
	}
	var err error
	if body.Keys, err = attribute.MarshalItem(c.Keys); err != nil {
		return Message{}, err
	}
	if c.Omitted == "" {
		if body.Old, err = image(c.Old); err != nil {
			return Message{}, err
		}
		if body.New, err = image(c.New); err != nil {
			return Message{}, err
		}
	}
	subject, err := Subject(c.Table, c.Keys)
	if err != nil {
		return Message{}, err
	}
	id := c.Shard + "/" + c.Sequence.String()
	if c.Loaded { // many items of a part are read in the same second, so the id needs the key too
		id += "/" + subject
	}
	data, err := cloudEvent(Type, id, c.StreamARN, subject, c.Time, body)
	if err != nil {
		return Message{}, err
	}
	return Message{Data: data, Key: c.Keying.Key(c.Table, subject), Attributes: map[string]string{
		"content-type": ContentType, "table": c.Table, "event": body.Event, "version": version, "schema": SchemaV1,
	}}, nil
}

// cloudEvent returns an event in structured JSON.
func cloudEvent(kind, id, source, subject string, at time.Time, body any) ([]byte, error) {
	e := event.New(event.CloudEventsVersionV1)
	e.SetID(id)
	e.SetSource(source)
	e.SetType(kind)
	e.SetSubject(subject)
	e.SetTime(at.UTC())
	e.DataEncoded = marshal(body)
	e.SetDataContentType(event.ApplicationJSON)
	if err := e.Validate(); err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	data, err := e.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	return data, nil
}

// marshal does not escape <, > and &, because JSON does not require it.
func marshal(body any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		panic("relay: " + err.Error()) // a body is plain data
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func image(item attribute.Item) (json.RawMessage, error) {
	if !item.Exists() {
		return nil, nil
	}
	return attribute.MarshalItem(item)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ErrMessage is returned for data that is not a message of this package. The error that wraps
// ErrMessage says what is wrong, and quotes no data.
var ErrMessage = errors.New("not a message of a relay")

// Decode is the inverse of Encode, for the data of a message.
func Decode(data []byte) (Change, error) {
	fault := func(what string) (Change, error) { return Change{}, fmt.Errorf("%w: %s", ErrMessage, what) }
	var e event.Event
	if err := e.UnmarshalJSON(data); err != nil {
		return fault("not a CloudEvent in structured JSON")
	}
	var b Body
	switch {
	case e.Type() != Type:
		return fault("another type of event")
	case json.Unmarshal(e.Data(), &b) != nil:
		return fault("the data is not a message body")
	case b.Schema != SchemaV1:
		return fault("an unknown schema")
	case (b.Number == 0) != (b.Event == LoadEvent) || b.Generation == 0 || b.Ledger == "" || b.Shard == "":
		return fault("no number, generation, ledger or shard")
	case b.Generation > transform.MaxGeneration || b.Hop > transform.MaxHop:
		return fault("the generation or hop does not fit into a version")
	}
	c := Change{
		Origin: Origin{Ledger: b.Ledger, Table: b.Table, StreamARN: e.Source(), Label: b.Stream, Shard: b.Shard, Generation: b.Generation, Hop: b.Hop, MappingHash: b.MappingHash},
		Number: b.Number, Omitted: b.Omitted, Loaded: b.Event == LoadEvent,
	}
	var err error
	if c.Change, err = b.change(); err != nil {
		return fault(err.Error())
	}
	if c.CellTime, err = time.Parse(time.RFC3339Nano, b.CellTime); err != nil {
		return fault("no cell time")
	}
	if string(c.Version()) != b.Version {
		return fault("the version does not match generation, hop and sequence number")
	}
	return c, nil
}

// change returns the stream's record. Its errors quote no data.
func (b *Body) change() (c cdc.Change, err error) {
	switch b.Event {
	case cdc.Insert.String():
		c.Event = cdc.Insert
	case LoadEvent:
		c.Event = cdc.Insert
		if b.New == nil && b.Omitted == "" {
			c.Event = cdc.Remove
		}
	case cdc.Modify.String():
		c.Event = cdc.Modify
	case cdc.Remove.String():
		c.Event = cdc.Remove
	default:
		return c, errors.New("no event")
	}
	if c.Sequence, err = cdc.ParseSequenceNumber(b.Sequence); err != nil {
		return c, errors.New("no sequence number")
	}
	if c.Time, err = time.Parse(time.RFC3339Nano, b.Time); err != nil {
		return c, errors.New("no time")
	}
	c.Expired = b.Expired
	for _, i := range []struct {
		text json.RawMessage
		to   *attribute.Item
		name string
	}{{b.Keys, &c.Keys, "keys"}, {b.Old, &c.Old, "old image"}, {b.New, &c.New, "new image"}} {
		if i.text == nil {
			continue
		}
		if *i.to, err = attribute.UnmarshalItem(i.text); err != nil {
			return c, errors.New("the " + i.name + " is not DynamoDB JSON")
		}
	}
	if !c.Keys.Exists() {
		return c, errors.New("no keys")
	}
	if b.Omitted == "" && c.Event != cdc.Remove && !c.New.Exists() {
		return c, errors.New("no new image")
	}
	return c, nil
}
