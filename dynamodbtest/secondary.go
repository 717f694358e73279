package dynamodbtest

import (
	"bytes"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// Types of projections, as Projection names them.
const (
	projectAll     = "ALL"
	projectKeys    = "KEYS_ONLY"
	projectInclude = "INCLUDE"
)

// secondaryIndex is a global or local secondary index with its entries. Its definition never
// changes. The table's mu guards its entries and its capacity. An item that lacks one of the
// index's key attributes has no entry.
type secondaryIndex struct {
	name     string
	global   bool
	keys     keySchema
	project  string
	include  []string // the attributes for projectInclude, as given
	capacity billing
	entries  index
}

// projects reports whether entries hold the attribute.
func (x *secondaryIndex) projects(base keySchema, name string) bool {
	return x.project == projectAll || x.keys.contains(name) || base.contains(name) || slices.Contains(x.include, name)
}

// projected returns the part of an item that an entry holds.
func (x *secondaryIndex) projected(base keySchema, it attribute.Item, whole *stored) *stored {
	if x.project == projectAll {
		return whole
	}
	var kept []attribute.Attribute
	for _, a := range it.Attributes() {
		if x.projects(base, a.Name) {
			kept = append(kept, a)
		}
	}
	view := attribute.NewItem(kept)
	return &stored{wire: attribute.AppendItem(nil, view), size: item.Size(view)}
}

// order returns the order of an item among the entries. It consists of the hash of the index's
// partition key, the sort key attribute by attribute, and the item's own order in the table. The
// last part is needed because many items may have the same index key. order returns false if the
// item is not in the index.
func (x *secondaryIndex) order(it attribute.Item, tableOrder string) (string, bool) {
	hash, fit := keyValues(it, x.keys.hash, maxHashKeySize)
	if !fit {
		return "", false
	}
	sort, fit := keyValues(it, x.keys.sort, maxSortKeySize)
	if !fit {
		return "", false
	}
	order, _ := hashPrefix(hashText(hash))
	for _, v := range sort {
		order = appendTerminated(order, appendSortKey(nil, v))
	}
	return string(append(order, tableOrder...)), true
}

// keyValues returns the values of an item's key attributes. It returns false if the values do not
// form a key. They form no key if a value is missing, empty or of another type, or if the values
// together are too long.
func keyValues(it attribute.Item, attributes []keyAttribute, limit int) ([]attribute.Value, bool) {
	values := make([]attribute.Value, 0, len(attributes))
	size := 0
	for _, a := range attributes {
		v, found := it.Get(a.name)
		if !found || v.Kind() != a.kind || v.Text() == "" {
			return nil, false
		}
		size += item.ValueSize(v)
		values = append(values, v)
	}
	return values, size <= limit
}

// appendTerminated appends bytes and a terminator. So bytes that are appended later do not change
// the order.
func appendTerminated(dst, text []byte) []byte {
	for _, c := range text {
		if dst = append(dst, c); c == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 0)
}

// indexWrite is the cost of a write for an index.
type indexWrite struct {
	index *secondaryIndex
	units float64
}

// update replaces the entry of an item. Either image may be missing. It returns the capacity units.
// A new, changed or removed entry costs one write, an entry that moves costs two, and an unchanged
// entry costs none.
func (x *secondaryIndex) update(base keySchema, tableOrder string, before, after image) float64 {
	from, was := before.order(x, tableOrder)
	to, is := after.order(x, tableOrder)
	var old *stored
	if was {
		old = x.entries.get(from)
	}
	var entry *stored
	if is {
		entry = x.projected(base, after.item, after.stored)
	}
	switch {
	case was && is && from == to && bytes.Equal(old.wire, entry.wire):
		if entry == after.stored {
			x.entries.set(to, entry) // keep the bytes that the table holds too, instead of equal bytes
		}
		return 0
	case was && is && from == to:
		x.entries.set(to, entry)
		return writeUnits(max(old.size, entry.size))
	}
	units := 0.0
	if was {
		x.entries.delete(from)
		units += writeUnits(old.size)
	}
	if is {
		x.entries.set(to, entry)
		units += writeUnits(entry.size)
	}
	return units
}

// image is an item with its attributes; the zero image means that there is no item.
type image struct {
	stored *stored
	item   attribute.Item
}

func imageOf(s *stored) (image, error) {
	if s == nil {
		return image{}, nil
	}
	it, err := item.Parse(s.wire)
	return image{s, it}, err
}

func (i image) order(x *secondaryIndex, tableOrder string) (string, bool) {
	if i.stored == nil {
		return "", false
	}
	return x.order(i.item, tableOrder)
}

// updateIndexes updates all indexes to the new image of an item. The caller holds mu.
func (t *table) updateIndexes(key primaryKey, old, updated *stored) []indexWrite {
	indexes := t.indexes()
	if len(indexes) == 0 {
		return nil
	}
	before, err := imageOf(old)
	after, failed := imageOf(updated)
	if err != nil || failed != nil {
		panic("dynamodbtest: an item at rest does not parse") // AppendJSON wrote it
	}
	var writes []indexWrite
	for _, x := range indexes {
		if units := x.update(t.schema, key.order, before, after); units > 0 {
			writes = append(writes, indexWrite{x, units})
		}
	}
	return writes
}

// fill adds the entries of all items to a new index. As in DynamoDB, items with unsuitable key
// attributes are left out. The caller holds mu.
func (t *table) fill(x *secondaryIndex) error {
	var failed error
	t.items.ascend("", false, func(e entry) bool {
		after, err := imageOf(e.item)
		if err != nil {
			failed = err
			return false
		}
		x.update(t.schema, e.key, image{}, after)
		return true
	})
	return failed
}

// indexes returns the table's secondary indexes. Global indexes come first. The list is only ever
// replaced as a whole. So a request can be validated before the table is locked.
func (t *table) indexes() []*secondaryIndex {
	if list := t.secondary.Load(); list != nil {
		return *list
	}
	return nil
}

// findIndex returns the named index.
func (t *table) findIndex(name string) (*secondaryIndex, error) {
	for _, x := range t.indexes() {
		if x.name == name {
			return x, nil
		}
	}
	return nil, validation("The table does not have the specified index: %s", name)
}

func (t *table) hasLocalIndex() bool {
	return slices.ContainsFunc(t.indexes(), func(x *secondaryIndex) bool { return !x.global })
}

// checkIndexKeys rejects an item whose value for the key of an index has a wrong type, is empty, or
// is too large.
func (t *table) checkIndexKeys(it attribute.Item) error {
	for _, x := range t.indexes() {
		sizes := map[bool]int{} // the sizes of the partition key and the sort key
		for i, a := range x.keys.attributes() {
			v, found := it.Get(a.name)
			if !found || t.schema.contains(a.name) {
				continue
			}
			hash := i < len(x.keys.hash)
			sizes[hash] += item.ValueSize(v)
			if v.Kind() != a.kind {
				return validation("One or more parameter values were invalid: Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s",
					a.name, a.kind, v.Kind(), x.name).of(indexMismatch)
			}
			if v.Text() == "" {
				return validation("One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty %s value. IndexName: %s, IndexKey: %s",
					emptyKind(v.Kind()), x.name, a.name).of(emptyIndexKey)
			}
			if err := checkKeySize(hash, sizes[hash]); err != nil {
				return err
			}
		}
	}
	return nil
}
