package expression

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// edit changes one place of an item: it writes a value, or removes the place if the value is nil.
type edit struct {
	path  path
	value *attribute.Value
}

// Apply returns the updated item. It does not change the given item. Every operand reads the given
// item, not the updated one.
func (u *Update) Apply(it attribute.Item) (attribute.Item, error) {
	edits, err := u.edits(it)
	if err != nil {
		return attribute.Item{}, err
	}
	members := it.Attributes()
	for _, e := range edits {
		if members, err = e.applyToMap(members, e.path); err != nil {
			return attribute.Item{}, err
		}
	}
	return attribute.NewItem(members), nil
}

// edits computes all new values first. Then it orders the edits so that indexes stay valid.
// Elements beyond the end of a list are appended in the order of their indexes. Elements are
// removed last, from the highest index down.
func (u *Update) edits(it attribute.Item) ([]edit, error) {
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

// comparePaths orders paths by the first index in which they differ. The order of other paths does
// not matter.
func comparePaths(p, q path) int {
	return slices.CompareFunc(p, q, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.index, b.index), cmp.Compare(a.name, b.name))
	})
}

// apply returns the container v with the edit made at the rest of its path.
func (e edit) apply(v attribute.Value, rest path) (attribute.Value, error) {
	switch {
	case rest[0].isIndex() && v.Kind() == attribute.KindL:
		list, err := e.applyToList(v.Elements(), rest)
		return attribute.List(list), err
	case !rest[0].isIndex() && v.Kind() == attribute.KindM:
		members, err := e.applyToMap(v.Members(), rest)
		return attribute.Map(members), err
	}
	return attribute.Value{}, errPath()
}

// applyToMap returns a copy of the members with the edit made.
func (e edit) applyToMap(members []attribute.Attribute, rest path) ([]attribute.Attribute, error) {
	name := rest[0].name
	i, found := slices.BinarySearchFunc(members, name, func(a attribute.Attribute, name string) int { return strings.Compare(a.Name, name) })
	if len(rest) == 1 {
		switch {
		case e.value == nil && !found:
			return members, nil
		case e.value == nil:
			return slices.Delete(slices.Clone(members), i, i+1), nil
		case !found:
			return slices.Insert(slices.Clone(members), i, attribute.Attribute{Name: name, Value: *e.value}), nil
		}
	}
	if !found {
		return nil, errPath()
	}
	value := e.value
	if len(rest) > 1 {
		inner, err := e.apply(members[i].Value, rest[1:])
		if err != nil {
			return nil, err
		}
		value = &inner
	}
	changed := slices.Clone(members)
	changed[i].Value = *value
	return changed, nil
}

// applyToList returns a copy of the elements with the edit made.
func (e edit) applyToList(list []attribute.Value, rest path) ([]attribute.Value, error) {
	index := rest[0].index
	beyond := index >= len(list)
	if len(rest) == 1 {
		switch {
		case e.value == nil && beyond:
			return list, nil
		case e.value == nil:
			return slices.Delete(slices.Clone(list), index, index+1), nil
		case beyond:
			return append(slices.Clone(list), *e.value), nil
		}
	}
	if beyond {
		return nil, errPath()
	}
	value := e.value
	if len(rest) > 1 {
		inner, err := e.apply(list[index], rest[1:])
		if err != nil {
			return nil, err
		}
		value = &inner
	}
	changed := slices.Clone(list)
	changed[index] = *value
	return changed, nil
}

func errPath() error {
	return refuse("The document path provided in the update expression is invalid for update")
}

// added returns the result of an ADD: a sum, or a union of sets.
func (a memberAction) added(it attribute.Item) (attribute.Value, error) {
	old, found := a.path.lookup(it)
	if !found {
		return a.value, nil
	}
	if old.Kind() != a.value.Kind() {
		return attribute.Value{}, errOperandType()
	}
	if old.Kind() == attribute.KindN {
		return add(old.Text(), a.value.Text())
	}
	members := slices.Clone(old.Elements())
	for _, m := range a.value.Elements() {
		if !slices.ContainsFunc(old.Elements(), m.Equal) {
			members = append(members, m)
		}
	}
	return setOf(old.Kind(), members)
}

// setOf returns the set of a kind with these members, which are distinct values of its member type.
func setOf(kind attribute.Kind, members []attribute.Value) (attribute.Value, error) {
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = m.Text()
	}
	return attribute.SetOf(kind, texts)
}

// deleted returns the set after a DELETE. It returns nil if the set has no members left, because
// sets are never empty. The result `found` reports whether there was a set.
func (a memberAction) deleted(it attribute.Item) (rest *attribute.Value, found bool, err error) {
	old, found := a.path.lookup(it)
	if !found {
		return nil, false, nil
	}
	if old.Kind() != a.value.Kind() {
		return nil, false, errOperandType()
	}
	members := slices.DeleteFunc(slices.Clone(old.Elements()), func(m attribute.Value) bool { return slices.ContainsFunc(a.value.Elements(), m.Equal) })
	if len(members) == 0 {
		return nil, true, nil
	}
	left, err := setOf(old.Kind(), members)
	return &left, true, err
}
