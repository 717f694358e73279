package transform

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Cells returns the cells of an item, one per attribute in the order of their names. All cells have
// the given time in microseconds. The error is *Unmappable. It works for a rule that writes one
// row; Map works for every rule. Key attributes are included: an item that has only its keys must
// not vanish when replicator's own families are dropped.
//
// S and N are written as text, B raw, BOOL as true or false, and NULL as null. M, L and sets are
// written as JSON without spaces. In JSON, members are sorted by the bytes of their names, and
// numbers are literals with all their digits. Binaries are standard base64 strings. Sets are
// arrays. Number sets are sorted by value, and other sets by bytes. Text is unchanged UTF-8,
// escaped only where JSON requires it.
func (m *Mapping) Cells(item attribute.Item, micros int64) ([]Cell, error) {
	w, err := m.singleWrite(item)
	if err != nil {
		return nil, err
	}
	a := address{w: w}
	if w.folded {
		qualifier, err := w.appendQualifier(nil, item)
		if err != nil {
			return nil, err
		}
		a.qualifier = string(qualifier)
	}
	var e encoder
	return e.write(m, &a, item, time.UnixMicro(micros), micros)
}

// encoder writes the cells of many items with few allocations. The zero value is ready.
type encoder struct {
	bytes []byte
	slab  []Cell
}

// The sizes of one allocation. The memory of a batch is released as a whole, so these chunks do not
// keep other memory in use for long.
const (
	bytesChunk = 16 << 10
	cellsChunk = 256
)

// write returns the cells of an item at one of its addresses.
func (e *encoder) write(m *Mapping, a *address, item attribute.Item, at time.Time, micros int64) (_ []Cell, err error) {
	attributes := item.Attributes()
	if len(attributes) > MaxRowCells {
		return nil, unmappable("the item has %d attributes; Bigtable allows %d changes of a row in a request", len(attributes), MaxRowCells)
	}
	if size := e.reserve(attributes); size > MaxRowBytes {
		return nil, unmappable("the item takes %d bytes; at most %d can be written", size, MaxRowBytes)
	}
	c := cells{encoder: e, start: len(e.slab), w: a.w, micros: micros}
	if a.w.ages != nil {
		c.expires = m.ttl.expires(item, at)
	}
	defer func() {
		if err != nil {
			e.slab = e.slab[:c.start]
		}
	}()
	switch {
	case a.w.folded:
		err = c.fold(a, attributes)
	case len(a.w.targets) == 0 && a.w.star != nil && a.w.star.as == AsDefault && c.expires == 0:
		err = c.all(a.w.star.family, attributes)
	default:
		err = c.each(item)
	}
	if err != nil {
		return nil, err
	}
	return e.slab[c.start:len(e.slab):len(e.slab)], nil
}

// reserve makes room for an item's cells. It reserves the exact size for a single item, and chunks
// for the items that follow. It returns about how many bytes the cells will take. It never reserves
// more bytes than a row can hold.
func (e *encoder) reserve(attributes []attribute.Attribute) int {
	size := 0
	for i := range attributes {
		if v := &attributes[i].Value; v.Kind() <= attribute.KindNULL {
			size += max(len(v.Text()), len("false"))
		} else {
			size += 256 // a guess; append corrects it
		}
	}
	if size > MaxRowBytes {
		return size
	}
	if cap(e.bytes)-len(e.bytes) < size {
		room := size
		if e.bytes != nil {
			room = max(room, bytesChunk)
		}
		e.bytes = make([]byte, 0, room)
	}
	if cap(e.slab)-len(e.slab) < len(attributes) {
		room := len(attributes)
		if e.slab != nil {
			room = max(room, cellsChunk)
		}
		e.slab = make([]Cell, 0, room)
	}
	return size
}

// cells collects the cells of one item at one address.
type cells struct {
	*encoder
	start   int // in the slab
	total   int // bytes
	w       *write
	micros  int64
	expires int64 // when garbage collection expires the item, in microseconds; 0: never
}

// stamp returns the timestamp of a cell of the family. With a time to live, the timestamp is the
// item's expiry less the maximum age of the family's cells.
func (c *cells) stamp(family string) int64 {
	if c.expires == 0 {
		return c.micros
	}
	if c.expires == never {
		return never
	}
	return max(0, c.expires-c.w.ages[family].Microseconds()) / 1000 * 1000
}

