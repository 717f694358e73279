package expression

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// Projection is a choice of parts of an item.
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
		return nil, p.unexpected()
	}
	return &Projection{paths}, checkPaths(kind, paths)
}

// Written is the projection on what the update writes to.
func (u *Update) Written() *Projection { return &Projection{u.paths()} }

// Of returns the chosen parts of the item that are there, in the structure around them;
// of a list only the chosen elements, in order.
func (p *Projection) Of(it item.Item) item.Item {
	root := item.Value{Kind: item.M, Map: it}
	chosen, _ := choose(root, p.paths)
	return chosen.Map
}

// choose keeps of a value what the paths, relative to it, lead to. An empty path keeps
// all of it.
func choose(v item.Value, paths []path) (item.Value, bool) {
	if slices.ContainsFunc(paths, func(p path) bool { return len(p) == 0 }) {
		return v, true
	}
	out := item.Value{Kind: v.Kind}
	found := false
	switch v.Kind {
	case item.M:
		out.Map = item.Item{}
		for _, a := range v.Map {
			inner := following(paths, func(s step) bool { return !s.isIndex() && s.name == a.Name })
			if kept, ok := choose(a.Value, inner); ok {
				out.Map = append(out.Map, item.Attribute{Name: a.Name, Value: kept})
				found = true
			}
		}
	case item.L:
		out.List = []item.Value{}
		for i, e := range v.List {
			inner := following(paths, func(s step) bool { return s.isIndex() && s.index == i })
			if kept, ok := choose(e, inner); ok {
				out.List = append(out.List, kept)
				found = true
			}
		}
	}
	return out, found
}

// following are the rests of the paths whose first step qualifies.
func following(paths []path, qualifies func(step) bool) []path {
	var rests []path
	for _, p := range paths {
		if qualifies(p[0]) {
			rests = append(rests, p[1:])
		}
	}
	return rests
}
