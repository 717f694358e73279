package cdc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"
)

// ErrDynamoDBJSON is returned for text that is not DynamoDB JSON, and for values that it cannot hold. Its wrapping gives a
// place and what is wrong there, never the data.
var ErrDynamoDBJSON = errors.New("not DynamoDB JSON")

// changeVersion is the version of the encoding of changes. A stored change outlives the release that wrote it: a reader must
// know what it reads.
const changeVersion = 1

// maxDepth bounds how deep values may nest, well above the 32 levels that DynamoDB takes, so that no text can exhaust the stack.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
const maxDepth = 128

// MarshalItem encodes an item as DynamoDB JSON: {"name":{"S":"text"},…}, members sorted, without spaces. Equal items give equal
// bytes. It refuses text that is not UTF-8, which JSON cannot hold.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
func MarshalItem(item Item) ([]byte, error) { return appendMembers(nil, item.attributes) }

// MarshalValue encodes a value as DynamoDB JSON: {"S":"text"}. It refuses what MarshalItem refuses.
func MarshalValue(v Value) ([]byte, error) { return appendValue(nil, v) }

// MarshalChange encodes a change with all it holds, under a version.
func MarshalChange(c Change) ([]byte, error) {
	if c.Event < Insert || c.Event > Remove {
		return nil, fmt.Errorf("%w: a change without an event", ErrDynamoDBJSON)
	}
	b := fmt.Appendf(nil, `{"v":%d,"event":%q,"sequence":%q`, changeVersion, c.Event, c.Sequence)
	if !writable(c.Time) {
		return nil, fmt.Errorf("%w: a change in a year that is not of four digits", ErrDynamoDBJSON)
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
		item Item
	}{{"keys", c.Keys}, {"old", c.Old}, {"new", c.New}} {
		if !image.item.Exists() {
			continue
		}
		b = fmt.Appendf(b, ",%q:", image.name)
		var err error
		if b, err = appendMembers(b, image.item.attributes); err != nil {
			return nil, fmt.Errorf("%s image: %w", image.name, err)
		}
	}
	return append(b, '}'), nil
}

// writable tells whether RFC 3339 can hold a time.
func writable(t time.Time) bool { return t.UTC().Year() >= 0 && t.UTC().Year() <= 9999 }

