package expression

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// KeyCondition is a parsed KeyConditionExpression: one partition key, and a range of sort keys.
type KeyCondition struct {
	hash []attribute.Value
	sort []predicate // empty: the whole partition
}

// Hash returns the value of each attribute of the partition key.
func (k *KeyCondition) Hash() []attribute.Value { return k.hash }

// Match reports whether an item of the partition is in the range of sort keys.
func (k *KeyCondition) Match(it attribute.Item) bool {
	return !slices.ContainsFunc(k.sort, func(term predicate) bool { return !term.holds(it) })
}

// ParseKeyCondition parses a KeyConditionExpression for a table or index. Hash and sort are the
// attributes of its partition key and sort key; sort is empty if it has no sort key.
func ParseKeyCondition(text string, hash, sort []string, b *Bindings) (*KeyCondition, error) {
	const kind = "KeyConditionExpression"
	c, err := ParseCondition(kind, text, b)
	if err != nil {
		return nil, err
	}
	terms := map[string]predicate{}
	for _, term := range conjuncts(c.root) {
		term = turned(term)
		name, ok := keyTerm(term)
		if !ok {
			return nil, badKeyTerm(term)
		}
		if terms[name] != nil && (slices.Contains(hash, name) || slices.Contains(sort, name)) {
			return nil, refuse("KeyConditionExpressions must only contain one condition per key")
		}
		terms[name] = term
	}
	return ofKeys(terms, hash, sort)
}

// ofKeys makes a key condition from the terms of each attribute. It removes the used terms from the
// map. Each attribute of the partition key needs an equality. The given attributes of the sort key
// must be the first ones. Only the last given attribute may have another comparison
// than equality.
func ofKeys(terms map[string]predicate, hash, sort []string) (*KeyCondition, error) {
	k := &KeyCondition{}
	for _, name := range hash {
		term, found := terms[name]
		if !found {
			return nil, refuse("Query condition missed key schema element: %s", name)
		}
		equality, ok := equalTo(term)
		if !ok {
			return nil, refuse("Query key condition not supported")
		}
		delete(terms, name)
		k.hash = append(k.hash, equality)
	}
	for _, name := range sort {
		term, found := terms[name]
		if !found && len(terms) > 0 {
			return nil, refuse("Query condition missed key schema element: %s", name)
		}
		if !found {
			break
		}
		delete(terms, name)
		k.sort = append(k.sort, term)
		if _, ok := equalTo(term); !ok {
			break
		}
	}
	if len(terms) > 0 {
		return nil, refuse("Query key condition not supported")
	}
	return k, nil
}

// equalTo returns the value that a term requires its attribute to have.
func equalTo(term predicate) (attribute.Value, bool) {
	c, ok := term.(*comparison)
	if !ok || c.operator != isEqual {
		return attribute.Value{}, false
	}
	return c.right.literal, true
}

// conjuncts returns the terms that AND connects, in order.
func conjuncts(p predicate) []predicate {
	if both, ok := p.(*and); ok {
		return append(conjuncts(both.left), conjuncts(both.right)...)
	}
	return []predicate{p}
}

// turned returns the comparison with the attribute on the left.
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

// badKeyTerm returns the error for a term that key conditions do not allow.
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

// CheckTypes rejects values whose types differ from the types of the key attributes.
func (k *KeyCondition) CheckTypes(hash, sort []attribute.Kind) error {
	mismatch := refuse("One or more parameter values were invalid: Condition parameter type does not match schema type")
	for i, v := range k.hash {
		if v.Kind() != hash[i] {
			return mismatch
		}
	}
	for i, term := range k.sort {
		if _, prefix := term.(*beginsWith); prefix && sort[i] == attribute.KindN {
			return mismatch
		}
		for _, o := range operandsOf(term)[1:] {
			if o.literal.Kind() != sort[i] {
				return mismatch
			}
		}
	}
	return nil
}

// operandsOf returns the operands of a term that key conditions allow; nil for any other term.
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

// keyTerm returns the attribute that a term of a key condition restricts. It returns false if key
// conditions do not allow this kind of term.
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
