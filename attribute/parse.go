package attribute

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values, so that no text can exhaust the stack. It is well above
// the 32 levels that DynamoDB accepts. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
const maxDepth = 128

// Problem is a kind of mistake in text that should be DynamoDB JSON.
type Problem uint8

// The problems. Malformed and NotUTF8 concern the text. The other problems concern its content.
const (
	Malformed       Problem = iota + 1 // not JSON, or a JSON type that the value's type does not have
	NotUTF8                            // encoding/json would replace the invalid bytes
	NotBase64                          // a B, or a member of a BS
	NoType                             // {}
	UnknownType                        // a type that DynamoDB does not have
	SecondType                         // a value of more than one type
	NullNotTrue                        // {"NULL":false}
	InvalidNumber                      // the error wraps ErrNumber
	EmptySet                           // JSONError.Kind is the set's type
	RepeatedMember                     // a set has a member twice
	RepeatedName                       // two attributes of an item, or two members of a map, have the same name
	TooDeep                            // more than 128 levels
	textAfterTheEnd                    // more than one value
)

var problems = [...]string{
	Malformed: "the text is not JSON, or of another JSON type than the attribute's type has", NotUTF8: "the text is not UTF-8",
	NotBase64: "a binary that is not base64", NoType: "a value without a type", UnknownType: "a value of unknown type",
	SecondType: "a value of two types", NullNotTrue: "a NULL that is not true", InvalidNumber: "a number", EmptySet: "an empty set",
	RepeatedMember: "a set that holds a member twice", RepeatedName: "a name occurs twice", TooDeep: "values nest too deep",
	textAfterTheEnd: "more text after the end",
}

// JSONError is an ErrDynamoDBJSON with its position. It contains no item data.
type JSONError struct {
	Problem Problem
	Kind    Kind   // the type of the value, if known
	Offset  int    // the position, in bytes
	Type    string // the name of an UnknownType, if it looks like a type
	// Expected names what should be in the place of Malformed text, such as "a string"; "" if that
	// is unknown.
	Expected string
	cause    error
}

func (e *JSONError) Error() string {
	text := fmt.Sprintf("%v: at byte %d: %s", ErrDynamoDBJSON, e.Offset, problems[e.Problem])
	if e.Type != "" {
		text += fmt.Sprintf(" %q", e.Type)
	}
	if e.Expected != "" {
		text += "; " + e.Expected + " is expected"
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns ErrDynamoDBJSON and, for an InvalidNumber, the error of the number.
func (e *JSONError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrDynamoDBJSON}
	}
	return []error{ErrDynamoDBJSON, e.cause}
}

// Decoder decodes DynamoDB JSON. The zero Decoder is strict.
type Decoder struct {
	// LastNameCounts uses the last of several members with one name, as JSON parsers do. Without
	// it, a repeated name is an error, because readers may disagree on which member counts.
	LastNameCounts bool
}

// UnmarshalItem decodes an item. It is strict. An unknown type, a second type, a repeated name or a
// number out of range is a *JSONError. So is anything after the item.
func UnmarshalItem(text []byte) (Item, error) { return Decoder{}.Item(text) }

// Item decodes {"name":{"TYPE":value},…}. Its errors are *JSONError.
func (d Decoder) Item(text []byte) (Item, error) {
	r := reader{data: text, Decoder: d}
	members, err := r.members(0)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return Item{}, err
	}
	return Item{members}, nil
}

