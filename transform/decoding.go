package transform

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// These texts say why a cell has no value. They hold no item data.
const (
	errNoType     errEncoding = "the type of the attribute is not known"
	errTwoTypes   errEncoding = "the attribute has values of types that its cells do not distinguish"
	errOtherType  errEncoding = "it does not hold a value of the attribute's type"
	errNotText    errEncoding = "it is not valid UTF-8"
	errNotBase64  errEncoding = "it is not base64"
	errNotJSON    errEncoding = "it is not JSON"
	errNotTyped   errEncoding = "it is not DynamoDB JSON"
	errNotEight   errEncoding = "it does not have the 8 bytes of a whole number"
	errNotDecimal errEncoding = "it holds a number that DynamoDB cannot hold"
	errRepeated   errEncoding = "a map in it names a member twice"
	errNotSet     errEncoding = "a set in it is empty, holds a member twice, or a member of another type"
	errTooDeep    errEncoding = "its values nest too deep"
	errNoInverse  errEncoding = "its encoding cannot be read back"
)

// maxInverseDepth bounds the nesting of values, so that no cell can exhaust the stack. It is well
// above the 32 levels that DynamoDB accepts.
const maxInverseDepth = 128

// decodeAs is the inverse of appendAs: it returns the value of a cell. The argument `seen` holds
// the types that the attribute can have, in case the encoding does not show the type. A value of
// another type is an error.
func decodeAs(as Encoding, cell []byte, seen Seen) (attribute.Value, error) {
	switch as {
	case AsInt64:
		if len(cell) != 8 {
			return attribute.Value{}, errNotEight
		}
		return decodeNumber(strconv.FormatInt(int64(binary.BigEndian.Uint64(cell)), 10))
	case AsDynamoDBJSON:
		v, err := attribute.Decoder{}.Value(cell)
		if err != nil {
			return attribute.Value{}, errNotTyped
		}
		return v, nil
	case AsDefault, AsText, AsJSON, AsBytes:
	default:
		return attribute.Value{}, errNoInverse
	}
	if seen.Kinds == 0 {
		return attribute.Value{}, errNoType
	}
	if top, within := as.confuses(seen); top|within != 0 {
		return attribute.Value{}, errTwoTypes
	}
	v, err := decodeSeen(as, cell, seen)
	if err == nil && !seen.Kinds.has(v.Kind()) {
		err = errOtherType
	}
	if err != nil {
		return attribute.Value{}, err
	}
	return v, nil
}

// decodeSeen returns the value of a cell whose encoding does not show the type. The types in `seen`
// can be distinguished.
func decodeSeen(as Encoding, cell []byte, seen Seen) (attribute.Value, error) {
	if as == AsJSON {
		return decodeJSON(cell, seen)
	}
	switch {
	case seen.Kinds.has(attribute.KindS):
		if !utf8.Valid(cell) {
			return attribute.Value{}, errNotText
		}
		return attribute.String(string(cell)), nil
	case seen.Kinds.has(attribute.KindB) && as == AsText:
		return decodeBase64(string(cell))
	case seen.Kinds.has(attribute.KindB):
		return attribute.Binary(cell), nil
	case as == AsBytes:
		return attribute.Value{}, errOtherType
	case seen.Kinds.has(attribute.KindN):
		// Applications may write a number in any form that DynamoDB reads, which JSON may not allow.
		if v, err := decodeNumber(string(cell)); err == nil || seen.Kinds == KindsOf(attribute.KindN) {
			return v, err
		}
	}
	return decodeJSON(cell, seen)
}

func decodeNumber(text string) (attribute.Value, error) {
	v, err := attribute.Number(text)
	if err != nil {
		return attribute.Value{}, errNotDecimal
	}
	return v, nil
}

func decodeBase64(text string) (attribute.Value, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return attribute.Value{}, errNotBase64
	}
	return attribute.Binary(b), nil
}

