package expression

import "github.com/dynamodb-bigtable/replicator/cdc"

// KeyCondition is what a KeyConditionExpression asks for: one partition key, and a range
// of sort keys.
type KeyCondition struct {
	hash cdc.Value
	sort predicate // nil: all of the partition
}

// Hash is the value of the partition key.
func (k *KeyCondition) Hash() cdc.Value { return k.hash }

// Match tells whether an item of that partition is in the range of sort keys.
func (k *KeyCondition) Match(it cdc.Item) bool { return k.sort == nil || k.sort.holds(it) }

// ParseKeyCondition parses a KeyConditionExpression for a table with these key
// attributes; sort is empty if the table has no sort key.
func ParseKeyCondition(text, hash, sort string, b *Bindings) (*KeyCondition, error) {
	const kind = "KeyConditionExpression"
	c, err := ParseCondition(kind, text, b)
	if err != nil {
		return nil, err
	}
	k := &KeyCondition{}
	other := false
	for _, term := range conjuncts(c.root) {
		term = turned(term)
		name, ok := keyTerm(term)
		if !ok {
			return nil, badKeyTerm(term)
		}
		equality, isEquality := term.(*comparison)
		switch {
		case name == hash && k.hash.Kind() != cdc.KindNone, name == sort && k.sort != nil:
			return nil, refuse("KeyConditionExpressions must only contain one condition per key")
		case name == hash && isEquality && equality.operator == isEqual:
			k.hash = equality.right.literal
		case name == hash:
			return nil, refuse("Query key condition not supported")
		case name == sort && sort != "":
			k.sort = term
		default:
			other = true
		}
	}
	switch {
	case k.hash.Kind() == cdc.KindNone:
		return nil, refuse("Query condition missed key schema element: %s", hash)
	case other && sort != "" && k.sort == nil:
		return nil, refuse("Query condition missed key schema element: %s", sort)
	case other:
		return nil, refuse("Query key condition not supported")
	}
	return k, nil
}

// conjuncts are the terms that AND connects, in order.
func conjuncts(p predicate) []predicate {
	if both, ok := p.(*and); ok {
		return append(conjuncts(both.left), conjuncts(both.right)...)
	}
	return []predicate{p}
}

// turned is a comparison with its attribute on the left.
func turned(term predicate) predicate {
	c, ok := term.(*comparison)
	if !ok || !c.left.isLiteral() || !c.right.isPath() {
		return term
	}
	mirror := map[operator]operator{isLess: isGreater, isGreater: isLess, isAtMost: isAtLeast, isAtLeast: isAtMost}
	op, ordered := mirror[c.operator]
	if !ordered {
		op = c.operator
	}
	return &comparison{op, c.right, c.left}
}

// badKeyTerm is the error for a term that key conditions do not allow.
func badKeyTerm(term predicate) error {
	for _, o := range operandsOf(term) {
		if len(o.path) > 1 {
			return refuse("KeyConditionExpressions cannot have conditions on nested attributes")
		}
	}
	name := ""
	switch t := term.(type) {
	case *or:
		name = "OR"
	case *not:
		name = "NOT"
	case *in:
		name = "IN"
	case *contains:
		name = "contains"
	case *hasType:
		name = "attribute_type"
	case *exists:
		if name = "attribute_exists"; !t.wanted {
			name = "attribute_not_exists"
		}
	case *comparison:
		if t.operator != isDifferent {
			return refuse("Invalid condition in KeyConditionExpression: Multiple attributes used in a single condition")
		}
		name = "<>"
	default:
		return refuse("Invalid condition in KeyConditionExpression: Multiple attributes used in a single condition")
	}
	return refuse("Invalid operator used in KeyConditionExpression: %s", name)
}

// CheckTypes refuses values whose types are not those of the key attributes.
func (k *KeyCondition) CheckTypes(hash, sort cdc.Kind) error {
	mismatch := refuse("One or more parameter values were invalid: Condition parameter type does not match schema type")
	if k.hash.Kind() != hash {
		return mismatch
	}
	if k.sort == nil {
		return nil
	}
	if _, prefix := k.sort.(*beginsWith); prefix && sort == cdc.KindN {
		return mismatch
	}
	for _, o := range operandsOf(k.sort)[1:] {
		if o.literal.Kind() != sort {
			return mismatch
		}
	}
	return nil
}

// operandsOf are the operands of a term that key conditions allow; nil for any other.
func operandsOf(term predicate) []operand {
	switch t := term.(type) {
	case *comparison:
		if t.operator != isDifferent {
			return []operand{t.left, t.right}
		}
	case *between:
		return []operand{t.value, t.low, t.high}
	case *beginsWith:
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
	if !operands[0].isPath() || len(operands[0].path) != 1 {
		return "", false
	}
	for i := range operands[1:] {
		if !operands[1+i].isLiteral() {
			return "", false
		}
	}
	return operands[0].path[0].name, true
}
