package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Delimiter stands between the parts of a row key.
const Delimiter = '#'

// ErrMapping is returned for a mapping that cannot be right for any item.
var ErrMapping = errors.New("mapping")

// Mapping says where the items of one source table live in its target tables, usually one. New makes it of rules, NewMapping without any; it
// does not change after that and may be used by many tasks at once.
type Mapping struct {
	// Source is the DynamoDB table, Table the Bigtable table.
	Source string
	Table  string
	// Family holds every attribute as the column of its name. Items own it in their row as a whole. It is empty if rules say
	// where attributes go.
	Family string
	// PrimaryKey is the source's key schema: the partition key and, if the table has one, the sort key.
	PrimaryKey []KeyAttribute
	// RowKey names the attributes that make up the row key, in order. It contains the whole primary key. It is empty if rules
	// make the row key.
	RowKey []string

	spec    *Spec // nil: NewMapping's
	rules   []*rule
	ttl     TTL
	keyOnly bool
	keep    bool      // older cells stay
	number  string    // the version attribute
	merged  bool      // other source tables write to the target
	parts   []rowPart // the placeholders of the row key, of NewMapping's mappings
}

// KeyAttribute is an attribute of a primary key.
type KeyAttribute struct {
	Name string
	Type attribute.Kind // S, N or B
}

// NewMapping checks and returns a mapping. Without rowKey, the row key is the primary key. Further attributes may be named, the
// tenant first for example, as long as the whole primary key is among them: it is what keeps rows of different items apart
// (T1). Errors are ErrMapping.
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

// reservedPrefix begins the names of the families that are ours.
const reservedPrefix = "_cdc"

// keyType is the type of a primary key attribute, KindNone for any other.
func (m *Mapping) keyType(name string) attribute.Kind {
	for _, k := range m.PrimaryKey {
		if k.Name == name {
			return k.Type
		}
	}
	return attribute.KindNone
}

// DependsOnKeyOnly tells whether an item's addresses follow from its primary key alone, so that the item never moves. Only
// then can a stream without old images be applied: otherwise nothing tells which row a moved item left.
func (m *Mapping) DependsOnKeyOnly() bool { return m.keyOnly }

// KeepsVersions tells whether older cells of columns stay, so that a row must be looked at before an image is put into it.
func (m *Mapping) KeepsVersions() bool { return m.keep }

// Outlives tells whether what DynamoDB's time to live removes stays in the target, so that a row without an item may be as it should.
func (m *Mapping) Outlives() bool { return m.ttl.Attribute != "" && m.ttl.Expire == KeepExpired }

// Collected tells whether garbage collection takes the cells of an item by a time, while the source may still hold it.
func (m *Mapping) Collected(item attribute.Item, at time.Time) bool {
	return m.ttl.Attribute != "" && m.ttl.Expire == ExpireByGC && m.ttl.expires(item, at) <= at.UnixMicro()
}

// Keys are the primary key attributes of an item, which may be an image or the keys of a change.
func (m *Mapping) Keys(item attribute.Item) attribute.Item {
	keys := make([]attribute.Attribute, 0, len(m.PrimaryKey))
	for _, k := range m.PrimaryKey {
		if v, ok := item.Get(k.Name); ok {
			keys = append(keys, attribute.Attribute{Name: k.Name, Value: v})
		}
	}
	return attribute.NewItem(keys)
}

// ItemKey names an item within its source table, from its image or its keys alone: its primary key in an unambiguous
// printable encoding, the partition key first, joined with '/'. It is item data: it must not be logged.
func (m *Mapping) ItemKey(item attribute.Item) string { return string(m.appendItemKey(nil, item)) }

func (m *Mapping) appendItemKey(b []byte, item attribute.Item) []byte {
	for i, k := range m.PrimaryKey {
		if i > 0 {
			b = append(b, '/') // AppendKey gives letters, digits, ':', '-' and '_' only
		}
		v, _ := item.Get(k.Name) // DynamoDB has no item without its key; "none:" would still be a name of its own
		b = v.AppendKey(b)
	}
	return b
}

// HidesKeys reports whether rows are written whose own key does not tell whose they are: a column of
// ours has it (sink.OriginColumn).
func (m *Mapping) HidesKeys() bool {
	for _, r := range m.rules {
		for i := range r.writes {
			if r.writes[i].origin {
				return true
			}
		}
	}
	return false
}
