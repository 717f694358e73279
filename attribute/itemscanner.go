package attribute

import (
	"encoding/base64"
	"slices"
	"strings"
)

// shape is the order of the names in an earlier item or map, and the place of each name in sorted
// order. Items of a page mostly have the same names in the same order. So the scanner expects each
// name before it reads it, and writes the value directly to its sorted place.
type shape []expected

// own copies the names, so that the shape keeps no text alive.
func (s shape) own() {
	clear(s[len(s):cap(s)])
	length := 0
	for _, next := range s {
		length += len(next.name)
	}
	var all strings.Builder
	all.Grow(length)
	for i, next := range s {
		all.WriteString(next.name)
		s[i].name = all.String()[all.Len()-len(next.name):]
	}
}

// expected is a name in the order of the text.
type expected struct {
	name  string
	place int // in sorted order
}

// Item reads {"name":{"TYPE":value},…}.
func (s *Scanner) Item() (Item, bool) {
	members, ok := s.readMembers(scannerDepth, &s.shapes[scannerDepth])
	return Item{members}, ok
}

// Keys reads the keys of an item, which have the form of an item. Between the items of a page they
// have a shape of their own.
func (s *Scanner) Keys() (Item, bool) {
	members, ok := s.readMembers(scannerDepth, &s.keys)
	return Item{members}, ok
}

// readMembers reads the attributes of an item or a map. They probably have the known shape, which
// is replaced if not.
func (s *Scanner) readMembers(depth int, known *shape) ([]Attribute, bool) {
	if !s.take('{') || depth == 0 {
		return nil, false
	}
	if s.take('}') {
		return nil, true
	}
	begin, more := len(s.members), true
	name, ok := s.String()
	if !ok {
		return nil, false
	}
	if len(*known) > 0 && (*known)[0].name == name {
		var members []Attribute
		if members, more, ok = s.readExpected(depth, *known); !ok || members != nil {
			return members, ok
		}
		if more {
			name, ok = s.String()
		}
	}
	for ok && more {
		a := Attribute{Name: name}
		if !s.colon() || !s.readValue(&a.Value, depth) {
			return nil, false
		}
		s.members = append(s.members, a)
		if more, ok = s.more(); more {
			name, ok = s.String()
		}
	}
	if !ok {
		return nil, false
	}
	return s.sorted(begin, known)
}

// readExpected reads attributes that have the names of a shape, in its order. The first name has
// been read already. At the first difference it returns no members: what was read is in s.members
// then, and `more` reports whether another name follows.
func (s *Scanner) readExpected(depth int, known shape) (members []Attribute, more, ok bool) {
	members = s.reserve(len(known))
	for i, next := range known {
		if i > 0 && !s.expect(next.name) {
			s.unsort(members, known[:i])
			return nil, true, true
		}
		a := &members[next.place]
		a.Name = next.name
		if !s.colon() || !s.readValue(&a.Value, depth) {
			return nil, false, false
		}
		if more, ok = s.more(); !ok {
			return nil, false, false
		}
		if !more && i == len(known)-1 {
			return members, false, true
		}
		if !more {
			s.unsort(members, known[:i+1])
			return nil, false, true
		}
	}
	s.unsort(members, known)
	return nil, true, true
}

// expect consumes a name, if it is next and the text has it in this form.
func (s *Scanner) expect(name string) bool {
	end := s.pos + len(name) + 2
	if end > len(s.text) || s.text[s.pos] != '"' || s.text[end-1] != '"' || s.text[s.pos+1:end-1] != name {
		return false
	}
	s.pos = end
	return true
}

// colon consumes the colon after a name.
func (s *Scanner) colon() bool {
	if s.at(':') {
		s.pos++
		return true
	}
	return s.take(':')
}

// more consumes what follows a member: a comma if there are more, or the end of the object.
func (s *Scanner) more() (more, ok bool) {
	if s.at(',') {
		s.pos++
		return true, true
	}
	if s.take('}') {
		return false, true
	}
	more = s.take(',')
	return more, more
}

// unsort appends the members that have been read to s.members, in the order of the text.
func (s *Scanner) unsort(members []Attribute, read shape) {
	for _, next := range read {
		s.members = append(s.members, members[next.place])
	}
}

// reserve returns permanent memory for attributes.
func (s *Scanner) reserve(n int) []Attribute {
	if n > len(s.attributes) {
		size := s.slab()
		if likely := s.likely - s.handed; likely > 0 {
			size = min(likely, (len(s.text)-s.pos)/leastAttribute, mostSlab)
		}
		s.attributes = make([]Attribute, max(n, size))
	}
	s.handed += n
	members := s.attributes[:n:n]
	s.attributes = s.attributes[n:]
	return members
}

// sorted moves the members that were read since begin to permanent memory, sorted by name, and
// learns their shape.
func (s *Scanner) sorted(begin int, known *shape) ([]Attribute, bool) {
	read := s.members[begin:]
	members := s.reserve(len(read))
	copy(members, read)
	slices.SortFunc(members, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(members); i++ {
		if members[i-1].Name == members[i].Name {
			return nil, false // a name occurs twice: the slow reader decides which one counts
		}
	}
	s.members, s.learned = s.members[:begin], true
	known.learn(read, members)
	return members, true
}

// learn remembers the names that were read, and their places. It forgets a shape with a name that
// the text may have in another form, because expect compares names with the text.
func (s *shape) learn(read, sorted []Attribute) {
	*s = slices.Grow((*s)[:0], len(read))
	for i := range read {
		name := read[i].Name
		if strings.ContainsAny(name, "\"\\") {
			*s = (*s)[:0]
			return
		}
		place, _ := slices.BinarySearchFunc(sorted, name, func(a Attribute, name string) int { return strings.Compare(a.Name, name) })
		*s = append(*s, expected{name, place})
	}
}

// slab returns the number of attributes or values in one allocation. The number is small for a
// short text. It is limited, because one attribute that is kept long keeps its whole slab.
func (s *Scanner) slab() int { return min(max((len(s.text)-s.pos)/32, 4), mostSlab) }

const (
	mostSlab       = 512
	leastAttribute = len(`"":{"S":""}`)
)

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
		members, ok = s.readMembers(depth-1, &s.shapes[depth-1])
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
