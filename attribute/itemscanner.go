package attribute

import (
	"encoding/base64"
	"slices"
	"strings"
)

// shape is the order of the names in the previous item or map, and their sorted order. Items of a
// page mostly have the same names in the same order. Names in that order need not be sorted again.
type shape struct {
	names []string // names in the order of the text
	order []int    // the indexes of names, sorted by name
}

// Item reads {"name":{"TYPE":value},…}.
func (s *Scanner) Item() (Item, bool) {
	members, ok := s.readMembers(scannerDepth)
	return Item{members}, ok
}

// readMembers reads the attributes of an item or a map.
func (s *Scanner) readMembers(depth int) ([]Attribute, bool) {
	if !s.take('{') || depth == 0 {
		return nil, false
	}
	if s.take('}') {
		return nil, true
	}
	begin, ascending := len(s.members), true
	for {
		var a Attribute
		var ok bool
		if a.Name, ok = s.String(); !ok {
			return nil, false
		}
		if s.at(':') {
			s.pos++
		} else if !s.take(':') {
			return nil, false
		}
		if !s.readValue(&a.Value, depth) {
			return nil, false
		}
		if n := len(s.members); n > begin && s.members[n-1].Name >= a.Name {
			ascending = false
		}
		s.members = append(s.members, a)
		if s.at(',') {
			s.pos++
			continue
		}
		if s.take('}') {
			break
		}
		if !s.take(',') {
			return nil, false
		}
	}
	return s.sorted(begin, ascending, &s.shapes[depth])
}

// sorted moves the members that were read since begin to permanent memory, sorted by name.
func (s *Scanner) sorted(begin int, ascending bool, shape *shape) ([]Attribute, bool) {
	read := s.members[begin:]
	if len(read) > len(s.attributes) {
		s.attributes = make([]Attribute, max(len(read), s.slab()))
	}
	members := s.attributes[:len(read):len(read)]
	s.attributes = s.attributes[len(read):]
	s.members = s.members[:begin]
	if ascending {
		copy(members, read)
		return members, true
	}
	if !shape.of(read) && !shape.learn(read) {
		return nil, false // a name occurs twice: the slow reader decides which one counts
	}
	for i, at := range shape.order {
		members[i] = read[at]
	}
	return members, true
}

// of reports whether the members have the names of the shape in the same order.
func (s *shape) of(read []Attribute) bool {
	if len(read) != len(s.names) {
		return false
	}
	for i := range read {
		if read[i].Name != s.names[i] {
			return false
		}
	}
	return true
}

// learn sorts the indexes of members by name; false if a name occurs twice.
func (s *shape) learn(read []Attribute) bool {
	s.names, s.order = s.names[:0], s.order[:0]
	for i := range read {
		s.names, s.order = append(s.names, read[i].Name), append(s.order, i)
	}
	slices.SortFunc(s.order, func(a, b int) int { return strings.Compare(read[a].Name, read[b].Name) })
	for i := 1; i < len(s.order); i++ {
		if read[s.order[i-1]].Name == read[s.order[i]].Name {
			s.names = s.names[:0]
			return false
		}
	}
	return true
}

// slab returns the number of attributes or values in one allocation. The number is small for a
// short text. It is limited, because one attribute that is kept long keeps its whole slab.
func (s *Scanner) slab() int { return min(max((len(s.text)-s.pos)/32, 4), 512) }

// letters are the types whose name has one letter.
var letters = [256]Kind{'S': KindS, 'N': KindN, 'B': KindB, 'M': KindM, 'L': KindL}

// readValue reads {"TYPE":…}.
func (s *Scanner) readValue(v *Value, depth int) bool {
	// The service writes this form, without white space: {"S":
	if rest := s.text[s.pos:]; len(rest) > 5 && rest[0] == '{' && rest[1] == '"' && rest[3] == '"' && rest[4] == ':' {
		v.kind = letters[rest[2]]
		s.pos += 5
	} else {
		if !s.take('{') {
			return false
		}
		name, ok := s.String()
		if !ok || !s.take(':') {
			return false
		}
		v.kind = kindNamed(name)
	}
	if !s.readTyped(v, depth) {
		return false
	}
	if s.at('}') {
		s.pos++
		return true
	}
	return s.take('}')
}

func (s *Scanner) readTyped(v *Value, depth int) (ok bool) {
	switch v.kind {
	case KindS:
		v.text, ok = s.String()
	case KindN, KindB:
		v.text, ok = s.scalar(v.kind)
	case KindBOOL:
		v.truth = s.peek() == 't'
		ok = s.Literal("true") || s.Literal("false")
	case KindNULL:
		ok = s.Literal("true")
	case KindM:
		var members []Attribute
		members, ok = s.readMembers(depth - 1)
		v.nested = s.nest(nested{members: members})
	case KindL:
		var list []Value
		list, ok = s.readElements(KindNone, depth-1)
		v.nested = s.nest(nested{list: list})
	case KindSS, KindNS, KindBS:
		var list []Value
		list, ok = s.readElements(setMembers[v.kind], depth)
		sortSet(v.kind, list)
		v.nested = s.nest(nested{list: list})
		ok = ok && CheckSet(*v) == nil
	}
	return ok
}

var setMembers = [...]Kind{KindSS: KindS, KindNS: KindN, KindBS: KindB}

// nest stores the parts of a value.
func (s *Scanner) nest(n nested) *nested {
	if len(s.nests) == 0 {
		s.nests = make([]nested, min(max(s.slab()/4, 1), 64))
	}
	kept := &s.nests[0]
	s.nests = s.nests[1:]
	*kept = n
	return kept
}

// scalar reads the text of an S, the canonical digits of an N or the bytes of a B.
func (s *Scanner) scalar(kind Kind) (string, bool) {
	text, ok := s.String()
	if !ok || kind == KindS {
		return text, ok
	}
	if kind == KindN {
		number, err := CanonicalNumber(text)
		return number, err == nil
	}
	s.base64 = append(s.base64[:0], text...)
	b, err := base64.StdEncoding.AppendDecode(s.buffer[:0], s.base64)
	s.buffer = b
	return s.keep(b), err == nil
}

// readElements reads the values of a list, or the members of a set of the given kind.
func (s *Scanner) readElements(kind Kind, depth int) ([]Value, bool) {
	if !s.take('[') || depth == 0 {
		return nil, false
	}
	if s.take(']') {
		return nil, true
	}
	begin := len(s.elements)
	for {
		v, ok := Value{kind: kind}, false
		if kind == KindNone {
			ok = s.readValue(&v, depth)
		} else {
			v.text, ok = s.scalar(kind)
		}
		if !ok {
			return nil, false
		}
		s.elements = append(s.elements, v)
		if s.take(']') {
			break
		}
		if !s.take(',') {
			return nil, false
		}
	}
	read := s.elements[begin:]
	if len(read) > len(s.values) {
		s.values = make([]Value, max(len(read), s.slab()))
	}
	list := s.values[:len(read):len(read)]
	s.values = s.values[len(read):]
	copy(list, read)
	s.elements = s.elements[:begin]
	return list, true
}
