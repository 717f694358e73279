package expression

import (
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// step is one part of a document path: a name, or an index of a list.
type step struct {
	name  string
	index int // -1 if the step is a name
}

func (s step) isIndex() bool { return s.index >= 0 }

// path is a document path, such as a.b[3].c; its first step is a name.
type path []step

// String returns the path in the notation of the service's messages: [a, b, [3], c].
func (p path) String() string {
	parts := make([]string, len(p))
	for i, s := range p {
		if parts[i] = s.name; s.isIndex() {
			parts[i] = fmt.Sprintf("[%d]", s.index)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// lookup finds the value at a path.
func (p path) lookup(it attribute.Item) (attribute.Value, bool) {
	v, found := it.Get(p[0].name)
	for _, s := range p[1:] {
		if !found {
			return attribute.Value{}, false
		}
		switch {
		case s.isIndex() && v.Kind() == attribute.KindL && s.index < len(v.Elements()):
			v = v.Elements()[s.index]
		case !s.isIndex() && v.Kind() == attribute.KindM:
			v, found = v.Member(s.name)
		default:
			return attribute.Value{}, false
		}
	}
	return v, found
}

// relation reports whether two paths overlap or conflict. One expression must not use such paths
// together. Two paths overlap if one is a prefix of the other. Two paths conflict if they treat one
// place as a map and as a list.
func relation(p, q path) (overlap, conflict bool) {
	for i := range min(len(p), len(q)) {
		if p[i] == q[i] {
			continue
		}
		return false, p[i].isIndex() != q[i].isIndex()
	}
	return true, false
}

// checkPaths rejects paths that overlap or conflict.
func checkPaths(kind string, paths []path) error {
	for i, p := range paths {
		for _, q := range paths[:i] {
			overlap, conflict := relation(p, q)
			if overlap {
				return failure(kind, "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", q, p)
			}
			if conflict {
				return failure(kind, "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", q, p)
			}
		}
	}
	return nil
}
