package item

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// maxDepth is how deeply lists and maps may nest ("Nested attribute depth", 32
// levels).
const maxDepth = 32

// ValidationError is a value that DynamoDB refuses. Its text is for the response's
// message and holds no item data.
type ValidationError struct{ Message string }

func (e *ValidationError) Error() string { return e.Message }

// SyntaxError is a request body whose JSON does not have the form of an attribute
// value, such as a number where a string belongs.
type SyntaxError struct{ Message string }

func (e *SyntaxError) Error() string { return e.Message }

func invalid(message string) error { return &ValidationError{Message: message} }

func malformed(message string) error { return &SyntaxError{Message: message} }

// Item is an item as a member of a request.
type Item struct {
	cdc.Item
	// Given tells an empty item from one that the request does not have.
	Given bool
}

// UnmarshalJSON reads {"name":{"TYPE":value},…} and validates every value. Errors
// are *ValidationError or *SyntaxError. JSON null is an item that is not given.
func (it *Item) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*it = Item{}
		return nil
	}
	parsed, err := Parse(data)
	*it = Item{parsed, true}
	return err
}

// MarshalJSON is AppendJSON for encoding/json.
func (it Item) MarshalJSON() ([]byte, error) { return AppendJSON(nil, it.Item), nil }

// Value is a value as a member of a request, of no type if it is not given.
type Value struct{ cdc.Value }

// UnmarshalJSON reads {"TYPE":value} under the rules of Item.UnmarshalJSON.
func (v *Value) UnmarshalJSON(data []byte) (err error) {
	if string(data) == "null" {
		*v = Value{}
		return nil
	}
	v.Value, err = ParseValue(data)
	return err
}

// Values are the named values of a request, such as its ExpressionAttributeValues. They are nil if it has none.
type Values map[string]cdc.Value

