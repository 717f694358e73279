package expression

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// operand is what a condition compares: a literal, the value at a path, or the size of either.
type operand struct {
	literal cdc.Value
	path    path // nil of a literal
	size    bool
}

// result is the value of an operand for an item. A size stays an integer, so that no text has to be made of it.
type result struct {
	value  cdc.Value
	size   int
	isSize bool
	found  bool // false if the item does not have it
}

func (o *operand) of(it cdc.Item) result {
	v, found := o.literal, true
	if o.path != nil {
		v, found = o.path.lookup(it)
	}
	if !o.size {
		return result{value: v, found: found}
	}
	n, measurable := sizeOf(v)
	return result{size: n, isSize: true, found: found && measurable}
}

// sizeOf is the function size: UTF-16 units, bytes or members.
func sizeOf(v cdc.Value) (n int, measurable bool) {
	switch v.Kind() {
	case cdc.KindS:
		return utf16Length(v.Text()), true
	case cdc.KindB:
		return len(v.Text()), true
	case cdc.KindSS, cdc.KindNS, cdc.KindBS, cdc.KindL:
		return len(v.Elements()), true
	case cdc.KindM:
		return len(v.Members()), true
	}
	return 0, false
}

// utf16Length is the length of a string in UTF-16 units, as the service was seen to count: a character beyond U+FFFF has two.
func utf16Length(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

func (r *result) kind() cdc.Kind {
	if r.isSize {
		return cdc.KindN
	}
	return r.value.Kind()
}

// equal tells whether two results that were found are the same value.
func equal(a, b *result) bool {
	if a.isSize || b.isSize {
		order, comparable := compare(a, b)
		return comparable && order == 0
	}
	return a.value.Equal(b.value)
}

// compare orders two results of one ordered type: text and binary by bytes, numbers by
// value.
func compare(a, b *result) (order int, comparable bool) {
	if a.kind() != b.kind() {
		return 0, false
	}
	switch a.kind() {
	case cdc.KindS, cdc.KindB:
		return strings.Compare(a.value.Text(), b.value.Text()), true
	case cdc.KindN:
		return compareNumbers(a, b), true
	}
	return 0, false
}

func compareNumbers(a, b *result) int {
	var digits [20]byte
	switch {
	case a.isSize && b.isSize:
		return cmp.Compare(a.size, b.size)
	case a.isSize:
		return cdc.CompareNumbers(string(strconv.AppendInt(digits[:0], int64(a.size), 10)), b.value.Text())
	case b.isSize:
		return cdc.CompareNumbers(a.value.Text(), string(strconv.AppendInt(digits[:0], int64(b.size), 10)))
	}
	return cdc.CompareNumbers(a.value.Text(), b.value.Text())
}

// staticKind is the type of the operand if it is the same for every item, else KindNone.
func (o *operand) staticKind() cdc.Kind {
	if o.size {
		return cdc.KindN
	}
	return o.literal.Kind()
}

// isPath tells whether the operand is a path by itself.
func (o *operand) isPath() bool { return o.path != nil && !o.size }

// isLiteral tells whether the operand is a value by itself.
func (o *operand) isLiteral() bool { return o.path == nil && !o.size }
