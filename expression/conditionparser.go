package expression

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// maxInList is the maximum number of values in the IN list of a request ("Comparison operator and
// function reference").
const maxInList = 100

// ParseCondition parses a condition of a request. The argument `kind` is the request's member that
// holds the condition, such as "ConditionExpression" or "FilterExpression".
func ParseCondition(kind, text string, b *Bindings) (*Condition, error) {
	p, err := newParser(kind, text, b)
	if err != nil {
		return nil, err
	}
	return p.condition()
}

func (p *parser) condition() (*Condition, error) {
	root, err := p.disjunction()
	if err != nil {
		return nil, err
	}
	if p.peek().kind != tokenEnd {
		return nil, p.unexpected("AND, OR or the end")
	}
	return &Condition{root, p.roots}, nil
}

func (p *parser) disjunction() (predicate, error) {
	left, err := p.conjunction()
	for err == nil && p.word("OR") {
		var right predicate
		right, err = p.conjunction()
		left = &or{left, right}
	}
	return left, err
}

func (p *parser) conjunction() (predicate, error) {
	left, err := p.negation()
	for err == nil && p.word("AND") {
		var right predicate
		right, err = p.negation()
		left = &and{left, right}
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
		return &not{inner}, err
	}
	if p.peek().text == "(" && p.peek().kind == tokenOp && !p.operandInParentheses() {
		return p.group()
	}
	if p.isCall() && p.peek().text != "size" {
		return p.function()
	}
	return p.comparisonOrList()
}

// group reads a condition in parentheses.
func (p *parser) group() (predicate, error) {
	double := p.redundant()
	p.pos++
	inner, err := p.disjunction()
	if err != nil {
		return nil, err
	}
	if err := p.want(")"); err != nil {
		return nil, err
	}
	if double && !p.literals {
		return nil, failure(p.kind, "The expression has redundant parentheses;")
	}
	return inner, nil
}

// redundant reports whether the parentheses that begin here enclose nothing but other parentheses.
func (p *parser) redundant() bool {
	if t := p.following(); t.kind != tokenOp || t.text != "(" {
		return false
	}
	end := p.closing(p.pos)
	return end > 0 && p.closing(p.pos+1) == end-1
}

