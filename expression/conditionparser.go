package expression

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// maxInList is how many values IN may list ("Comparison operator and function
// reference").
const maxInList = 100

// ParseCondition parses a condition; kind is the request's member that holds it, such as
// "ConditionExpression" or "FilterExpression".
func ParseCondition(kind, text string, b *Bindings) (*Condition, error) {
	p, err := newParser(kind, text, b)
	if err != nil {
		return nil, err
	}
	root, err := p.disjunction()
	if err != nil {
		return nil, err
	}
	if p.peek().kind != tokenEnd {
		return nil, p.unexpected()
	}
	return &Condition{root, p.roots}, nil
}

func (p *parser) disjunction() (predicate, error) {
	left, err := p.conjunction()
	for err == nil && p.word("OR") {
		var right predicate
		right, err = p.conjunction()
		left = or{left, right}
	}
	return left, err
}

func (p *parser) conjunction() (predicate, error) {
	left, err := p.negation()
	for err == nil && p.word("AND") {
		var right predicate
		right, err = p.negation()
		left = and{left, right}
	}
	return left, err
}

func (p *parser) negation() (predicate, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	if p.word("NOT") {
		inner, err := p.negation()
		return not{inner}, err
	}
	if p.peek().text == "(" && !p.operandInParentheses() {
		p.pos++
		inner, err := p.disjunction()
		if err != nil {
			return nil, err
		}
		return inner, p.want(")")
	}
	if p.isCall() && p.peek().text != "size" {
		return p.predicateFunction()
	}
	return p.comparisonOrList()
}

// operandInParentheses tells whether the parenthesis that is next encloses an operand, as
// in (a) = :v, and not a condition.
func (p *parser) operandInParentheses() bool {
	depth := 0
	for i := p.pos; i < len(p.tokens); i++ {
		switch t := p.tokens[i]; {
		case t.text == "(":
			depth++
		case t.text == ")":
			if depth--; depth == 0 {
				return slices.Contains(comparators, p.tokens[i+1].text) || keyword(p.tokens[i+1], "BETWEEN") || keyword(p.tokens[i+1], "IN")
			}
		case slices.Contains(comparators, t.text) || keyword(t, "AND") || keyword(t, "OR") || keyword(t, "NOT"):
			return false
		}
	}
	return false
}

var comparators = []string{"=", "<>", "<", "<=", ">", ">="}

func (p *parser) comparisonOrList() (predicate, error) {
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	switch {
	case p.word("BETWEEN"):
		return p.rest(left)
	case p.word("IN"):
		return p.list(left)
	}
	operator := p.peek()
	if operator.kind != tokenOp || !slices.Contains(comparators, operator.text) {
		return nil, p.unexpected()
	}
	p.pos++
	right, err := p.operand()
	if err != nil {
		return nil, err
	}
	if operator.text != "=" && operator.text != "<>" {
		for _, o := range []operand{left, right} {
			if err := p.checkLiteral(operator.text, o, item.S, item.N, item.B); err != nil {
				return nil, err
			}
		}
	}
	return comparison{operator.text, left, right}, nil
}

// rest reads the bounds of a BETWEEN.
func (p *parser) rest(value operand) (predicate, error) {
	low, err := p.operand()
	if err != nil {
		return nil, err
	}
	if !p.word("AND") {
		return nil, p.unexpected()
	}
	high, err := p.operand()
	if err != nil {
		return nil, err
	}
	for _, o := range []operand{low, high} {
		if err := p.checkLiteral("BETWEEN", o, item.S, item.N, item.B); err != nil {
			return nil, err
		}
	}
	a, isLiteral := low.(literal)
	b, alsoLiteral := high.(literal)
	if isLiteral && alsoLiteral {
		order, comparable := compare(item.Value(a), item.Value(b))
		if !comparable {
			return nil, failure(p.kind, "The BETWEEN operator requires same data type for lower and upper bounds;")
		}
		if order > 0 {
			return nil, failure(p.kind, "The BETWEEN operator requires upper bound to be greater than or equal to lower bound;")
		}
	}
	return between{value, low, high}, nil
}

// list reads the values of an IN.
func (p *parser) list(value operand) (predicate, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	result := in{value: value}
	for {
		o, err := p.operand()
		if err != nil {
			return nil, err
		}
		if result.list = append(result.list, o); len(result.list) > maxInList {
			return nil, failure(p.kind, "The IN operator is provided with too many operands;")
		}
		if !p.op(",") {
			return result, p.want(")")
		}
	}
}

// operand reads a value, a path or size(path).
func (p *parser) operand() (operand, error) {
	switch {
	case p.op("("):
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer p.leave()
		inner, err := p.operand()
		if err != nil {
			return nil, err
		}
		return inner, p.want(")")
	case p.isCall():
		name := p.next().text
		if name != "size" {
			return nil, failure(p.kind, "The function is not allowed to be used this way in an expression; function: %s", name)
		}
		p.pos++
		target, err := p.path()
		if err != nil {
			return nil, err
		}
		return size{target}, p.want(")")
	case p.peek().kind == tokenValue:
		v, err := p.value()
		return literal(v), err
	}
	return p.path()
}

// predicateFunction reads a call of a function that is a condition by itself.
func (p *parser) predicateFunction() (predicate, error) {
	name := p.next().text
	p.pos++ // the parenthesis that isCall saw
	switch name {
	case "attribute_exists", "attribute_not_exists":
		target, err := p.path()
		if err != nil {
			return nil, err
		}
		if name == "attribute_not_exists" {
			return not{exists{target}}, p.want(")")
		}
		return exists{target}, p.want(")")
	case "attribute_type":
		return p.typeFunction()
	case "begins_with", "contains":
		first, err := p.operand()
		if err != nil {
			return nil, err
		}
		if err := p.want(","); err != nil {
			return nil, err
		}
		second, err := p.operand()
		if err != nil {
			return nil, err
		}
		if name == "contains" {
			return contains{first, second}, p.want(")")
		}
		for _, o := range []operand{first, second} {
			if err := p.checkLiteral(name, o, item.S, item.B); err != nil {
				return nil, err
			}
		}
		return beginsWith{first, second}, p.want(")")
	}
	return nil, failure(p.kind, "Invalid function name; function: %s", name)
}

func (p *parser) typeFunction() (predicate, error) {
	target, err := p.path()
	if err != nil {
		return nil, err
	}
	if err := p.want(","); err != nil {
		return nil, err
	}
	v, err := p.value()
	if err != nil {
		return nil, err
	}
	if err := p.checkLiteral("attribute_type", literal(v), item.S); err != nil {
		return nil, err
	}
	for kind := item.S; kind <= item.M; kind++ {
		if kind.String() == v.Text {
			return hasType{target, v.Text}, p.want(")")
		}
	}
	return nil, failure(p.kind, "Invalid attribute type name found; valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}")
}
