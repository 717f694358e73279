package expression

import (
	"encoding/base64"
	"strconv"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Text returns the condition in the language of ParseWhen, in canonical form. That form has
// keywords in capitals, single spaces and no unnecessary parentheses. It contains the condition's
// values. These are item data if the condition came in a request.
func (c *Condition) Text() string { return string(c.root.appendText(nil)) }

// binding is the precedence of a predicate. A predicate of lower precedence needs parentheses
// inside one of higher precedence.
type binding uint8

const (
	bindsOr binding = iota
	bindsAnd
	bindsNot
	bindsTight
)

func (*or) binding() binding         { return bindsOr }
func (*and) binding() binding        { return bindsAnd }
func (*not) binding() binding        { return bindsNot }
func (*comparison) binding() binding { return bindsTight }
func (*between) binding() binding    { return bindsTight }
func (*in) binding() binding         { return bindsTight }
func (*exists) binding() binding     { return bindsTight }
func (*hasType) binding() binding    { return bindsTight }
func (*beginsWith) binding() binding { return bindsTight }
func (*contains) binding() binding   { return bindsTight }

// appendPart appends a part of a predicate. The argument `whole` is the precedence of the
// predicate.
func appendPart(b []byte, part predicate, whole binding) []byte {
	if part.binding() >= whole {
		return part.appendText(b)
	}
	return append(part.appendText(append(b, '(')), ')')
}

func (p *or) appendText(b []byte) []byte {
	return appendPart(append(appendPart(b, p.left, bindsOr), " OR "...), p.right, bindsOr)
}

func (p *and) appendText(b []byte) []byte {
	return appendPart(append(appendPart(b, p.left, bindsAnd), " AND "...), p.right, bindsAnd)
}

func (p *not) appendText(b []byte) []byte { return appendPart(append(b, "NOT "...), p.inner, bindsNot) }

func (p *comparison) appendText(b []byte) []byte {
	b = append(p.left.appendText(b), ' ')
	b = append(b, p.operator.String()...)
	return p.right.appendText(append(b, ' '))
}

func (p *between) appendText(b []byte) []byte {
	b = append(p.value.appendText(b), " BETWEEN "...)
	b = append(p.low.appendText(b), " AND "...)
	return p.high.appendText(b)
}

func (p *in) appendText(b []byte) []byte {
	b = append(p.value.appendText(b), " IN ("...)
	for i := range p.list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = p.list[i].appendText(b)
	}
	return append(b, ')')
}

func (p *exists) appendText(b []byte) []byte {
	if !p.wanted {
		return append(p.path.appendText(append(b, "attribute_not_exists("...)), ')')
	}
	return append(p.path.appendText(append(b, "attribute_exists("...)), ')')
}

func (p *hasType) appendText(b []byte) []byte {
	b = append(p.value.appendText(append(b, "attribute_type("...)), ", "...)
	return append(appendQuoted(b, p.kind.String(), '"'), ')')
}

func (p *beginsWith) appendText(b []byte) []byte {
	b = append(p.value.appendText(append(b, "begins_with("...)), ", "...)
	return append(p.prefix.appendText(b), ')')
}

func (p *contains) appendText(b []byte) []byte {
	b = append(p.value.appendText(append(b, "contains("...)), ", "...)
	return append(p.part.appendText(b), ')')
}

func (o *operand) appendText(b []byte) []byte {
	if o.size {
		inner := operand{literal: o.literal, path: o.path}
		return append(inner.appendText(append(b, "size("...)), ')')
	}
	if o.path != nil {
		return o.path.appendText(b)
	}
	return appendLiteral(b, o.literal)
}

func (p path) appendText(b []byte) []byte {
	for i, s := range p {
		switch {
		case s.isIndex():
			b = append(strconv.AppendInt(append(b, '['), int64(s.index), 10), ']')
			continue
		case i > 0:
			b = append(b, '.')
		}
		if plainName(s.name) {
			b = append(b, s.name...)
		} else {
			b = appendQuoted(b, s.name, '`')
		}
	}
	return b
}

// plainName reports whether a name needs no quotes.
func plainName(name string) bool {
	if name == "" || !letter(name[0]) || name[0] == '_' || word(name, 0) != len(name) {
		return false
	}
	_, value := words[name]
	return !value && !connective(token{kind: tokenWord, text: name})
}

func appendLiteral(b []byte, v attribute.Value) []byte {
	switch v.Kind() {
	case attribute.KindS:
		return appendQuoted(b, v.Text(), '"')
	case attribute.KindN:
		return append(b, v.Text()...)
	case attribute.KindB:
		b = base64.StdEncoding.AppendEncode(append(b, `b64"`...), []byte(v.Text()))
		return append(b, '"')
	case attribute.KindBOOL:
		return strconv.AppendBool(b, v.Bool())
	case attribute.KindNULL:
		return append(b, "null"...)
	case attribute.KindL:
		return append(appendElements(append(b, '['), v), ']')
	case attribute.KindM:
		b = append(b, '{')
		for i, m := range v.Members() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(appendQuoted(b, m.Name, '"'), ": "...)
			b = appendLiteral(b, m.Value)
		}
		return append(b, '}')
	}
	return append(appendElements(append(b, "<<"...), v), ">>"...)
}

func appendElements(b []byte, v attribute.Value) []byte {
	for i, e := range v.Elements() {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendLiteral(b, e)
	}
	return b
}
