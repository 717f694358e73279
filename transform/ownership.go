package transform

import (
	"fmt"
	"slices"
)

// placed is a write with its rule and place.
type placed struct {
	*write
	rule *rule
	at   at
}

func (c *compiler) placed() []placed {
	var all []placed
	for i, r := range c.m.rules {
		for j, w := range r.writes {
			all = append(all, placed{w, r, at{i, j}})
		}
	}
	return all
}

// own decides what each write owns. A write owns families that no other write of the same rows
// uses. In other families it owns the columns that it names. own reports writes that cannot be kept
// apart (T6).
func (c *compiler) own() {
	all := c.placed()
	for _, w := range all {
		if w.folded {
			w.ownVersion = true
		}
	}
	shared := map[*write]map[string]bool{}
	for i := range all {
		shared[all[i].write] = map[string]bool{}
	}
	versions := false
	for i, a := range all {
		for _, b := range all[i+1:] {
			if !c.mayMeet(a, b) {
				continue
			}
			sameItem := a.rule != b.rule && c.sameItem(a, b)
			versions = versions || !a.folded && !b.folded && !sameItem
			for _, family := range a.written() {
				if !slices.Contains(b.written(), family) || sameItem {
					continue
				}
				shared[a.write][family], shared[b.write][family] = true, true
				c.conflict(a, b, family)
			}
		}
	}
	for _, w := range all {
		w.ownVersion = w.ownVersion || versions
		if w.folded {
			continue
		}
		for _, family := range w.written() {
			if !shared[w.write][family] {
				w.families = append(w.families, family)
				continue
			}
			for _, t := range w.targets {
				if !t.drop && t.family == family {
					w.columns = append(w.columns, t.column())
				}
			}
		}
		slices.Sort(w.families)
	}
}

func (t *target) column() Column {
	if t.fixed {
		return Column{t.family, t.qualifier}
	}
	return Column{t.family, t.attribute}
}

// mayMeet reports whether two writes may go to one row.
func (c *compiler) mayMeet(a, b placed) bool {
	if a.table != b.table {
		return false
	}
	if a.template == nil || b.template == nil {
		return a.template == b.template && (a.folded || b.folded) // nothing else is known about the default key
	}
	return !partsApart(a.row, a.rule.implied(), b.row, b.rule.implied())
}

// sameItem reports whether two writes of one kind share an address only if both write the same
// item. Without a key schema, writes with equal templates are assumed to do so.
func (c *compiler) sameItem(a, b placed) bool {
	if a.folded != b.folded || a.template == nil || b.template == nil {
		return a.folded == b.folded && a.template == b.template
	}
	texts := [][]rowPart{a.row}
	same := a.template.Canonical() == b.template.Canonical()
	if a.folded {
		texts = append(texts, a.qualifier)
		same = same && a.cell.Family == b.cell.Family && a.cell.Qualifier.Canonical() == b.cell.Qualifier.Canonical()
	}
	return same && (!c.schema || len(c.undetermined(texts, nil)) == 0)
}

// conflict reports two writes to one family of one row that cannot be kept apart.
func (c *compiler) conflict(a, b placed, family string) {
	for _, pair := range [][2]placed{{b, a}, {a, b}} {
		w, other := pair[0], pair[1]
		what, field := "", "columns"
		name := ""
		switch t := w.wild(family); {
		case t != nil:
			name = t.attribute
			what = fmt.Sprintf("%s writes columns with any name to family %s, and %s of the same row writes there too", t.describe(), family, c.ruleName(other.at))
		case w == b && (w.folded || other.folded):
			if w.folded && other.folded && !partsApart(w.qualifier, w.rule.implied(), other.qualifier, other.rule.implied()) {
				what, field = fmt.Sprintf("this column of family %s can be the same as one of %s", family, c.ruleName(other.at)), "cell"
			}
			cell, columns := w, other
			if !cell.folded {
				cell, columns = other, w
			}
			for i := range columns.targets {
				t := &columns.targets[i]
				if columns.folded || t.drop || t.family != family {
					continue
				}
				text, whole := start(cell.qualifier, cell.rule.implied())
				if !apart(text, whole, t.column().Qualifier, true) {
					what = fmt.Sprintf("column %s:%s can also be the cell of %s", family, t.column().Qualifier, c.ruleName(cell.at))
					name, w = t.attribute, columns
				}
			}
		case w == b:
			for i := range w.targets {
				t := &w.targets[i]
				if t.drop || t.family != family || !slices.ContainsFunc(other.targets, func(o target) bool { return !o.drop && o.column() == t.column() }) {
					continue
				}
				what, name = fmt.Sprintf("column %s:%s is also written by %s of the same row", family, t.column().Qualifier, c.ruleName(other.at)), t.attribute
			}
		}
		if what != "" {
			c.report(Finding{Problem: SharedFamily, Rule: w.at.rule, Write: w.at.write, Field: field, Name: name, What: what,
				Cause: "an item replaces everything that it owns in its row, so it would delete what the other rule's items wrote",
				Fix:   "give it a family that no other rule of that row writes; or make the rows differ, for example by a literal at the beginning"})
			return
		}
	}
}

// wild returns the write's target that writes columns of any name to the family; nil if there is
// none.
func (w *write) wild(family string) *target {
	if w.star != nil && w.star.family == family {
		return w.star
	}
	for i := range w.targets {
		if t := &w.targets[i]; !t.drop && t.family == family && t.as == AsColumns {
			return t
		}
	}
	return nil
}

func (t *target) describe() string {
	if t.attribute == "*" {
		return `"*"`
	}
	return "as: columns"
}

// ruleName names a rule for a message.
func (c *compiler) ruleName(where at) string {
	name := fmt.Sprintf("rule %d", where.rule+1)
	if c.m.rules[where.rule].name != "" {
		name = "rule " + c.m.rules[where.rule].name
	}
	if len(c.m.rules[where.rule].writes) > 1 {
		name += fmt.Sprintf(" (write %d)", where.write+1)
	}
	return name
}
