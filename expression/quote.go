package expression

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// escapes are the characters after a backslash, and the characters that they mean.
var escapes = map[byte]byte{'"': '"', '\'': '\'', '`': '`', '\\': '\\', 'n': '\n', 'r': '\r', 't': '\t'}

// quoted reads the string or name that begins with a quote at the position. It also returns its
// end.
func (l *lexer) quoted(at int) (s string, end int, err error) {
	quote := l.text[at]
	var b strings.Builder
	for i := at + 1; i < len(l.text); {
		switch c := l.text[i]; c {
		case quote:
			return b.String(), i + 1, nil
		case '\\':
			if i, err = l.escape(&b, i); err != nil {
				return "", 0, err
			}
		default:
			b.WriteByte(c)
			i++
		}
	}
	return "", 0, &SyntaxError{Offset: at, Problem: "the quote is never closed", Suggestion: fmt.Sprintf("close it with %c; inside it is written \\%c", quote, quote)}
}

// escape reads the escape at a backslash and returns its end.
func (l *lexer) escape(b *strings.Builder, at int) (end int, err error) {
	bad := &SyntaxError{Offset: at, Problem: "an unknown escape", Suggestion: `a backslash is written \\; the other escapes are \" \' \` + "`" + ` \n \r \t and \u0041`}
	if at+1 == len(l.text) {
		return 0, bad
	}
	if plain, known := escapes[l.text[at+1]]; known {
		b.WriteByte(plain)
		return at + 2, nil
	}
	if l.text[at+1] != 'u' || at+6 > len(l.text) {
		return 0, bad
	}
	code, parseErr := strconv.ParseUint(l.text[at+2:at+6], 16, 16)
	if parseErr != nil || utf16.IsSurrogate(rune(code)) {
		return 0, bad
	}
	b.WriteRune(rune(code))
	return at + 6, nil
}

// binary reads the base64 whose quote is at the position.
func (l *lexer) binary(at int) error {
	s, end, err := l.quoted(at)
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return &SyntaxError{Offset: at, Problem: "not base64 with padding", Suggestion: `such as b64"AP8="`}
	}
	l.add(tokenLiteral, l.text[l.at:end], end, attribute.Binary(raw))
	return nil
}

// appendQuoted appends text between quotes, with the necessary escapes.
func appendQuoted(b []byte, text string, quote byte) []byte {
	b = append(b, quote)
	for i := range len(text) {
		switch c := text[i]; {
		case c == quote || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < 0x20 || c == 0x7f:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, quote)
}
