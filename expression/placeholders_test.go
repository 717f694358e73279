package expression

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Placeholders is a condition as in a request: with placeholders for all names and values.
type Placeholders struct {
	Text   string
	Names  map[string]string
	Values map[string]attribute.Value
}

// WithPlaceholders writes a condition in the other of the two languages.
func WithPlaceholders(c *Condition) Placeholders {
	p := Placeholders{Names: map[string]string{}, Values: map[string]attribute.Value{}}
	p.Text = p.predicate(c.root)
	return p
}

func (p *Placeholders) predicate(node predicate) string {
	group := func(inner predicate) string { return "(" + p.predicate(inner) + ")" }
	switch n := node.(type) {
	case *and:
		return group(n.left) + " AND " + group(n.right)
	case *or:
		return group(n.left) + " OR " + group(n.right)
	case *not:
		return "NOT " + group(n.inner)
	case *comparison:
		return p.operand(n.left) + " " + n.operator.String() + " " + p.operand(n.right)
	case *between:
		return p.operand(n.value) + " BETWEEN " + p.operand(n.low) + " AND " + p.operand(n.high)
	case *in:
		var list []string
		for _, o := range n.list {
			list = append(list, p.operand(o))
		}
		return p.operand(n.value) + " IN (" + strings.Join(list, ", ") + ")"
	case *exists:
		if n.wanted {
			return "attribute_exists(" + p.path(n.path) + ")"
		}
		return "attribute_not_exists(" + p.path(n.path) + ")"
	case *hasType:
		return "attribute_type(" + p.operand(n.value) + ", " + p.value(attribute.String(n.kind.String())) + ")"
	case *beginsWith:
		return "begins_with(" + p.operand(n.value) + ", " + p.operand(n.prefix) + ")"
	case *contains:
		return "contains(" + p.operand(n.value) + ", " + p.operand(n.part) + ")"
	}
	panic(fmt.Sprintf("a condition has a %T", node))
}

func (p *Placeholders) operand(o operand) string {
	text := ""
	if o.path != nil {
		text = p.path(o.path)
	} else {
		text = p.value(o.literal)
	}
	if o.size {
		return "size(" + text + ")"
	}
	return text
}

func (p *Placeholders) path(steps path) string {
	text := ""
	for i, s := range steps {
		switch {
		case s.isIndex():
			text += "[" + strconv.Itoa(s.index) + "]"
			continue
		case i > 0:
			text += "."
		}
		name := "#n" + strconv.Itoa(len(p.Names))
		p.Names[name] = s.name
		text += name
	}
	return text
}

func (p *Placeholders) value(v attribute.Value) string {
	name := ":v" + strconv.Itoa(len(p.Values))
	p.Values[name] = v
	return name
}
