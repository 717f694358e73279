package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// discoverEvery is the default interval of the search for new tables of a pattern.
const discoverEvery = 5 * time.Minute

// maxCaptureDigits bounds N in {name:N}. Numbers in table names are short: dates or shards.
const maxCaptureDigits = 18

// pattern is a parsed pattern of table names: literals and captures.
//
//	Keyword_Search_Result_{keyword}_{year:4}_{month:2}
//
// {name:N} matches exactly N digits, and {name} any text of at least one character. A pattern has
// at most one {name} without a width. Otherwise a table name might be split in several ways.
type pattern []patternPart

// patternPart is a literal or a capture.
type patternPart struct {
	literal string
	name    string
	digits  int // number of digits of a capture; 0 for any text
}

// patternError is an error in a pattern, and its offset in bytes.
type patternError struct {
	offset     int
	cause, fix string
}

// isPattern reports whether a name is a pattern.
func isPattern(name string) bool { return strings.ContainsAny(name, "{}*") }

// parsePattern parses a pattern.
func parsePattern(text string) (pattern, *patternError) {
	var p pattern
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
			p = append(p, patternPart{literal: text[at:end]})
			at = end
			continue
		}
		length := strings.IndexAny(text[at+1:], "{}")
		if length < 0 || text[at+1+length] == '{' {
			return nil, &patternError{at, "a { is not closed", "write {name} for a part that varies"}
		}
		part, err := parseCapture(text[at+1:at+1+length], at+1)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(p, func(o patternPart) bool { return o.name == part.name }) {
			return nil, &patternError{at + 1, fmt.Sprintf("the part %s occurs twice", part.name), "give each part its own name"}
		}
		if part.digits == 0 {
			if open != "" {
				return nil, &patternError{at, fmt.Sprintf("both {%s} and {%s} match any text, so a name could be split in several ways", open, part.name),
					fmt.Sprintf("fix the number of digits of one part, like {%s:4}, or use one part for both", part.name)}
			}
			open = part.name
		}
		p = append(p, part)
		at += length + 2
	}
	return p, nil
}

// literalFault returns the error for a character outside of captures.
func literalFault(text string, at int) *patternError {
	switch c := text[at]; {
	case c == '*':
		return &patternError{at, "a pattern cannot contain *", "write {name} for a part that varies; row keys use it as {$name}"}
	case c == '}':
		return &patternError{at, "a } without a {", "write {name} for a part that varies"}
	case !dynamoDBTable.MatchString(string(c)):
		return &patternError{at, "DynamoDB table names have only letters, digits, '_', '-' and '.'", "write the common parts of the names as `aws dynamodb list-tables` prints them"}
	}
	return nil
}

