package expression

import (
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// maxLength bounds an expression ("Expression parameters", 4 KB).
const maxLength = 4096

type tokenKind uint8

const (
	tokenEnd   tokenKind = iota
	tokenWord            // a keyword, function or attribute name
	tokenName            // #placeholder
	tokenValue           // :placeholder
	tokenIndex           // digits
	tokenOp              // punctuation or comparator
)

type token struct {
	kind tokenKind
	text string
	at   int
}

// lex splits the text of an expression. kind names the parameter for errors, such as
// "UpdateExpression".
func lex(kind, text string) ([]token, error) {
	if strings.TrimSpace(text) == "" {
		return nil, failure(kind, "The expression can not be empty;")
	}
	if len(text) > maxLength {
		return nil, failure(kind, "Expression size has exceeded the maximum allowed size;")
	}
	var tokens []token
	for i := 0; i < len(text); {
		c := text[i]
		start := i
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case letter(c):
			i = span(text, i+1, func(c byte) bool { return letter(c) || digit(c) })
			tokens = append(tokens, token{tokenWord, text[start:i], start})
		case c == '#' || c == ':':
			i = span(text, i+1, func(c byte) bool { return letter(c) || digit(c) })
			if i == start+1 {
				return nil, syntax(kind, text, token{text: text[start:i], at: start})
			}
			placeholder := tokenName
			if c == ':' {
				placeholder = tokenValue
			}
			tokens = append(tokens, token{placeholder, text[start:i], start})
		case digit(c):
			i = span(text, i+1, digit)
			tokens = append(tokens, token{tokenIndex, text[start:i], start})
		default:
			i += operatorLength(text[i:])
			if i == start {
				return nil, syntax(kind, text, token{text: text[start : start+1], at: start})
			}
			tokens = append(tokens, token{tokenOp, text[start:i], start})
		}
	}
	return append(tokens, token{kind: tokenEnd, text: "<EOF>", at: len(text)}), nil
}

func letter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func span(text string, i int, in func(byte) bool) int {
	for i < len(text) && in(text[i]) {
		i++
	}
	return i
}

func operatorLength(rest string) int {
	for _, two := range []string{"<>", "<=", ">="} {
		if strings.HasPrefix(rest, two) {
			return 2
		}
	}
	if strings.IndexByte(".[](),=<>+-", rest[0]) >= 0 {
		return 1
	}
	return 0
}

// failure is "Invalid <kind>: <detail>".
func failure(kind, format string, args ...any) error {
	return &item.ValidationError{Message: "Invalid " + kind + ": " + fmt.Sprintf(format, args...)}
}

func syntax(kind, text string, t token) error {
	near := text[max(0, t.at-10):min(len(text), t.at+len(t.text)+10)]
	return failure(kind, "Syntax error; token: %q, near: %q", t.text, near)
}

// keyword tells whether the token is the keyword, in any case.
func keyword(t token, word string) bool {
	return t.kind == tokenWord && strings.EqualFold(t.text, word)
}
