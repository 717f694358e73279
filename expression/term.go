package expression

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// term computes a value from an item before the update.
type term interface {
	// eval returns the value. It returns false if the term refers to a missing attribute.
	eval(it attribute.Item) (attribute.Value, bool, error)
}

type literal attribute.Value

func (l literal) eval(attribute.Item) (attribute.Value, bool, error) {
	return attribute.Value(l), true, nil
}

func (p path) eval(it attribute.Item) (attribute.Value, bool, error) {
	v, found := p.lookup(it)
	return v, found, nil
}

// ifNotExists is the function if_not_exists(path, operand).
type ifNotExists struct {
	path     path
	fallback term
}

func (f ifNotExists) eval(it attribute.Item) (attribute.Value, bool, error) {
	if v, found := f.path.lookup(it); found {
		return v, true, nil
	}
	return f.fallback.eval(it)
}

// binary is an operator or function with two operands. Both operands must exist.
type binary struct {
	left, right term
	apply       func(a, b attribute.Value) (attribute.Value, error)
}

func (b binary) eval(it attribute.Item) (attribute.Value, bool, error) {
	left, found, err := b.left.eval(it)
	if err != nil {
		return attribute.Value{}, false, err
	}
	if !found {
		return attribute.Value{}, false, errMissingAttribute()
	}
	right, found, err := b.right.eval(it)
	if err != nil {
		return attribute.Value{}, false, err
	}
	if !found {
		return attribute.Value{}, false, errMissingAttribute()
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

// arithmetic turns an operation on the texts of numbers into an operation on values.
func arithmetic(op func(a, b string) (attribute.Value, error)) func(a, b attribute.Value) (attribute.Value, error) {
	return func(a, b attribute.Value) (attribute.Value, error) {
		if a.Kind() != attribute.KindN || b.Kind() != attribute.KindN {
			return attribute.Value{}, errOperandType()
		}
		return op(a.Text(), b.Text())
	}
}

func listAppend(a, b attribute.Value) (attribute.Value, error) {
	if a.Kind() != attribute.KindL || b.Kind() != attribute.KindL {
		return attribute.Value{}, errOperandType()
	}
	return attribute.List(slices.Concat(a.Elements(), b.Elements())), nil
}

// typeNames are the service's names of the types in messages about ADD and DELETE.
var typeNames = map[attribute.Kind]string{
	attribute.KindS: "STRING", attribute.KindN: "NUMBER", attribute.KindB: "BINARY", attribute.KindBOOL: "BOOLEAN", attribute.KindNULL: "NULL",
	attribute.KindSS: "STRING_SET", attribute.KindNS: "NUMBER_SET", attribute.KindBS: "BINARY_SET", attribute.KindL: "LIST", attribute.KindM: "MAP",
}

// checkTerm rejects a literal of a type that the operator never accepts. The service also rejects
// it before it reads any item.
func (p *parser) checkTerm(operator string, t term, kinds ...attribute.Kind) error {
	l, ok := t.(literal)
	if !ok || slices.Contains(kinds, attribute.Value(l).Kind()) {
		return nil
	}
	kind := attribute.Value(l).Kind()
	if operator == "ADD" || operator == "DELETE" {
		return failure(p.kind, "Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND", operator, typeNames[kind], operator)
	}
	return failure(p.kind, "Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, kind)
}
