package expression

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// operand yields a value of an item as it was before the update.
type operand interface {
	// eval returns the value, and false if it refers to an attribute that is not there.
	eval(it item.Item) (item.Value, bool, error)
}

type literal item.Value

func (l literal) eval(item.Item) (item.Value, bool, error) { return item.Value(l), true, nil }

func (p path) eval(it item.Item) (item.Value, bool, error) {
	v, found := p.lookup(it)
	return v, found, nil
}

// ifNotExists is the function if_not_exists(path, operand).
type ifNotExists struct {
	path     path
	fallback operand
}

func (f ifNotExists) eval(it item.Item) (item.Value, bool, error) {
	if v, found := f.path.lookup(it); found {
		return v, true, nil
	}
	return f.fallback.eval(it)
}

// binary is an operator or function of two operands that must both exist.
type binary struct {
	left, right operand
	apply       func(a, b item.Value) (item.Value, error)
}

func (b binary) eval(it item.Item) (item.Value, bool, error) {
	left, found, err := b.left.eval(it)
	if err != nil {
		return item.Value{}, false, err
	}
	if !found {
		return item.Value{}, false, errMissingAttribute()
	}
	right, found, err := b.right.eval(it)
	if err != nil {
		return item.Value{}, false, err
	}
	if !found {
		return item.Value{}, false, errMissingAttribute()
	}
	v, err := b.apply(left, right)
	return v, true, err
}

func errMissingAttribute() error {
	return refuse("The provided expression refers to an attribute that does not exist in the item")
}

func errOperandType() error {
	return refuse("An operand in the update expression has an incorrect data type")
}

func add(a, b item.Value) (item.Value, error) { return arithmetic(a, b, item.AddNumbers) }

func subtract(a, b item.Value) (item.Value, error) { return arithmetic(a, b, item.SubtractNumbers) }

func arithmetic(a, b item.Value, op func(a, b string) (string, error)) (item.Value, error) {
	if a.Kind != item.N || b.Kind != item.N {
		return item.Value{}, errOperandType()
	}
	text, err := op(a.Text, b.Text)
	return item.Value{Kind: item.N, Text: text}, err
}

func listAppend(a, b item.Value) (item.Value, error) {
	if a.Kind != item.L || b.Kind != item.L {
		return item.Value{}, errOperandType()
	}
	return item.Value{Kind: item.L, List: slices.Concat(a.List, b.List)}, nil
}

// checkLiteral refuses a literal operand of a type that the operator never takes, which
// the service does before it looks at any item.
func (p *parser) checkLiteral(operator string, o operand, kinds ...item.Kind) error {
	l, ok := o.(literal)
	if !ok || slices.Contains(kinds, l.Kind) {
		return nil
	}
	return wrongType(p.kind, operator, item.Value(l))
}
