package expression

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// operand is an operand of a condition: a literal, the value at a path, or the size of a literal or
// value.
type operand struct {
	literal attribute.Value
	path    path // nil for a literal
	size    bool
}

// result is the value of an operand for an item. A size stays an integer, to avoid formatting it as
// text.
type result struct {
	value  attribute.Value
	size   int
	isSize bool
	found  bool // false if the item does not have the value
}

func (o *operand) of(it attribute.Item) result {
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

// sizeOf returns the function size: UTF-16 units, bytes or members.
func sizeOf(v attribute.Value) (n int, measurable bool) {
	switch v.Kind() {
	case attribute.KindS:
		return utf16Length(v.Text()), true
	case attribute.KindB:
		return len(v.Text()), true
	case attribute.KindSS, attribute.KindNS, attribute.KindBS, attribute.KindL:
		return len(v.Elements()), true
	case attribute.KindM:
		return len(v.Members()), true
	}
	return 0, false
}

// utf16Length returns the length of a string in UTF-16 units, as the real service counts
// (observed). A character beyond U+FFFF has two units.
func utf16Length(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

func (r *result) kind() attribute.Kind {
	if r.isSize {
		return attribute.KindN
	}
	return r.value.Kind()
}

// equal reports whether two found results are the same value.
func equal(a, b *result) bool {
	if a.isSize || b.isSize {
		order, comparable := compare(a, b)
		return comparable && order == 0
	}
	return a.value.Equal(b.value)
}

// compare orders two results of the same ordered type. It compares text and binary by bytes, and
// numbers by value.
func compare(a, b *result) (order int, comparable bool) {
	if a.kind() != b.kind() {
		return 0, false
	}
	switch a.kind() {
	case attribute.KindS, attribute.KindB:
		return strings.Compare(a.value.Text(), b.value.Text()), true
	case attribute.KindN:
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
		return attribute.CompareNumbers(string(strconv.AppendInt(digits[:0], int64(a.size), 10)), b.value.Text())
	case b.isSize:
		return attribute.CompareNumbers(a.value.Text(), string(strconv.AppendInt(digits[:0], int64(b.size), 10)))
	}
	return attribute.CompareNumbers(a.value.Text(), b.value.Text())
}

// staticKind returns the type of the operand if the type is the same for every item. Otherwise it
// returns KindNone.
func (o *operand) staticKind() attribute.Kind {
	if o.size {
		return attribute.KindN
	}
	return o.literal.Kind()
}

// isPath reports whether the operand is a path itself, not the size of a path.
func (o *operand) isPath() bool { return o.path != nil && !o.size }

// isLiteral reports whether the operand is a literal itself, not the size of a literal.
func (o *operand) isLiteral() bool { return o.path == nil && !o.size }
