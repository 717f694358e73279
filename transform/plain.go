package transform

import "slices"

// NotPlain returns why rows of the mapping can be written only under a condition; "" if they can
// also be copied without one. A row is plain if it belongs to one item, and if every cell of it
// holds one value whose time has no meaning.
func (m *Mapping) NotPlain() string {
	switch {
	case m.merged:
		return "several source tables write the target table"
	case m.keep:
		return "keep_versions keeps older values"
	case m.number != "":
		return "version_attribute orders images by the application's number"
	case m.ttl.Attribute != "" && m.ttl.Expire == ExpireByGC:
		return "expire: gc gives cells artificial times"
	}
	if m.spec != nil {
		for _, f := range m.spec.Families {
			if f.GC.hasAge() {
				return "family " + f.Name + " collects cells by age"
			}
		}
	}
	if m.spec != nil && slices.ContainsFunc(m.spec.Families, func(f Family) bool { return f.Aggregate != NoAggregate }) {
		return "a family holds aggregates"
	}
	for _, r := range m.rules {
		for _, w := range r.writes {
			targets := w.targets
			if w.star != nil {
				targets = append(slices.Clone(targets), *w.star)
			}
			switch {
			case w.folded || w.ownVersion:
				return "several items share a row"
			case slices.ContainsFunc(targets, func(t target) bool { return t.as == AsCells || t.as == AsCounter }):
				return "a list becomes several cells of a column, or a number a counter"
			}
		}
	}
	return ""
}

// NotPlain is Mapping.NotPlain for a mapping whose primary key may be unknown.
func (s Spec) NotPlain() string {
	m, _ := compile(&s, false)
	return m.NotPlain()
}
