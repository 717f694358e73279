package transform

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// cells are those of one item at one address, as they are made.
type cells struct {
	*encoder
	start   int // in the slab
	total   int // bytes
	w       *write
	micros  int64
	expires int64 // by garbage collection, in microseconds; 0: not so
}

// never is the time at which an item without a time to live expires: the end of the year 9999. Its cells are stamped so that no
// age rule takes them (H83).
const never = 253402300799_000_000

// staleTTL is how far in the past a time to live may be for DynamoDB to remove the item at all.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/howitworks-ttl.html
const staleTTL = 5 * 365 * 24 * time.Hour

// expires is when an item written at a time expires, in microseconds. What is not a number of seconds never does, for DynamoDB either.
func (t TTL) expires(item cdc.Item, written time.Time) int64 {
	v, _ := item.Get(t.Attribute)
	if v.Kind() != cdc.KindN {
		return never
	}
	seconds, _, _ := strings.Cut(v.Text(), ".")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n >= never/1_000_000 || n < written.Add(-staleTTL).Unix() {
		return never
	}
	return max(n, 1) * 1_000_000
}

// stamp is the timestamp of a cell of the family. With a time to live it is so far before the end as the family's cells live.
func (c *cells) stamp(family string) int64 {
	if c.expires == 0 {
		return c.micros
	}
	if c.expires == never {
		return never
	}
	return max(0, c.expires-c.w.ages[family].Microseconds()) / 1000 * 1000
}

// all makes a column of each attribute: the mapping without rules, and the fast path of those with few.
func (c *cells) all(family string, attributes []cdc.Attribute) error {
	for i := range attributes {
		if err := c.one(family, attributes[i].Name, AsDefault, attributes[i].Name, attributes[i].Value); err != nil {
			return err
		}
	}
	return nil
}

// each makes cells of the attributes by their targets. Both lists are sorted by name.
func (c *cells) each(item cdc.Item) error {
	for _, name := range c.w.clashes {
		if v, ok := item.Get(name); ok && !c.w.star.scatters(v) {
			return unmappable("attribute %s would go to the column that a rule gives to another attribute", quoteName(name))
		}
	}
	targets := c.w.targets
	for _, a := range item.Attributes() {
		for len(targets) > 0 && targets[0].attribute < a.Name {
			targets = targets[1:]
		}
		t := c.w.star
		if len(targets) > 0 && targets[0].attribute == a.Name {
			t = &targets[0]
		}
		if t == nil || t.drop {
			continue
		}
		if err := c.target(t, a); err != nil {
			return err
		}
	}
	if c.w.spread {
		return c.distinct()
	}
	return nil
}

func (c *cells) target(t *target, a cdc.Attribute) error {
	if t.as == AsColumns {
		return c.spread(t, a)
	}
	if t.as.flattens() {
		return c.flatten(t, a)
	}
	qualifier := a.Name
	if t.fixed {
		qualifier = t.qualifier
	}
	if t.as == AsCells {
		return c.list(t.family, qualifier, a)
	}
	return c.one(t.family, qualifier, t.as, a.Name, a.Value)
}

// one adds a cell. Attribute names the value in messages.
func (c *cells) one(family, qualifier string, as Encoding, attribute string, v cdc.Value) error {
	if len(qualifier) > MaxQualifierBytes {
		return unmappable("an attribute name of %d bytes; Bigtable allows column names of %d", len(qualifier), MaxQualifierBytes)
	}
	from := len(c.bytes)
	grown, err := appendAs(c.bytes, as, v)
	if err != nil {
		return unmappable("attribute %s: %s", quoteName(attribute), err)
	}
	c.bytes = grown
	return c.append(Cell{Family: family, Qualifier: qualifier, Timestamp: c.stamp(family), Add: as == AsCounter}, from, attribute)
}

