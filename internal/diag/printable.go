package diag

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable prepares foreign text (names, reasons, answers of remote services) for one line of a
// terminal or a log. It escapes everything that a terminal would interpret: control characters,
// escape sequences, direction marks and line ends. It also escapes bytes that are not UTF-8.
func Printable(s string) string { return escaped(s, "") }

// PrintableLines escapes foreign text of several lines as Printable does, but keeps line ends and
// tabs.
func PrintableLines(s string) string { return escaped(s, "\n\t") }

// Quoted returns a key, a column or a value for display: unchanged if all of it can be printed,
// otherwise quoted.
func Quoted(s string) string {
	if s == "" || Printable(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// Shortened quotes a value for a message, shortened to fit a line.
func Shortened(s string) string {
	const longest = 60
	if runes := []rune(s); len(runes) > longest {
		s = string(runes[:longest]) + "…"
	}
	return strconv.Quote(s)
}

// escaped escapes all characters that cannot be printed, except those in `keep`.
func escaped(s, keep string) string {
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
				continue
			}
		}
		if strconv.IsPrint(r) || strings.ContainsRune(keep, r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// PrintableJSON returns a writer for JSON documents. Each Write must get one or more whole
// documents. The writer escapes the characters that Printable escapes but JSON does not. Programs
// decode the same documents as without it.
func PrintableJSON(w io.Writer) io.Writer { return printableJSON{w} }

type printableJSON struct{ w io.Writer }

// Write implements io.Writer.
func (p printableJSON) Write(text []byte) (int, error) {
	if _, err := p.w.Write(escapedJSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func escapedJSON(text []byte) []byte {
	// Outside of strings, encoded JSON is ASCII, and has no control characters except line ends and
	// tabs.
	actedUpon := func(r rune) bool { return !strconv.IsPrint(r) && r != '\n' && r != '\t' && r != '\r' }
	if bytes.IndexFunc(text, actedUpon) < 0 {
		return text
	}
	var b []byte
	for _, r := range string(text) {
		switch {
		case !actedUpon(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}
