package expression

import (
	"cmp"
	"slices"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// edit writes one place of an item: a value, or nothing to remove what is there.
type edit struct {
	path  path
	value *item.Value
}

// Apply returns the item as the update makes it; the item given is not changed. Every
// operand sees the item as it was.
func (u *Update) Apply(it item.Item) (item.Item, error) {
	edits, err := u.edits(it)
	if err != nil {
		return nil, err
	}
	root := item.Value{Kind: item.M, Map: it}
	for _, e := range edits {
		if root, err = e.apply(root, e.path); err != nil {
			return nil, err
		}
	}
	return root.Map, nil
}

// edits works out all new values first, then orders the edits so that indexes keep
// their meaning: elements beyond the end of a list are appended in the order of their
// indexes, and elements are removed last, from the highest index down.
func (u *Update) edits(it item.Item) ([]edit, error) {
	var writes, removals []edit
	for _, a := range u.sets {
		v, found, err := a.value.eval(it)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, errMissingAttribute()
		}
		writes = append(writes, edit{a.path, &v})
	}
	for _, a := range u.adds {
		v, err := a.added(it)
		if err != nil {
			return nil, err
		}
		writes = append(writes, edit{a.path, &v})
	}
	for _, a := range u.deletes {
		rest, found, err := a.deleted(it)
		if err != nil {
			return nil, err
		}
		if found && rest == nil {
			removals = append(removals, edit{a.path, nil})
		} else if found {
			writes = append(writes, edit{a.path, rest})
		}
	}
	for _, target := range u.removes {
		removals = append(removals, edit{target, nil})
	}
	slices.SortStableFunc(writes, func(a, b edit) int { return comparePaths(a.path, b.path) })
	slices.SortStableFunc(removals, func(a, b edit) int { return comparePaths(b.path, a.path) })
	return append(writes, removals...), nil
}

// comparePaths orders paths by their indexes where they differ in one; elsewhere any
// order would do.
func comparePaths(p, q path) int {
	return slices.CompareFunc(p, q, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.name, b.name))
	})
}

// apply returns the container v with the edit made at the rest of its path.
func (e edit) apply(v item.Value, rest path) (item.Value, error) {
	s := rest[0]
	if s.isIndex() {
		return e.applyToList(v, s.index, rest)
	}
	if v.Kind != item.M {
		return v, errPath()
	}
	if len(rest) == 1 {
		if e.value == nil {
			v.Map = v.Map.Without(s.name)
		} else {
			v.Map = v.Map.With(s.name, *e.value)
		}
		return v, nil
	}
	inner, found := v.Map.Get(s.name)
	if !found {
		return v, errPath()
	}
	inner, err := e.apply(inner, rest[1:])
	v.Map = v.Map.With(s.name, inner)
	return v, err
}

func (e edit) applyToList(v item.Value, index int, rest path) (item.Value, error) {
	if v.Kind != item.L {
		return v, errPath()
	}
	beyond := index >= len(v.List)
	if len(rest) == 1 {
		switch {
		case e.value == nil && beyond:
		case e.value == nil:
			v.List = slices.Delete(slices.Clone(v.List), index, index+1)
		case beyond:
			v.List = append(slices.Clone(v.List), *e.value)
		default:
			v.List = slices.Clone(v.List)
			v.List[index] = *e.value
		}
		return v, nil
	}
	if beyond {
		return v, errPath()
	}
	inner, err := e.apply(v.List[index], rest[1:])
	v.List = slices.Clone(v.List)
	v.List[index] = inner
	return v, err
}

func errPath() error {
	return refuse("The document path provided in the update expression is invalid for update")
}

// added is the value that an ADD leaves: a sum, or a union of sets.
func (a memberAction) added(it item.Item) (item.Value, error) {
	old, found := a.path.lookup(it)
	if !found {
		return a.value, nil
	}
	if old.Kind != a.value.Kind {
		return item.Value{}, errOperandType()
	}
	if old.Kind == item.N {
		return add(old, a.value)
	}
	members := slices.Clone(old.Set)
	for _, m := range a.value.Set {
		if !slices.Contains(old.Set, m) {
			members = append(members, m)
		}
	}
	item.SortSet(old.Kind, members)
	return item.Value{Kind: old.Kind, Set: members}, nil
}

// deleted is the set that a DELETE leaves, nil if none of its members is left, because
// there are no empty sets; found tells whether there was a set.
func (a memberAction) deleted(it item.Item) (rest *item.Value, found bool, err error) {
	old, found := a.path.lookup(it)
	if !found {
		return nil, false, nil
	}
	if old.Kind != a.value.Kind {
		return nil, false, errOperandType()
	}
	members := slices.DeleteFunc(slices.Clone(old.Set), func(m string) bool { return slices.Contains(a.value.Set, m) })
	if len(members) == 0 {
		return nil, true, nil
	}
	return &item.Value{Kind: old.Kind, Set: members}, true, nil
}