// parseCapture parses the text in braces that begins at an offset of the pattern.
func parseCapture(text string, at int) (patternPart, *patternError) {
	name, width, sized := strings.Cut(text, ":")
	plain, dollar := strings.CutPrefix(name, "$")
	switch trimmed := strings.TrimSpace(plain); {
	case trimmed == "":
		return patternPart{}, &patternError{at, "a part has no name", "write {name}, or {name:4} for exactly four digits"}
	case dollar:
		return patternPart{}, &patternError{at, "{$name} can be used only in row keys", "write {" + trimmed + "}"}
	case trimmed != name || !captureName(name):
		return patternPart{}, &patternError{at, "the name of a part has letters, digits and '_' only, and begins with a letter", "write it like {keyword}"}
	case !sized:
		return patternPart{name: name}, nil
	}
	n, err := strconv.Atoi(width)
	if err != nil || n < 1 || n > maxCaptureDigits || width != strconv.Itoa(n) {
		suggestion := digitsIn(width)
		return patternPart{}, &patternError{at + len(name) + 1, fmt.Sprintf("%s is not a number of digits from 1 to %d", shown(width), maxCaptureDigits),
			fmt.Sprintf("write {%s:%d} for exactly %d digits", name, suggestion, suggestion)}
	}
	return patternPart{name: name, digits: n}, nil
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

// match splits a name by the pattern, and returns the captures; false if the name does not match.
func (p pattern) match(name string) (map[string]string, bool) {
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

func (p patternPart) open() bool { return p.name != "" && p.digits == 0 }

// width returns the length of the text that a part matches. The part must not be open.
func (p patternPart) width() int { return len(p.literal) + p.digits }

// take matches a part with text of its width. For a capture, it stores the text.
func (p patternPart) take(text string, captures map[string]string) bool {
	if p.name == "" {
		return text == p.literal
	}
	captures[p.name] = text
	return strings.Trim(text, "0123456789") == ""
}

// glob returns the pattern in the form of AWS policies: ? for every digit, and * for any text.
// Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
func (p pattern) glob() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteString(part.literal + strings.Repeat("?", part.digits))
		if part.open() {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// collapsed returns the pattern's text before the first part that varies, and a *.
func (p pattern) collapsed() string {
	if len(p) > 0 && p[0].name == "" {
		return p[0].literal + "*"
	}
	return "*"
}

func (p pattern) varies() []transform.Varying {
	var out []transform.Varying
	for _, part := range p {
		if part.name != "" {
			out = append(out, transform.Varying{Name: part.name, Digits: part.digits})
		}
	}
	return out
}

// example returns example captures of a table that the pattern might match. Numbers consist of the
// digit 1, because 11 is also a valid month and day.
func (p pattern) example() map[string]string {
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

// Pattern returns the entry's pattern. For a table that matched a pattern, it returns that pattern.
// It returns "" if the entry names one table.
func (t *Table) Pattern() string {
	if t.pattern == nil {
		return ""
	}
	return t.text
}

// Path returns the entry's path in the configuration, such as tables[0]. It is an argument for
// Config.Where.
func (t *Table) Path() string { return fmt.Sprintf("tables[%d]", t.index) }

// IsPattern reports whether the entry is a pattern, rather than one of the tables that match it.
func (t *Table) IsPattern() bool { return t.pattern != nil && t.captures == nil }

// Glob returns the source table's name, or a pattern in the form of AWS policies, with ? for each
// digit and * for any text.
func (t *Table) Glob() string {
	if t.pattern == nil {
		return t.From
	}
	return t.pattern.glob()
}

// Group returns the common name of the entry's tables: the pattern up to its first varying part,
// and *.
func (t *Table) Group() string {
	if t.pattern == nil {
		return t.From
	}
	return t.pattern.collapsed()
}

// table returns the table of the given name, if the entry includes it.
func (t *Table) table(source string) (Table, bool) {
	if t.pattern == nil {
		return *t, t.From == source
	}
	captures, ok := t.pattern.match(source)
	if !ok || len(source) < 3 || len(source) > 255 || !dynamoDBTable.MatchString(source) {
		return Table{}, false
	}
	found := *t
	found.From, found.captures = source, captures
	return found, true
}

// Table returns the source table of the given name: the entry that names it, or else the first
// pattern that matches it. It returns false if no entry includes the table.
func (c *Config) Table(source string) (Table, bool) {
	for _, named := range []bool{true, false} {
		for i := range c.Tables {
			if t := &c.Tables[i]; t.IsPattern() != named {
				if found, ok := t.table(source); ok {
					return found, true
				}
			}
		}
	}
	return Table{}, false
}

// HasPatterns reports whether an entry of the configuration is a pattern.
func (c *Config) HasPatterns() bool {
	return slices.ContainsFunc(c.Tables, func(t Table) bool { return t.IsPattern() })
}

// Expand returns the list of tables, with each pattern replaced by the source tables that match it,
// ordered by name.
func (c *Config) Expand(sources []string) []Table {
	sorted := slices.Compact(slices.Sorted(slices.Values(sources)))
	var out []Table
	for i := range c.Tables {
		entry := &c.Tables[i]
		if !entry.IsPattern() {
			out = append(out, *entry)
			continue
		}
		for _, source := range sorted {
			if t, ok := c.Table(source); ok && t.index == i {
				out = append(out, t)
			}
		}
	}
	return out
}

// checkPattern parses an entry's pattern, and checks keys that depend on it; false if it is
// refused.
func (d *decoder) checkPattern(t *Table, path string) bool {
	if !isPattern(t.From) {
		if pos, given := d.where[path+".discover_every"]; given {
			d.report(diag.Error{Code: diag.InvalidValue, Pos: pos, What: path + ".discover_every: the entry names one table",
				Cause: "only a pattern can match new tables", Fix: "remove the key, or write from: as a pattern, like Orders_{year:4}"})
		}
		return true
	}
	parsed, wrong := parsePattern(t.From)
	if wrong != nil {
		d.report(diag.Error{Code: diag.PatternInvalid, Pos: t.place(path+".from", wrong.offset), What: path + ".from: the pattern cannot be parsed",
			Cause: wrong.cause, Fix: wrong.fix})
		d.bad[path] = true
		return false
	}
	t.pattern, t.text, t.merged = parsed, t.From, true
	if t.DiscoverEvery == 0 {
		t.DiscoverEvery = discoverEvery
	}
	return true
}
