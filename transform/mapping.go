package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Delimiter separates the parts of a row key.
const Delimiter = '#'

// ErrMapping is returned for a mapping that cannot be right for any item.
var ErrMapping = errors.New("mapping")

// Mapping maps the items of one source table to rows of its target tables, usually one. New makes
// it from rules, NewMapping without rules. It never changes, so goroutines may share it.
type Mapping struct {
	// Source is the DynamoDB table, Table the Bigtable table.
	Source string
	Table  string
	// Family holds every attribute, in the column of its name. An item owns the whole family in its
	// row. It is empty if rules say where attributes go.
	Family string
	// PrimaryKey is the source's key schema: the partition key and, if the table has one, the sort key.
	PrimaryKey []KeyAttribute
	// RowKey names the attributes that make up the row key, in order. It contains the whole primary key. It is empty if rules
	// make the row key.
	RowKey []string

	spec    *Spec // nil: made by NewMapping
	rules   []*rule
	ttl     TTL
	keyOnly bool
	keep    bool      // older cells are kept
	number  string    // the name of the version attribute
	merged  bool      // other source tables write to the target
	parts   []rowPart // the placeholders of the row key; only if made by NewMapping

	obstacles []string // why rows do not give their items back
}

// KeyAttribute is an attribute of a primary key.
type KeyAttribute struct {
	Name string
	Type attribute.Kind // S, N or B
}

// NewMapping checks and returns a mapping. Without rowKey, the row key is the primary key. The
// argument `rowKey` may name further attributes, for example the tenant first, but it must include
// the whole primary key. This keeps the rows of different items apart (T1). Errors are ErrMapping.
func NewMapping(source, table, family string, primaryKey []KeyAttribute, rowKey ...string) (*Mapping, error) {
	fail := func(format string, args ...any) (*Mapping, error) {
		return nil, fmt.Errorf("%w: table %s: %s", ErrMapping, source, fmt.Sprintf(format, args...))
	}
	if source == "" || table == "" || family == "" {
		return fail("source, target table and family need a name")
	}
	if strings.HasPrefix(family, reservedPrefix) {
		return fail("family %s: names beginning with %s are reserved", family, reservedPrefix)
	}
	if err := checkKey(primaryKey); err != nil {
		return fail("%s", err)
	}
	m := &Mapping{Source: source, Table: table, Family: family}
	m.PrimaryKey = slices.Clone(primaryKey)
	m.RowKey = slices.Clone(rowKey)
	for _, k := range primaryKey {
		if len(rowKey) == 0 {
			m.RowKey = append(m.RowKey, k.Name)
		} else if !slices.Contains(rowKey, k.Name) {
			return fail("the row key lacks key attribute %s, so two items could take the same row", k.Name)
		}
	}
	for i, name := range m.RowKey {
		if name == "" || slices.Contains(m.RowKey[:i], name) {
			return fail("the row key names attribute %q twice, or has an attribute without a name", name)
		}
	}
	w := &write{table: table, template: joined(m.RowKey), star: &target{attribute: "*", family: family}, families: []string{family}, ours: true}
	for _, p := range w.template.parts {
		part := rowPart{literal: p.Literal}
		if p.IsPlaceholder() {
			part = rowPart{name: p.Attribute, kind: m.keyType(p.Attribute), escaped: p.escaped, where: "the row key"}
			m.parts = append(m.parts, part)
		}
		w.row = append(w.row, part)
	}
	m.rules = []*rule{{writes: []*write{w}}}
	m.conclude()
	return m, nil
}

// checkKey checks a key schema.
func checkKey(primaryKey []KeyAttribute) error {
	if len(primaryKey) < 1 || len(primaryKey) > 2 {
		return fmt.Errorf("a primary key has one or two attributes, not %d", len(primaryKey))
	}
	for i, k := range primaryKey {
		if k.Name == "" || i > 0 && k.Name == primaryKey[0].Name {
			return errors.New("the attributes of the primary key need different names")
		}
		if k.Type != attribute.KindS && k.Type != attribute.KindN && k.Type != attribute.KindB {
			return fmt.Errorf("key attribute %s: a key has type S, N or B, not %s", k.Name, k.Type)
		}
	}
	return nil
}

// reservedPrefix begins the names of replicator's own families.
const reservedPrefix = "_cdc"

// keyType returns the type of a primary key attribute, KindNone for any other.
func (m *Mapping) keyType(name string) attribute.Kind {
	for _, k := range m.PrimaryKey {
		if k.Name == name {
			return k.Type
		}
	}
	return attribute.KindNone
}

// DependsOnKeyOnly reports whether an item's addresses follow from its primary key alone, so that
// the item never moves. Only then can a stream without old images be applied: otherwise the row
// that a moved item left would be unknown.
func (m *Mapping) DependsOnKeyOnly() bool { return m.keyOnly }

// KeepsVersions reports whether older cells of columns are kept. Then a row must be read before an
// image is put into it.
func (m *Mapping) KeepsVersions() bool { return m.keep }

// Outlives reports whether the target keeps items that TTL deletions remove from the source. Then a
// row without an item may be correct.
func (m *Mapping) Outlives() bool { return m.ttl.Attribute != "" && m.ttl.Expire == KeepExpired }

// Collected reports whether garbage collection may have removed the cells of an item by the given
// time, although the source may still hold the item.
func (m *Mapping) Collected(item attribute.Item, at time.Time) bool {
	return m.ttl.Attribute != "" && m.ttl.Expire == ExpireByGC && m.ttl.expires(item, at) <= at.UnixMicro()
}

// Keys returns the primary key attributes of an item, which may be an image or the keys of a
// change.
func (m *Mapping) Keys(item attribute.Item) attribute.Item {
	keys := make([]attribute.Attribute, 0, len(m.PrimaryKey))
	for _, k := range m.PrimaryKey {
		if v, ok := item.Get(k.Name); ok {
			keys = append(keys, attribute.Attribute{Name: k.Name, Value: v})
		}
	}
	return attribute.NewItem(keys)
}

// ItemKey names an item within its source table, given its image or only its keys. The name is the
// primary key in an unambiguous printable encoding, the partition key first, joined with '/'. It is
// item data: it must not be logged.
func (m *Mapping) ItemKey(item attribute.Item) string { return string(m.appendItemKey(nil, item)) }

func (m *Mapping) appendItemKey(b []byte, item attribute.Item) []byte {
	for i, k := range m.PrimaryKey {
		if i > 0 {
			b = append(b, '/') // AppendKey writes only letters, digits, ':', '-' and '_'
		}
		v, _ := item.Get(k.Name) // DynamoDB has no item without its key; "none:" would still be a distinct name
		b = v.AppendKey(b)
	}
	return b
}