// UnmarshalJSON reads values under the rules of Item.UnmarshalJSON.
func (vs *Values) UnmarshalJSON(data []byte) error {
	var it Item
	if err := it.UnmarshalJSON(data); err != nil || !it.Given {
		*vs = nil
		return err
	}
	*vs = Values{}
	for _, a := range it.Attributes() {
		(*vs)[a.Name] = a.Value
	}
	return nil
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (vs Values) MarshalJSON() ([]byte, error) {
	if vs == nil {
		return []byte("null"), nil
	}
	attributes := make([]cdc.Attribute, 0, len(vs))
	for name, v := range vs {
		attributes = append(attributes, cdc.Attribute{Name: name, Value: v})
	}
	return AppendJSON(nil, cdc.NewItem(attributes)), nil
}

// Parse reads an item, as AppendJSON writes it or as a request holds it.
func Parse(wire []byte) (cdc.Item, error) {
	r := reader{data: wire}
	members, err := r.members(0)
	if err != nil {
		return cdc.Item{}, err
	}
	return cdc.NewItem(members), nil
}

// ParseValue reads {"TYPE":value} under the same rules.
func ParseValue(wire []byte) (cdc.Value, error) {
	r := reader{data: wire}
	return r.value(1)
}

// reader walks over JSON text. It is used beneath encoding/json, which has checked the
// syntax already; it is still safe on any input.
type reader struct {
	data []byte
	pos  int
}

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

// str reads a JSON string.
func (r *reader) str() (string, error) {
	raw, err := r.strBytes()
	if err != nil {
		return "", err
	}
	return string(raw), nil
}

// strBytes reads a JSON string; the result may alias the input.
func (r *reader) strBytes() ([]byte, error) {
	if !r.take('"') {
		return nil, malformed("Expected a string")
	}
	start := r.pos
	end := bytes.IndexByte(r.data[start:], '"')
	if end < 0 {
		return nil, malformed("Unterminated string")
	}
	if raw := r.data[start : start+end]; bytes.IndexByte(raw, '\\') < 0 {
		if !utf8.Valid(raw) {
			return nil, malformed("Text is not UTF-8")
		}
		r.pos = start + end + 1
		return raw, nil
	}
	return r.escaped(start)
}

// escaped reads the rest of a string with escapes, which is rare enough to leave to
// encoding/json.
func (r *reader) escaped(start int) ([]byte, error) {
	for i := start; i < len(r.data); i++ {
		switch r.data[i] {
		case '\\':
			i++
		case '"':
			var text string
			if !utf8.Valid(r.data[start:i]) || json.Unmarshal(r.data[start-1:i+1], &text) != nil {
				return nil, malformed("Malformed string")
			}
			r.pos = i + 1
			return []byte(text), nil
		}
	}
	return nil, malformed("Unterminated string")
}

// list reads a JSON array, calling element at each of its elements.
func (r *reader) list(element func() error) error {
	if !r.take('[') {
		return malformed("Expected a list")
	}
	if r.take(']') {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if r.take(']') {
			return nil
		}
		if !r.take(',') {
			return malformed("Malformed list")
		}
	}
}

func (r *reader) boolean() (bool, error) {
	r.peek()
	switch rest := r.data[r.pos:]; {
	case bytes.HasPrefix(rest, []byte("true")):
		r.pos += 4
		return true, nil
	case bytes.HasPrefix(rest, []byte("false")):
		r.pos += 5
		return false, nil
	}
	return false, malformed("Expected true or false")
}

// members reads the attributes of an item or map, sorted by name.
func (r *reader) members(depth int) ([]cdc.Attribute, error) {
	if !r.take('{') {
		return nil, malformed("Expected a map of attributes")
	}
	var it []cdc.Attribute
	if r.take('}') {
		return it, nil
	}
	sorted := true
	for {
		name, err := r.str()
		if err != nil {
			return nil, err
		}
		if !r.take(':') {
			return nil, malformed("Malformed map")
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if n := len(it); n > 0 && it[n-1].Name >= name {
			sorted = false
		}
		it = append(it, cdc.Attribute{Name: name, Value: v})
		if r.take('}') {
			break
		}
		if !r.take(',') {
			return nil, malformed("Malformed map")
		}
	}
	if sorted {
		return it, nil
	}
	return normalize(it), nil
}

// normalize sorts attributes by name; of two with one name the later one stays, as
// with any JSON object.
func normalize(it []cdc.Attribute) []cdc.Attribute {
	slices.SortStableFunc(it, func(a, b cdc.Attribute) int { return strings.Compare(a.Name, b.Name) })
	out := it[:0]
	for _, a := range it {
		if n := len(out); n > 0 && out[n-1].Name == a.Name {
			out[n-1] = a
			continue
		}
		out = append(out, a)
	}
	return out
}

const (
	msgNoType    = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
	msgManyTypes = "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"
	msgInvalid   = "One or more parameter values were invalid: "
	msgNesting   = "Nesting Levels have exceeded supported limits: Attributes nested deeper than 32 levels"
)

// value reads {"TYPE":…}; depth is the nesting level of the value, 1 for an attribute
// of an item.
func (r *reader) value(depth int) (cdc.Value, error) {
	if !r.take('{') {
		return cdc.Value{}, malformed("Expected an attribute value")
	}
	if r.take('}') {
		return cdc.Value{}, invalid(msgNoType)
	}
	name, err := r.strBytes()
	if err != nil {
		return cdc.Value{}, err
	}
	kind := kindNamed(string(name))
	if kind == cdc.KindNone {
		return cdc.Value{}, invalid(msgNoType)
	}
	if !r.take(':') {
		return cdc.Value{}, malformed("Malformed attribute value")
	}
	v, err := r.typed(kind, depth)
	if err != nil {
		return cdc.Value{}, err
	}
	if r.take('}') {
		return v, nil
	}
	if r.peek() == ',' {
		return cdc.Value{}, invalid(msgManyTypes)
	}
	return cdc.Value{}, malformed("Malformed attribute value")
}

// kindNamed is the type with this name in the wire form.
func kindNamed(name string) cdc.Kind {
	for k := cdc.KindS; k <= cdc.KindBS; k++ {
		if k.String() == name {
			return k
		}
	}
	return cdc.KindNone
}

func (r *reader) typed(kind cdc.Kind, depth int) (cdc.Value, error) {
	if depth > maxDepth && (kind == cdc.KindL || kind == cdc.KindM) {
		return cdc.Value{}, invalid(msgNesting)
	}
	switch kind {
	case cdc.KindBOOL:
		truth, err := r.boolean()
		return cdc.Bool(truth), err
	case cdc.KindNULL:
		set, err := r.boolean()
		if err == nil && !set {
			err = invalid(msgInvalid + "Null attribute value types must have the value of true")
		}
		return cdc.Null(), err
	case cdc.KindSS, cdc.KindNS, cdc.KindBS:
		return r.set(kind)
	case cdc.KindL:
		var list []cdc.Value
		err := r.list(func() error {
			e, err := r.value(depth + 1)
			list = append(list, e)
			return err
		})
		return cdc.List(list), err
	case cdc.KindM:
		members, err := r.members(depth)
		return cdc.Map(members), err
	}
	return r.scalar(kind)
}

// scalar reads an S, N or B, or a member of their sets.
func (r *reader) scalar(kind cdc.Kind) (cdc.Value, error) {
	raw, err := r.strBytes()
	if err != nil {
		return cdc.Value{}, err
	}
	switch kind {
	case cdc.KindN:
		return number(string(raw))
	case cdc.KindB:
		decoded, err := base64.StdEncoding.AppendDecode(nil, raw)
		if err != nil {
			return cdc.Value{}, malformed("Invalid base64 text in a binary value")
		}
		return cdc.Binary(decoded), nil
	}
	return cdc.String(string(raw)), nil
}

var setMember = map[cdc.Kind]cdc.Kind{cdc.KindSS: cdc.KindS, cdc.KindNS: cdc.KindN, cdc.KindBS: cdc.KindB}

var emptySet = map[cdc.Kind]string{
	cdc.KindSS: msgInvalid + "An string set  may not be empty",
	cdc.KindNS: msgInvalid + "An number set  may not be empty",
	cdc.KindBS: msgInvalid + "Binary sets should not be empty",
}

func (r *reader) set(kind cdc.Kind) (cdc.Value, error) {
	var texts []string
	err := r.list(func() error {
		m, err := r.scalar(setMember[kind])
		texts = append(texts, m.Text())
		return err
	})
	if err != nil {
		return cdc.Value{}, err
	}
	if len(texts) == 0 {
		return cdc.Value{}, invalid(emptySet[kind])
	}
	v, err := cdc.SetOf(kind, texts)
	if err != nil {
		return cdc.Value{}, err
	}
	for i, m := range v.Elements()[1:] {
		if m.Text() == v.Elements()[i].Text() {
			return cdc.Value{}, invalid(msgInvalid + "Input collection contains duplicates")
		}
	}
	return v, nil
}

// AppendJSON appends the canonical wire form of the item: no spaces, attributes
// sorted by name, numbers canonical, sets sorted. Equal items have equal bytes.
func AppendJSON(dst []byte, it cdc.Item) []byte { return appendMembers(dst, it.Attributes()) }

func appendMembers(dst []byte, members []cdc.Attribute) []byte {
	dst = append(dst, '{')
	for i, a := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, a.Name)
		dst = append(dst, ':')
		dst = AppendValueJSON(dst, a.Value)
	}
	return append(dst, '}')
}

