package expression

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// ParseWhen parses a condition that contains values and names instead of placeholders:
//
//	begins_with(PK, "VIDEO#") AND SK = "META"
//	total BETWEEN -1.5 AND 100 OR NOT currency IN ('EUR', "USD")
//	address.lines[0] <> "" AND attribute_type(tags, "SS") AND size(tags) > 3
//
// The language is DynamoDB's condition expressions, with their precedence (NOT, AND, OR) and
// functions. In addition:
//
//   - Strings are in double or single quotes. The escapes are \" \' \` \\ \n \r \t and \u with four
//     hexadecimal digits.
//   - Numbers are plain, with up to 38 significant digits, a minus sign and an exponent: 42, -0.5, 1e-10.
//   - true, false and null, in lower case, are values. Null is DynamoDB's NULL, not a missing
//     attribute. To test for a missing attribute, write attribute_not_exists(a).
//   - Binaries are base64 with a b64 before the quotes: b64"AP8=".
//   - Sets, lists and maps are written as in PartiQL for DynamoDB: <<"a", "b">>, [1, "x"], {"k": 1}.
//   - An attribute's name needs no quotes if it consists of letters, digits and underscores and
//     begins with a letter. DynamoDB's reserved words need no quotes, except AND, OR, NOT, BETWEEN,
//     IN, true, false and null. Any other name is in backquotes, with the escapes of strings:
//     `with.dot`.`in`[0].
//
// An error is a *SyntaxError.
func ParseWhen(text string) (*Condition, error) {
	tokens, err := lexLiterals(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: tokens, literals: true}
	return p.condition()
}

// foreign are operators of other languages. Each has the equivalent operator of this language.
var foreign = []struct{ text, suggestion string }{
	{"==", "equality is ="},
	{"!=", "inequality is <>"},
	{"!", "negation is NOT"},
	{"&&", "conjunction is AND"},
	{"||", "disjunction is OR"},
	{"“", "use straight quotes"},
	{"”", "use straight quotes"},
	{"‘", "use straight quotes"},
	{"’", "use straight quotes"},
	{"#", "write the name itself, in backquotes if it has unusual characters"},
	{"%", "patterns are begins_with and contains"},
}

// unexpectedIn returns the error for the next token of a configuration.
func (p *parser) unexpectedIn(expected string) error {
	t := p.peek()
	found := fmt.Sprintf("found %q", p.written())
	if t.kind == tokenEnd {
		found = "the condition ends"
	}
	return &SyntaxError{Offset: t.at, Problem: fmt.Sprintf("%s where %s is expected", found, expected), Suggestion: p.suggestion()}
}

// written returns the next token in the form in which the text has it.
func (p *parser) written() string {
	t := p.peek()
	if t.kind == tokenEnd {
		return ""
	}
	return strings.TrimRight(p.text[t.at:p.following().at], " \t\r\n")
}

// suggestion returns advice for an unexpected next token.
func (p *parser) suggestion() string {
	t := p.peek()
	var before token
	if p.pos > 0 {
		before = p.tokens[p.pos-1]
	}
	switch {
	case t.kind == tokenOp && t.text == "=" && before.text == "=":
		return "equality is ="
	case t.kind == tokenOp && t.text == ":":
		return "write the value itself instead of a placeholder"
	case connective(t):
		return fmt.Sprintf("write an attribute of this name in backquotes: `%s`", t.text)
	case keyword(t, "LIKE"):
		return "patterns are begins_with and contains"
	case keyword(t, "IS"):
		return "use attribute_exists, attribute_not_exists or = null"
	case keyword(t, "EXISTS") || keyword(before, "EXISTS"):
		return "use attribute_exists or attribute_not_exists"
	case before.kind == tokenLiteral && t.kind == tokenLiteral && before.value.Kind() == attribute.KindS && t.value.Kind() == attribute.KindS:
		return `a quote inside of a string is written \" or \'`
	case before.kind == tokenWord && strings.HasPrefix(p.text[t.at:], "-"):
		return "write a name with a hyphen in backquotes"
	case before.kind == tokenDigits || t.kind == tokenLiteral && t.value.Kind() == attribute.KindN:
		return "write dates and other text in quotes"
	}
	return ""
}

