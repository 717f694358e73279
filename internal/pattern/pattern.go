// Package pattern matches patterns of table names.
package pattern

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// letters are the characters of DynamoDB table names.
var letters = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// maxCaptureDigits bounds N in {name:N}. Numbers in table names are short: dates or shards.
const maxCaptureDigits = 18

// Pattern is a parsed pattern of table names: literals and captures.
//
//	Keyword_Search_Result_{keyword}_{year:4}_{month:2}
//
// {name:N} matches exactly N digits, and {name} any text of at least one character. A pattern has
// at most one {name} without a width. Otherwise a table name might be split in several ways.
type Pattern []part

// part is a literal or a capture.
type part struct {
	literal string
	name    string
	digits  int // number of digits of a capture; 0 for any text
}

// Error is an error in a pattern, and its offset in bytes.
type Error struct {
	Offset     int
	Cause, Fix string
}

// Is reports whether a name is a pattern.
func Is(name string) bool { return strings.ContainsAny(name, "{}*") }

// Parse parses a pattern.
func Parse(text string) (Pattern, *Error) {
	var p Pattern
	open := ""
	for at := 0; at < len(text); {
		if text[at] != '{' {
			end := at
			for end < len(text) && text[end] != '{' {
				if err := literalFault(text, end); err != nil {
					return nil, err
				}
				end++
			}
			p = append(p, part{literal: text[at:end]})
			at = end
			continue
		}
		length := strings.IndexAny(text[at+1:], "{}")
		if length < 0 || text[at+1+length] == '{' {
			return nil, &Error{at, "a { is not closed", "write {name} for a part that varies"}
		}
		capture, err := parseCapture(text[at+1:at+1+length], at+1)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(p, func(o part) bool { return o.name == capture.name }) {
			return nil, &Error{at + 1, fmt.Sprintf("the part %s occurs twice", capture.name), "give each part its own name"}
		}
		if capture.digits == 0 {
			if open != "" {
				return nil, &Error{at, fmt.Sprintf("both {%s} and {%s} match any text, so a name could be split in several ways", open, capture.name),
					fmt.Sprintf("fix the number of digits of one part, like {%s:4}, or use one part for both", capture.name)}
			}
			open = capture.name
		}
		p = append(p, capture)
		at += length + 2
	}
	return p, nil
}

// literalFault returns the error for a character outside of captures.
func literalFault(text string, at int) *Error {
	switch c := text[at]; {
	case c == '*':
		return &Error{at, "a pattern cannot contain *", "write {name} for a part that varies; row keys use it as {$name}"}
	case c == '}':
		return &Error{at, "a } without a {", "write {name} for a part that varies"}
	case !letters.MatchString(string(c)):
		return &Error{at, "DynamoDB table names have only letters, digits, '_', '-' and '.'", "write the common parts of the names as `aws dynamodb list-tables` prints them"}
	}
	return nil
}

// parseCapture parses the text in braces that begins at an offset of the pattern.
func parseCapture(text string, at int) (part, *Error) {
	name, width, sized := strings.Cut(text, ":")
	plain, dollar := strings.CutPrefix(name, "$")
	switch trimmed := strings.TrimSpace(plain); {
	case trimmed == "":
		return part{}, &Error{at, "a part has no name", "write {name}, or {name:4} for exactly four digits"}
	case dollar:
		return part{}, &Error{at, "{$name} can be used only in row keys", "write {" + trimmed + "}"}
	case trimmed != name || !captureName(name):
		return part{}, &Error{at, "the name of a part has letters, digits and '_' only, and begins with a letter", "write it like {keyword}"}
	case !sized:
		return part{name: name}, nil
	}
	n, err := strconv.Atoi(width)
	if err != nil || n < 1 || n > maxCaptureDigits || width != strconv.Itoa(n) {
		suggestion := digitsIn(width)
		return part{}, &Error{at + len(name) + 1, fmt.Sprintf("%s is not a number of digits from 1 to %d", strconv.Quote(width), maxCaptureDigits),
			fmt.Sprintf("write {%s:%d} for exactly %d digits", name, suggestion, suggestion)}
	}
	return part{name: name, digits: n}, nil
}

// digitsIn guesses the intended number of digits from wrong forms such as \d{4}, 04 and yyyy.
func digitsIn(width string) int {
	number := strings.Trim(width, `\d{}+% `)
	if n, err := strconv.Atoi(number); err == nil && n >= 1 && n <= maxCaptureDigits {
		return n
	}
	if n := len(width); n >= 1 && n <= 4 && strings.Count(width, width[:1]) == n {
		return n
	}
	return 4
}

func captureName(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}

// Match splits a name by the pattern, and returns the captures; false if the name does not match.
func (p Pattern) Match(name string) (map[string]string, bool) {
	captures := map[string]string{}
	i := 0
	for ; i < len(p) && !p[i].open(); i++ { // from the front, up to the part that matches any text
		n := p[i].width()
		if len(name) < n || !p[i].take(name[:n], captures) {
			return nil, false
		}
		name = name[n:]
	}
	if i == len(p) {
		return captures, name == ""
	}
	for j := len(p) - 1; j > i; j-- { // then from the back
		n := len(name) - p[j].width()
		if n < 0 || !p[j].take(name[n:], captures) {
			return nil, false
		}
		name = name[:n]
	}
	captures[p[i].name] = name
	return captures, name != ""
}

func (p part) open() bool { return p.name != "" && p.digits == 0 }

// width returns the length of the text that a part matches. The part must not be open.
func (p part) width() int { return len(p.literal) + p.digits }

// take matches a part with text of its width. For a capture, it stores the text.
func (p part) take(text string, captures map[string]string) bool {
	if p.name == "" {
		return text == p.literal
	}
	captures[p.name] = text
	return strings.Trim(text, "0123456789") == ""
}

// Glob returns the pattern in the form of AWS policies: ? for every digit, and * for any text.
// Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
func (p Pattern) Glob() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteString(part.literal + strings.Repeat("?", part.digits))
		if part.open() {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// Collapsed returns the pattern's text before the first part that varies, and a *.
func (p Pattern) Collapsed() string {
	if len(p) > 0 && p[0].name == "" {
		return p[0].literal + "*"
	}
	return "*"
}

// Varies returns the captures, as rules of row keys need them.
func (p Pattern) Varies() []transform.Varying {
	var out []transform.Varying
	for _, part := range p {
		if part.name != "" {
			out = append(out, transform.Varying{Name: part.name, Digits: part.digits})
		}
	}
	return out
}

// Example returns example captures of a table that the pattern might match. Numbers consist of the
// digit 1, because 11 is also a valid month and day.
func (p Pattern) Example() map[string]string {
	captures := map[string]string{}
	for _, part := range p {
		switch {
		case part.open():
			captures[part.name] = part.name
		case part.name != "":
			captures[part.name] = strings.Repeat("1", part.digits)
		}
	}
	return captures
}