func appendMembers(b []byte, members []Attribute) (_ []byte, err error) {
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendText(b, m.Name); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if b, err = appendValue(b, m.Value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendValue(b []byte, v Value) (_ []byte, err error) {
	if v.kind == KindNone {
		return nil, fmt.Errorf("%w: an attribute without a value", ErrDynamoDBJSON)
	}
	b = append(b, `{"`...)
	b = append(b, v.kind.String()...)
	b = append(b, `":`...)
	switch v.kind {
	case KindBOOL:
		b = fmt.Append(b, v.truth)
	case KindNULL:
		b = append(b, "true"...)
	case KindM:
		b, err = appendMembers(b, v.members)
	case KindL, KindSS, KindNS, KindBS:
		b, err = appendElements(b, v)
	default:
		b, err = appendScalar(b, v)
	}
	if err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

func appendElements(b []byte, v Value) (_ []byte, err error) {
	if err := checkSet(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDynamoDBJSON, err)
	}
	b = append(b, '[')
	for i, e := range v.list {
		if i > 0 {
			b = append(b, ',')
		}
		if v.kind == KindL {
			b, err = appendValue(b, e)
		} else {
			b, err = appendScalar(b, e)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendScalar appends an S, N or B without its type.
func appendScalar(b []byte, v Value) ([]byte, error) {
	if v.kind != KindB {
		return appendText(b, v.text)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, []byte(v.text))
	return append(b, '"'), nil
}

// appendText appends a JSON string that is escaped only where JSON demands it.
func appendText(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%w: text of %d bytes is not UTF-8", ErrDynamoDBJSON, len(s))
	}
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"'), nil
}

// errSet is what is wrong with a set that DynamoDB would not hold.
var errSet = errors.New("a set that is empty or holds a member twice")

// checkSet refuses sets that DynamoDB never holds; other values pass.
func checkSet(v Value) error {
	if v.kind != KindSS && v.kind != KindNS && v.kind != KindBS {
		return nil
	}
	if len(v.list) == 0 {
		return errSet
	}
	for i := 1; i < len(v.list); i++ {
		if v.list[i].text == v.list[i-1].text {
			return errSet
		}
	}
	return nil
}

// UnmarshalItem decodes DynamoDB JSON. It is strict: an unknown or a second type, a repeated name, a number out of range or
// anything after the item is an error.
func UnmarshalItem(text []byte) (Item, error) {
	d := newDecoder(text)
	item, err := d.item()
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return Item{}, err
	}
	return item, nil
}

// UnmarshalChange is the inverse of MarshalChange. It refuses versions it does not know.
func UnmarshalChange(text []byte) (Change, error) {
	var header struct{ V int }
	if err := json.Unmarshal(text, &header); err != nil || header.V != changeVersion {
		return Change{}, fmt.Errorf("%w: no change of version %d", ErrDynamoDBJSON, changeVersion)
	}
	var c Change
	var seen []string
	d := newDecoder(text)
	err := d.object(func(name string) (err error) {
		if slices.Contains(seen, name) {
			return d.fault("a name occurs twice")
		}
		seen = append(seen, name)
		switch name {
		case "v":
			_, err = d.next()
		case "event":
			c.Event, err = d.event()
		case "sequence":
			c.Sequence, err = d.sequence()
		case "time":
			c.Time, err = d.time()
		case "expired":
			c.Expired, err = decode[bool](d)
		case "keys":
			c.Keys, err = d.item()
		case "old":
			c.Old, err = d.item()
		case "new":
			c.New, err = d.item()
		default:
			err = d.fault("an unknown member of a change")
		}
		return err
	})
	if err == nil {
		err = d.end()
	}
	if err == nil && c.Event == 0 {
		err = d.fault("a change without an event")
	}
	if err != nil {
		return Change{}, err
	}
	return c, nil
}

// decoder reads DynamoDB JSON token by token, so that a repeated name is seen and no value passes unchecked.
type decoder struct {
	tokens *json.Decoder
	utf8   bool
	depth  int
}

func newDecoder(text []byte) *decoder {
	return &decoder{tokens: json.NewDecoder(bytes.NewReader(text)), utf8: utf8.Valid(text)}
}

func (d *decoder) fault(what string) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrDynamoDBJSON, d.tokens.InputOffset(), what)
}

func (d *decoder) next() (json.Token, error) {
	if !d.utf8 {
		return nil, d.fault("the text is not UTF-8") // encoding/json would put another character in place of what it cannot read
	}
	token, err := d.tokens.Token()
	if err != nil {
		return nil, d.fault("the text is not JSON") // the cause may quote a character of the data
	}
	return token, nil
}

// decode reads a token that must be of type T.
func decode[T any](d *decoder) (T, error) {
	token, err := d.next()
	value, ok := token.(T)
	if err == nil && !ok {
		err = d.fault("another JSON type than the attribute's type has")
	}
	return value, err
}

func (d *decoder) expect(delimiter json.Delim) error {
	got, err := decode[json.Delim](d)
	if err == nil && got != delimiter {
		err = d.fault("another JSON type than the attribute's type has")
	}
	return err
}

func (d *decoder) end() error {
	if _, err := d.tokens.Token(); err != io.EOF {
		return d.fault("more text after the end")
	}
	return nil
}

// object calls member for each name of an object; member must read its value.
func (d *decoder) object(member func(name string) error) error {
	if err := d.expect('{'); err != nil {
		return err
	}
	for d.tokens.More() {
		name, err := decode[string](d)
		if err != nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
	}
	return d.expect('}')
}

// array calls element for each element of an array; element must read it.
func (d *decoder) array(element func() error) error {
	if err := d.expect('['); err != nil {
		return err
	}
	for d.tokens.More() {
		if err := element(); err != nil {
			return err
		}
	}
	return d.expect(']')
}

func (d *decoder) item() (Item, error) {
	members, err := d.members()
	return Item{members}, err
}

func (d *decoder) members() ([]Attribute, error) {
	var members []Attribute
	err := d.object(func(name string) error {
		v, err := d.value()
		members = append(members, Attribute{name, v})
		return err
	})
	members = sortAttributes(members)
	for i := 1; i < len(members) && err == nil; i++ {
		if members[i].Name == members[i-1].Name {
			err = d.fault("a name occurs twice")
		}
	}
	return members, err
}

func (d *decoder) value() (Value, error) {
	if d.depth == maxDepth {
		return Value{}, d.fault("values nest too deep")
	}
	d.depth++
	defer func() { d.depth-- }()
	var v Value
	err := d.object(func(descriptor string) (err error) {
		if v.kind != KindNone {
			return d.fault("a value of two types")
		}
		kind := Kind(max(slices.Index(kindNames[:], descriptor), 0))
		switch kind {
		case KindNone:
			err = d.fault("a value of unknown type " + describe(descriptor))
		case KindBOOL:
			v.truth, err = decode[bool](d)
		case KindNULL:
			var truth bool
			if truth, err = decode[bool](d); err == nil && !truth {
				err = d.fault("a NULL that is not true")
			}
		case KindM:
			v.members, err = d.members()
		case KindL:
			err = d.array(func() error {
				e, err := d.value()
				v.list = append(v.list, e)
				return err
			})
		case KindSS, KindNS, KindBS:
			v, err = d.set(kind)
		default:
			v.text, err = d.scalar(kind)
		}
		v.kind = kind
		return err
	})
	if err == nil && v.kind == KindNone {
		err = d.fault("a value without a type")
	}
	return v, err
}

// describe names an unknown type descriptor for an error. Only what looks like one is quoted: in text of another shape, data
// may stand in its place.
func describe(descriptor string) string {
	short := len(descriptor) <= 8
	for i := range len(descriptor) {
		short = short && descriptor[i] >= 'A' && descriptor[i] <= 'Z'
	}
	if !short {
		return fmt.Sprintf("of %d bytes", len(descriptor))
	}
	return fmt.Sprintf("%q", descriptor)
}

// set reads an SS, NS or BS.
func (d *decoder) set(kind Kind) (Value, error) {
	element := map[Kind]Kind{KindSS: KindS, KindNS: KindN, KindBS: KindB}[kind]
	var list []Value
	err := d.array(func() error {
		text, err := d.scalar(element)
		list = append(list, Value{kind: element, text: text})
		return err
	})
	if err != nil {
		return Value{}, err
	}
	v := set(kind, list)
	if err := checkSet(v); err != nil {
		return Value{}, d.fault(err.Error())
	}
	return v, nil
}

// scalar reads the text of an S, the canonical digits of an N or the bytes of a B.
func (d *decoder) scalar(kind Kind) (string, error) {
	text, err := decode[string](d)
	if err != nil {
		return "", err
	}
	switch kind {
	case KindN:
		number, err := CanonicalNumber(text)
		if err != nil {
			return "", fmt.Errorf("%w: %w", d.fault("a number"), err)
		}
		return number, nil
	case KindB:
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return "", d.fault("a binary that is not base64")
		}
		return string(raw), nil
	default:
		return text, nil
	}
}

func (d *decoder) event() (Event, error) {
	name, err := decode[string](d)
	if err != nil {
		return 0, err
	}
	event, ok := parseEvent(name)
	if !ok {
		return 0, d.fault("an unknown event")
	}
	return event, nil
}

func (d *decoder) sequence() (SequenceNumber, error) {
	text, err := decode[string](d)
	if err != nil {
		return SequenceNumber{}, err
	}
	number, err := ParseSequenceNumber(text)
	if err != nil {
		return SequenceNumber{}, d.fault("a sequence number that is none")
	}
	return number, nil
}

func (d *decoder) time() (time.Time, error) {
	text, err := decode[string](d)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !writable(t) {
		return time.Time{}, d.fault("a time that is none")
	}
	return t, nil
}
