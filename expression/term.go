package expression

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// term yields a value of an item as it was before the update.
type term interface {
	// eval returns the value, and false if it refers to an attribute that is not there.
	eval(it cdc.Item) (cdc.Value, bool, error)
}

type literal cdc.Value

func (l literal) eval(cdc.Item) (cdc.Value, bool, error) { return cdc.Value(l), true, nil }

func (p path) eval(it cdc.Item) (cdc.Value, bool, error) {
	v, found := p.lookup(it)
	return v, found, nil
}

// ifNotExists is the function if_not_exists(path, operand).
type ifNotExists struct {
	path     path
	fallback term
}

func (f ifNotExists) eval(it cdc.Item) (cdc.Value, bool, error) {
	if v, found := f.path.lookup(it); found {
		return v, true, nil
	}
	return f.fallback.eval(it)
}

// binary is an operator or function of two operands that must both exist.
type binary struct {
	left, right term
	apply       func(a, b cdc.Value) (cdc.Value, error)
}

func (b binary) eval(it cdc.Item) (cdc.Value, bool, error) {
	left, found, err := b.left.eval(it)
	if err != nil {
		return cdc.Value{}, false, err
	}
	if !found {
		return cdc.Value{}, false, errMissingAttribute()
	}
	right, found, err := b.right.eval(it)
	if err != nil {
		return cdc.Value{}, false, err
	}
	if !found {
		return cdc.Value{}, false, errMissingAttribute()
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

// arithmetic makes an operation on the texts of numbers one on values.
func arithmetic(op func(a, b string) (cdc.Value, error)) func(a, b cdc.Value) (cdc.Value, error) {
	return func(a, b cdc.Value) (cdc.Value, error) {
		if a.Kind() != cdc.KindN || b.Kind() != cdc.KindN {
			return cdc.Value{}, errOperandType()
		}
		return op(a.Text(), b.Text())
	}
}

func listAppend(a, b cdc.Value) (cdc.Value, error) {
	if a.Kind() != cdc.KindL || b.Kind() != cdc.KindL {
		return cdc.Value{}, errOperandType()
	}
	return cdc.List(slices.Concat(a.Elements(), b.Elements())), nil
}

// typeNames are the words by which the service calls the types in messages about ADD and DELETE.
var typeNames = map[cdc.Kind]string{
	cdc.KindS: "STRING", cdc.KindN: "NUMBER", cdc.KindB: "BINARY", cdc.KindBOOL: "BOOLEAN", cdc.KindNULL: "NULL",
	cdc.KindSS: "STRING_SET", cdc.KindNS: "NUMBER_SET", cdc.KindBS: "BINARY_SET", cdc.KindL: "LIST", cdc.KindM: "MAP",
}

// checkTerm refuses a literal of a type that the operator never takes, which the service does before it looks at any item.
func (p *parser) checkTerm(operator string, t term, kinds ...cdc.Kind) error {
	l, ok := t.(literal)
	if !ok || slices.Contains(kinds, cdc.Value(l).Kind()) {
		return nil
	}
	kind := cdc.Value(l).Kind()
	if operator == "ADD" || operator == "DELETE" {
		return failure(p.kind, "Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND", operator, typeNames[kind], operator)
	}
	return failure(p.kind, "Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, kind)
}
