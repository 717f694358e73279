package expression

import (
	"strconv"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// parser reads one expression by recursive descent.
type parser struct {
	kind     string
	text     string
	tokens   []token
	pos      int
	bindings *Bindings
	nesting  int
	roots    []string // the top-level attributes of all paths read
}

// maxNesting bounds parentheses, so that hostile input cannot exhaust the stack.
const maxNesting = 300

func newParser(kind, text string, b *Bindings) (*parser, error) {
	tokens, err := lex(kind, text)
	if err != nil {
		return nil, err
	}
	return &parser{kind: kind, text: text, tokens: tokens, bindings: b}, nil
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokenEnd {
		p.pos++
	}
	return t
}

// op takes the operator if it is next.
func (p *parser) op(text string) bool {
	if t := p.peek(); t.kind == tokenOp && t.text == text {
		p.pos++
		return true
	}
	return false
}

// word takes the keyword, in any case, if it is next.
func (p *parser) word(text string) bool {
	if keyword(p.peek(), text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) unexpected() error { return syntax(p.kind, p.text, p.peek()) }

func (p *parser) want(op string) error {
	if !p.op(op) {
		return p.unexpected()
	}
	return nil
}

// isCall tells whether a function call is next.
func (p *parser) isCall() bool {
	return p.peek().kind == tokenWord && p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].text == "("
}

func (p *parser) enter() error {
	if p.nesting++; p.nesting > maxNesting {
		return failure(p.kind, "The expression has too many nested parentheses;")
	}
	return nil
}

func (p *parser) leave() { p.nesting-- }

// path reads a document path.
func (p *parser) path() (path, error) {
	name, err := p.attributeName()
	if err != nil {
		return nil, err
	}
	result := path{name}
	p.roots = append(p.roots, name.name)
	for {
		switch {
		case p.op("."):
			s, err := p.attributeName()
			if err != nil {
				return nil, err
			}
			result = append(result, s)
		case p.op("["):
			t := p.next()
			index, err := strconv.Atoi(t.text)
			if t.kind != tokenIndex || err != nil {
				return nil, syntax(p.kind, p.text, t)
			}
			if err := p.want("]"); err != nil {
				return nil, err
			}
			result = append(result, step{index: index})
		default:
			return result, nil
		}
	}
}

func (p *parser) attributeName() (step, error) {
	switch t := p.peek(); t.kind {
	case tokenWord:
		if reserved(t.text) {
			return step{}, failure(p.kind, "Attribute name is a reserved keyword; reserved keyword: %s", t.text)
		}
		p.pos++
		return step{name: t.text, index: -1}, nil
	case tokenName:
		name, ok := p.bindings.names[t.text]
		if !ok {
			return step{}, failure(p.kind, "An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
		}
		p.bindings.usedNames[t.text] = true
		p.pos++
		return step{name: name, index: -1}, nil
	}
	return step{}, p.unexpected()
}

// value reads a :placeholder.
func (p *parser) value() (item.Value, error) {
	t := p.peek()
	if t.kind != tokenValue {
		return item.Value{}, p.unexpected()
	}
	v, ok := p.bindings.values[t.text]
	if !ok {
		return item.Value{}, failure(p.kind, "An expression attribute value used in expression is not defined; attribute value: %s", t.text)
	}
	p.bindings.usedValues[t.text] = true
	p.pos++
	return v, nil
}

// typeNames are the words by which the service's messages call the types.
var typeNames = map[item.Kind]string{
	item.S: "STRING", item.N: "NUMBER", item.B: "BINARY", item.BOOL: "BOOLEAN", item.NULL: "NULL",
	item.SS: "STRING_SET", item.NS: "NUMBER_SET", item.BS: "BINARY_SET", item.L: "LIST", item.M: "MAP",
}

func wrongType(kind, operator string, v item.Value) error {
	return failure(kind, "Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, typeNames[v.Kind])
}
