package transform

import (
	"fmt"
	"strconv"
	"strings"
)

// Template is a parsed row key or column template: literals and placeholders.
//
//	invoice#{PK | after('INVOICE#')}#{ts | newest_first(13)}
//
// A placeholder is {attribute | function | …}. For a part of the source table's name it is
// {$capture | …}. A name that contains | } or ' is put in single quotes. {{ and }} are braces. The
// literal between two placeholders is the delimiter of the first placeholder. In every placeholder
// but the last, one character of its delimiter and % are percent-encoded, so the parts can be
// separated again.
type Template struct {
	text  string
	parts []Part
}

// Part is a literal or a placeholder of a template.
type Part struct {
	Literal   string // set for a literal, and then all other fields are empty
	Attribute string // for a placeholder of an attribute: its name
	Capture   string // for a placeholder of a capture: the part of the source table's name
	Calls     []Call
	Offset    int // where it begins in the template's text, in bytes

	escaped byte // the byte that is percent-encoded in addition to '%'; 0: nothing is encoded
	marker  int  // the index of that byte in the delimiter
}

// Call is a function of a placeholder with its argument.
type Call struct {
	Name   string
	Text   string // the argument of a function that takes text
	Number int    // the argument of a function that takes a number

	f *Function
}

// TemplateError describes a mistake in a template.
type TemplateError struct {
	Offset int    // in bytes, into the template's text
	What   string // what is wrong
	Fix    string // what to write instead; may be empty
}

func (e *TemplateError) Error() string {
	return fmt.Sprintf("at byte %d: %s", e.Offset, e.What)
}

// ParseTemplate reads a template. Errors are *TemplateError.
func ParseTemplate(text string) (*Template, error) {
	p := templateParser{text: text}
	t := &Template{text: text}
	for p.at < len(text) {
		part, err := p.part()
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part)
	}
	if err := t.escape(); err != nil {
		return nil, err
	}
	return t, nil
}

// String returns the text that the template was parsed from.
func (t *Template) String() string { return t.text }

// Canonical returns the template in canonical form: templates with the same canonical form produce
// the same texts.
func (t *Template) Canonical() string {
	var b strings.Builder
	for _, p := range t.parts {
		if !p.IsPlaceholder() {
			b.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(p.Literal))
			continue
		}
		b.WriteByte('{')
		if p.Capture != "" {
			b.WriteByte('$')
		}
		b.WriteString(quoteTemplateName(p.Attribute + p.Capture)) // only one of the two is set
		for _, c := range p.Calls {
			b.WriteString(" | " + c.String())
		}
		b.WriteByte('}')
	}
	return b.String()
}

// String returns the call as a template writes it.
func (c Call) String() string {
	var args []string
	if c.f.takesText {
		args = append(args, "'"+strings.ReplaceAll(c.Text, "'", "''")+"'")
	}
	if c.f.takesNumber {
		args = append(args, strconv.Itoa(c.Number))
	}
	if args == nil {
		return c.Name
	}
	return c.Name + "(" + strings.Join(args, ", ") + ")"
}

// Parts returns the literals and placeholders in order. They must not be changed.
func (t *Template) Parts() []Part { return t.parts }

type templateParser struct {
	text string
	at   int
}

func (p *templateParser) fail(at int, fix, format string, args ...any) error {
	return &TemplateError{Offset: at, What: fmt.Sprintf(format, args...), Fix: fix}
}

func (p *templateParser) part() (Part, error) {
	start := p.at
	if p.text[p.at] == '{' && !strings.HasPrefix(p.text[p.at:], "{{") {
		return p.placeholder()
	}
	var literal []byte
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			literal = append(literal, rest[0])
			p.at += 2
		case rest[0] == '{':
			return Part{Literal: string(literal), Offset: start}, nil
		case rest[0] == '}':
			return Part{}, p.fail(p.at, "write }} for a brace", "a } without a {")
		default:
			literal = append(literal, rest[0])
			p.at++
		}
	}
	return Part{Literal: string(literal), Offset: start}, nil
}

