package item

import (
	"errors"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// maxDepth is the maximum nesting of lists and maps ("Nested attribute depth", 32 levels).
const maxDepth = 32

// ValidationError is the error for a value that DynamoDB rejects. Its text is the response's
// message, without item data.
type ValidationError struct{ Message string }

func (e *ValidationError) Error() string { return e.Message }

// SyntaxError is the error for a request body whose JSON does not have the form of an attribute
// value, for example a number in place of a string.
type SyntaxError struct{ Message string }

func (e *SyntaxError) Error() string { return e.Message }

func invalid(message string) error { return &ValidationError{Message: message} }

func malformed(message string) error { return &SyntaxError{Message: message} }

// Item is an item as a member of a request.
type Item struct {
	attribute.Item
	// Given reports that the request has the item, which may be empty.
	Given bool
}

// UnmarshalJSON reads {"name":{"TYPE":value},…} and validates every value. Errors are
// *ValidationError or *SyntaxError. JSON null means that the request does not have the item.
func (it *Item) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*it = Item{}
		return nil
	}
	parsed, err := Parse(data)
	*it = Item{parsed, true}
	return err
}

// MarshalJSON returns the canonical wire form of the item.
func (it Item) MarshalJSON() ([]byte, error) { return attribute.AppendItem(nil, it.Item), nil }

// Value is a value as a member of a request. It has no type if the request does not have it.
type Value struct{ attribute.Value }

// UnmarshalJSON reads {"TYPE":value} under the rules of Item.UnmarshalJSON.
func (v *Value) UnmarshalJSON(data []byte) (err error) {
	if string(data) == "null" {
		*v = Value{}
		return nil
	}
	v.Value, err = ParseValue(data)
	return err
}

// Values are the named values of a request, such as its ExpressionAttributeValues. It is nil if the
// request has no such values.
type Values map[string]attribute.Value

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
	attributes := make([]attribute.Attribute, 0, len(vs))
	for name, v := range vs {
		attributes = append(attributes, attribute.Attribute{Name: name, Value: v})
	}
	return attribute.AppendItem(nil, attribute.NewItem(attributes)), nil
}

// Parse parses an item of a request, or the result of attribute.AppendItem. Its errors are
// *ValidationError or *SyntaxError.
func Parse(wire []byte) (attribute.Item, error) {
	it, err := decoder.Item(wire)
	if err == nil {
		err = CheckDepth(it)
	}
	return it, refusal(err)
}

// ParseValue reads {"TYPE":value} under the same rules.
func ParseValue(wire []byte) (attribute.Value, error) {
	v, err := decoder.Value(wire)
	if err == nil && depth(v) > maxDepth {
		err = invalid(msgNesting)
	}
	return v, refusal(err)
}

// decoder uses the last of two members with the same name, as in any JSON object.
var decoder = attribute.Decoder{LastNameCounts: true}

// Messages are DynamoDB's own words.
const (
	msgNoType    = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
	msgManyTypes = "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"
	msgInvalid   = "One or more parameter values were invalid: "
	msgNesting   = "Nesting Levels have exceeded supported limits: Attributes nested deeper than 32 levels"
)

var emptySet = map[attribute.Kind]string{
	attribute.KindSS: msgInvalid + "An string set  may not be empty",
	attribute.KindNS: msgInvalid + "An number set  may not be empty",
	attribute.KindBS: msgInvalid + "Binary sets should not be empty",
}

// refusal turns an error of the decoder into DynamoDB's words.
func refusal(err error) error {
	fault, ok := errors.AsType[*attribute.JSONError](err)
	if !ok {
		return err
	}
	switch fault.Problem {
	case attribute.NoType, attribute.UnknownType:
		return invalid(msgNoType)
	case attribute.SecondType:
		return invalid(msgManyTypes)
	case attribute.NullNotTrue:
		return invalid(msgInvalid + "Null attribute value types must have the value of true")
	case attribute.EmptySet:
		return invalid(emptySet[fault.Kind])
	case attribute.RepeatedMember:
		return invalid(msgInvalid + "Input collection contains duplicates")
	case attribute.TooDeep:
		return invalid(msgNesting)
	case attribute.InvalidNumber:
		return invalidNumber(err)
	case attribute.NotBase64:
		return malformed("Invalid base64 text in a binary value")
	}
	if fault.Expected != "" {
		return malformed("Expected " + fault.Expected)
	}
	return malformed("Malformed attribute value")
}
