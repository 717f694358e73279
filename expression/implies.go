package expression

import (
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Implies reports whether every item that matches c certainly matches the condition `other` too.
// False means that this is not known. It understands AND and OR, equal parts, fixed values of an
// attribute and longer prefixes. It also uses the fact that a compared attribute must exist. If
// `other` is not a *Condition, it returns false.
func (c *Condition) Implies(other any) bool {
	o, known := other.(*Condition)
	return known && implication{}.follows(c.root, o.root)
}

// implication caches the results for pairs of parts. The number of pairs is at most the product of
// the operators on both sides. The number of paths that lead to the pairs is much larger.
type implication map[[2]predicate]bool

func (known implication) follows(from, to predicate) bool {
	pair := [2]predicate{from, to}
	if answer, looked := known[pair]; looked {
		return answer
	}
	answer := known.reason(from, to)
	known[pair] = answer
	return answer
}

func (known implication) reason(from, to predicate) bool {
	if both, is := to.(*and); is {
		return known.follows(from, both.left) && known.follows(from, both.right)
	}
	if either, is := from.(*or); is {
		return known.follows(either.left, to) && known.follows(either.right, to)
	}
	if both, is := from.(*and); is && (known.follows(both.left, to) || known.follows(both.right, to)) {
		return true
	}
	if either, is := to.(*or); is {
		return known.follows(from, either.left) || known.follows(from, either.right)
	}
	return string(from.appendText(nil)) == string(to.appendText(nil)) || byValues(from, to) || byBeginning(from, to) || byPresence(from, to)
}

// byValues compares two conditions. It returns true if the first limits an attribute to some values
// and the second holds for each of these values. The second condition must use no other attribute.
func byValues(from, to predicate) bool {
	attr, values := fixing(from)
	if len(values) == 0 || slices.ContainsFunc(comparedBy(to), func(o operand) bool { return o.path != nil && o.path[0].name != attr }) {
		return false
	}
	return !slices.ContainsFunc(values, func(v attribute.Value) bool {
		return !to.holds(attribute.NewItem([]attribute.Attribute{{Name: attr, Value: v}}))
	})
}

// fixing returns the scalars to which a part limits a top-level attribute. It returns none if the
// part does not limit one.
func fixing(p predicate) (attr string, values []attribute.Value) {
	var value operand
	var list []operand
	switch p := p.(type) {
	case *comparison:
		if value, list = p.left, []operand{p.right}; value.path == nil {
			value, list = p.right, []operand{p.left}
		}
		if p.operator != isEqual {
			return "", nil
		}
	case *in:
		value, list = p.value, p.list
	}
	if len(value.path) != 1 || value.size {
		return "", nil
	}
	for _, o := range list {
		if o.path != nil || o.size || o.literal.Kind() > attribute.KindNULL {
			return "", nil
		}
		values = append(values, o.literal)
	}
	return value.path[0].name, values
}

// byBeginning uses two facts. A value with a prefix also has every shorter prefix of it, and it has
// the prefix's type.
func byBeginning(from, to predicate) bool {
	begins, is := from.(*beginsWith)
	if !is || begins.prefix.path != nil || begins.value.path == nil || begins.value.size {
		return false
	}
	kind := begins.prefix.literal.Kind()
	switch to := to.(type) {
	case *beginsWith:
		return to.prefix.path == nil && to.prefix.literal.Kind() == kind && samePath(to.value, begins.value) &&
			strings.HasPrefix(begins.prefix.literal.Text(), to.prefix.literal.Text())
	case *hasType:
		return to.kind == kind && samePath(to.value, begins.value)
	}
	return false
}

// byPresence uses one fact: a part that can be true only for an existing value implies that the
// attribute exists.
func byPresence(from, to predicate) bool {
	there, is := to.(*exists)
	if !is || !there.wanted {
		return false
	}
	var needed []operand
	switch p := from.(type) {
	case *comparison:
		if p.operator != isDifferent {
			needed = []operand{p.left, p.right}
		}
	case *in: // the item needs to equal one value of the list only, so those may be missing
		needed = []operand{p.value}
	case *between, *hasType, *beginsWith, *contains:
		needed = comparedBy(from)
	}
	return slices.ContainsFunc(needed, func(o operand) bool { return samePath(operand{path: o.path}, operand{path: there.path}) })
}

func samePath(a, b operand) bool {
	return a.path != nil && b.path != nil && a.size == b.size && string(a.path.appendText(nil)) == string(b.path.appendText(nil))
}

// comparedBy returns all operands of a part.
func comparedBy(p predicate) []operand {
	switch p := p.(type) {
	case *and:
		return slices.Concat(comparedBy(p.left), comparedBy(p.right))
	case *or:
		return slices.Concat(comparedBy(p.left), comparedBy(p.right))
	case *not:
		return comparedBy(p.inner)
	case *comparison:
		return []operand{p.left, p.right}
	case *between:
		return []operand{p.value, p.low, p.high}
	case *in:
		return append([]operand{p.value}, p.list...)
	case *exists:
		return []operand{{path: p.path}}
	case *hasType:
		return []operand{p.value}
	case *beginsWith:
		return []operand{p.value, p.prefix}
	case *contains:
		return []operand{p.value, p.part}
	}
	return nil
}