// append adds a cell whose value is what was written since from.
func (c *cells) append(cell Cell, from int, attribute string) error {
	cell.Value = c.bytes[from:len(c.bytes):len(c.bytes)] // full: appending to it copies
	if cell.Add {
		cell.Timestamp = 0 // one cell for the total, whoever adds to it when
	}
	if len(cell.Value) > MaxCellBytes {
		return unmappable("attribute %s takes %d bytes; Bigtable allows cells of %d", quoteName(attribute), len(cell.Value), MaxCellBytes)
	}
	// Not when all are made: names of members repeat that of what they are in, so that an item of 400 KB can become gigabytes.
	if c.total += len(cell.Qualifier) + len(cell.Value); c.total > MaxRowBytes {
		return unmappable("the item takes more than %d bytes, which are written at most", MaxRowBytes)
	}
	if len(c.slab)-c.start >= MaxRowCells {
		return unmappable("more than %d cells; Bigtable allows so many changes of a row at once", MaxRowCells)
	}
	c.slab = append(c.slab, cell)
	return nil
}

// spread makes columns of a map's members, which are named <attribute>.<member>, of a list's elements, <attribute>.<six digits>,
// or of a set's members, which are the column names themselves. Nested maps go on with further dots; a dot in a name is
// written %2E, and % as %25. A column in the rule stands for the attribute's name, and an empty one (family:) for no name at all.
func (c *cells) spread(t *target, a cdc.Attribute) error {
	name := a.Name
	if t.fixed {
		name = t.qualifier
	} else if a.Value.Kind() == cdc.KindM || a.Value.Kind() == cdc.KindL {
		name = string(appendEscaped(nil, a.Name, '.'))
	}
	switch a.Value.Kind() {
	case cdc.KindM:
		return c.members(t.family, name, a.Name, a.Value.Members())
	case cdc.KindL:
		for i, v := range a.Value.Elements() {
			digits := strconv.Itoa(i)
			if err := c.one(t.family, below(name, zeros[:max(0, 6-len(digits))]+digits), AsDefault, a.Name, v); err != nil {
				return err
			}
		}
		return nil
	case cdc.KindSS, cdc.KindNS, cdc.KindBS:
		for _, v := range a.Value.Elements() {
			qualifier := v.Text()
			if t.fixed {
				qualifier = below(t.qualifier, qualifier)
			}
			if len(qualifier) > MaxQualifierBytes {
				return unmappable("attribute %s: a member of %d bytes; Bigtable allows column names of %d", quoteName(a.Name), len(qualifier), MaxQualifierBytes)
			}
			from := len(c.bytes)
			c.bytes = append(c.bytes, t.value...)
			if err := c.append(Cell{Family: t.family, Qualifier: qualifier, Timestamp: c.stamp(t.family)}, from, a.Name); err != nil {
				return err
			}
		}
		return nil
	}
	return unmappable("attribute %s is %s; as: columns takes M, L or a set", quoteName(a.Name), a.Value.Kind())
}

// list makes a cell of each element of a list, all in one column, at the element's position in milliseconds: 1 ms since 1970 for the
// first. So a reader gets the last element first, and what an application appends at the time of its write comes before them all. The
// times follow from the image alone; those of changes would not tell elements apart.
func (c *cells) list(family, qualifier string, a cdc.Attribute) error {
	if a.Value.Kind() != cdc.KindL {
		return unmappable("attribute %s is %s; as: cells takes L", quoteName(a.Name), a.Value.Kind())
	}
	if len(qualifier) > MaxQualifierBytes {
		return unmappable("an attribute name of %d bytes; Bigtable allows column names of %d", len(qualifier), MaxQualifierBytes)
	}
	for i, v := range a.Value.Elements() {
		from := len(c.bytes)
		grown, err := appendCell(c.bytes, v)
		if err != nil {
			return unmappable("attribute %s: %s", quoteName(a.Name), err)
		}
		c.bytes = grown
		if err := c.append(Cell{Family: family, Qualifier: qualifier, Timestamp: listTime(i)}, from, a.Name); err != nil {
			return err
		}
	}
	return nil
}

// listTime is the timestamp of an element of a list, in microseconds.
func listTime(i int) int64 { return int64(i+1) * 1000 }