// placeholder reads {name | call | …}.
func (p *templateParser) placeholder() (Part, error) {
	part := Part{Offset: p.at}
	p.at++
	p.space()
	capture := strings.HasPrefix(p.text[p.at:], "$")
	if capture {
		p.at++
	}
	name, err := p.name(part.Offset)
	if err != nil {
		return Part{}, err
	}
	if capture {
		part.Capture = name
	} else {
		part.Attribute = name
	}
	for {
		p.space()
		switch {
		case p.at >= len(p.text):
			return Part{}, p.fail(part.Offset, "add }", "a placeholder is not closed")
		case p.text[p.at] == '}':
			p.at++
			return part, nil
		case p.text[p.at] == '|':
			p.at++
			call, err := p.call()
			if err != nil {
				return Part{}, err
			}
			part.Calls = append(part.Calls, call)
		default:
			return Part{}, p.fail(p.at, "write {name | function}", "expected | or }")
		}
	}
}

func (p *templateParser) space() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

// name returns the name of an attribute or capture: quoted, or up to the next | or }.
func (p *templateParser) name(opened int) (name string, err error) {
	if p.at < len(p.text) && p.text[p.at] == '\'' {
		name, err = p.quoted()
	} else {
		name, err = p.unquoted(opened)
	}
	if err == nil && name == "" {
		err = p.fail(opened, "write the name of an attribute, such as {PK}", "a placeholder has no name")
	}
	return name, err
}

func (p *templateParser) unquoted(opened int) (string, error) {
	end := strings.IndexAny(p.text[p.at:], "|}{")
	if end < 0 || p.text[p.at+end] == '{' {
		return "", p.fail(opened, "add }", "a placeholder is not closed")
	}
	name := strings.TrimRight(p.text[p.at:p.at+end], " ")
	p.at += end
	return name, nil
}

// quoted reads text in single quotes; a doubled quote stands for one quote.
func (p *templateParser) quoted() (string, error) {
	start := p.at
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		if p.text[p.at] != '\'' {
			b.WriteByte(p.text[p.at])
			continue
		}
		p.at++
		if p.at >= len(p.text) || p.text[p.at] != '\'' {
			return b.String(), nil
		}
		b.WriteByte('\'')
	}
	return "", p.fail(start, "add '", "a quote is not closed")
}

// call reads name or name(argument).
func (p *templateParser) call() (Call, error) {
	p.space()
	start := p.at
	for p.at < len(p.text) && (p.text[p.at] == '_' || p.text[p.at] >= 'a' && p.text[p.at] <= 'z') {
		p.at++
	}
	call := Call{Name: p.text[start:p.at]}
	call.f = functions[call.Name]
	if call.f == nil {
		return Call{}, p.fail(start, "functions are "+strings.Join(functionNames(), ", "), "%q is not a function", call.Name)
	}
	var args []string
	var quoted []bool
	p.space()
	if p.at < len(p.text) && p.text[p.at] == '(' {
		p.at++
		for {
			p.space()
			arg, isQuoted, err := p.argument()
			if err != nil {
				return Call{}, err
			}
			args, quoted = append(args, arg), append(quoted, isQuoted)
			p.space()
			if p.at < len(p.text) && p.text[p.at] == ',' {
				p.at++
				continue
			}
			break
		}
		if p.at >= len(p.text) || p.text[p.at] != ')' {
			return Call{}, p.fail(p.at, "add )", "arguments are not closed")
		}
		p.at++
	}
	return call, p.bind(&call, start, args, quoted)
}

func (p *templateParser) argument() (text string, quoted bool, err error) {
	if p.at < len(p.text) && p.text[p.at] == '\'' {
		text, err = p.quoted()
		return text, true, err
	}
	start := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	if p.at == start {
		return "", false, p.fail(start, "write a number, or text in single quotes", "expected an argument")
	}
	return p.text[start:p.at], false, nil
}

