package relay

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unique"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// This file writes and reads messages by hand, because each change passes through it twice.
// The CloudEvents library and encoding/json are the oracles of its tests: they write the same bytes,
// and read the same change. A message in another form is left to decodeAny.

// usualSize is the capacity of a message before its size is known.
const usualSize = 2 << 10

// appendEvent appends a CloudEvent in structured JSON, up to its data. The caller appends the data
// and a closing brace.
func appendEvent(b []byte, kind, id, source, subject string, at time.Time) ([]byte, error) {
	source, err := reference(source)
	if err != nil {
		return nil, err
	}
	if id = strings.TrimSpace(id); id == "" || !utf8.ValidString(id) {
		return nil, errors.New("relay: an event without an id")
	}
	b = attribute.AppendString(append(b, `{"specversion":"1.0","id":`...), id)
	b = attribute.AppendString(append(b, `,"source":`...), source)
	b = attribute.AppendString(append(b, `,"type":`...), kind)
	b = attribute.AppendString(append(b, `,"subject":`...), subject)
	b = appendStamp(append(b, `,"datacontenttype":"application/json","time":`...), at)
	return append(b, `,"data":`...), nil
}

// reference returns a source as a URI reference, which CloudEvents require. ARNs are URI references
// already.
func reference(source string) (string, error) {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._/", c)
	}
	if rest, is := strings.CutPrefix(source, "arn:"); is && !strings.ContainsFunc(rest, func(c rune) bool { return c != ':' && !plain(c) }) {
		return source, nil
	}
	u, err := url.Parse(source)
	if err != nil || u.String() == "" {
		return "", errors.New("relay: the source of an event is not a URI reference")
	}
	return u.String(), nil
}

func appendStamp(b []byte, at time.Time) []byte {
	return append(at.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// appendBody appends the data of a change's message, which is a Body. The keys are in DynamoDB JSON.
func (c *Change) appendBody(b []byte, version string, keys []byte) ([]byte, error) {
	for _, text := range [...]string{c.Table, c.Label, c.Shard, c.Ledger, c.MappingHash, string(c.Omitted)} {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("relay: %q is not text", text)
		}
	}
	member := func(name, text string) { b = attribute.AppendString(append(b, name...), text) }
	number := func(name string, n uint64) { b = strconv.AppendUint(append(b, name...), n, 10) }
	b = append(b, `{"schema":"`+SchemaV1+`"`...)
	member(`,"table":`, c.Table)
	member(`,"event":`, c.EventName())
	member(`,"version":`, version)
	b = appendStamp(append(b, `,"time":`...), c.Time)
	b = append(append(b, `,"keys":`...), keys...)
	if c.Omitted == "" {
		for _, image := range [...]struct {
			name string
			item attribute.Item
		}{{`,"old":`, c.Old}, {`,"new":`, c.New}} {
			if !image.item.Exists() {
				continue
			}
			if err := attribute.CheckItem(image.item); err != nil {
				return nil, err
			}
			b = attribute.AppendItem(append(b, image.name...), image.item)
		}
	}
	if c.Expired {
		b = append(b, `,"expired":true`...)
	}
	if c.Omitted != "" {
		member(`,"omitted":`, string(c.Omitted))
	}
	member(`,"sequence":`, c.Sequence.String())
	member(`,"stream":`, c.Label)
	member(`,"shard":`, c.Shard)
	if c.Number > 0 {
		number(`,"number":`, c.Number)
	}
	number(`,"generation":`, uint64(c.Generation))
	number(`,"hop":`, uint64(c.Hop))
	member(`,"ledger":`, c.Ledger)
	member(`,"mapping_hash":`, c.MappingHash)
	return append(appendStamp(append(b, `,"cell_time":`...), c.CellTime), '}'), nil
}

// decodeOwn reads a message in the form that Encode writes: these members in this order, without
// spaces. It returns false for any other text, for which decodeAny decides. The items share memory
// with each other and with the texts of the message. The texts of the change do not, because they
// outlive the items.
func (d *Decoder) decodeOwn(data []byte) (p parsed, ok bool) {
	d.scanner.Reset(string(data))
	s, b, unused := reader{&d.scanner}, &p.Body, ""
	b.Schema = SchemaV1
	ok = s.text(`{"specversion":"1.0","id":`, &unused) && s.shared(`,"source":`, &p.source) &&
		s.text(`,"type":"`+Type+`","subject":`, &unused) && s.text(`,"datacontenttype":"application/json","time":`, &unused) &&
		s.Literal(`,"data":{"schema":"`+SchemaV1+`"`) && s.shared(`,"table":`, &b.Table) && s.shared(`,"event":`, &b.Event) &&
		s.text(`,"version":`, &b.Version) && s.text(`,"time":`, &b.Time) &&
		s.keys(`,"keys":`, &p.keys) && s.optional(`,"old":`, &p.old, d.skipsOld(b.Table)) && s.optional(`,"new":`, &p.new, false)
	p.hasNew = p.new.Exists()
	if !ok {
		return parsed{}, false
	}
	b.Expired = s.Literal(`,"expired":true`)
	if s.Literal(`,"omitted":`) {
		var omitted string
		ok = s.shared("", &omitted)
		b.Omitted = Omission(omitted)
	}
	ok = ok && s.text(`,"sequence":`, &b.Sequence) && s.shared(`,"stream":`, &b.Stream) && s.shared(`,"shard":`, &b.Shard)
	b.Sequence = strings.Clone(b.Sequence)
	if s.Literal(`,"number":`) {
		ok = ok && s.number("", 64, &b.Number)
	}
	var generation, hop uint64
	ok = ok && s.number(`,"generation":`, 32, &generation) && s.number(`,"hop":`, 32, &hop) &&
		s.shared(`,"ledger":`, &b.Ledger) && s.shared(`,"mapping_hash":`, &b.MappingHash) && s.text(`,"cell_time":`, &b.CellTime) &&
		s.Literal(`}}`) && s.End()
	b.Generation, b.Hop = uint32(generation), uint32(hop)
	return p, ok
}

// reader reads members of known names. Each method takes the member's name with its punctuation.
type reader struct{ *attribute.Scanner }

func (s reader) text(name string, to *string) (ok bool) {
	if ok = s.Literal(name); ok {
		*to, ok = s.String()
	}
	return ok
}

// shared reads a text that many messages have.
func (s reader) shared(name string, to *string) bool {
	ok := s.text(name, to)
	*to = unique.Make(*to).Value()
	return ok
}

func (s reader) item(name string, to *attribute.Item) (ok bool) {
	if ok = s.Literal(name); ok {
		*to, ok = s.Item()
	}
	return ok && to.Exists()
}

func (s reader) keys(name string, to *attribute.Item) (ok bool) {
	if ok = s.Literal(name); ok {
		*to, ok = s.Keys()
	}
	return ok && to.Exists()
}

// optional reads an item, if it has the name. If `skip` is true, it reads past the item.
func (s reader) optional(name string, to *attribute.Item, skip bool) bool {
	if !s.Literal(name) {
		return true
	}
	if skip {
		return s.SkipObject()
	}
	return s.item("", to)
}

func (s reader) number(name string, bits int, to *uint64) bool {
	if !s.Literal(name) {
		return false
	}
	text, ok := s.Number()
	if !ok {
		return false
	}
	var err error
	*to, err = strconv.ParseUint(text, 10, bits)
	return err == nil
}
