package transform

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Cells are the cells of an item, one per attribute in the order of their names, all at the given time in microseconds, or
// *Unmappable. They are those of a rule with one row; Map knows those of all. Key attributes are among them: an item of keys alone must not vanish when our own families are dropped.
//
// Values are written as: S and N text; B raw; BOOL true or false; NULL null; M, L and sets as JSON without spaces, in which
// members are sorted by the bytes of their names, numbers are literals with all their digits, binaries are standard base64
// strings, sets are arrays (number sets sorted by value, the others by bytes), and text is UTF-8 as it is, escaped only where
// JSON demands it.
func (m *Mapping) Cells(item cdc.Item, micros int64) ([]Cell, error) {
	w, err := m.only(item)
	if err != nil {
		return nil, err
	}
	a := address{w: w}
	if w.folded {
		qualifier, err := w.appendQualifier(nil, item)
		if err != nil {
			return nil, err
		}
		a.qualifier = string(qualifier)
	}
	var e encoder
	return e.write(m, &a, item, time.UnixMicro(micros), micros)
}

// encoder writes the cells of many items into few allocations. The zero value is ready.
type encoder struct {
	bytes []byte
	slab  []Cell
}

// The sizes of what is allocated at a time. A batch lives and dies as one, so chunks keep nothing alive for long.
const (
	bytesChunk = 16 << 10
	cellsChunk = 256
)

// write gives the cells of an item at one of its addresses.
func (e *encoder) write(m *Mapping, a *address, item cdc.Item, at time.Time, micros int64) (_ []Cell, err error) {
	attributes := item.Attributes()
	if len(attributes) > MaxRowCells {
		return nil, unmappable("%d attributes; Bigtable allows %d changes of a row at once", len(attributes), MaxRowCells)
	}
	if size := e.reserve(attributes); size > MaxRowBytes {
		return nil, unmappable("the item takes %d bytes; %d are written at most", size, MaxRowBytes)
	}
	c := cells{encoder: e, start: len(e.slab), w: a.w, micros: micros}
	if a.w.ages != nil {
		c.expires = m.ttl.expires(item, at)
	}
	defer func() {
		if err != nil {
			e.slab = e.slab[:c.start]
		}
	}()
	switch {
	case a.w.folded:
		err = c.fold(a, attributes)
	case len(a.w.targets) == 0 && a.w.star != nil && a.w.star.as == AsDefault && c.expires == 0:
		err = c.all(a.w.star.family, attributes)
	default:
		err = c.each(item)
	}
	if err != nil {
		return nil, err
	}
	return e.slab[c.start:len(e.slab):len(e.slab)], nil
}

// reserve makes room for an item's cells: exactly for a lone item, in chunks for those that follow. It returns how many bytes
// the cells will take at about, and makes no room for what is more than a row can take.
func (e *encoder) reserve(attributes []cdc.Attribute) int {
	size := 0
	for _, a := range attributes {
		if a.Value.Kind() <= cdc.KindNULL {
			size += max(len(a.Value.Text()), len("false"))
		} else {
			size += 256 // a guess; append corrects it
		}
	}
	if size > MaxRowBytes {
		return size
	}
	if cap(e.bytes)-len(e.bytes) < size {
		room := size
		if e.bytes != nil {
			room = max(room, bytesChunk)
		}
		e.bytes = make([]byte, 0, room)
	}
	if cap(e.slab)-len(e.slab) < len(attributes) {
		room := len(attributes)
		if e.slab != nil {
			room = max(room, cellsChunk)
		}
		e.slab = make([]Cell, 0, room)
	}
	return size
}

// errEncoding is why a value has no encoding; the caller adds the attribute's name.
type errEncoding string

func (e errEncoding) Error() string { return string(e) }

// DynamoDB holds neither; both would be a fault on the way, and writing something else in their place would hide it.
const (
	errUTF8 errEncoding = "text that is not valid UTF-8 has no JSON form"
	errKind errEncoding = "no value"
)

// appendCell appends a top-level attribute.
func appendCell(b []byte, v cdc.Value) ([]byte, error) {
	switch v.Kind() {
	case cdc.KindS, cdc.KindN, cdc.KindB:
		return append(b, v.Text()...), nil
	default:
		return appendJSON(b, v)
	}
}

func appendJSON(b []byte, v cdc.Value) ([]byte, error) {
	switch v.Kind() {
	case cdc.KindS:
		return appendString(b, v.Text())
	case cdc.KindN:
		return append(b, v.Text()...), nil // canonical text is a JSON number
	case cdc.KindB:
		b = append(b, '"')
		b = appendBase64(b, v.Text())
		return append(b, '"'), nil
	case cdc.KindBOOL:
		if v.Bool() {
			return append(b, "true"...), nil
		}
		return append(b, "false"...), nil
	case cdc.KindNULL:
		return append(b, "null"...), nil
	case cdc.KindM:
		return appendMembers(b, v.Members())
	case cdc.KindL, cdc.KindSS, cdc.KindNS, cdc.KindBS:
		return appendElements(b, v.Elements())
	default:
		return b, errKind
	}
}

func appendMembers(b []byte, members []cdc.Attribute) ([]byte, error) {
	var err error
	b = append(b, '{')
	for i, a := range members {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendString(b, a.Name); err != nil {
			return b, err
		}
		b = append(b, ':')
		if b, err = appendJSON(b, a.Value); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendElements(b []byte, elements []cdc.Value) ([]byte, error) {
	var err error
	b = append(b, '[')
	for i, v := range elements {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, v); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

// appendBase64 encodes in pieces, so that the text is not copied as a whole to become bytes.
func appendBase64(b []byte, s string) []byte {
	var piece [3 * 256]byte
	for len(s) > 0 {
		n := copy(piece[:], s)
		b = base64.StdEncoding.AppendEncode(b, piece[:n])
		s = s[n:]
	}
	return b
}

// appendString escapes the quotation mark, the reverse solidus and the control characters below U+0020, which is what RFC 8259
// (section 7) demands, in the shortest form it offers. encoding/json escapes more (U+2028, and '<' by default).
func appendString(b []byte, s string) ([]byte, error) {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done, ascii := 0, true
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			ascii = false
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	if !ascii && !utf8.ValidString(s) {
		return b, errUTF8
	}
	b = append(b, s[done:]...)
	return append(b, '"'), nil
}