// bind checks the arguments of a call.
func (p *templateParser) bind(call *Call, at int, args []string, quoted []bool) error {
	f := call.f
	usage := "write it like " + f.Example
	want := 0
	if f.takesText {
		want++
	}
	if f.takesNumber {
		want++
	}
	if len(args) != want {
		return p.fail(at, usage, "%s needs %d arguments, not %d", f.Name, want, len(args))
	}
	i := 0
	if f.takesText {
		if !quoted[i] || args[i] == "" && f.Name != "default" {
			return p.fail(at, usage, "%s needs text in single quotes", f.Name)
		}
		call.Text = args[i]
		i++
	}
	if f.takesNumber {
		n, err := strconv.Atoi(args[i])
		if quoted[i] || err != nil || n < f.low || n > f.high {
			return p.fail(at, usage, "%s needs a number from %d to %d", f.Name, f.low, f.high)
		}
		call.Number = n
	}
	if f.check != nil {
		if what := f.check(*call); what != "" {
			return p.fail(at, usage, "%s", what)
		}
	}
	return nil
}

// escape chooses, for every placeholder but the last, the byte that marks its end.
func (t *Template) escape() error {
	last := -1
	for i := range t.parts {
		if t.parts[i].IsPlaceholder() {
			last = i
		}
	}
	for i := range t.parts {
		p := &t.parts[i]
		if !p.IsPlaceholder() || i == last || p.calls("raw") || p.SelfDelimiting() || t.parts[i+1].IsPlaceholder() {
			continue
		}
		delimiter := t.parts[i+1].Literal
		p.marker = strings.IndexFunc(delimiter, canMark)
		if p.marker < 0 {
			return &TemplateError{Offset: t.parts[i+1].Offset, What: fmt.Sprintf("%q cannot be a delimiter, because escaped values contain it", delimiter),
				Fix: "use a character such as # between two placeholders"}
		}
		p.escaped = delimiter[p.marker]
	}
	return nil
}

// canMark reports whether a character of a delimiter never occurs in percent-encoding.
func canMark(r rune) bool {
	return r < 0x80 && r != '%' && !(r >= '0' && r <= '9') && !(r >= 'A' && r <= 'F')
}

// IsPlaceholder reports whether the part is a placeholder, not a literal.
func (p *Part) IsPlaceholder() bool { return p.Attribute != "" || p.Capture != "" }

func (p *Part) calls(name string) bool {
	for _, c := range p.Calls {
		if c.Name == name {
			return true
		}
	}
	return false
}

// SelfDelimiting reports whether the part's text shows its own end, by a fixed width or an end
// mark.
func (p *Part) SelfDelimiting() bool {
	n := len(p.Calls)
	return n > 0 && p.Calls[n-1].f.selfDelimiting
}

// Delimited reports whether the part's text can be separated from the parts that follow it in the
// row key.
func (p *Part) Delimited() bool { return p.escaped != 0 || p.SelfDelimiting() }

// Attributes returns the names of the attributes that the template uses.
func (t *Template) Attributes() []string {
	var names []string
	for _, p := range t.parts {
		if p.Attribute != "" {
			names = append(names, p.Attribute)
		}
	}
	return names
}

// joined returns the template of attributes joined with the default delimiter.
func joined(names []string) *Template {
	t := &Template{}
	for i, name := range names {
		if i > 0 {
			t.parts = append(t.parts, Part{Literal: string(Delimiter)})
			t.text += string(Delimiter)
		}
		t.parts = append(t.parts, Part{Attribute: name, Offset: len(t.text)})
		t.text += "{" + quoteTemplateName(name) + "}"
	}
	for i := range t.parts {
		if p := &t.parts[i]; p.Attribute != "" && i < len(t.parts)-1 {
			p.escaped = Delimiter
		}
	}
	return t
}

func quoteTemplateName(name string) string {
	if strings.ContainsAny(name, "|{}'$ ") {
		return "'" + strings.ReplaceAll(name, "'", "''") + "'"
	}
	return name
}
