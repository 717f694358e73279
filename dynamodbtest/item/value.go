package item

import (
	"slices"
	"strings"
)

// Kind is the type of an attribute value.
type Kind uint8

// The ten types, and the zero Kind which no valid value has.
const (
	Invalid Kind = iota
	S
	N
	B
	BOOL
	NULL
	SS
	NS
	BS
	L
	M
)

var kindNames = [...]string{"", "S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"}

// String is the type's name in the wire form, such as "SS".
func (k Kind) String() string { return kindNames[k] }

func kindNamed(name string) Kind {
	for k := S; k <= M; k++ {
		if kindNames[k] == name {
			return k
		}
	}
	return Invalid
}

// Value is one attribute value. Values are treated as immutable: whoever changes
// one copies the slices on the way.
type Value struct {
	Kind Kind
	Text string   // S: the text; N: canonical decimal; B: the raw bytes
	Bool bool     // BOOL
	Set  []string // SS, NS, BS: sorted (by bytes; NS by value), without duplicates
	List []Value  // L
	Map  Item     // M
}

// Attribute is a named value of an item or of a map.
type Attribute struct {
	Name  string
	Value Value
}

// Item is a list of attributes, sorted by name, without duplicates. A map value has
// the same form.
type Item []Attribute

// Get returns the value of the named attribute, and whether there is one.
func (it Item) Get(name string) (Value, bool) {
	i, found := it.find(name)
	if !found {
		return Value{}, false
	}
	return it[i].Value, true
}

// With returns a copy of the item in which the named attribute has the value v.
func (it Item) With(name string, v Value) Item {
	i, found := it.find(name)
	if found {
		out := slices.Clone(it)
		out[i].Value = v
		return out
	}
	out := make(Item, 0, len(it)+1)
	out = append(out, it[:i]...)
	out = append(out, Attribute{Name: name, Value: v})
	return append(out, it[i:]...)
}

// Without returns a copy of the item that lacks the named attribute.
func (it Item) Without(name string) Item {
	i, found := it.find(name)
	if !found {
		return it
	}
	out := make(Item, 0, len(it)-1)
	out = append(out, it[:i]...)
	return append(out, it[i+1:]...)
}

func (it Item) find(name string) (int, bool) {
	return slices.BinarySearchFunc(it, name, func(a Attribute, name string) int {
		return strings.Compare(a.Name, name)
	})
}

// Equal tells whether two values are the same to DynamoDB: numbers by value, sets
// without regard to order.
func (v Value) Equal(w Value) bool {
	if v.Kind != w.Kind || v.Text != w.Text || v.Bool != w.Bool || !slices.Equal(v.Set, w.Set) {
		return false
	}
	if !slices.EqualFunc(v.List, w.List, Value.Equal) {
		return false
	}
	return slices.EqualFunc(v.Map, w.Map, func(a, b Attribute) bool {
		return a.Name == b.Name && a.Value.Equal(b.Value)
	})
}

// Size is the item's size in bytes as DynamoDB counts it against the 400 KB limit:
// names and values.
func (it Item) Size() int {
	size := 0
	for _, a := range it {
		size += len(a.Name) + a.Value.Size()
	}
	return size
}

// Size is the value's size in bytes: text and binary by length, numbers by digits,
// three bytes for a list or map and one for each of its elements ("Item sizes and
// formats").
func (v Value) Size() int {
	size := 0
	switch v.Kind {
	case S, B:
		size = len(v.Text)
	case N:
		size = numberSize(v.Text)
	case BOOL, NULL:
		size = 1
	case SS, BS:
		for _, m := range v.Set {
			size += len(m)
		}
	case NS:
		for _, m := range v.Set {
			size += numberSize(m)
		}
	case L:
		size = 3 + len(v.List)
		for _, e := range v.List {
			size += e.Size()
		}
	case M:
		size = 3 + len(v.Map) + v.Map.Size()
	}
	return size
}

// CheckDepth refuses an item whose lists and maps nest deeper than 32 levels, which an
// update can build from values that each are within the limit.
func (it Item) CheckDepth() error {
	for _, a := range it {
		if a.Value.depth() > maxDepth {
			return invalid(msgNesting)
		}
	}
	return nil
}

// depth is how many lists and maps are nested in the value, itself included.
func (v Value) depth() int {
	deepest := 0
	for _, e := range v.List {
		deepest = max(deepest, e.depth())
	}
	for _, a := range v.Map {
		deepest = max(deepest, a.Value.depth())
	}
	if v.Kind == L || v.Kind == M {
		deepest++
	}
	return deepest
}

// SortSet puts members into the order in which this package keeps sets of the given
// type and reports whether any member occurs twice.
func SortSet(kind Kind, members []string) (duplicates bool) {
	if kind == NS {
		slices.SortFunc(members, CompareNumbers)
	} else {
		slices.Sort(members)
	}
	for i := 1; i < len(members); i++ {
		if members[i] == members[i-1] {
			return true
		}
	}
	return false
}
