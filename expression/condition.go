package expression

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Condition is a parsed condition or filter expression. It is immutable and may be used from any goroutine.
type Condition struct {
	root       predicate
	attributes []string
}

// Attributes returns the names of the top-level attributes that the condition uses. Each name
// occurs once, in the order of first use. The caller must not change them.
func (c *Condition) Attributes() []string { return c.attributes }

// Match reports whether the condition holds for the item. An item without attributes does not
// exist.
func (c *Condition) Match(it attribute.Item) bool { return c.root.holds(it) }

// predicate is a node of a condition.
type predicate interface {
	holds(it attribute.Item) bool
	// appendText appends the predicate in the language that ParseWhen reads.
	appendText(b []byte) []byte
	// binding returns the precedence of the predicate.
	binding() binding
}

type and struct{ left, right predicate }

func (p *and) holds(it attribute.Item) bool { return p.left.holds(it) && p.right.holds(it) }

type or struct{ left, right predicate }

func (p *or) holds(it attribute.Item) bool { return p.left.holds(it) || p.right.holds(it) }

type not struct{ inner predicate }

func (p *not) holds(it attribute.Item) bool { return !p.inner.holds(it) }

type operator uint8

const (
	isEqual operator = iota
	isDifferent
	isLess
	isAtMost
	isGreater
	isAtLeast
)

// operators are the comparators as expressions write them.
var operators = [...]string{"=", "<>", "<", "<=", ">", ">="}

func (o operator) String() string { return operators[o] }

// comparison is two operands and a comparator: left operator right.
type comparison struct {
	operator    operator
	left, right operand
}

func (p *comparison) holds(it attribute.Item) bool {
	left, right := p.left.of(it), p.right.of(it)
	return p.operator.relates(&left, &right)
}

// relates reports whether the operator holds between two results. A missing attribute differs from
// every value, and is neither less nor greater than any value.
func (o operator) relates(a, b *result) bool {
	if !a.found || !b.found {
		return o == isDifferent
	}
	switch o {
	case isEqual:
		return equal(a, b)
	case isDifferent:
		return !equal(a, b)
	}
	order, comparable := compare(a, b)
	if !comparable {
		return false
	}
	switch o {
	case isLess:
		return order < 0
	case isAtMost:
		return order <= 0
	case isGreater:
		return order > 0
	}
	return order >= 0
}

type between struct{ value, low, high operand }

func (p *between) holds(it attribute.Item) bool {
	v, low, high := p.value.of(it), p.low.of(it), p.high.of(it)
	return isAtLeast.relates(&v, &low) && isAtMost.relates(&v, &high)
}

type in struct {
	value operand
	list  []operand
}

func (p *in) holds(it attribute.Item) bool {
	v := p.value.of(it)
	for i := range p.list {
		if other := p.list[i].of(it); isEqual.relates(&v, &other) {
			return true
		}
	}
	return false
}

// exists is attribute_exists, or attribute_not_exists if wanted is false.
type exists struct {
	path   path
	wanted bool
}

func (p *exists) holds(it attribute.Item) bool {
	_, found := p.path.lookup(it)
	return found == p.wanted
}

type hasType struct {
	value operand
	kind  attribute.Kind
}

func (p *hasType) holds(it attribute.Item) bool {
	v := p.value.of(it)
	return v.found && v.kind() == p.kind
}

type beginsWith struct{ value, prefix operand }

func (p *beginsWith) holds(it attribute.Item) bool {
	v, prefix := p.value.of(it), p.prefix.of(it)
	kind := v.kind()
	return v.found && prefix.found && kind == prefix.kind() && (kind == attribute.KindS || kind == attribute.KindB) &&
		strings.HasPrefix(v.value.Text(), prefix.value.Text())
}

type contains struct{ value, part operand }

func (p *contains) holds(it attribute.Item) bool {
	v, part := p.value.of(it), p.part.of(it)
	if !v.found || !part.found {
		return false
	}
	kind := v.kind()
	switch kind {
	case attribute.KindS, attribute.KindB:
		return part.kind() == kind && strings.Contains(v.value.Text(), part.value.Text())
	case attribute.KindSS, attribute.KindNS, attribute.KindBS, attribute.KindL:
		// Sets and lists share this comparison, because members of a set are values of its member
		// type.
		for _, e := range v.value.Elements() {
			if equal(&result{value: e}, &part) {
				return true
			}
		}
	}
	return false
}
