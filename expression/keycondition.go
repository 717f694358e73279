package expression

import "github.com/dynamodb-bigtable/replicator/dynamodbtest/item"

// KeyCondition is what a KeyConditionExpression asks for: one partition key, and a range
// of sort keys.
type KeyCondition struct {
	hash item.Value
	sort predicate // nil: all of the partition
}

// Hash is the value of the partition key.
func (k *KeyCondition) Hash() item.Value { return k.hash }

// Holds tells whether an item of that partition is in the range of sort keys.
func (k *KeyCondition) Holds(it item.Item) bool { return k.sort == nil || k.sort.holds(it) }

// ParseKeyCondition parses a KeyConditionExpression for a table with these key
// attributes; sort is empty if the table has no sort key.
func ParseKeyCondition(text, hash, sort string, b *Bindings) (*KeyCondition, error) {
	const kind = "KeyConditionExpression"
	c, err := ParseCondition(kind, text, b)
	if err != nil {
		return nil, err
	}
	terms := []predicate{c.root}
	if both, ok := c.root.(and); ok {
		terms = []predicate{both.left, both.right}
	}
	k := &KeyCondition{}
	for _, term := range terms {
		name, ok := keyTerm(term)
		if !ok {
			return nil, refuse("Invalid operator used in KeyConditionExpression")
		}
		equality, isEquality := term.(comparison)
		switch {
		case name == hash && k.hash.Kind == item.Invalid && isEquality && equality.operator == "=":
			k.hash = item.Value(equality.right.(literal))
		case name == hash:
			return nil, refuse("Query key condition not supported")
		case name == sort && sort != "" && k.sort == nil:
			k.sort = term
		default:
			return nil, refuse("Query key condition not supported")
		}
	}
	if k.hash.Kind == item.Invalid {
		return nil, refuse("Query condition missed key schema element: %s", hash)
	}
	return k, nil
}

// CheckTypes refuses values whose types are not those of the key attributes.
func (k *KeyCondition) CheckTypes(hash, sort item.Kind) error {
	mismatch := refuse("One or more parameter values were invalid: Condition parameter type does not match schema type")
	if k.hash.Kind != hash {
		return mismatch
	}
	if k.sort == nil {
		return nil
	}
	if _, prefix := k.sort.(beginsWith); prefix && sort == item.N {
		return mismatch
	}
	for _, o := range operandsOf(k.sort)[1:] {
		if o.(literal).Kind != sort {
			return mismatch
		}
	}
	return nil
}

// operandsOf are the operands of a term that key conditions allow; nil for any other.
func operandsOf(term predicate) []operand {
	switch t := term.(type) {
	case comparison:
		if t.operator != "<>" {
			return []operand{t.left, t.right}
		}
	case between:
		return []operand{t.value, t.low, t.high}
	case beginsWith:
		return []operand{t.value, t.prefix}
	}
	return nil
}

// keyTerm returns the attribute that a term of a key condition is about; the term must
// be of a kind that key conditions allow.
func keyTerm(term predicate) (name string, ok bool) {
	operands := operandsOf(term)
	if operands == nil {
		return "", false
	}
	target, isPath := operands[0].(path)
	if !isPath || len(target) != 1 {
		return "", false
	}
	for _, o := range operands[1:] {
		if _, isLiteral := o.(literal); !isLiteral {
			return "", false
		}
	}
	return target[0].name, true
}
