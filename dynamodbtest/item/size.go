package item

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Size returns the item's size in bytes as DynamoDB counts it for the limit of 400 KB. It includes
// names and values.
func Size(it attribute.Item) int { return sizeOfMembers(it.Attributes()) }

func sizeOfMembers(members []attribute.Attribute) int {
	size := 0
	for _, a := range members {
		size += len(a.Name) + ValueSize(a.Value)
	}
	return size
}

// ValueSize returns the value's size in bytes ("Item sizes and formats"). Text and binary count by
// their length, numbers by their digits. A list or map takes three bytes, and one more byte for
// each of its elements.
func ValueSize(v attribute.Value) int {
	size := 0
	switch v.Kind() {
	case attribute.KindS, attribute.KindB:
		size = len(v.Text())
	case attribute.KindN:
		size = numberSize(v.Text())
	case attribute.KindBOOL, attribute.KindNULL:
		size = 1
	case attribute.KindSS, attribute.KindBS, attribute.KindNS:
		for _, m := range v.Elements() {
			size += ValueSize(m)
		}
	case attribute.KindL:
		size = 3 + len(v.Elements())
		for _, e := range v.Elements() {
			size += ValueSize(e)
		}
	case attribute.KindM:
		size = 3 + len(v.Members()) + sizeOfMembers(v.Members())
	}
	return size
}

// numberSize returns the stored size of a canonical number in bytes. It is one, plus one for every
// two significant digits before the point, plus one for every two after it. A minus sign adds one.
// "Item sizes and formats" calls its own rule approximate. This rule was measured at the service
// and is exact to the byte (github.com/nubo-db/dynamodb-conformance, limits).
func numberSize(text string) int {
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	whole = strings.TrimLeft(whole, "0")
	switch {
	case fraction == "":
		whole = strings.TrimRight(whole, "0")
	case whole == "":
		fraction = strings.TrimLeft(fraction, "0")
	}
	size := 1 + (len(whole)+1)/2 + (len(fraction)+1)/2
	if negative {
		size++
	}
	return size
}

// CheckDepth rejects an item whose lists and maps nest deeper than 32 levels. An update can build
// such an item from values that are each within this limit.
func CheckDepth(it attribute.Item) error {
	for _, a := range it.Attributes() {
		if depth(a.Value) > maxDepth {
			return invalid(msgNesting)
		}
	}
	return nil
}

// depth returns the number of nested lists and maps in the value, including itself.
func depth(v attribute.Value) int {
	if v.Kind() != attribute.KindL && v.Kind() != attribute.KindM {
		return 0
	}
	deepest := 0
	for _, e := range v.Elements() {
		deepest = max(deepest, depth(e))
	}
	for _, a := range v.Members() {
		deepest = max(deepest, depth(a.Value))
	}
	return deepest + 1
}
