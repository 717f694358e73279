package transform

import "slices"

// Target is a table that a mapping writes to, and the families that it needs there.
type Target struct {
	Table    string
	Families []Family
}

// Targets returns the target tables of a spec: first its Table, then the tables that writes name,
// in their order. The first table also gets the families that no write uses.
func Targets(spec Spec) []Target {
	m, _ := compile(&spec, false)
	tables := m.Tables()
	all := make([]Target, len(tables))
	for i, table := range tables {
		all[i].Table = table
	}
	for _, f := range spec.Families {
		used := false
		for i := range all {
			if m.writes(all[i].Table, f.Name) {
				all[i].Families, used = append(all[i].Families, f), true
			}
		}
		if !used {
			all[0].Families = append(all[0].Families, f)
		}
	}
	return all
}

// Tables returns the names of the target tables. The mapping's Table comes first, even if no rule
// writes to it. The others follow in the order of the rules.
func (m *Mapping) Tables() []string {
	tables := []string{m.Table}
	for _, r := range m.rules {
		for _, w := range r.writes {
			if !slices.Contains(tables, w.table) {
				tables = append(tables, w.table)
			}
		}
	}
	return tables
}

// writes reports whether a write to the table writes the family.
func (m *Mapping) writes(table, family string) bool {
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table == table && slices.Contains(w.written(), family) {
				return true
			}
		}
	}
	return false
}

// Managed returns the families of a target table that some rule writes, sorted. Cells in them are
// replicated or belong to another writer.
func (m *Mapping) Managed(table string) []string {
	var families []string
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table == table {
				families = union(families, w.written())
			}
		}
	}
	slices.Sort(families)
	return families
}
