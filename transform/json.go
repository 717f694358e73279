package transform

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// errEncoding explains why a value cannot be encoded. The caller adds the attribute's name.
type errEncoding string

func (e errEncoding) Error() string { return string(e) }

// DynamoDB stores no such values. Such a value would be an error in transit, and a substitute value
// would hide that error.
const (
	errUTF8 errEncoding = "text that is not valid UTF-8 has no JSON form"
	errKind errEncoding = "no value"
)

func appendJSON(b []byte, v attribute.Value) ([]byte, error) {
	switch v.Kind() {
	case attribute.KindS:
		return appendString(b, v.Text())
	case attribute.KindN:
		return append(b, v.Text()...), nil // canonical text is a JSON number
	case attribute.KindB:
		b = append(b, '"')
		b = appendBase64(b, v.Text())
		return append(b, '"'), nil
	case attribute.KindBOOL:
		if v.Bool() {
			return append(b, "true"...), nil
		}
		return append(b, "false"...), nil
	case attribute.KindNULL:
		return append(b, "null"...), nil
	case attribute.KindM:
		return appendMembers(b, v.Members())
	case attribute.KindL, attribute.KindSS, attribute.KindNS, attribute.KindBS:
		return appendElements(b, v.Elements())
	default:
		return b, errKind
	}
}

func appendMembers(b []byte, members []attribute.Attribute) ([]byte, error) {
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

func appendElements(b []byte, elements []attribute.Value) ([]byte, error) {
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

// appendBase64 encodes in pieces, to avoid a copy of the whole text as bytes.
func appendBase64(b []byte, s string) []byte {
	var piece [3 * 256]byte
	for len(s) > 0 {
		n := copy(piece[:], s)
		b = base64.StdEncoding.AppendEncode(b, piece[:n])
		s = s[n:]
	}
	return b
}

// appendString escapes the quotation mark, the reverse solidus and the control characters below
// U+0020, as RFC 8259 (section 7) requires, in the shortest form that it allows. encoding/json
// escapes more (U+2028, and '<' by default).
func appendString(b []byte, s string) ([]byte, error) {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	done, ascii := 0, true
	for i := attribute.Verbatim(s); i < len(s); i++ {
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
