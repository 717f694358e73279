package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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

// Omission explains why a message carries no images.
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
	// Omitted explains why the change has no images; "" if it has them.
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
	keys, err := attribute.MarshalItem(c.Keys)
	if err != nil {
		return Message{}, err
	}
	subject := subjectOf(c.Table, keys)
	id := c.Shard + "/" + c.Sequence.String()
	if c.Loaded { // many items of a part are read in one second
		id += "/" + subject
	}
	data, err := appendEvent(make([]byte, 0, usualSize), Type, id, c.StreamARN, subject, c.Time)
	if err == nil {
		data, err = c.appendBody(data, version, keys)
	}
	if err != nil {
		return Message{}, err
	}
	return Message{Data: append(data, '}'), Key: c.Keying.Key(c.Table, subject), Attributes: map[string]string{
		"content-type": ContentType, "table": c.Table, "event": c.EventName(), "version": version, "schema": SchemaV1,
	}}, nil
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
func Decode(data []byte) (Change, error) { return new(Decoder).Decode(data) }

// Decoder decodes many messages. It is faster than Decode, because it expects that each item has
// the same attributes as the item before. Changes of different messages share no memory except
// texts that many messages have. A Decoder must not be used concurrently.
type Decoder struct {
	// SkipOld, if not nil, reports whether old images are left out of the changes of a source
	// table.
	SkipOld func(table string) bool

	scanner attribute.Scanner
}

func (d *Decoder) skipsOld(table string) bool { return d.SkipOld != nil && d.SkipOld(table) }

// Decode is the inverse of Encode, for the data of a message.
func (d *Decoder) Decode(data []byte) (Change, error) {
	p, own := d.decodeOwn(data)
	var err error
	if !own {
		if p, err = decodeAny(data); d.skipsOld(p.Table) {
			p.old = attribute.Item{}
		}
	}
	var c Change
	if err == nil {
		c, err = p.change()
	}
	if err != nil {
		return Change{}, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return c, nil
}

// parsed is a message that was read and not judged yet: its Body, without texts of items, and its
// items.
type parsed struct {
	source string
	Body
	keys, old, new attribute.Item
	hasNew         bool
}

// decodeAny reads a message whose members may be in any order, beside members that this version does
// not know. Its errors quote no data.
func decodeAny(data []byte) (p parsed, err error) {
	var e struct {
		SpecVersion, Type, Source string
		DataContentType           *string
		Data                      json.RawMessage
	}
	switch {
	case json.Unmarshal(data, &e) != nil, e.SpecVersion != "1.0":
		return p, errors.New("not a CloudEvent in structured JSON")
	case e.Type != Type:
		return p, errors.New("another type of event")
	case e.DataContentType != nil && *e.DataContentType != "application/json", json.Unmarshal(e.Data, &p.Body) != nil:
		return p, errors.New("the data is not a message body")
	case p.Schema != SchemaV1:
		return p, errors.New("an unknown schema")
	}
	p.source, p.hasNew = e.Source, p.New != nil
	for _, i := range []struct {
		text json.RawMessage
		to   *attribute.Item
		name string
	}{{p.Keys, &p.keys, "keys"}, {p.Old, &p.old, "old image"}, {p.New, &p.new, "new image"}} {
		if i.text == nil {
			continue
		}
		if *i.to, err = attribute.UnmarshalItem(i.text); err != nil {
			return p, errors.New("the " + i.name + " is not DynamoDB JSON")
		}
	}
	return p, nil
}

// change judges a message that was read. Its errors quote no data.
func (p *parsed) change() (c Change, err error) {
	switch {
	case (p.Number == 0) != (p.Event == LoadEvent) || p.Generation == 0 || p.Ledger == "" || p.Shard == "":
		return c, errors.New("the number, generation, ledger or shard is missing or not allowed")
	case p.Generation > transform.MaxGeneration || p.Hop > transform.MaxHop:
		return c, errors.New("the generation or hop does not fit into a version")
	}
	c = Change{
		Origin: Origin{Ledger: p.Ledger, Table: p.Table, StreamARN: p.source, Label: p.Stream, Shard: p.Shard, Generation: p.Generation, Hop: p.Hop, MappingHash: p.MappingHash},
		Number: p.Number, Omitted: p.Omitted, Loaded: p.Event == LoadEvent,
	}
	if c.Change, err = p.record(); err != nil {
		return c, err
	}
	if c.CellTime, err = time.Parse(time.RFC3339Nano, p.CellTime); err != nil {
		return c, errors.New("no cell time")
	}
	if string(c.Version()) != p.Version {
		return c, errors.New("the version does not match generation, hop and sequence number")
	}
	return c, nil
}

// record returns the stream's record.
func (p *parsed) record() (c cdc.Change, err error) {
	switch p.Event {
	case cdc.Insert.String():
		c.Event = cdc.Insert
	case LoadEvent:
		c.Event = cdc.Insert
		if !p.hasNew && p.Omitted == "" {
			c.Event = cdc.Remove
		}
	case cdc.Modify.String():
		c.Event = cdc.Modify
	case cdc.Remove.String():
		c.Event = cdc.Remove
	default:
		return c, errors.New("no event")
	}
	if c.Sequence, err = cdc.ParseSequenceNumber(p.Sequence); err != nil {
		return c, errors.New("no sequence number")
	}
	if c.Time, err = time.Parse(time.RFC3339Nano, p.Time); err != nil {
		return c, errors.New("no time")
	}
	c.Expired, c.Keys, c.Old, c.New = p.Expired, p.keys, p.old, p.new
	if !c.Keys.Exists() {
		return c, errors.New("no keys")
	}
	if p.Omitted == "" && c.Event != cdc.Remove && !c.New.Exists() {
		return c, errors.New("no new image")
	}
	return c, nil
}
