package attribute

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// Scanner reads answers of DynamoDB in one pass, for decoders of pages. It returns items and values
// without an allocation for each. It accepts only well-formed text. At unusual text its methods
// return false without a reason. Unusual text has an unknown type, a repeated name, null, text that
// is not UTF-8, or invalid JSON. After such text the Scanner must not be used any more. The caller
// must then decode the text with a slower decoder, which reports the error.
//
// Results share memory with the text and with each other. A caller that keeps a small part of the
// results for long should clone that part.
type Scanner struct {
	text string
	pos  int

	members  []Attribute // members of the maps being read, the innermost map last
	elements []Value     // elements of the lists and sets being read
	shapes   [scannerDepth + 1]shape
	keys     shape
	buffer   []byte // one unescaped string, or one binary
	base64   []byte // the text of one binary

	attributes []Attribute     // free memory for Items and maps
	values     []Value         // free memory for lists and sets
	nests      []nested        // free memory for the parts of maps, lists and sets
	decoded    strings.Builder // free memory for strings that differ from their form in the text

	handed, likely int  // attributes of the results: of this text so far, and of the text before
	learned        bool // a shape has names of this text
}

// scannerDepth bounds the nesting of values; DynamoDB accepts 32 levels.
const scannerDepth = 64

// NewScanner returns a Scanner of the text. The text must not change.
func NewScanner(text string) *Scanner { return &Scanner{text: text} }

// Reset makes the Scanner read another text, whose items probably have the same names. Results of
// different texts share no memory except names, and the Scanner keeps no text alive.
func (s *Scanner) Reset(text string) {
	if s.learned {
		s.keys.own()
		for i := range s.shapes {
			s.shapes[i].own()
		}
	}
	s.text, s.pos, s.members, s.elements, s.learned = text, 0, emptied(s.members), emptied(s.elements), false
	s.attributes, s.values, s.nests, s.decoded = nil, nil, nil, strings.Builder{}
	s.likely, s.handed = s.handed, 0
}

// emptied returns an empty list with the memory of a small one, which then refers to no text.
func emptied[T any](list []T) []T {
	if cap(list) > 512 {
		return nil
	}
	clear(list[:cap(list)])
	return list[:0]
}

// peek skips white space and returns the next byte; 0 at the end.
func (s *Scanner) peek() byte {
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		s.pos++
	}
	return 0
}

// take skips white space and consumes the byte if it is next.
func (s *Scanner) take(c byte) bool {
	if s.peek() != c || s.pos >= len(s.text) {
		return false
	}
	s.pos++
	return true
}

// at reports whether the byte is next, without white space before it. That is the usual case in the
// service's answers. The compiler inlines it.
func (s *Scanner) at(c byte) bool { return s.pos < len(s.text) && s.text[s.pos] == c }

// End reports whether nothing but white space is left.
func (s *Scanner) End() bool {
	s.peek()
	return s.pos >= len(s.text)
}

// EndAt reports whether nothing but white space is left before a position in the text. It moves to
// the position.
func (s *Scanner) EndAt(pos int) bool {
	for s.pos < pos && strings.IndexByte(" \n\t\r", s.text[s.pos]) >= 0 {
		s.pos++
	}
	return s.pos == pos
}

// Offset returns the number of bytes read.
func (s *Scanner) Offset() int { return s.pos }