// all makes one column for each attribute. It is used for the mapping without rules, and is the
// fast path of mappings with few rules.
func (c *cells) all(family string, attributes []attribute.Attribute) error {
	for i := range attributes {
		if err := c.one(family, attributes[i].Name, AsDefault, attributes[i].Name, attributes[i].Value); err != nil {
			return err
		}
	}
	return nil
}

// each makes a cell for each attribute, according to the attribute's target. Both lists are sorted
// by name.
func (c *cells) each(item attribute.Item) error {
	for _, name := range c.w.clashes {
		if v, ok := item.Get(name); ok && !c.w.star.scatters(v) {
			return unmappable("attribute %s would take the column that a rule gives to another attribute", quoteName(name))
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

func (c *cells) target(t *target, a attribute.Attribute) error {
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

// one adds one cell. The argument `attr` names the value in messages.
func (c *cells) one(family, qualifier string, as Encoding, attr string, v attribute.Value) error {
	if len(qualifier) > MaxQualifierBytes {
		return unmappable("an attribute name has %d bytes; Bigtable allows column names of %d", len(qualifier), MaxQualifierBytes)
	}
	from := len(c.bytes)
	grown, err := appendAs(c.bytes, as, v)
	if err != nil {
		return unmappable("attribute %s: %s", quoteName(attr), err)
	}
	c.bytes = grown
	return c.append(Cell{Family: family, Qualifier: qualifier, Timestamp: c.stamp(family), Add: as == AsCounter}, from, attr)
}

// append adds a cell. Its value is the bytes that were written since the offset `from`.
func (c *cells) append(cell Cell, from int, attr string) error {
	cell.Value = c.bytes[from:len(c.bytes):len(c.bytes)] // full slice expression: an append copies
	if cell.Add {
		cell.Timestamp = 0 // an aggregate's one cell holds the total of all additions
	}
	if len(cell.Value) > MaxCellBytes {
		return unmappable("attribute %s takes %d bytes; Bigtable allows cells of %d", quoteName(attr), len(cell.Value), MaxCellBytes)
	}
	// The size is checked with each cell, not once at the end. Names of members repeat the names of
	// the maps around them, so an item of 400 KB can become gigabytes.
	if c.total += len(cell.Qualifier) + len(cell.Value); c.total > MaxRowBytes {
		return unmappable("the item takes more than %d bytes, the maximum of a write", MaxRowBytes)
	}
	if len(c.slab)-c.start >= MaxRowCells {
		return unmappable("the item needs more than %d cells; that is Bigtable's limit of changes of a row in a request", MaxRowCells)
	}
	c.slab = append(c.slab, cell)
	return nil
}

// spread makes columns of the members of a value. A map's members become <attribute>.<member>, and
// a list's elements become <attribute>.<six digits>. A set's members become columns that are named
// by the members' text. Members of nested maps add further dots. A dot in a name is written %2E,
// and % is written %25. A column in the rule replaces the attribute's name. An empty column
// (family:) removes the name.
func (c *cells) spread(t *target, a attribute.Attribute) error {
	name := a.Name
	if t.fixed {
		name = t.qualifier
	} else if a.Value.Kind() == attribute.KindM || a.Value.Kind() == attribute.KindL {
		name = string(appendEscaped(nil, a.Name, '.'))
	}
	switch a.Value.Kind() {
	case attribute.KindM:
		return c.members(t.family, name, a.Name, a.Value.Members())
	case attribute.KindL:
		for i, v := range a.Value.Elements() {
			digits := strconv.Itoa(i)
			if err := c.one(t.family, below(name, zeros[:max(0, 6-len(digits))]+digits), AsDefault, a.Name, v); err != nil {
				return err
			}
		}
		return nil
	case attribute.KindSS, attribute.KindNS, attribute.KindBS:
		for _, v := range a.Value.Elements() {
			qualifier := v.Text()
			if t.fixed {
				qualifier = below(t.qualifier, qualifier)
			}
			if len(qualifier) > MaxQualifierBytes {
				return unmappable("attribute %s has a member of %d bytes; Bigtable allows column names of %d", quoteName(a.Name), len(qualifier), MaxQualifierBytes)
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

// list makes a cell of each element of a list, all in one column. An element's timestamp is its
// position in milliseconds: 1 ms since 1970 for the first. So a reader gets the last element first.
// A cell that an application appends at the time of its write comes before all elements. The times
// follow from the image alone. The time of the change would not work, because it is the same for
// all elements.
func (c *cells) list(family, qualifier string, a attribute.Attribute) error {
	if a.Value.Kind() != attribute.KindL {
		return unmappable("attribute %s is %s; as: cells takes L", quoteName(a.Name), a.Value.Kind())
	}
	if len(qualifier) > MaxQualifierBytes {
		return unmappable("an attribute name has %d bytes; Bigtable allows column names of %d", len(qualifier), MaxQualifierBytes)
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

// listTime returns the timestamp of an element of a list, in microseconds.
func listTime(i int) int64 { return int64(i+1) * 1000 }

// below returns the name of a member within its map.
func below(name, member string) string {
	if name == "" {
		return member
	}
	return name + "." + member
}

func (c *cells) members(family, prefix, attr string, members []attribute.Attribute) error {
	for _, m := range members {
		name := below(prefix, string(appendEscaped(nil, m.Name, '.')))
		var err error
		if m.Value.Kind() == attribute.KindM {
			err = c.members(family, name, attr, m.Value.Members())
		} else {
			err = c.one(family, name, AsDefault, attr, m.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flattens reports whether every attribute that is a map becomes columns of its members.
func (e Encoding) flattens() bool { return e == AsFlattened || e == AsGoogleUtility }

// flatten makes a column of an attribute, or columns of a map's members, which are named <attribute>.<member>, at any depth.
func (c *cells) flatten(t *target, a attribute.Attribute) error {
	return c.flat(t, t.name(nil, a.Name), a.Name, a.Value)
}

// name appends an attribute's or a member's name. Google's utility escapes nothing. Otherwise a dot
// within a name is written %2E and % is written %25, so no two columns have the same name.
func (t *target) name(b []byte, name string) string {
	if t.as == AsGoogleUtility {
		return string(append(b, name...))
	}
	return string(appendEscaped(b, name, '.'))
}

// attributeOf returns the attribute that has the column with this name, unless a rule gives that
// attribute another column; false if there is none.
func (t *target) attributeOf(column string) (string, bool) {
	if t.as != AsFlattened {
		return column, true
	}
	name := strings.NewReplacer("%2E", ".", "%25", "%").Replace(column)
	return name, t.name(nil, name) == column
}

// scatters reports whether a value becomes columns of its members and no column with the
// attribute's own name.
func (t *target) scatters(v attribute.Value) bool {
	return t.as.flattens() && v.Kind() == attribute.KindM && (len(v.Members()) > 0 || t.as == AsGoogleUtility) // the utility writes nothing for an empty map
}

func (c *cells) flat(t *target, column, attr string, v attribute.Value) error {
	switch {
	case v.Kind() != attribute.KindM:
		return c.one(t.family, column, t.as, attr, v)
	case !t.scatters(v):
		return c.one(t.family, column, AsJSON, attr, v)
	}
	for _, m := range v.Members() {
		if err := c.flat(t, t.name([]byte(column+"."), m.Name), attr, m.Value); err != nil {
			return err
		}
	}
	return nil
}

// distinct returns an error if two values go to one column, because the later value would hide the
// other. The cells of one list may share a column, because their times differ.
func (c *cells) distinct() error {
	seen := make(map[Column]bool, len(c.slab)-c.start)
	var before Cell
	for _, cell := range c.slab[c.start:] {
		column := Column{cell.Family, cell.Qualifier}
		next := column == Column{before.Family, before.Qualifier} && before.Timestamp >= listTime(0) && cell.Timestamp == before.Timestamp+1000
		before = cell
		if seen[column] && !next {
			return unmappable("two values take the same column of family %s", cell.Family)
		}
		seen[column] = true
	}
	return nil
}

// fold makes one cell of the item.
func (c *cells) fold(a *address, attributes []attribute.Attribute) error {
	written := attributes
	if c.w.only != nil || len(c.w.targets) > 0 {
		written = make([]attribute.Attribute, 0, len(attributes))
		for _, attr := range attributes {
			if c.w.only != nil {
				if _, ok := slices.BinarySearch(c.w.only, attr.Name); !ok {
					continue
				}
			} else if c.w.find(attr.Name) != nil {
				continue
			}
			written = append(written, attr)
		}
	}
	from := len(c.bytes)
	var err error
	if c.w.cell.As == AsDynamoDBJSON {
		var text []byte
		text, err = attribute.MarshalItem(attribute.NewItem(written))
		c.bytes = append(c.bytes, text...)
	} else {
		c.bytes, err = appendMembers(c.bytes, written)
	}
	if err != nil {
		return unmappable("the cell: %s", err)
	}
	return c.append(Cell{Family: a.w.family, Qualifier: a.qualifier, Timestamp: c.stamp(a.w.family)}, from, "of the cell")
}