// lexLiterals splits a condition whose values are literals.
func lexLiterals(text string) ([]token, error) {
	l := lexer{text: text}
	switch {
	case len(text) > maxWhenLength:
		return nil, &SyntaxError{Offset: maxWhenLength, Problem: fmt.Sprintf("a condition of %d bytes is too long; %d are allowed", len(text), maxWhenLength),
			Suggestion: "several rules may have one effect, each with a part of the condition"}
	case !utf8.ValidString(text):
		return nil, &SyntaxError{Problem: "the text is not UTF-8"}
	}
	for {
		l.at = span(text, l.at, space)
		if l.at == len(text) {
			break
		}
		if err := l.token(); err != nil {
			return nil, err
		}
	}
	if len(l.tokens) == 0 {
		return nil, &SyntaxError{Offset: len(text), Problem: "the condition is empty", Suggestion: "leave it out to match every item"}
	}
	return append(l.tokens, token{kind: tokenEnd, at: len(text)}), nil
}

// lexer reads the tokens of a condition with literals.
type lexer struct {
	text   string
	at     int
	tokens []token
}

func (l *lexer) add(kind tokenKind, text string, end int, v attribute.Value) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, at: l.at, value: v})
	l.at = end
}

// words are the words that stand for values.
var words = map[string]attribute.Value{"true": attribute.Bool(true), "false": attribute.Bool(false), "null": attribute.Null()}

func (l *lexer) token() error {
	c := l.text[l.at]
	switch {
	case c == '_':
		name := l.text[l.at:word(l.text, l.at)]
		return &SyntaxError{Offset: l.at, Problem: fmt.Sprintf("the name %q begins with an underscore", clip(name)),
			Suggestion: fmt.Sprintf("write it in backquotes: `%s`", clip(name))}
	case letter(c):
		end := word(l.text, l.at)
		name := l.text[l.at:end]
		if v, is := words[name]; is && !l.afterDot() {
			l.add(tokenLiteral, name, end, v)
			return nil
		}
		if name == "b64" && end < len(l.text) && (l.text[end] == '"' || l.text[end] == '\'') {
			return l.binary(end)
		}
		l.add(tokenWord, name, end, attribute.Value{})
		return nil
	case digit(c), c == '-' && l.at+1 < len(l.text) && digit(l.text[l.at+1]):
		return l.number()
	case c == '"' || c == '\'' || c == '`':
		s, end, err := l.quoted(l.at)
		if err != nil {
			return err
		}
		switch {
		case c != '`':
			l.add(tokenLiteral, l.text[l.at:end], end, attribute.String(s))
		case s == "":
			return &SyntaxError{Offset: l.at, Problem: "an attribute without a name"}
		default:
			l.add(tokenName, s, end, attribute.Value{})
		}
		return nil
	}
	return l.operator()
}

// afterDot reports whether the name of a map's member is next. Such a name may be any word.
func (l *lexer) afterDot() bool {
	n := len(l.tokens)
	return n > 0 && l.tokens[n-1].kind == tokenOp && l.tokens[n-1].text == "."
}

func (l *lexer) operator() error {
	rest := l.text[l.at:]
	for _, f := range foreign {
		if strings.HasPrefix(rest, f.text) {
			return &SyntaxError{Offset: l.at, Problem: fmt.Sprintf("unknown operator %q", f.text), Suggestion: f.suggestion}
		}
	}
	n := operatorLength(rest, ".[](),=<>{}:-")
	if strings.HasPrefix(rest, "<<") || strings.HasPrefix(rest, ">>") {
		n = 2
	}
	if n == 0 {
		r, _ := utf8.DecodeRuneInString(rest)
		return &SyntaxError{Offset: l.at, Problem: fmt.Sprintf("unexpected character %q", r), Suggestion: "write strings in quotes, unusual names in backquotes"}
	}
	l.add(tokenOp, rest[:n], l.at+n, attribute.Value{})
	return nil
}