// Value decodes {"TYPE":value}. Its errors are *JSONError.
func (d Decoder) Value(text []byte) (Value, error) {
	r := reader{data: text, Decoder: d}
	v, err := r.value(1)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

// reader reads JSON text once, from beginning to end.
type reader struct {
	Decoder
	data []byte
	pos  int
}

func (r *reader) fault(p Problem) error { return &JSONError{Problem: p, Offset: r.pos} }

func (r *reader) expected(what string) error {
	return &JSONError{Problem: Malformed, Offset: r.pos, Expected: what}
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

func (r *reader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.pos++
	return true
}

func (r *reader) end() error {
	if r.peek(); r.pos < len(r.data) {
		return r.fault(textAfterTheEnd)
	}
	return nil
}

// text reads a JSON string. The result may share memory with the input.
func (r *reader) text() ([]byte, error) {
	if !r.take('"') {
		return nil, r.expected("a string")
	}
	start := r.pos
	for i := start; i < len(r.data); i++ {
		switch c := r.data[i]; {
		case c == '\\':
			return r.escaped(start, i)
		case c < 0x20:
			return nil, r.fault(Malformed)
		case c == '"':
			raw := r.data[start:i]
			if !utf8.Valid(raw) {
				return nil, r.fault(NotUTF8)
			}
			r.pos = i + 1
			return raw, nil
		}
	}
	return nil, r.fault(Malformed)
}

// escaped reads a string that has its first escape at the position `from`. Escapes are rare, so
// encoding/json decodes them.
func (r *reader) escaped(start, from int) ([]byte, error) {
	for i := from; i < len(r.data); i++ {
		switch r.data[i] {
		case '\\':
			i++
		case '"':
			if !utf8.Valid(r.data[start:i]) {
				return nil, r.fault(NotUTF8)
			}
			var text string
			if json.Unmarshal(r.data[start-1:i+1], &text) != nil {
				return nil, r.fault(Malformed)
			}
			r.pos = i + 1
			return []byte(text), nil
		}
	}
	return nil, r.fault(Malformed)
}

// sequence reads an array or object between the characters `open` and `end`. It calls `element` at
// each element.
func (r *reader) sequence(open, end byte, element func() error) error {
	if !r.take(open) {
		return r.expected(map[byte]string{'{': "a map", '[': "a list"}[open])
	}
	if r.take(end) {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if r.take(end) {
			return nil
		}
		if !r.take(',') {
			return r.fault(Malformed)
		}
	}
}

func (r *reader) boolean() (bool, error) {
	r.peek()
	switch rest := r.data[r.pos:]; {
	case bytes.HasPrefix(rest, []byte("true")):
		r.pos += len("true")
		return true, nil
	case bytes.HasPrefix(rest, []byte("false")):
		r.pos += len("false")
		return false, nil
	}
	return false, r.expected("true or false")
}

// members reads the attributes of an item or a map.
func (r *reader) members(depth int) ([]Attribute, error) {
	var members []Attribute
	err := r.sequence('{', '}', func() error {
		name, err := r.text()
		if err != nil {
			return err
		}
		if !r.take(':') {
			return r.fault(Malformed)
		}
		m := Attribute{Name: string(name)}
		m.Value, err = r.value(depth + 1)
		members = append(members, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.sorted(members)
}

// sorted sorts members by name, and handles repeated names.
func (r *reader) sorted(members []Attribute) ([]Attribute, error) {
	ascending := true
	for i := 1; i < len(members) && ascending; i++ {
		ascending = members[i-1].Name < members[i].Name
	}
	if ascending { // the writer has already sorted the members
		return members, nil
	}
	slices.SortStableFunc(members, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	single := members[:0]
	for _, m := range members {
		n := len(single)
		switch {
		case n == 0 || single[n-1].Name != m.Name:
			single = append(single, m)
		case r.LastNameCounts:
			single[n-1] = m
		default:
			return nil, r.fault(RepeatedName)
		}
	}
	return single, nil
}

// value reads {"TYPE":…}. The argument `depth` is the nesting level of the value, and is 1 for an
// attribute of an item.
func (r *reader) value(depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, r.fault(TooDeep)
	}
	if !r.take('{') {
		return Value{}, r.expected("an attribute value")
	}
	if r.take('}') {
		return Value{}, r.fault(NoType)
	}
	name, err := r.text()
	if err != nil {
		return Value{}, err
	}
	kind := kindNamed(string(name))
	if kind == KindNone {
		return Value{}, &JSONError{Problem: UnknownType, Offset: r.pos, Type: descriptor(name)}
	}
	if !r.take(':') {
		return Value{}, r.fault(Malformed)
	}
	v, err := r.typed(kind, depth)
	switch {
	case err != nil:
		return Value{}, err
	case r.take('}'):
		return v, nil
	case r.peek() == ',':
		return Value{}, r.fault(SecondType)
	}
	return Value{}, r.fault(Malformed)
}

// kindNamed returns the type with this descriptor; KindNone if there is no such type.
func kindNamed(name string) Kind { return Kind(max(slices.Index(kindNames[1:], name)+1, 0)) }

// descriptor returns an unknown type's name for an error if the name looks like a type. In
// malformed text, another name may be item data.
func descriptor(name []byte) string {
	if len(name) > 8 {
		return ""
	}
	for _, c := range name {
		if c < 'A' || c > 'Z' {
			return ""
		}
	}
	return string(name)
}

func (r *reader) typed(kind Kind, depth int) (v Value, err error) {
	v.kind = kind
	switch kind {
	case KindBOOL:
		v.truth, err = r.boolean()
	case KindNULL:
		var truth bool
		if truth, err = r.boolean(); err == nil && !truth {
			err = r.fault(NullNotTrue)
		}
	case KindSS, KindNS, KindBS:
		return r.set(kind)
	case KindL:
		var list []Value
		err = r.sequence('[', ']', func() error {
			e, err := r.value(depth + 1)
			list = append(list, e)
			return err
		})
		v.nested = &nested{list: list}
	case KindM:
		var members []Attribute
		members, err = r.members(depth)
		v.nested = &nested{members: members}
	default:
		v.text, err = r.scalar(kind)
	}
	return v, err
}

// scalar reads the text of an S, the canonical digits of an N or the bytes of a B.
func (r *reader) scalar(kind Kind) (string, error) {
	raw, err := r.text()
	if err != nil {
		return "", err
	}
	switch kind {
	case KindN:
		number, err := CanonicalNumber(string(raw))
		if err != nil {
			return "", &JSONError{Problem: InvalidNumber, Kind: kind, Offset: r.pos, cause: err}
		}
		return number, nil
	case KindB:
		decoded, err := base64.StdEncoding.AppendDecode(nil, raw)
		if err != nil {
			return "", r.fault(NotBase64)
		}
		return string(decoded), nil
	}
	return string(raw), nil
}

func (r *reader) set(kind Kind) (Value, error) {
	member := map[Kind]Kind{KindSS: KindS, KindNS: KindN, KindBS: KindB}[kind]
	var list []Value
	err := r.sequence('[', ']', func() error {
		text, err := r.scalar(member)
		list = append(list, Value{kind: member, text: text})
		return err
	})
	if err != nil {
		return Value{}, err
	}
	v := set(kind, list)
	switch {
	case len(list) == 0:
		return Value{}, &JSONError{Problem: EmptySet, Kind: kind, Offset: r.pos}
	case CheckSet(v) != nil:
		return Value{}, &JSONError{Problem: RepeatedMember, Kind: kind, Offset: r.pos}
	}
	return v, nil
}
