package relay

import (
	"bytes"
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// pullCodec decodes the answer of one pull directly into Deliveries. The client's types would build
// each attribute of each message by reflection, which costs more than the rest of the message.
// The codec has no name, so its requests have the same content type as other requests.
type pullCodec struct {
	got  []Delivery
	seen []attributeText // attributes of earlier messages
}

type attributeText struct{ name, value string }

func (*pullCodec) Name() string { return "" }

func (*pullCodec) Marshal(request any) (mem.BufferSlice, error) {
	m, ok := request.(proto.Message)
	if !ok {
		return nil, errors.New("relay: not a request of Pub/Sub")
	}
	b, err := proto.Marshal(m)
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// Unmarshal decodes a google.pubsub.v1.PullResponse. It leaves the client's answer empty.
func (c *pullCodec) Unmarshal(data mem.BufferSlice, _ any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return fields(whole.ReadOnlyData(), func(field protowire.Number, received []byte, _ uint64) error {
		if field != 1 {
			return nil
		}
		c.got = append(c.got, Delivery{})
		return c.received(&c.got[len(c.got)-1], received)
	})
}

// received decodes a ReceivedMessage. It copies all data, because the answer's memory is reused.
func (c *pullCodec) received(d *Delivery, b []byte) error {
	return fields(b, func(field protowire.Number, value []byte, number uint64) error {
		switch field {
		case 1:
			d.ID = string(value)
		case 2:
			return c.message(d, value)
		case 3:
			d.Attempt = int(int32(number))
		}
		return nil
	})
}

// message decodes a PubsubMessage.
func (c *pullCodec) message(d *Delivery, b []byte) error {
	return fields(b, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			d.Data = bytes.Clone(value)
		case 2:
			a, err := c.attribute(value)
			if d.Attributes == nil {
				d.Attributes = map[string]string{}
			}
			d.Attributes[a.name] = a.value
			return err
		}
		return nil
	})
}

// mostSeen bounds the attributes that are compared with those of the next messages.
const mostSeen = 8

// attribute decodes an entry of the attributes. Messages mostly have the same names, and many have
// the same values, so their texts are shared.
func (c *pullCodec) attribute(b []byte) (attributeText, error) {
	var name, text []byte
	err := fields(b, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			name = value
		case 2:
			text = value
		}
		return nil
	})
	for i := range c.seen {
		if s := &c.seen[i]; s.name == string(name) {
			if s.value != string(text) {
				s.value = string(text)
			}
			return *s, err
		}
	}
	a := attributeText{string(name), string(text)}
	if len(c.seen) < mostSeen {
		c.seen = append(c.seen, a)
	}
	return a, err
}

// fields calls each with every field of a message: with the content of a text or a message, or else
// with the number. It skips fields of other types.
func fields(b []byte, each func(field protowire.Number, content []byte, number uint64) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var content []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind == protowire.BytesType || kind == protowire.VarintType {
			if err := each(field, content, number); err != nil {
				return err
			}
		}
	}
	return nil
}