// closing returns the position of the parenthesis that closes the parenthesis at i; 0 if there is
// none.
func (p *parser) closing(i int) int {
	depth := 0
	for ; i < len(p.tokens); i++ {
		if t := p.tokens[i]; t.kind == tokenOp && t.text == "(" {
			depth++
		} else if t.kind == tokenOp && t.text == ")" {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return 0
}

// operandInParentheses reports whether the next parenthesis encloses an operand, as in (a) = :v,
// not a condition.
func (p *parser) operandInParentheses() bool {
	end := p.closing(p.pos)
	if end == 0 {
		return false
	}
	after := p.tokens[end+1] // the end token always follows
	if _, ok := comparator(after); !ok && !keyword(after, "BETWEEN") && !keyword(after, "IN") {
		return false
	}
	return !slices.ContainsFunc(p.tokens[p.pos:end], func(t token) bool {
		_, ok := comparator(t)
		return ok || connective(t)
	})
}

func comparator(t token) (operator, bool) {
	i := slices.Index(operators[:], t.text)
	return operator(max(i, 0)), i >= 0 && t.kind == tokenOp
}

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
	at := p.peek()
	op, ok := comparator(at)
	if !ok {
		if left.size && !p.literals {
			return nil, failure(p.kind, "The function is not allowed to be used this way in an expression; function: size")
		}
		return nil, p.unexpected("a comparison (=, <>, <, <=, >, >=, BETWEEN, IN)")
	}
	p.pos++
	right, err := p.operand()
	if err != nil {
		return nil, err
	}
	if err := p.distinct(at, op.String(), left, right); err != nil {
		return nil, err
	}
	if op != isEqual && op != isDifferent {
		for _, o := range []operand{left, right} {
			if err := p.checkKind(at, op.String(), o, attribute.KindS, attribute.KindN, attribute.KindB); err != nil {
				return nil, err
			}
		}
	}
	return &comparison{op, left, right}, nil
}

// distinct rejects a path that is compared with itself.
func (p *parser) distinct(at token, operator string, a, b operand) error {
	if a.path != nil && a.size == b.size && slices.Equal(a.path, b.path) {
		return p.fail(at, "", "The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %s", operator, a.path)
	}
	return nil
}

// checkKind rejects an operand of a type that the operator never accepts. The service also rejects
// it before it reads any item.
func (p *parser) checkKind(at token, operator string, o operand, kinds ...attribute.Kind) error {
	kind := o.staticKind()
	if kind == attribute.KindNone || slices.Contains(kinds, kind) {
		return nil
	}
	return p.fail(at, "", "Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, kind)
}

// rest reads the bounds of a BETWEEN.
func (p *parser) rest(value operand) (predicate, error) {
	at := p.peek()
	low, err := p.operand()
	if err != nil {
		return nil, err
	}
	if !p.word("AND") {
		return nil, p.unexpected("AND and the upper bound")
	}
	high, err := p.operand()
	if err != nil {
		return nil, err
	}
	for _, o := range []operand{value, low, high} {
		if err := p.checkKind(at, "BETWEEN", o, attribute.KindS, attribute.KindN, attribute.KindB); err != nil {
			return nil, err
		}
	}
	if low.isLiteral() && high.isLiteral() {
		order, comparable := compare(&result{value: low.literal}, &result{value: high.literal})
		// The service quotes the values here. This error does not, because errors of this package
		// must be safe to log.
		if !comparable {
			return nil, p.fail(at, "", "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: %s, upper bound operand: %s",
				low.literal.Kind(), high.literal.Kind())
		}
		if order > 0 {
			return nil, p.fail(at, "exchange the bounds", "The BETWEEN operator requires upper bound to be greater than or equal to lower bound;")
		}
	}
	return &between{value, low, high}, nil
}

// list reads the values of an IN.
func (p *parser) list(value operand) (predicate, error) {
	at := p.peek()
	if err := p.want("("); err != nil {
		return nil, err
	}
	list, err := p.operands()
	if err != nil {
		return nil, err
	}
	if len(list) > maxInList && !p.literals {
		return nil, failure(p.kind, "The IN operator is provided with too many operands; number of operands: %d", len(list))
	}
	for _, o := range list {
		if err := p.distinct(at, "IN", value, o); err != nil {
			return nil, err
		}
	}
	return &in{value, list}, nil
}

// operands reads a list of operands and the parenthesis after it.
func (p *parser) operands() ([]operand, error) {
	var list []operand
	for {
		o, err := p.operand()
		if err != nil {
			return nil, err
		}
		list = append(list, o)
		if !p.op(",") {
			if !p.op(")") {
				return nil, p.unexpected(`"," or ")"`)
			}
			return list, nil
		}
	}
}

// operand reads a value, a path or a size.
func (p *parser) operand() (operand, error) {
	if err := p.enter(); err != nil {
		return operand{}, err
	}
	defer p.leave()
	switch {
	case p.peek().kind == tokenOp && p.peek().text == "(":
		double := p.redundant()
		p.pos++
		inner, err := p.operand()
		if err == nil {
			err = p.want(")")
		}
		if err == nil && double && !p.literals {
			err = failure(p.kind, "The expression has redundant parentheses;")
		}
		return inner, err
	case p.isCall():
		return p.size()
	case p.isValue():
		v, err := p.value()
		return operand{literal: v}, err
	case p.literals && (p.peek().kind != tokenName && p.peek().kind != tokenWord || connective(p.peek())):
		return operand{}, p.unexpected("an attribute or a value")
	}
	target, err := p.path()
	return operand{path: target}, err
}
