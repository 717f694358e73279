package attribute

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is the type of a DynamoDB attribute value.
type Kind uint8

// The ten types, named as DynamoDB names them.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_AttributeValue.html
const (
	KindNone Kind = iota // no value: the attribute is absent
	KindS
	KindN
	KindB
	KindBOOL
	KindNULL
	KindM
	KindL
	KindSS
	KindNS
	KindBS
)

var kindNames = [...]string{"none", "S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"}

// String returns DynamoDB's descriptor of the type.
func (k Kind) String() string { return kindNames[k] }

// Value is a DynamoDB attribute value. A Value is immutable. Its representation is private, so a
// later decoder may keep nested values as spans of the service's text. Numbers are canonical (see
// CanonicalNumber). Members of maps are sorted by the bytes of their names. Members of sets are
// sorted by value (numbers) or bytes (strings, binaries). So equal values have equal
// representations, whether they come from a stream, a scan or an export.
type Value struct {
	kind   Kind
	truth  bool
	text   string  // S, N, B
	nested *nested // for L, M and non-empty sets; a pointer, because most values are scalars
}

// nested holds the parts of a value.
type nested struct {
	list    []Value
	members []Attribute
}

// Attribute is a named value.
type Attribute struct {
	Name  string
	Value Value
}

// String returns an S.
func String(s string) Value { return Value{kind: KindS, text: s} }

// Number returns an N in canonical form, or ErrNumber.
func Number(text string) (Value, error) {
	n, err := CanonicalNumber(text)
	return Value{kind: KindN, text: n}, err
}

// Binary returns a B with a copy of b.
func Binary(b []byte) Value { return Value{kind: KindB, text: string(b)} }

// Bool returns a BOOL.
func Bool(b bool) Value { return Value{kind: KindBOOL, truth: b} }

// Null returns a NULL, which is neither an absent value nor an empty string.
func Null() Value { return Value{kind: KindNULL} }

// Map returns an M. It takes ownership of the slice and sorts it.
func Map(members []Attribute) Value {
	return Value{kind: KindM, nested: &nested{members: sortAttributes(members)}}
}

// List returns an L. It takes ownership of the slice.
func List(elements []Value) Value { return Value{kind: KindL, nested: &nested{list: elements}} }

// StringSet returns an SS.
func StringSet(members []string) Value {
	list := make([]Value, len(members))
	for i, m := range members {
		list[i] = String(m)
	}
	return set(KindSS, list)
}

// NumberSet returns an NS of canonical numbers, or ErrNumber.
func NumberSet(members []string) (Value, error) {
	list := make([]Value, len(members))
	for i, m := range members {
		n, err := Number(m)
		if err != nil {
			return Value{}, err
		}
		list[i] = n
	}
	return set(KindNS, list), nil
}

// BinarySet returns a BS with copies of its members.
func BinarySet(members [][]byte) Value {
	list := make([]Value, len(members))
	for i, m := range members {
		list[i] = Binary(m)
	}
	return set(KindBS, list)
}

// SetOf returns the SS, NS or BS whose members have these texts, in the form of Value.Text. It
// returns ErrNumber if a member of an NS is not a number.
func SetOf(kind Kind, texts []string) (Value, error) {
	switch kind {
	case KindSS:
		return StringSet(texts), nil
	case KindNS:
		return NumberSet(texts)
	}
	binaries := make([][]byte, len(texts))
	for i, text := range texts {
		binaries[i] = []byte(text)
	}
	return BinarySet(binaries), nil
}

func set(kind Kind, list []Value) Value {
	sortSet(kind, list)
	return Value{kind: kind, nested: &nested{list: list}}
}

func sortSet(kind Kind, list []Value) {
	slices.SortFunc(list, func(a, b Value) int {
		if kind == KindNS {
			return CompareNumbers(a.text, b.text)
		}
		return strings.Compare(a.text, b.text)
	})
}

func sortAttributes(list []Attribute) []Attribute {
	byName := func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(list, byName) {
		slices.SortFunc(list, byName)
	}
	return list
}

// ErrSet is returned for a set that DynamoDB would not hold.
var ErrSet = errors.New("a set that is empty or holds a member twice")

