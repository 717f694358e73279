package item

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
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

// UnmarshalJSON reads {"name":{"TYPE":value},…} and validates every value. Errors
// are *ValidationError or *SyntaxError. JSON null leaves a nil Item, which is how an
// absent parameter differs from an empty map.
func (it *Item) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*it = nil
		return nil
	}
	r := reader{data: data}
	parsed, err := r.item(0)
	*it = parsed
	return err
}

// UnmarshalJSON reads {"TYPE":value} under the rules of Item.UnmarshalJSON.
func (v *Value) UnmarshalJSON(data []byte) error {
	r := reader{data: data}
	parsed, err := r.value(1)
	*v = parsed
	return err
}

// Parse reads an item from JSON that AppendJSON wrote.
func Parse(wire []byte) (Item, error) {
	r := reader{data: wire}
	return r.item(0)
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

func (r *reader) item(depth int) (Item, error) {
	if !r.take('{') {
		return nil, malformed("Expected a map of attributes")
	}
	it := Item{}
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
		it = append(it, Attribute{Name: name, Value: v})
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
func normalize(it Item) Item {
	slices.SortStableFunc(it, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
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
func (r *reader) value(depth int) (Value, error) {
	if !r.take('{') {
		return Value{}, malformed("Expected an attribute value")
	}
	if r.take('}') {
		return Value{}, invalid(msgNoType)
	}
	name, err := r.strBytes()
	if err != nil {
		return Value{}, err
	}
	kind := kindNamed(string(name))
	if kind == Invalid {
		return Value{}, invalid(msgNoType)
	}
	if !r.take(':') {
		return Value{}, malformed("Malformed attribute value")
	}
	v, err := r.typed(kind, depth)
	if err != nil {
		return Value{}, err
	}
	if r.take('}') {
		return v, nil
	}
	if r.peek() == ',' {
		return Value{}, invalid(msgManyTypes)
	}
	return Value{}, malformed("Malformed attribute value")
}

func (r *reader) typed(kind Kind, depth int) (Value, error) {
	v := Value{Kind: kind}
	var err error
	switch kind {
	case S, N, B:
		v.Text, err = r.scalar(kind)
	case BOOL:
		v.Bool, err = r.boolean()
	case NULL:
		var set bool
		if set, err = r.boolean(); err == nil && !set {
			err = invalid(msgInvalid + "Null attribute value types must have the value of true")
		}
	case SS, NS, BS:
		v.Set, err = r.set(kind)
	case L:
		if depth > maxDepth {
			return v, invalid(msgNesting)
		}
		v.List = []Value{}
		err = r.list(func() error {
			e, err := r.value(depth + 1)
			v.List = append(v.List, e)
			return err
		})
	case M:
		if depth > maxDepth {
			return v, invalid(msgNesting)
		}
		v.Map, err = r.item(depth)
	}
	return v, err
}

// scalar reads the text of an S, N or B, or of a member of their sets.
func (r *reader) scalar(kind Kind) (string, error) {
	raw, err := r.strBytes()
	if err != nil {
		return "", err
	}
	switch kind {
	case N:
		return CanonicalNumber(string(raw))
	case B:
		decoded, err := base64.StdEncoding.AppendDecode(nil, raw)
		if err != nil {
			return "", malformed("Invalid base64 text in a binary value")
		}
		return string(decoded), nil
	}
	return string(raw), nil
}

var setMember = map[Kind]Kind{SS: S, NS: N, BS: B}

var emptySet = map[Kind]string{
	SS: msgInvalid + "An string set  may not be empty",
	NS: msgInvalid + "An number set  may not be empty",
	BS: msgInvalid + "Binary sets should not be empty",
}

func (r *reader) set(kind Kind) ([]string, error) {
	var members []string
	err := r.list(func() error {
		m, err := r.scalar(setMember[kind])
		members = append(members, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, invalid(emptySet[kind])
	}
	if SortSet(kind, members) {
		return nil, invalid(msgInvalid + "Input collection contains duplicates")
	}
	return members, nil
}

// AppendJSON appends the canonical wire form of the item: no spaces, attributes
// sorted by name, numbers canonical, sets sorted. Equal items have equal bytes.
func (it Item) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i, a := range it {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, a.Name)
		dst = append(dst, ':')
		dst = a.Value.AppendJSON(dst)
	}
	return append(dst, '}')
}

// MarshalJSON is AppendJSON for encoding/json.
func (it Item) MarshalJSON() ([]byte, error) { return it.AppendJSON(nil), nil }

// AppendJSON appends the canonical wire form of the value.
func (v Value) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{', '"')
	dst = append(dst, kindNames[v.Kind]...)
	dst = append(dst, '"', ':')
	switch v.Kind {
	case S, N, B:
		dst = appendScalar(dst, v.Kind, v.Text)
	case BOOL:
		if v.Bool {
			dst = append(dst, "true"...)
		} else {
			dst = append(dst, "false"...)
		}
	case NULL:
		dst = append(dst, "true"...)
	case SS, NS, BS:
		dst = append(dst, '[')
		for i, m := range v.Set {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendScalar(dst, setMember[v.Kind], m)
		}
		dst = append(dst, ']')
	case L:
		dst = append(dst, '[')
		for i, e := range v.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.AppendJSON(dst)
		}
		dst = append(dst, ']')
	case M:
		dst = v.Map.AppendJSON(dst)
	}
	return append(dst, '}')
}

func appendScalar(dst []byte, kind Kind, text string) []byte {
	if kind == B {
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, []byte(text))
		return append(dst, '"')
	}
	return AppendString(dst, text)
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
