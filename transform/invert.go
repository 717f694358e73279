package transform

import (
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Invert returns the item of a row: the inverse of Map. The cells are the newest of each column.
// Families that the mapping does not write are ignored. Without any other cell there is no row, and
// the item does not exist. The item lacks the attributes that rows do not hold (Dropped).
//
// The argument `types` holds the types of attributes whose cells do not show them (NeedsTypes). It
// is not changed. Its types must be distinguishable (Unclear).
//
// The error wraps ErrRow, and names the column and the problem but no value. It is ErrMapping if
// the mapping is not invertible (NotInvertible).
func (m *Mapping) Invert(row string, cells []Cell, types Types) (attribute.Item, error) {
	if len(m.obstacles) > 0 {
		return attribute.Item{}, fmt.Errorf("%w: table %s: rows do not give their items back: %s", ErrMapping, m.Source, m.obstacles[0])
	}
	keys, err := m.Key(row)
	if err != nil {
		return attribute.Item{}, err
	}
	w := m.onlyWrite()
	list := make([]attribute.Attribute, 0, len(cells)+len(m.PrimaryKey))
	exists := false
	for i := range cells {
		cell := &cells[i]
		if !slices.Contains(w.families, cell.Family) {
			continue
		}
		exists = true
		a, err := m.invertCell(w, cell, types)
		if key, ok := keys.Get(a.Name); err == nil && ok {
			if a.Value.Equal(key) {
				continue // the row key gives it
			}
			err = errOtherKey
		}
		if err != nil {
			return attribute.Item{}, fmt.Errorf("%w: column %s:%s: %w", ErrRow, cell.Family, quoteName(cell.Qualifier), err)
		}
		list = append(list, a)
	}
	if !exists {
		return attribute.Item{}, nil
	}
	item := attribute.NewItem(append(list, keys.Attributes()...))
	for i, a := range item.Attributes() {
		if i > 0 && item.Attributes()[i-1].Name == a.Name {
			return attribute.Item{}, fmt.Errorf("%w: several cells hold attribute %s", ErrRow, quoteName(a.Name))
		}
	}
	return item, nil
}

// These texts say why a column has no attribute. They hold no item data.
const (
	errNoAttribute errEncoding = "the mapping writes no attribute to it"
	errDropped     errEncoding = "the mapping does not copy this attribute"
	errElsewhere   errEncoding = "the mapping writes this attribute to another column"
	errNoName      errEncoding = "its name is not the name of an attribute"
	errOtherKey    errEncoding = "it differs from the row key"
)

// invertCell returns the attribute of a cell in a family of the mapping.
func (m *Mapping) invertCell(w *write, cell *Cell, types Types) (attribute.Attribute, error) {
	name, as, err := w.attributeIn(Column{cell.Family, cell.Qualifier})
	if err != nil {
		return attribute.Attribute{}, err
	}
	seen := types[name]
	if kind := m.keyType(name); kind != attribute.KindNone {
		seen = Seen{Kinds: KindsOf(kind)}
	}
	v, err := decodeAs(as, cell.Value, seen)
	return attribute.Attribute{Name: name, Value: v}, err
}

// attributeIn returns the attribute that has a column, and its encoding. It is the exact inverse of
// the rules: the error says why no item has a cell in the column.
func (w *write) attributeIn(column Column) (name string, as Encoding, err error) {
	for i := range w.targets {
		if t := &w.targets[i]; !t.drop && t.column() == column {
			return t.attribute, t.as, nil
		}
	}
	if w.star == nil || w.star.family != column.Family {
		return "", 0, errNoAttribute
	}
	name = column.Qualifier // the star's other encodings are not invertible
	switch t := w.find(name); {
	case name == "" || attribute.CheckText(name) != nil:
		return "", 0, errNoName
	case t != nil && t.drop:
		return "", 0, errDropped
	case t != nil:
		return "", 0, errElsewhere
	}
	return name, w.star.as, nil
}

// Differences returns what must be set and removed in an item of the source so that it equals
// the item of its row (Invert). Both are sorted by name, and empty if the two are equal.
// Attributes that rows do not hold (Dropped) and attributes of the primary key are never among
// them. Numbers are equal if their values are, and sets regardless of their order. An item that
// does not exist has no attributes: two such items are equal, but an item that has only a key
// also gives an empty result. The mapping must be invertible (NotInvertible).
func (m *Mapping) Differences(item, row attribute.Item) (set []attribute.Attribute, remove []string) {
	w := m.onlyWrite()
	compared := func(name string) bool {
		return m.keyType(name) == attribute.KindNone && (w == nil || w.holds(name))
	}
	for _, a := range row.Attributes() {
		if v, ok := item.Get(a.Name); compared(a.Name) && (!ok || !v.Equal(a.Value)) {
			set = append(set, a)
		}
	}
	for _, a := range item.Attributes() {
		if _, ok := row.Get(a.Name); compared(a.Name) && !ok {
			remove = append(remove, a.Name)
		}
	}
	return set, remove
}

// Expired reports whether the source may have removed an item because of its time to live by the
// given time. Then a row of the item is equal to an item that does not exist. An item that DynamoDB
// would not remove, because its time is not a number or too long ago, is not expired. The item may
// come from Invert.
func (m *Mapping) Expired(item attribute.Item, now time.Time) bool {
	return m.ttl.Attribute != "" && m.ttl.expires(item, now) <= now.UnixMicro()
}
