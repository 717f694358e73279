package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Kinds is a set of DynamoDB types. The zero value is empty.
type Kinds uint16

// KindsOf returns the set of the given types.
func KindsOf(kinds ...attribute.Kind) Kinds {
	var set Kinds
	for _, kind := range kinds {
		set |= 1 << kind
	}
	return set
}

// Types that cells may not distinguish from each other. JSON has strings for textKinds, and arrays
// for arrayKinds.
var (
	textKinds  = KindsOf(attribute.KindS, attribute.KindB)
	arrayKinds = KindsOf(attribute.KindL, attribute.KindSS, attribute.KindNS, attribute.KindBS)
)

// has reports whether the set holds a type.
func (k Kinds) has(kind attribute.Kind) bool { return k&KindsOf(kind) != 0 }

// several reports whether the set holds more than one type.
func (k Kinds) several() bool { return k&(k-1) != 0 }

// String returns DynamoDB's descriptors of the types, such as "S, NULL"; "" for an empty set.
func (k Kinds) String() string {
	var names []string
	for kind := attribute.KindS; kind <= attribute.KindBS; kind++ {
		if k.has(kind) {
			names = append(names, kind.String())
		}
	}
	return strings.Join(names, ", ")
}

// MarshalText returns the text of String. It never fails.
func (k Kinds) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the text of String.
func (k *Kinds) UnmarshalText(text []byte) error {
	*k = 0
	if len(text) == 0 {
		return nil
	}
	for name := range strings.SplitSeq(string(text), ", ") {
		kind := attribute.KindS
		for kind <= attribute.KindBS && kind.String() != name {
			kind++
		}
		if kind > attribute.KindBS {
			return fmt.Errorf("%q is not a DynamoDB type", name)
		}
		*k |= KindsOf(kind)
	}
	return nil
}

// Types holds what is known of the values of each top-level attribute, by the attribute's name. Add
// collects it from items. It is not safe for use by several goroutines while it changes.
type Types map[string]Seen

// Seen holds the types of an attribute's values. Inside holds the types of the values within its
// maps and lists, at any depth.
type Seen struct {
	Kinds  Kinds `json:"kinds"`
	Inside Kinds `json:"inside,omitempty"`
}

// Add adds the types of an item's attributes.
func (t Types) Add(item attribute.Item) {
	for _, a := range item.Attributes() {
		before := t[a.Name]
		seen := Seen{before.Kinds | KindsOf(a.Value.Kind()), before.Inside | inside(a.Value)}
		if seen != before {
			t[a.Name] = seen
		}
	}
}

// Merge adds the types of other items.
func (t Types) Merge(other Types) {
	for name, seen := range other {
		t[name] = Seen{t[name].Kinds | seen.Kinds, t[name].Inside | seen.Inside}
	}
}

// inside returns the types of the values within a map or list.
func inside(v attribute.Value) Kinds {
	var kinds Kinds
	if v.Kind() == attribute.KindL {
		for _, e := range v.Elements() {
			kinds |= KindsOf(e.Kind()) | inside(e)
		}
	}
	for _, m := range v.Members() {
		kinds |= KindsOf(m.Value.Kind()) | inside(m.Value)
	}
	return kinds
}

// NeedsTypes returns the attributes whose cells do not show the type of a value, so that Invert
// needs their Types. The result `others` reports that this holds for all attributes that the rules
// do not name. The mapping must be invertible (NotInvertible).
func (m *Mapping) NeedsTypes() (names []string, others bool) {
	w := m.onlyWrite()
	if w == nil {
		return nil, false
	}
	for i := range w.targets {
		if t := &w.targets[i]; !t.drop && !t.as.showsType() && m.keyType(t.attribute) == attribute.KindNone {
			names = append(names, t.attribute)
		}
	}
	return names, w.star != nil && !w.star.as.showsType()
}

// showsType reports whether a cell of the encoding shows the type of its value.
func (e Encoding) showsType() bool { return e == AsDynamoDBJSON || e == AsInt64 }

// Unclear returns why rows do not give items of these types back, one text for each attribute whose
// values have types that its cells do not distinguish. It is empty if all cells can be read. The
// mapping must be invertible (NotInvertible).
func (m *Mapping) Unclear(types Types) []string {
	w := m.onlyWrite()
	if w == nil {
		return nil
	}
	var all []string
	for name, seen := range types {
		if !w.holds(name) || m.keyType(name) != attribute.KindNone {
			continue
		}
		as := w.targetOf(name).as
		top, within := as.confuses(seen)
		if top != 0 {
			all = append(all, fmt.Sprintf("attribute %s has values of types %s, which its cells do not distinguish; write it as: dynamodb_json", quoteName(name), top))
		}
		if within != 0 {
			all = append(all, fmt.Sprintf("attribute %s has values of types %s within maps or lists, which JSON does not distinguish; write it as: dynamodb_json", quoteName(name), within))
		}
	}
	slices.Sort(all)
	return all
}

// confuses returns the types of an attribute's values that cells of the encoding do not
// distinguish, and those of the values within maps and lists; each is empty if there are none.
func (e Encoding) confuses(seen Seen) (top, within Kinds) {
	if e.showsType() {
		return 0, 0
	}
	if e == AsJSON {
		top = confused(seen.Kinds)
	} else if seen.Kinds&textKinds != 0 && seen.Kinds.several() {
		top = seen.Kinds // the bytes of an S or B can be those of any other value
	} else {
		top = confused(seen.Kinds)
	}
	return top, confused(seen.Inside)
}

// confused returns the types of a set that JSON does not distinguish: S and B are strings, and
// lists and sets are arrays.
func confused(kinds Kinds) Kinds {
	var all Kinds
	for _, shape := range []Kinds{kinds & textKinds, kinds & arrayKinds} {
		if shape.several() {
			all |= shape
		}
	}
	return all
}
