package dynamodbtest

import (
	"crypto/md5"
	"encoding/binary"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// Limits of key values in bytes ("Service, account, and table quotas", Partition keys
// and sort keys).
const (
	maxHashKeySize = 2048
	maxSortKeySize = 1024
)

// keyAttribute is an attribute of the primary key and its type: S, N or B.
type keyAttribute struct {
	name string
	kind attribute.Kind
}

// keySchema is the primary key of a table, or the key of an index. A partition key has one
// attribute, and a sort key has at most one. Only keys of global indexes may have up to four of
// each.
type keySchema struct {
	hash, sort []keyAttribute
}

func (ks keySchema) hasSort() bool { return len(ks.sort) > 0 }

func (ks keySchema) attributes() []keyAttribute { return slices.Concat(ks.hash, ks.sort) }

// contains reports whether the named attribute is part of the key.
func (ks keySchema) contains(name string) bool {
	named := func(a keyAttribute) bool { return a.name == name }
	return slices.ContainsFunc(ks.hash, named) || slices.ContainsFunc(ks.sort, named)
}

func namesOf(attributes []keyAttribute) (names []string) {
	for _, a := range attributes {
		names = append(names, a.name)
	}
	return names
}

func kindsOf(attributes []keyAttribute) (kinds []attribute.Kind) {
	for _, a := range attributes {
		kinds = append(kinds, a.kind)
	}
	return kinds
}

// primaryKey is an item's key in the forms that the table uses.
type primaryKey struct {
	// order sorts items in the order of scans: by the hash of the partition key, then by the sort
	// key. Equal keys, such as the numbers 1 and 1.0, have equal orders.
	order string
	// hash decides which shard owns the key. It is the leading 64 bits of the MD5 of the partition
	// key. (DynamoDB's hash function is not public.)
	hash uint64
	item attribute.Item
}

// ofItem returns the key of a whole item.
func (ks keySchema) ofItem(it attribute.Item) (primaryKey, error) {
	return ks.build(it, func(a keyAttribute, v attribute.Value, found bool) error {
		if !found {
			return validation("One or more parameter values were invalid: Missing the key %s in the item", a.name).of(keyMismatch)
		}
		if v.Kind() != a.kind {
			return validation("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s",
				a.name, a.kind, v.Kind()).of(keyMismatch)
		}
		return nil
	})
}

// ofKey reads a key that must have exactly the attributes of the schema.
func (ks keySchema) ofKey(key attribute.Item) (primaryKey, error) {
	want := 1
	if ks.hasSort() {
		want = 2
	}
	if len(key.Attributes()) != want {
		return primaryKey{}, validation("The provided key element does not match the schema").of(keyMismatch)
	}
	return ks.build(key, func(a keyAttribute, v attribute.Value, found bool) error {
		if !found || v.Kind() != a.kind {
			return validation("The provided key element does not match the schema").of(keyMismatch)
		}
		return nil
	})
}

func (ks keySchema) build(it attribute.Item, check func(keyAttribute, attribute.Value, bool) error) (primaryKey, error) {
	hashKey := ks.hash[0]
	hashValue, found := it.Get(hashKey.name)
	if err := check(hashKey, hashValue, found); err != nil {
		return primaryKey{}, err
	}
	if err := checkKeyValue(hashKey, hashValue); err != nil {
		return primaryKey{}, err
	}
	if err := checkKeySize(true, item.ValueSize(hashValue)); err != nil {
		return primaryKey{}, err
	}
	attributes := []attribute.Attribute{{Name: hashKey.name, Value: hashValue}}
	var k primaryKey
	order, hash := hashPrefix(hashValue.Text())
	k.hash = hash
	if ks.hasSort() {
		sortKey := ks.sort[0]
		sortValue, found := it.Get(sortKey.name)
		if err := check(sortKey, sortValue, found); err != nil {
			return primaryKey{}, err
		}
		if err := checkKeyValue(sortKey, sortValue); err != nil {
			return primaryKey{}, err
		}
		if err := checkKeySize(false, item.ValueSize(sortValue)); err != nil {
			return primaryKey{}, err
		}
		attributes = append(attributes, attribute.Attribute{Name: sortKey.name, Value: sortValue})
		order = appendSortKey(order, sortValue)
	}
	k.order, k.item = string(order), attribute.NewItem(attributes)
	return k, nil
}

func checkKeyValue(a keyAttribute, v attribute.Value) error {
	if v.Text() != "" {
		return nil
	}
	return validation("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", emptyKind(v.Kind()), a.name)
}

// emptyKind returns the service's name for the type of an empty key.
func emptyKind(kind attribute.Kind) string {
	if kind == attribute.KindB {
		return "binary"
	}
	return "string"
}

// checkKeySize rejects a partition key or sort key that is too long. The service's message lacks a
// space for partition keys.
func checkKeySize(hash bool, size int) error {
	switch {
	case hash && size > maxHashKeySize:
		return validation("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of%d bytes", maxHashKeySize)
	case !hash && size > maxSortKeySize:
		return validation("One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of %d bytes", maxSortKeySize)
	}
	return nil
}

// hashText returns the text of a partition key. With one attribute this is the text of its value.
// With several attributes, each text follows its length.
func hashText(values []attribute.Value) string {
	if len(values) == 1 {
		return values[0].Text()
	}
	var text []byte
	for _, v := range values {
		text = append(binary.AppendUvarint(text, uint64(len(v.Text()))), v.Text()...)
	}
	return string(text)
}

// hashPrefix returns the part of a key's order that all items with the same partition key share,
// and the hash of that key. The value follows its MD5 in this part, so a collision of hashes does
// not merge partitions.
func hashPrefix(text string) (prefix []byte, hash uint64) {
	sum := md5.Sum([]byte(text))
	prefix = append(make([]byte, 0, 64), sum[:]...)
	prefix = binary.BigEndian.AppendUint32(prefix, uint32(len(text)))
	prefix = append(prefix, text...)
	return prefix, binary.BigEndian.Uint64(sum[:])
}

// appendSortKey appends bytes that sort in DynamoDB's order of sort keys: text by its UTF-8 bytes,
// binary by unsigned bytes, numbers by value.
func appendSortKey(order []byte, v attribute.Value) []byte {
	if v.Kind() == attribute.KindN {
		return append(order, item.NumberSortKey(v.Text())...)
	}
	return append(order, v.Text()...)
}

// hashOf returns the hash of a partition key's text.
func hashOf(text string) uint64 {
	_, hash := hashPrefix(text)
	return hash
}