// Object reads an object and calls member after each name. The argument `member` must read the
// value.
func (s *Scanner) Object(member func(name string) bool) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for {
		name, ok := s.String()
		if !ok || !s.take(':') || !member(name) {
			return false
		}
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

// List reads an array and calls element at each element.
func (s *Scanner) List(element func() bool) bool {
	if !s.take('[') {
		return false
	}
	if s.take(']') {
		return true
	}
	for element() {
		if s.take(']') {
			return true
		}
		if !s.take(',') {
			break
		}
	}
	return false
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x80 * lowBits
)

// word returns eight bytes of text.
func word(text string, i int) uint64 {
	b := text[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// Verbatim returns the length of the part at the start of a text whose bytes stand in a JSON string
// as they are: ASCII without quotes, backslashes and control characters.
func Verbatim(text string) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		w := word(text, i)
		quote, slash := w^('"'*lowBits), w^('\\'*lowBits)
		if stop := ((quote-lowBits)&^quote | (slash-lowBits)&^slash | (w-0x20*lowBits)&^w | w) & highBits; stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for i < len(text) && text[i] != '"' && text[i] != '\\' && text[i] >= 0x20 && text[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// String reads a string. It checks eight bytes in one step for the first quote, backslash or
// control character. The borrow of the subtraction may also mark later bytes of the word, but only
// the first marked byte counts.
func (s *Scanner) String() (string, bool) {
	if s.at('"') {
		s.pos++
	} else if !s.take('"') {
		return "", false
	}
	text, start := s.text, s.pos
	i, beyond := start, uint64(0)
	for i+8 <= len(text) {
		w := word(text, i)
		quote, slash := w^('"'*lowBits), w^('\\'*lowBits)
		stop := ((quote-lowBits)&^quote | (slash-lowBits)&^slash | (w-0x20*lowBits)&^w) & highBits
		beyond |= w & highBits
		if stop != 0 {
			i += bits.TrailingZeros64(stop) / 8
			break
		}
		i += 8
	}
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			s.pos = i + 1
			found := text[start:i]
			return found, beyond == 0 || utf8.ValidString(found)
		case c == '\\':
			return s.escaped(start, i)
		case c < 0x20:
			return "", false
		case c >= utf8.RuneSelf:
			beyond = 1
		}
	}
	return "", false
}

// escaped reads a string that begins at start and has its first escape at i.
func (s *Scanner) escaped(start, i int) (string, bool) {
	b := append(s.buffer[:0], s.text[start:i]...)
	for i < len(s.text) {
		c := s.text[i]
		i++
		switch {
		case c == '"':
			s.pos, s.buffer = i, b
			return s.keep(b), utf8.Valid(b)
		case c < 0x20:
			return "", false
		case c != '\\':
			end := i
			for end < len(s.text) && s.text[end] >= 0x20 && s.text[end] != '"' && s.text[end] != '\\' {
				end++
			}
			b = append(b, s.text[i-1:end]...)
			i = end
			continue
		}
		if i >= len(s.text) {
			return "", false
		}
		at := strings.IndexByte(`"\/bfnrt`, s.text[i])
		if at >= 0 {
			b = append(b, "\"\\/\b\f\n\r\t"[at])
			i++
			continue
		}
		r, ok := hexRune(s.text, i)
		i += len("u0000")
		if low, pair := hexRune(s.text, i+1); ok && 0xd800 <= r && r < 0xdc00 && pair && s.text[i] == '\\' && 0xdc00 <= low && low < 0xe000 {
			r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
			i += len(`\u0000`)
		}
		if !ok || 0xd800 <= r && r < 0xe000 { // one half of a surrogate pair
			return "", false
		}
		b = utf8.AppendRune(b, r)
	}
	return "", false
}

// hexRune reads u and four hexadecimal digits.
func hexRune(text string, i int) (r rune, ok bool) {
	if len(text)-i < len("u0000") || text[i] != 'u' {
		return 0, false
	}
	for _, c := range []byte(text[i+1 : i+5]) {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}

// keep returns bytes as a string, in memory that several strings share.
func (s *Scanner) keep(b []byte) string {
	if s.decoded.Cap()-s.decoded.Len() < len(b) {
		s.decoded = strings.Builder{}
		s.decoded.Grow(max(len(b), min(4096, len(s.text)-s.pos)))
	}
	from := s.decoded.Len()
	s.decoded.Write(b)
	return s.decoded.String()[from:]
}

// Number reads a JSON number and returns its text.
func (s *Scanner) Number() (string, bool) {
	s.peek()
	start, i := s.pos, s.pos
	digits := func() bool {
		from := i
		for i < len(s.text) && '0' <= s.text[i] && s.text[i] <= '9' {
			i++
		}
		return i > from
	}
	one := func(set string) bool {
		if i < len(s.text) && strings.IndexByte(set, s.text[i]) >= 0 {
			i++
			return true
		}
		return false
	}
	one("-")
	if !one("0") && !digits() {
		return "", false
	}
	if one(".") && !digits() {
		return "", false
	}
	if one("eE") {
		one("+-")
		if !digits() {
			return "", false
		}
	}
	s.pos = i
	return s.text[start:i], true
}

// Literal skips white space and consumes a text, such as a JSON literal, if it is next.
func (s *Scanner) Literal(word string) bool {
	s.peek()
	if !strings.HasPrefix(s.text[s.pos:], word) {
		return false
	}
	s.pos += len(word)
	return true
}

// SkipObject reads an object without checking what it contains. It only finds the object's end, so
// it takes a third of the time of Skip.
func (s *Scanner) SkipObject() bool {
	if s.peek() != '{' {
		return false
	}
	text, depth := s.text, 0
	for i := s.pos; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				s.pos = i + 1
				return true
			}
		case '"':
			if i = endOfString(text, i+1); i < 0 {
				return false
			}
		}
	}
	return false
}

// endOfString returns the index of the quote that ends a string; -1 if there is none.
func endOfString(text string, i int) int {
	for {
		n := strings.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		escapes := 0
		for n > escapes && text[i+n-escapes-1] == '\\' {
			escapes++
		}
		i += n
		if escapes%2 == 0 {
			return i
		}
		i++
	}
}

// Skip reads any value.
func (s *Scanner) Skip() bool { return s.skip(scannerDepth) }

func (s *Scanner) skip(depth int) bool {
	if depth == 0 {
		return false
	}
	switch s.peek() {
	case '{':
		return s.Object(func(string) bool { return s.skip(depth - 1) })
	case '[':
		return s.List(func() bool { return s.skip(depth - 1) })
	case '"':
		_, ok := s.String()
		return ok
	case 't':
		return s.Literal("true")
	case 'f':
		return s.Literal("false")
	case 'n':
		return s.Literal("null")
	}
	_, ok := s.Number()
	return ok
}
