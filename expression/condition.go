package expression

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// Condition is a parsed condition or filter expression.
type Condition struct {
	root       predicate
	attributes []string
}

// Attributes are the names of the top-level attributes that the condition looks at.
func (c *Condition) Attributes() []string { return c.attributes }

// Holds tells whether the condition is true of the item; a nil item is one that does not
// exist.
func (c *Condition) Holds(it item.Item) bool { return c.root.holds(it) }

// predicate is a node of a condition.
type predicate interface {
	holds(it item.Item) bool
}

type and struct{ left, right predicate }

func (p and) holds(it item.Item) bool { return p.left.holds(it) && p.right.holds(it) }

type or struct{ left, right predicate }

func (p or) holds(it item.Item) bool { return p.left.holds(it) || p.right.holds(it) }

type not struct{ inner predicate }

func (p not) holds(it item.Item) bool { return !p.inner.holds(it) }

// comparison is left operator right.
type comparison struct {
	operator    string
	left, right operand
}

func (c comparison) holds(it item.Item) bool {
	left, found := present(c.left, it)
	right, alsoFound := present(c.right, it)
	if !found || !alsoFound {
		// An attribute that is not there differs from everything and is neither below
		// nor above anything.
		return c.operator == "<>"
	}
	switch c.operator {
	case "=":
		return left.Equal(right)
	case "<>":
		return !left.Equal(right)
	}
	order, comparable := compare(left, right)
	if !comparable {
		return false
	}
	switch c.operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// present evaluates an operand of a condition, whose only failure is to be absent.
func present(o operand, it item.Item) (item.Value, bool) {
	v, found, err := o.eval(it)
	return v, found && err == nil
}

// compare orders two values of one ordered type: text and binary by bytes, numbers by
// value.
func compare(a, b item.Value) (order int, comparable bool) {
	if a.Kind != b.Kind {
		return 0, false
	}
	switch a.Kind {
	case item.S, item.B:
		return strings.Compare(a.Text, b.Text), true
	case item.N:
		return item.CompareNumbers(a.Text, b.Text), true
	}
	return 0, false
}

type between struct{ value, low, high operand }

func (p between) holds(it item.Item) bool {
	return comparison{">=", p.value, p.low}.holds(it) && comparison{"<=", p.value, p.high}.holds(it)
}

type in struct {
	value operand
	list  []operand
}

func (p in) holds(it item.Item) bool {
	return slices.ContainsFunc(p.list, func(o operand) bool { return comparison{"=", p.value, o}.holds(it) })
}

type exists struct{ path path }

func (p exists) holds(it item.Item) bool {
	_, found := p.path.lookup(it)
	return found
}

type hasType struct {
	path path
	name string
}

func (p hasType) holds(it item.Item) bool {
	v, found := p.path.lookup(it)
	return found && v.Kind.String() == p.name
}

type beginsWith struct{ value, prefix operand }

func (p beginsWith) holds(it item.Item) bool {
	v, found := present(p.value, it)
	prefix, alsoFound := present(p.prefix, it)
	return found && alsoFound && v.Kind == prefix.Kind && (v.Kind == item.S || v.Kind == item.B) &&
		strings.HasPrefix(v.Text, prefix.Text)
}

type contains struct{ value, part operand }

var members = map[item.Kind]item.Kind{item.SS: item.S, item.NS: item.N, item.BS: item.B}

func (p contains) holds(it item.Item) bool {
	v, found := present(p.value, it)
	part, alsoFound := present(p.part, it)
	if !found || !alsoFound {
		return false
	}
	switch v.Kind {
	case item.S, item.B:
		return part.Kind == v.Kind && strings.Contains(v.Text, part.Text)
	case item.SS, item.NS, item.BS:
		return part.Kind == members[v.Kind] && slices.Contains(v.Set, part.Text)
	case item.L:
		return slices.ContainsFunc(v.List, part.Equal)
	}
	return false
}

// size is the function size(path): characters, bytes or elements.
type size struct{ path path }

func (s size) eval(it item.Item) (item.Value, bool, error) {
	v, found := s.path.lookup(it)
	n := 0
	switch v.Kind {
	case item.S:
		n = utf8.RuneCountInString(v.Text)
	case item.B:
		n = len(v.Text)
	case item.SS, item.NS, item.BS:
		n = len(v.Set)
	case item.L:
		n = len(v.List)
	case item.M:
		n = len(v.Map)
	default:
		found = false
	}
	return item.Value{Kind: item.N, Text: strconv.Itoa(n)}, found, nil
}
