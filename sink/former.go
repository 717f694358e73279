package sink

import (
	"cmp"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Former is a replaced mapping whose rows and columns may still exist.
type Former struct {
	Mapping *transform.Mapping
	// Families are the existing families of the mapping's target tables. If it is nil, they are
	// unknown, and all families are assumed to exist. A request that names a missing family fails.
	Families map[string][]string
}

// claim returns the mapping's claim on a row, without families that do not exist.
func (f Former) claim(table, row string, keys attribute.Item, shared bool) (transform.RowMutation, bool) {
	claim, ok := f.Mapping.Claim(table, row, keys, shared)
	if ok && f.Families != nil {
		claim.Families, claim.Columns = existing(f.Families[table], claim.Families, claim.Columns)
	}
	return claim, ok
}

// existing returns those of the given families and columns that exist. The argument `there` lists
// the existing families.
func existing(there, families []string, columns []transform.Column) ([]string, []transform.Column) {
	missing := func(family string) bool { return !slices.Contains(there, family) }
	return slices.DeleteFunc(slices.Clone(families), missing),
		slices.DeleteFunc(slices.Clone(columns), func(c transform.Column) bool { return missing(c.Family) })
}

// Inherit makes a batch also delete cells that former mappings may have in its rows. Every write of
// the stream, a load, a sweep or a repair needs this until the sweep is done. A sweep does not
// examine a row of the current generation, even if the row has cells of former mappings (H102). If
// a row can hold only this item, Inherit deletes all cells of former mappings in it, regardless of
// the items to which they belonged. The result `contested` lists the former mappings that leave
// cells behind, because other items may now have cells in the same places.
func Inherit(m *transform.Mapping, former []Former, b *transform.Batch) (contested []*transform.Mapping) {
	if len(former) == 0 {
		return nil
	}
	for i := range b.Rows {
		for _, by := range inherit(m, former, &b.Rows[i]) {
			if !slices.Contains(contested, by) {
				contested = append(contested, by)
			}
		}
	}
	return contested
}

func inherit(m *transform.Mapping, former []Former, row *transform.RowMutation) (contested []*transform.Mapping) {
	if owner, sole := m.Sole(row.Table, row.Row); sole && owner == row.Owner {
		takeOver(former, row)
		return nil
	}
	for _, f := range former {
		var keys attribute.Item // nil stands for any item
		if row.Owner != "" {
			var ok bool
			if keys, ok = f.Mapping.ParseItemKey(row.Item); !ok {
				continue
			}
		}
		claim, was := f.claim(row.Table, row.Row, keys, row.Owner != "")
		if !was {
			continue
		}
		claim.Owner = row.Owner
		claim = claim.Without(*row)
		if m.Contests(claim) {
			contested = append(contested, f.Mapping)
			continue
		}
		for _, family := range claim.Families {
			if !slices.Contains(row.InheritedFamilies, family) {
				row.InheritedFamilies = append(row.InheritedFamilies, family)
			}
		}
		for _, column := range claim.Columns {
			if !slices.Contains(row.InheritedColumns, column) {
				row.InheritedColumns = append(row.InheritedColumns, column)
			}
		}
	}
	return contested
}

// takeOver makes a mutation remove everything that former mappings may have in its row.
func takeOver(former []Former, row *transform.RowMutation) {
	for _, f := range former {
		families := f.Mapping.WrittenIn(row.Table, row.Row)
		if f.Families != nil {
			families, _ = existing(f.Families[row.Table], families, nil)
		}
		for _, family := range families {
			if !slices.Contains(row.Families, family) && !slices.Contains(row.InheritedFamilies, family) {
				row.InheritedFamilies = append(row.InheritedFamilies, family)
			}
		}
	}
	row.Alone = true
}

// soleClaim returns the suspect for a row in which the current mapping has only one version. The
// suspect's items are the candidates that any mapping maps to the row. The claim covers that
// version and all other cells of replicator in the row.
func (s Sweeping) soleClaim(row string, candidates []attribute.Item, sole string) (Suspect, bool) {
	claim := transform.RowMutation{Item: sole, Table: s.Table, Row: row, Owner: sole, Remove: true, Keep: s.Mapping.KeepsVersions()}
	var suspect Suspect
	for _, keys := range candidates {
		name := s.Mapping.ItemKey(keys)
		if _, whole := s.Mapping.ParseItemKey(name); !whole || slices.ContainsFunc(suspect.Items, keys.Equal) {
			continue
		}
		had := slices.ContainsFunc(s.mappings(), func(m *transform.Mapping) bool {
			_, single := m.Claim(s.Table, row, keys, false)
			_, shared := m.Claim(s.Table, row, keys, true)
			return single || shared
		})
		if had {
			suspect.Items = append(suspect.Items, keys)
		}
	}
	if len(suspect.Items) == 0 {
		return Suspect{}, false
	}
	if keys, ok := s.Mapping.ParseItemKey(sole); ok && !slices.ContainsFunc(suspect.Items, keys.Equal) {
		suspect.Items = append(suspect.Items, keys)
	}
	claim.Item = cmp.Or(sole, s.Mapping.ItemKey(suspect.Items[0]))
	for _, keys := range suspect.Items {
		if its, ok := s.Mapping.Claim(s.Table, row, keys, sole != ""); ok && (sole == "" || s.Mapping.ItemKey(keys) == sole) {
			claim.Families, claim.Columns = its.With(claim).Families, its.With(claim).Columns
		}
	}
	takeOver(s.Former, &claim)
	suspect.Claim = claim
	return suspect, true
}

// Disinherit removes missing families from a batch, and rows of missing former tables. A request
// that names a missing family or table fails as a whole. The map `families` has the existing
// families by table. Tables without an entry there are left unchanged.
func Disinherit(m *transform.Mapping, families map[string][]string, b *transform.Batch) {
	tables := m.Tables()
	for i := range b.Rows {
		row := &b.Rows[i]
		if there, known := families[row.Table]; known {
			row.InheritedFamilies, row.InheritedColumns = existing(there, row.InheritedFamilies, row.InheritedColumns)
			if !slices.Contains(tables, row.Table) {
				row.Families, row.Columns = existing(there, row.Families, row.Columns)
			}
		}
	}
	b.Rows = slices.DeleteFunc(b.Rows, func(row transform.RowMutation) bool {
		there, known := families[row.Table]
		return known && len(there) == 0 && !slices.Contains(tables, row.Table)
	})
}
