package expression

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// parser reads one expression by recursive descent. Expressions of requests, with placeholders, and
// conditions of a configuration, with literals, share this grammar.
type parser struct {
	kind     string // the parameter of the request; empty in a configuration
	text     string
	tokens   []token
	pos      int
	bindings *Bindings
	literals bool // a configuration: values are literals
	nesting  int
	roots    []string // the top-level attributes of all paths read, each once
}

// maxNesting bounds nested parentheses, so that malicious input cannot exhaust the stack.
const maxNesting = 300

func newParser(kind, text string, b *Bindings) (*parser, error) {
	tokens, err := lex(kind, text)
	if err != nil {
		return nil, err
	}
	return &parser{kind: kind, text: text, tokens: tokens, bindings: b}, nil
}

func (p *parser) peek() token { return p.tokens[p.pos] }

// following returns the token after the next token.
func (p *parser) following() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokenEnd {
		p.pos++
	}
	return t
}

// op consumes the operator if it is next.
func (p *parser) op(text string) bool {
	if t := p.peek(); t.kind == tokenOp && t.text == text {
		p.pos++
		return true
	}
	return false
}

// word consumes the keyword, in any case, if it is next.
func (p *parser) word(text string) bool {
	if keyword(p.peek(), text) {
		p.pos++
		return true
	}
	return false
}

// unexpected returns the error for a next token that is not the expected one.
func (p *parser) unexpected(expected string) error {
	if p.literals {
		return p.unexpectedIn(expected)
	}
	return p.syntax()
}

// fail returns an error at a token. For a request it uses the service's words, and for a
// configuration it adds a suggestion.
func (p *parser) fail(at token, suggestion, format string, args ...any) error {
	if !p.literals {
		return failure(p.kind, format, args...)
	}
	return &SyntaxError{Offset: at.at, Problem: strings.TrimSuffix(fmt.Sprintf(format, args...), ";"), Suggestion: suggestion}
}

func (p *parser) want(op string) error {
	if !p.op(op) {
		return p.unexpected(strconv.Quote(op))
	}
	return nil
}

// connectives are words that are never the name of a function. Without quotes, they are never the
// name of an attribute.
var connectives = []string{"AND", "OR", "NOT", "BETWEEN", "IN"}

func connective(t token) bool {
	return slices.ContainsFunc(connectives, func(w string) bool { return keyword(t, w) })
}

// isCall reports whether a function call is next.
func (p *parser) isCall() bool {
	return p.peek().kind == tokenWord && !connective(p.peek()) && p.following().kind == tokenOp && p.following().text == "("
}

func (p *parser) enter() error {
	if p.nesting++; p.nesting > maxNesting {
		return p.fail(p.peek(), "", "The expression has too many nested parentheses;")
	}
	return nil
}

func (p *parser) leave() { p.nesting-- }

// Limits of document paths ("Expression parameters"): the depth of nesting, and the index of an element.
const (
	maxPathLevels = 32
	maxListIndex  = math.MaxInt32
)

// path reads a document path.
func (p *parser) path() (path, error) {
	first := p.peek()
	name, err := p.attributeName()
	if err != nil {
		return nil, err
	}
	result := path{name}
	if !slices.Contains(p.roots, name.name) {
		p.roots = append(p.roots, name.name)
	}
	for {
		switch {
		case p.op("."):
			s, err := p.attributeName()
			if err != nil {
				return nil, err
			}
			result = append(result, s)
		case p.op("["):
			s, err := p.listIndex()
			if err != nil {
				return nil, err
			}
			result = append(result, s)
		case len(result) > maxPathLevels:
			return nil, p.fail(first, "", "The document path has too many nesting levels; nesting levels: %d", len(result))
		default:
			return result, nil
		}
	}
}

// listIndex reads the index of a list's element and the bracket after it.
func (p *parser) listIndex() (step, error) {
	t := p.peek()
	if t.kind != tokenDigits {
		return step{}, p.unexpected("the index of a list element")
	}
	index, err := strconv.Atoi(t.text)
	if err != nil || index > maxListIndex {
		return step{}, p.fail(t, "", "List index is not within the allowable range; index: [%s]", clip(t.text))
	}
	p.pos++
	return step{index: index}, p.want("]")
}

func (p *parser) attributeName() (step, error) {
	t := p.peek()
	switch {
	case p.literals && (t.kind == tokenName || t.kind == tokenWord && !connective(t)):
		p.pos++
		return step{name: t.text, index: -1}, nil
	case p.literals:
		return step{}, p.unexpected("an attribute")
	case t.kind == tokenWord:
		if reserved(t.text) {
			return step{}, failure(p.kind, "Attribute name is a reserved keyword; reserved keyword: %s", t.text)
		}
		p.pos++
		return step{name: t.text, index: -1}, nil
	case t.kind == tokenName:
		name, ok := p.bindings.names[t.text]
		if !ok {
			return step{}, failure(p.kind, "An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
		}
		p.bindings.usedNames[t.text] = true
		p.pos++
		return step{name: name, index: -1}, nil
	}
	return step{}, p.unexpected("an attribute")
}

// isValue reports whether a value is next.
func (p *parser) isValue() bool {
	t := p.peek()
	if p.literals {
		return t.kind == tokenLiteral || t.kind == tokenDigits || t.kind == tokenOp && slices.Contains(collections, t.text)
	}
	return t.kind == tokenValue
}

// value reads a :placeholder or a literal.
func (p *parser) value() (attribute.Value, error) {
	if !p.isValue() {
		return attribute.Value{}, p.unexpected("a value")
	}
	if p.literals {
		return p.literal()
	}
	t := p.next()
	v, ok := p.bindings.values[t.text]
	if !ok {
		return attribute.Value{}, failure(p.kind, "An expression attribute value used in expression is not defined; attribute value: %s", t.text)
	}
	p.bindings.usedValues[t.text] = true
	return v, nil
}
