package dynamodbtest

import (
	"github.com/dynamodb-bigtable/replicator/attribute"
)

// source is what a Query or Scan reads: a table, or one of its indexes.
type source struct {
	table *table
	keys  keySchema
	index *secondaryIndex // nil for the table itself
}

// source returns the table or index that the request reads.
func (o *readOptions) source(s *Server) (source, error) {
	t, err := s.find(o.tableRef)
	if err != nil {
		return source{}, err
	}
	if o.IndexName == nil {
		return source{table: t, keys: t.schema}, nil
	}
	x, err := t.findIndex(*o.IndexName)
	if err != nil {
		return source{}, err
	}
	if x.global && o.ConsistentRead {
		return source{}, validation("Consistent reads are not supported on global secondary indexes")
	}
	return source{t, x.keys, x}, nil
}

// entries returns the items in the source's order. The caller holds the table's mu.
func (src *source) entries() *index {
	if src.index != nil {
		return &src.index.entries
	}
	return &src.table.items
}

// place is the position of a start key in a source.
type place struct {
	order string
	hash  uint64 // hash of the source's partition key
}

// startKey reads an ExclusiveStartKey. It has the keys of the item and, for an index, also the
// index's keys.
func (src *source) startKey(key attribute.Item) (place, error) {
	mismatch := validation("The provided starting key is invalid: The provided key element does not match the schema")
	if src.index == nil {
		k, err := src.table.schema.ofKey(key)
		if err != nil {
			return place{}, mismatch
		}
		return place{k.order, k.hash}, nil
	}
	base, err := src.table.schema.ofItem(key)
	if err != nil {
		return place{}, mismatch
	}
	for _, a := range key.Attributes() {
		if !src.keys.contains(a.Name) && !src.table.schema.contains(a.Name) {
			return place{}, mismatch
		}
	}
	order, fits := src.index.order(key, base.order)
	if !fits {
		return place{}, mismatch
	}
	hash, _ := keyValues(key, src.keys.hash, maxHashKeySize)
	return place{order, hashOf(hashText(hash))}, nil
}

// lastKey returns the LastEvaluatedKey after an item. startKey reads the same form.
func (src *source) lastKey(it attribute.Item) []byte {
	var attributes []attribute.Attribute
	for _, a := range it.Attributes() {
		if src.keys.contains(a.Name) || src.table.schema.contains(a.Name) {
			attributes = append(attributes, a)
		}
	}
	return attribute.AppendItem(nil, attribute.NewItem(attributes))
}

// whole returns the table's item for an entry of an index. The caller must hold no lock. If the
// item was deleted meanwhile, it returns the entry itself.
func (src *source) whole(it attribute.Item, entry *stored) *stored {
	key, err := src.table.schema.ofItem(it)
	if err != nil {
		return entry
	}
	if found := src.table.get(key); found != nil {
		return found
	}
	return entry
}