func (l *lexer) number() error {
	end := l.at
	if l.text[end] == '-' {
		end++
	}
	whole := end
	end = span(l.text, end, digit)
	plain := whole == l.at // only digits, so it may also be an index
	if end < len(l.text) && l.text[end] == '.' {
		end, plain = span(l.text, end+1, digit), false
	}
	if end < len(l.text) && (l.text[end] == 'e' || l.text[end] == 'E') {
		end, plain = end+1, false
		if end < len(l.text) && (l.text[end] == '+' || l.text[end] == '-') {
			end++
		}
		end = span(l.text, end, digit)
	}
	end = word(l.text, end) // letters directly after a number belong to it, and make it invalid
	text := l.text[l.at:end]
	v, err := attribute.Number(text)
	if err != nil {
		return &SyntaxError{Offset: l.at, Problem: fmt.Sprintf("%q is %v", clip(text), err), Suggestion: "write other text in quotes"}
	}
	kind := tokenLiteral
	if plain {
		kind = tokenDigits
	}
	l.add(kind, text, end, v)
	return nil
}

// clip shortens text that an error quotes.
func clip(text string) string {
	if len(text) > 50 {
		return text[:50] + "…"
	}
	return text
}

// collections are the tokens that open sets, lists and maps.
var collections = []string{"<<", "[", "{"}

// literal reads a value.
func (p *parser) literal() (attribute.Value, error) {
	if err := p.enter(); err != nil {
		return attribute.Value{}, err
	}
	defer p.leave()
	t := p.next()
	switch {
	case t.kind != tokenOp:
		return t.value, nil
	case t.text == "[":
		list, err := p.elements("]")
		return attribute.List(list), err
	case t.text == "{":
		return p.mapLiteral()
	}
	list, err := p.elements(">>")
	if err != nil {
		return attribute.Value{}, err
	}
	return p.set(t, list)
}

// elements reads values up to the end of a list or set.
func (p *parser) elements(end string) ([]attribute.Value, error) {
	var list []attribute.Value
	for !p.op(end) {
		if len(list) > 0 && !p.op(",") {
			return nil, p.unexpected(fmt.Sprintf(`"," or %q`, end))
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// set makes a set from the values in the brackets at a token.
func (p *parser) set(at token, list []attribute.Value) (attribute.Value, error) {
	var texts []string
	var binaries [][]byte
	for _, v := range list {
		if v.Kind() != list[0].Kind() || v.Kind() != attribute.KindS && v.Kind() != attribute.KindN && v.Kind() != attribute.KindB {
			return attribute.Value{}, &SyntaxError{Offset: at.at, Problem: "a set whose members are not all strings, all numbers or all binaries", Suggestion: "write lists in [ ]"}
		}
		if slices.Contains(texts, v.Text()) {
			return attribute.Value{}, &SyntaxError{Offset: at.at, Problem: "a set with a member twice"}
		}
		texts, binaries = append(texts, v.Text()), append(binaries, []byte(v.Text()))
	}
	switch {
	case len(list) == 0:
		return attribute.Value{}, &SyntaxError{Offset: at.at, Problem: "a set without members, which DynamoDB never holds"}
	case list[0].Kind() == attribute.KindS:
		return attribute.StringSet(texts), nil
	case list[0].Kind() == attribute.KindB:
		return attribute.BinarySet(binaries), nil
	}
	return attribute.NumberSet(texts)
}

// mapLiteral reads the members of a map.
func (p *parser) mapLiteral() (attribute.Value, error) {
	var members []attribute.Attribute
	for !p.op("}") {
		if len(members) > 0 && !p.op(",") {
			return attribute.Value{}, p.unexpected(`"," or "}"`)
		}
		name := p.peek()
		if name.kind != tokenLiteral || name.value.Kind() != attribute.KindS {
			return attribute.Value{}, p.unexpected("the name of a member, in quotes,")
		}
		p.pos++
		if slices.ContainsFunc(members, func(a attribute.Attribute) bool { return a.Name == name.value.Text() }) {
			return attribute.Value{}, &SyntaxError{Offset: name.at, Problem: "a map with a member twice"}
		}
		if err := p.want(":"); err != nil {
			return attribute.Value{}, err
		}
		v, err := p.value()
		if err != nil {
			return attribute.Value{}, err
		}
		members = append(members, attribute.Attribute{Name: name.value.Text(), Value: v})
	}
	return attribute.Map(members), nil
}

// simplified returns a name in lower case and without underscores, because users often misremember
// capitals and underscores.
func simplified(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// distance returns how many letters must be added, removed or changed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, change)
		}
	}
	return row[len(b)]
}
