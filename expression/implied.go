package expression

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// This file derives facts that hold for every item that a condition matches. It uses the parts that
// AND joins at the condition's top level. With these facts a caller can show that two conditions,
// or two keys, cannot overlap.

// Fixed returns the only value that a top-level attribute has in every item that matches. It
// returns false if the condition does not fix the value.
func (c *Condition) Fixed(attr string) (v attribute.Value, ok bool) {
	c.conjuncts(func(p predicate) {
		if same, is := p.(*comparison); is && same.operator == isEqual {
			for _, pair := range [][2]*operand{{&same.left, &same.right}, {&same.right, &same.left}} {
				if pair[0].is(attr) && pair[1].path == nil && !pair[1].size {
					v, ok = pair[1].literal, true
				}
			}
		}
	})
	return v, ok
}

// Prefix returns the prefix that a top-level attribute's text has in every item that matches. It
// returns false if the condition requires no prefix.
func (c *Condition) Prefix(attr string) (prefix string, ok bool) {
	c.conjuncts(func(p predicate) {
		begins, is := p.(*beginsWith)
		if is && begins.value.is(attr) && begins.prefix.path == nil && !begins.prefix.size && len(begins.prefix.literal.Text()) >= len(prefix) {
			prefix, ok = begins.prefix.literal.Text(), true
		}
	})
	if v, fixed := c.Fixed(attr); fixed && strings.HasPrefix(v.Text(), prefix) {
		return v.Text(), true
	}
	return prefix, ok
}

// Equal returns the top-level attributes that have the same value as attr in every item that
// matches.
func (c *Condition) Equal(attr string) []string {
	var names []string
	c.conjuncts(func(p predicate) {
		same, is := p.(*comparison)
		if !is || same.operator != isEqual {
			return
		}
		for _, pair := range [][2]*operand{{&same.left, &same.right}, {&same.right, &same.left}} {
			if pair[0].is(attr) && len(pair[1].path) == 1 && !pair[1].size {
				names = append(names, pair[1].path[0].name)
			}
		}
	})
	return names
}

// is reports whether the operand is the top-level attribute.
func (o *operand) is(attr string) bool {
	return len(o.path) == 1 && !o.size && o.path[0].name == attr
}

// conjuncts calls f for the parts of the condition that are joined by AND.
func (c *Condition) conjuncts(f func(predicate)) {
	var walk func(predicate)
	walk = func(p predicate) {
		if both, is := p.(*and); is {
			walk(both.left)
			walk(both.right)
			return
		}
		f(p)
	}
	walk(c.root)
}