// below is the name of a member within what it is part of.
func below(name, member string) string {
	if name == "" {
		return member
	}
	return name + "." + member
}

func (c *cells) members(family, prefix, attribute string, members []cdc.Attribute) error {
	for _, m := range members {
		name := below(prefix, string(appendEscaped(nil, m.Name, '.')))
		var err error
		if m.Value.Kind() == cdc.KindM {
			err = c.members(family, name, attribute, m.Value.Members())
		} else {
			err = c.one(family, name, AsDefault, attribute, m.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// distinct makes sure that no two values go to one column: the later one would hide the other. The cells of a list follow each
// other, and so do their times.
func (c *cells) distinct() error {
	seen := make(map[Column]bool, len(c.slab)-c.start)
	var before Cell
	for _, cell := range c.slab[c.start:] {
		column := Column{cell.Family, cell.Qualifier}
		next := column == Column{before.Family, before.Qualifier} && before.Timestamp >= listTime(0) && cell.Timestamp == before.Timestamp+1000
		before = cell
		if seen[column] && !next {
			return unmappable("two values go to one column of family %s", cell.Family)
		}
		seen[column] = true
	}
	return nil
}

// fold makes one cell of the item.
func (c *cells) fold(a *address, attributes []cdc.Attribute) error {
	written := attributes
	if c.w.only != nil || len(c.w.targets) > 0 {
		written = make([]cdc.Attribute, 0, len(attributes))
		for _, attribute := range attributes {
			if c.w.only != nil {
				if _, ok := slices.BinarySearch(c.w.only, attribute.Name); !ok {
					continue
				}
			} else if c.w.find(attribute.Name) != nil {
				continue
			}
			written = append(written, attribute)
		}
	}
	from := len(c.bytes)
	var err error
	if c.w.cell.As == AsDynamoDBJSON {
		var text []byte
		text, err = cdc.MarshalItem(cdc.NewItem(written))
		c.bytes = append(c.bytes, text...)
	} else {
		c.bytes, err = appendMembers(c.bytes, written)
	}
	if err != nil {
		return unmappable("the cell: %s", err)
	}
	return c.append(Cell{Family: a.w.family, Qualifier: a.qualifier, Timestamp: c.stamp(a.w.family)}, from, "of the cell")
}

// What encodings refuse.
const (
	errNotNumber  errEncoding = "not a number"
	errNotInt64   errEncoding = "not a whole number within 64 bits"
	errNotBytes   errEncoding = "neither S nor B"
	errNotFloat64 errEncoding = "beyond the range of a double"
)

// appendAs appends a value in an encoding that makes one cell.
func appendAs(b []byte, as Encoding, v cdc.Value) ([]byte, error) {
	switch as {
	case AsDefault:
		return appendCell(b, v)
	case AsGoogleUtility:
		return appendUtility(b, v)
	case AsText, AsFlattened:
		if v.Kind() == cdc.KindB {
			return appendBase64(b, v.Text()), nil
		}
		return appendCell(b, v)
	case AsJSON:
		return appendJSON(b, v)
	case AsDynamoDBJSON:
		text, err := cdc.MarshalValue(v)
		return append(b, text...), err
	case AsInt64, AsCounter:
		if v.Kind() != cdc.KindN {
			return b, errNotNumber
		}
		n, err := strconv.ParseInt(v.Text(), 10, 64)
		if err != nil {
			return b, errNotInt64
		}
		return binary.BigEndian.AppendUint64(b, uint64(n)), nil
	case AsFloat64:
		if v.Kind() != cdc.KindN {
			return b, errNotNumber
		}
		f, err := strconv.ParseFloat(v.Text(), 64)
		if err != nil {
			return b, errNotFloat64
		}
		return binary.BigEndian.AppendUint64(b, math.Float64bits(f)), nil
	case AsBytes:
		if v.Kind() != cdc.KindS && v.Kind() != cdc.KindB {
			return b, errNotBytes
		}
		return append(b, v.Text()...), nil
	}
	return b, errKind
}