// ErrText is returned for text that neither DynamoDB nor JSON can hold.
var ErrText = errors.New("text that is not UTF-8")

// CheckText returns an error for the text of a value or name if DynamoDB cannot hold it.
func CheckText(text string) error {
	if !utf8.ValidString(text) {
		return ErrText
	}
	return nil
}

// CheckSet returns an error for sets that DynamoDB never holds. It accepts all other values.
func CheckSet(v Value) error {
	if v.kind != KindSS && v.kind != KindNS && v.kind != KindBS {
		return nil
	}
	list := v.Elements()
	if len(list) == 0 {
		return ErrSet
	}
	for i := 1; i < len(list); i++ {
		if list[i].text == list[i-1].text {
			return ErrSet
		}
	}
	return nil
}

// Kind returns the value's type; KindNone for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// Text returns the text of an S, or the canonical digits of an N. For a B it returns the raw bytes.
func (v Value) Text() string { return v.text }

// Bool returns the truth value of a BOOL.
func (v Value) Bool() bool { return v.truth }

// Elements returns the members of an L in their order, or the members of a set in canonical order.
// The caller must not change them.
func (v Value) Elements() []Value {
	if v.nested == nil {
		return nil
	}
	return v.nested.list
}

// Members returns the members of an M, sorted by name. The caller must not change them.
func (v Value) Members() []Attribute {
	if v.nested == nil {
		return nil
	}
	return v.nested.members
}

// Equal reports whether two values are the same for DynamoDB.
func (v Value) Equal(o Value) bool {
	return v.kind == o.kind && v.truth == o.truth && v.text == o.text &&
		slices.EqualFunc(v.Elements(), o.Elements(), Value.Equal) && slices.EqualFunc(v.Members(), o.Members(), Attribute.equal)
}

func (a Attribute) equal(o Attribute) bool { return a.Name == o.Name && a.Value.Equal(o.Value) }

// AppendKey appends an unambiguous printable encoding of a scalar value (S, N, B). It is used for
// names that contain an item's key.
func (v Value) AppendKey(b []byte) []byte {
	b = append(b, v.kind.String()...)
	b = append(b, ':')
	return base64.RawURLEncoding.AppendEncode(b, []byte(v.text))
}

// Item is an image of an item: its attributes sorted by name. An item always holds its key
// attributes. So an Item without attributes means that there is no item.
type Item struct{ attributes []Attribute }

// NewItem returns the item with these attributes. It takes ownership of the slice and sorts it by
// name.
func NewItem(attributes []Attribute) Item { return Item{sortAttributes(attributes)} }

// Exists reports whether the item exists.
func (i Item) Exists() bool { return len(i.attributes) > 0 }

// Attributes returns the attributes sorted by name. The caller must not change them.
func (i Item) Attributes() []Attribute { return i.attributes }

// Get returns the named attribute; false if it is absent.
func (i Item) Get(name string) (Value, bool) { return find(i.attributes, name) }

// Member returns the named member of an M; false if it is absent or the value is not an M.
func (v Value) Member(name string) (Value, bool) { return find(v.Members(), name) }

// find searches attributes that are sorted by name. It does not use slices.BinarySearchFunc,
// because that copies an attribute for each comparison. The copy costs more than the comparison.
func find(attributes []Attribute, name string) (Value, bool) {
	low, high := 0, len(attributes)
	for low < high {
		middle := int(uint(low+high) / 2)
		switch strings.Compare(attributes[middle].Name, name) {
		case 0:
			return attributes[middle].Value, true
		case -1:
			low = middle + 1
		default:
			high = middle
		}
	}
	return Value{}, false
}

// Equal reports whether two images are the same.
func (i Item) Equal(o Item) bool {
	return slices.EqualFunc(i.attributes, o.attributes, Attribute.equal)
}

// Format prints only a value's type and size, regardless of the verb. So item data cannot reach a
// log or an error by accident.
func (v Value) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%s(%d)", v.kind, len(v.text)+len(v.Elements())+len(v.Members()))
}

// Format prints only the number of attributes, regardless of the verb. So item data cannot reach a
// log or an error by accident.
func (i Item) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "item(%d attributes)", len(i.attributes)) }
