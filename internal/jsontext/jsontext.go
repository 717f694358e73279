// Package jsontext reads JSON of known shape in one pass, by what is expected next: without reflection, without a separate check of
// the text, and without an allocation for text that has no escapes. It is for records that are decoded many times over; what is
// read once is better left to encoding/json, which it agrees with (tested).
package jsontext

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// Why a text cannot be read. None of them holds any of it.
var (
	ErrSyntax = errors.New("the text is not JSON")
	ErrUTF8   = errors.New("the text is not UTF-8")
	ErrType   = errors.New("another JSON type than is expected")
)

// maxDepth bounds how deep skipped values may nest, so that no text can exhaust the stack.
const maxDepth = 1000

// Reader reads one text from its start to its end. Once it has failed, everything it is asked for is zero and absent: callers look
// at Err where a record ends. The strings that it gives are parts of the text, and keep all of it in memory.
type Reader struct {
	text  string
	at    int
	fresh bool // an object or an array was entered, and nothing was read in it
	err   error
}

// New returns a reader at the start of a text.
func New(text string) Reader { return Reader{text: text} }

// Err is why reading failed; nil if it did not.
func (r *Reader) Err() error { return r.err }

// Offset is where the reader stands, in bytes: behind what was read last.
func (r *Reader) Offset() int { return r.at }

// Object enters an object. Its members follow.
func (r *Reader) Object() { r.enter('{') }

// Member is the name of the object's next member, whose value must be read next; false behind the last one, or after a failure.
func (r *Reader) Member() (name string, ok bool) {
	if !r.more('}') {
		return "", false
	}
	if r.peek() != '"' {
		r.fail(ErrSyntax)
		return "", false
	}
	name = r.quoted()
	if r.peek() != ':' {
		r.fail(ErrSyntax)
		return "", false
	}
	r.at++
	return name, r.err == nil
}

// Array enters an array. Its elements follow.
func (r *Reader) Array() { r.enter('[') }

// Element tells whether the array has another element, which must be read next; false behind the last one, or after a failure.
func (r *Reader) Element() bool { return r.more(']') }

// Text reads a string.
func (r *Reader) Text() string {
	if !r.begins('"') {
		return ""
	}
	return r.quoted()
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	if r.peek() == 'f' {
		r.literal("false")
		return false
	}
	if r.begins('t') {
		r.literal("true")
	}
	return r.err == nil
}

// Uint reads a number that is whole, not negative, and written without a fraction or an exponent.
func (r *Reader) Uint() uint64 {
	n, err := strconv.ParseUint(r.number(), 10, 64)
	if err != nil {
		r.fail(ErrType)
		return 0
	}
	return n
}

// Float reads a number.
func (r *Reader) Float() float64 {
	n, err := strconv.ParseFloat(r.number(), 64)
	if err != nil {
		r.fail(ErrType) // out of range
		return 0
	}
	return n
}

// Skip reads any value, and gives its text.
func (r *Reader) Skip() string {
	r.peek() // past the spaces
	from := r.at
	r.skip(0)
	if r.err != nil {
		return ""
	}
	return r.text[from:r.at]
}

// End fails unless nothing is left to read.
func (r *Reader) End() {
	if r.peek(); r.at < len(r.text) {
		r.fail(ErrSyntax)
	}
}

func (r *Reader) skip(depth int) {
	if depth == maxDepth {
		r.fail(ErrSyntax)
	}
	if r.err != nil {
		return
	}
	switch r.peek() {
	case '{':
		for r.Object(); ; r.skip(depth + 1) {
			if _, ok := r.Member(); !ok {
				return
			}
		}
	case '[':
		for r.Array(); r.Element(); {
			r.skip(depth + 1)
		}
	case '"':
		r.quoted()
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// peek is the next byte that is no space; 0 at the end, and after a failure.
func (r *Reader) peek() byte {
	if r.err != nil {
		return 0
	}
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// begins tells whether a value begins with c, and fails if not.
func (r *Reader) begins(c byte) bool {
	switch next := r.peek(); next {
	case c:
		return r.err == nil
	case '{', '[', '"', 't', 'f', 'n', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		r.fail(ErrType)
	default:
		r.fail(ErrSyntax)
	}
	return false
}

func (r *Reader) enter(open byte) {
	if r.begins(open) {
		r.at++
		r.fresh = true
	}
}

// more tells whether something stands before the end of an object or array, and goes past the comma or the end.
func (r *Reader) more(end byte) bool {
	c := r.peek()
	switch {
	case r.err != nil:
		return false
	case c == end:
		r.at++
		r.fresh = false
		return false
	case !r.fresh && c != ',':
		r.fail(ErrSyntax)
		return false
	case !r.fresh:
		r.at++
	}
	r.fresh = false
	return true
}

func (r *Reader) literal(word string) {
	if len(r.text)-r.at < len(word) || r.text[r.at:r.at+len(word)] != word {
		r.fail(ErrSyntax)
		return
	}
	r.at += len(word)
}

// quoted reads a string, at whose quotation mark the reader stands.
func (r *Reader) quoted() string {
	from := r.at + 1
	all := byte(0)
	for i := from; i < len(r.text); i++ {
		c := r.text[i]
		switch {
		case c == '"':
			r.at = i + 1
			if all >= utf8.RuneSelf && !utf8.ValidString(r.text[from:i]) {
				r.fail(ErrUTF8)
				return ""
			}
			return r.text[from:i]
		case c == '\\':
			return r.escaped(from, i)
		case c < ' ':
			r.fail(ErrSyntax)
			return ""
		}
		all |= c
	}
	r.fail(ErrSyntax)
	return ""
}

// escaped reads a string that has an escape at i. Such are rare, and encoding/json knows what they mean.
func (r *Reader) escaped(from, i int) string {
	for ; i < len(r.text) && r.text[i] != '"'; i++ {
		if r.text[i] == '\\' {
			i++
		}
	}
	if i >= len(r.text) {
		r.fail(ErrSyntax)
		return ""
	}
	r.at = i + 1
	quoted := r.text[from-1 : r.at]
	var text string
	switch {
	case !utf8.ValidString(quoted): // encoding/json would put another character in place of what it cannot read
		r.fail(ErrUTF8)
	case json.Unmarshal([]byte(quoted), &text) != nil:
		r.fail(ErrSyntax)
	}
	return text
}

// number reads the text of a number.
func (r *Reader) number() string {
	c := r.peek()
	if c != '-' && (c < '0' || c > '9') {
		r.begins('0') // fails
		return ""
	}
	from := r.at
	if c == '-' {
		r.at++
	}
	if r.at < len(r.text) && r.text[r.at] == '0' {
		r.at++
	} else {
		r.digits()
	}
	if r.at < len(r.text) && r.text[r.at] == '.' {
		r.at++
		r.digits()
	}
	if r.at < len(r.text) && (r.text[r.at] == 'e' || r.text[r.at] == 'E') {
		if r.at++; r.at < len(r.text) && (r.text[r.at] == '+' || r.text[r.at] == '-') {
			r.at++
		}
		r.digits()
	}
	if r.err != nil {
		return ""
	}
	return r.text[from:r.at]
}

// digits goes past digits, of which there must be one.
func (r *Reader) digits() {
	from := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	if r.at == from {
		r.fail(ErrSyntax)
	}
}