// AppendValueJSON appends the canonical wire form of the value.
func AppendValueJSON(dst []byte, v cdc.Value) []byte {
	dst = append(dst, '{', '"')
	dst = append(dst, v.Kind().String()...)
	dst = append(dst, '"', ':')
	switch v.Kind() {
	case cdc.KindBOOL:
		dst = strconv.AppendBool(dst, v.Bool())
	case cdc.KindNULL:
		dst = append(dst, "true"...)
	case cdc.KindSS, cdc.KindNS, cdc.KindBS, cdc.KindL:
		dst = append(dst, '[')
		for i, e := range v.Elements() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if v.Kind() == cdc.KindL {
				dst = AppendValueJSON(dst, e)
			} else {
				dst = appendScalar(dst, e)
			}
		}
		dst = append(dst, ']')
	case cdc.KindM:
		dst = appendMembers(dst, v.Members())
	default:
		dst = appendScalar(dst, v)
	}
	return append(dst, '}')
}

func appendScalar(dst []byte, v cdc.Value) []byte {
	if v.Kind() == cdc.KindB {
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, []byte(v.Text()))
		return append(dst, '"')
	}
	return AppendString(dst, v.Text())
}

const hexDigits = "0123456789abcdef"

// AppendString appends text, which must be UTF-8, as a JSON string.
func AppendString(dst []byte, text string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		if c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}
