package expression

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Projection selects parts of an item.
type Projection struct{ paths []path }

// ParseProjection parses a ProjectionExpression.
func ParseProjection(text string, b *Bindings) (*Projection, error) {
	const kind = "ProjectionExpression"
	p, err := newParser(kind, text, b)
	if err != nil {
		return nil, err
	}
	var paths []path
	for {
		target, err := p.path()
		if err != nil {
			return nil, err
		}
		paths = append(paths, target)
		if !p.op(",") {
			break
		}
	}
	if p.peek().kind != tokenEnd {
		return nil, p.unexpected("the end")
	}
	return &Projection{paths}, checkPaths(kind, paths)
}

// Attributes returns the names of the top-level attributes that the projection uses, each once.
func (p *Projection) Attributes() []string {
	var names []string
	for _, chosen := range p.paths {
		if !slices.Contains(names, chosen[0].name) {
			names = append(names, chosen[0].name)
		}
	}
	return names
}

// Written returns the projection on the paths that the update writes.
func (u *Update) Written() *Projection { return &Projection{u.paths()} }

// Of returns the selected parts that the item has, with the structure around them. Of a list it
// returns only the selected elements, in order.
func (p *Projection) Of(it attribute.Item) attribute.Item {
	chosen, _ := chooseMembers(it.Attributes(), p.paths)
	return attribute.NewItem(chosen)
}

// choose returns the parts of a value at the paths. The paths are relative to the value. An empty
// path selects the whole value.
func choose(v attribute.Value, paths []path) (attribute.Value, bool) {
	if slices.ContainsFunc(paths, func(p path) bool { return len(p) == 0 }) {
		return v, true
	}
	switch v.Kind() {
	case attribute.KindM:
		members, found := chooseMembers(v.Members(), paths)
		return attribute.Map(members), found
	case attribute.KindL:
		var list []attribute.Value
		for i, e := range v.Elements() {
			inner := following(paths, func(s step) bool { return s.isIndex() && s.index == i })
			if kept, ok := choose(e, inner); ok {
				list = append(list, kept)
			}
		}
		return attribute.List(list), len(list) > 0
	}
	return attribute.Value{}, false
}

func chooseMembers(members []attribute.Attribute, paths []path) (chosen []attribute.Attribute, found bool) {
	for _, a := range members {
		inner := following(paths, func(s step) bool { return !s.isIndex() && s.name == a.Name })
		if kept, ok := choose(a.Value, inner); ok {
			chosen = append(chosen, attribute.Attribute{Name: a.Name, Value: kept})
		}
	}
	return chosen, len(chosen) > 0
}

// following returns the paths that have a qualifying first step, without that step.
func following(paths []path, qualifies func(step) bool) []path {
	var rests []path
	for _, p := range paths {
		if qualifies(p[0]) {
			rests = append(rests, p[1:])
		}
	}
	return rests
}
