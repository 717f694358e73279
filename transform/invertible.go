package transform

import (
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// NotInvertible returns why rows of the mapping do not give their items back (Invert), as texts
// that a user can act on. It is empty if each row gives its item back, except for the attributes
// that the rows do not hold (Dropped). The cells may show no types: see NeedsTypes and Unclear.
//
// A mapping is invertible if each item is one whole row of one table. The row key must show the
// primary key and use no other attribute. Each attribute must be in one cell, in an encoding that
// loses nothing, and Bigtable must not collect that cell.
func (m *Mapping) NotInvertible() []string { return slices.Clone(m.obstacles) }

// NotInvertible is Mapping.NotInvertible for a mapping whose primary key may be unknown. Then row
// keys are not examined.
func (s Spec) NotInvertible() []string {
	m, _ := compile(&s, false)
	return m.NotInvertible()
}

// hindrances computes the result of NotInvertible.
func (m *Mapping) hindrances() (all []string) {
	add := func(text string) {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if m.merged {
		add("several source tables write the target table; give each table its own target")
	}
	if m.keep {
		add("keep_versions keeps older values, which items do not have")
	}
	if m.ttl.Attribute != "" && m.ttl.Expire == ExpireByGC {
		add("expire: gc lets Bigtable remove values that items still have; write expire: follow_deletes")
	}
	if len(m.rules) > 1 {
		add(fmt.Sprintf("items follow %d rules, and a row does not show which rule wrote it; write all items by one rule", len(m.rules)))
	}
	for i, r := range m.rules {
		name := r.describe(i)
		if r.ignore {
			add(name + " ignores its items, so they have no row")
		} else if r.when != nil {
			add(name + " has a condition, so some items have no row; remove `when`")
		}
		if len(r.writes) > 1 {
			add(fmt.Sprintf("%s writes an item to %d rows; write one row", name, len(r.writes)))
		}
		for _, w := range r.writes {
			m.hindrancesOf(w, name, add)
		}
	}
	return all
}

// describe names the rule with the given index.
func (r *rule) describe(i int) string {
	if r.name != "" {
		return "rule " + r.name
	}
	return fmt.Sprintf("rule %d", i+1)
}

// hindrancesOf adds why rows of a write do not give their items back.
func (m *Mapping) hindrancesOf(w *write, rule string, add func(string)) {
	if w.table != m.Table {
		add(fmt.Sprintf("%s writes table %s, and the target table is %s; name one table", rule, w.table, m.Table))
	}
	if len(m.PrimaryKey) > 0 {
		for _, why := range w.unshown(m) {
			add(why)
		}
	}
	if w.folded {
		add(rule + " writes an item into one cell of a row; write columns")
		return
	}
	for i := range w.targets {
		if t := &w.targets[i]; !t.drop && losses[t.as] != "" {
			add(t.loss())
		}
	}
	if w.star != nil && losses[w.star.as] != "" {
		add(w.star.loss())
	}
	if m.spec != nil {
		for _, f := range m.spec.Families {
			if _, expires := f.GC.expiry(); expires && slices.Contains(w.written(), f.Name) {
				add(fmt.Sprintf("family %s (%s) lets Bigtable remove values by age; write maxversions=1", f.Name, f.GC))
			}
		}
	}
	m.absences(w, add)
}

// losses says what the cells of an encoding lose; "" for nothing. The types of values are not
// considered: see confuses.
var losses = [...]string{
	AsFloat64:       "rounds numbers",
	AsColumns:       "makes columns of members, which show no types and no empty values",
	AsCounter:       "adds a number to an aggregate",
	AsCells:         "makes several cells of one column",
	AsFlattened:     "makes columns of members, which show no types",
	AsFloat32s:      "rounds numbers",
	AsGoogleUtility: "shows no types, and joins the names of members in an ambiguous way",
}

func (t *target) loss() string {
	return fmt.Sprintf("attribute %s is written as: %s, which %s; write it as: dynamodb_json", quoteName(t.attribute), t.as, losses[t.as])
}

// absences adds the attributes that a row must hold and does not.
func (m *Mapping) absences(w *write, add func(string)) {
	isKey := func(name string) bool { return m.keyType(name) != attribute.KindNone }
	if len(m.PrimaryKey) > 0 && !slices.ContainsFunc(m.PrimaryKey, func(k KeyAttribute) bool { return w.holds(k.Name) }) {
		add("no column holds an attribute of the primary key, so an item that has no other mapped attribute has no row; give " + quoteName(m.PrimaryKey[0].Name) + " a column")
	}
	if name := m.ttl.Attribute; name != "" && !isKey(name) && !w.holds(name) {
		add("no column holds the time to live " + quoteName(name) + ", so a row does not show that its item expired; give it a column")
	}
	if name := m.number; name != "" && !isKey(name) && !w.holds(name) {
		add("no column holds the version attribute " + quoteName(name) + ", so an item that is made again would rank lowest; give it a column")
	}
}

// onlyWrite returns the write that all items follow; nil if there are several writes or none.
func (m *Mapping) onlyWrite() *write {
	if len(m.rules) != 1 || len(m.rules[0].writes) != 1 || m.rules[0].when != nil {
		return nil
	}
	return m.rules[0].writes[0]
}

// targetOf returns the target of an attribute; nil if it has none.
func (w *write) targetOf(name string) *target {
	switch t := w.find(name); {
	case t != nil && t.drop:
		return nil
	case t != nil:
		return t
	case slices.Contains(w.clashes, name):
		return nil // its column belongs to another attribute
	}
	return w.star
}

// holds reports whether the rows hold an attribute.
func (w *write) holds(name string) bool { return w.targetOf(name) != nil }

// Dropped returns the attributes that rows do not hold. The result `others` reports that rows hold
// only the attributes that the rules name, so all others are dropped too. A row says nothing about
// these attributes: they stay in an item that is made equal to its row, and are lost if the item is
// deleted and made again. Attributes of the primary key are never among them. The mapping must be
// invertible (NotInvertible).
func (m *Mapping) Dropped() (names []string, others bool) {
	w := m.onlyWrite()
	if w == nil {
		return nil, false
	}
	for i := range w.targets {
		if t := &w.targets[i]; t.drop && m.keyType(t.attribute) == attribute.KindNone {
			names = append(names, t.attribute)
		}
	}
	for _, name := range w.clashes {
		if m.keyType(name) == attribute.KindNone {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, w.star == nil
}