// decodeJSON is the inverse of appendJSON.
func decodeJSON(cell []byte, seen Seen) (attribute.Value, error) {
	if !utf8.Valid(cell) {
		return attribute.Value{}, errNotText // encoding/json would replace the invalid bytes
	}
	r := plainReader{json.NewDecoder(bytes.NewReader(cell)), seen.Inside}
	r.UseNumber()
	v, err := r.value(seen.Kinds, 0)
	if err != nil {
		return attribute.Value{}, err
	}
	if _, err := r.Token(); err != io.EOF {
		return attribute.Value{}, errNotJSON
	}
	return v, nil
}

// plainReader reads a value that is written as JSON without types. Strings are S, unless only B is
// known to occur. Arrays are lists, unless only one type of set is known to occur.
type plainReader struct {
	*json.Decoder
	inside Kinds // the types that occur within maps and lists
}

// value reads a value. The argument `kinds` holds the types that it can have.
func (r *plainReader) value(kinds Kinds, depth int) (attribute.Value, error) {
	if depth > maxInverseDepth {
		return attribute.Value{}, errTooDeep
	}
	token, err := r.Token()
	if err != nil {
		return attribute.Value{}, errNotJSON
	}
	switch token := token.(type) {
	case nil:
		return attribute.Null(), nil
	case bool:
		return attribute.Bool(token), nil
	case json.Number:
		return decodeNumber(token.String())
	case string:
		if kinds&textKinds == KindsOf(attribute.KindB) {
			return decodeBase64(token)
		}
		return attribute.String(token), nil
	case json.Delim:
		if token == '{' {
			return r.members(depth)
		} else if token == '[' {
			return r.array(kinds&arrayKinds, depth)
		}
	}
	return attribute.Value{}, errNotJSON
}

// members reads the rest of a map.
func (r *plainReader) members(depth int) (attribute.Value, error) {
	var members []attribute.Attribute
	for r.More() {
		name, err := r.Token()
		if err != nil {
			return attribute.Value{}, errNotJSON
		}
		text, _ := name.(string) // the decoder accepts only strings here
		v, err := r.value(r.inside, depth+1)
		if err != nil {
			return attribute.Value{}, err
		}
		members = append(members, attribute.Attribute{Name: text, Value: v})
	}
	if _, err := r.Token(); err != nil {
		return attribute.Value{}, errNotJSON
	}
	v := attribute.Map(members)
	for i, m := range v.Members() {
		if i > 0 && v.Members()[i-1].Name == m.Name {
			return attribute.Value{}, errRepeated
		}
	}
	return v, nil
}

// array reads the rest of an array. The argument `kinds` holds the types of arrays that it can be.
func (r *plainReader) array(kinds Kinds, depth int) (attribute.Value, error) {
	set, member := attribute.KindNone, r.inside
	switch kinds {
	case KindsOf(attribute.KindSS):
		set, member = attribute.KindSS, KindsOf(attribute.KindS)
	case KindsOf(attribute.KindNS):
		set, member = attribute.KindNS, KindsOf(attribute.KindN)
	case KindsOf(attribute.KindBS):
		set, member = attribute.KindBS, KindsOf(attribute.KindB)
	}
	var elements []attribute.Value
	for r.More() {
		v, err := r.value(member, depth+1)
		if err != nil {
			return attribute.Value{}, err
		}
		elements = append(elements, v)
	}
	if _, err := r.Token(); err != nil {
		return attribute.Value{}, errNotJSON
	}
	if set == attribute.KindNone {
		return attribute.List(elements), nil
	}
	texts := make([]string, len(elements))
	for i, e := range elements {
		if !member.has(e.Kind()) {
			return attribute.Value{}, errNotSet
		}
		texts[i] = e.Text()
	}
	v, err := attribute.SetOf(set, texts)
	if err != nil || attribute.CheckSet(v) != nil {
		return attribute.Value{}, errNotSet
	}
	return v, nil
}
