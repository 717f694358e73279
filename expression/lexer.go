package expression

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// maxLength bounds the expressions of a request ("Expression parameters", 4 KB). maxWhenLength
// bounds the conditions of a configuration.
const (
	maxLength     = 4096
	maxWhenLength = 64 << 10
)

type tokenKind uint8

const (
	tokenEnd     tokenKind = iota
	tokenWord              // a keyword, function or attribute name
	tokenName              // #placeholder, or a quoted name
	tokenValue             // :placeholder
	tokenLiteral           // a value
	tokenDigits            // digits
	tokenOp                // punctuation or comparator
)

type token struct {
	kind tokenKind
	text string // as written; for a quoted name, the name without quotes
	at   int    // position in the expression, in bytes
	// value is the value of a literal. It is also the value of digits if literals are allowed.
	value attribute.Value
}

// lex splits the text of an expression with placeholders. kind names the parameter for errors, such as
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
		var found tokenKind
		switch {
		case space(c):
			i++
			continue
		case letter(c) && c != '_': // no name begins with an underscore
			found, i = tokenWord, word(text, i)
		case c == '#' || c == ':':
			found, i = tokenName, word(text, i+1)
			if c == ':' {
				found = tokenValue
			}
			if i == start+1 {
				found = tokenOp
			}
		case digit(c):
			found, i = tokenDigits, span(text, i+1, digit)
		default:
			// A character that begins no operator becomes a token that the parser never expects.
			found, i = tokenOp, i+max(operatorLength(text[i:], ".[](),=<>+-"), 1)
		}
		tokens = append(tokens, token{kind: found, text: text[start:i], at: start})
	}
	return append(tokens, token{kind: tokenEnd, text: "<EOF>", at: len(text)}), nil
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

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

// word returns the end of the letters and digits that begin at i.
func word(text string, i int) int {
	return span(text, i, func(c byte) bool { return letter(c) || digit(c) })
}

// operatorLength returns the length of the operator at the beginning of the text. The argument
// `single` lists the operators of one character.
func operatorLength(text, single string) int {
	for _, two := range []string{"<>", "<=", ">="} {
		if strings.HasPrefix(text, two) {
			return 2
		}
	}
	if strings.IndexByte(single, text[0]) >= 0 {
		return 1
	}
	return 0
}

// failure returns the error "Invalid <kind>: <detail>".
func failure(kind, format string, args ...any) error {
	return refuse("Invalid "+kind+": "+format, args...)
}

// syntax returns the service's error for an unexpected token. It also shows the neighbouring
// tokens.
func (p *parser) syntax() error {
	first, last := p.tokens[max(p.pos-1, 0)], p.following()
	near := p.text[first.at:min(len(p.text), last.at+len(last.text))]
	return failure(p.kind, "Syntax error; token: \"%s\", near: \"%s\"", p.peek().text, near)
}

// keyword reports whether the token is the keyword, in any case.
func keyword(t token, word string) bool {
	return t.kind == tokenWord && strings.EqualFold(t.text, word)
}
