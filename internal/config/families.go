package config

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// declared is a family of a target table, as declared by an entry.
type declared struct {
	table  *Table
	family transform.Family
}

// checkFamilies checks that all entries with the same target declare its families in the same way.
// A family has only one garbage collection rule. Under the rule of another entry, cells might be
// collected while their items still exist.
func (d *decoder) checkFamilies(specs []transform.Spec, tables []*Table) {
	type name struct{ target, family string }
	first := map[name]declared{}
	for i, spec := range specs {
		for _, target := range transform.Targets(spec) {
			for _, f := range target.Families {
				e, at := declared{tables[i], f}, name{target.Table, f.Name}
				other, known := first[at]
				switch {
				case !known:
					first[at] = e
				case other.family.Aggregate != f.Aggregate || !other.family.GC.Same(f.GC):
					d.found = append(d.found, e.differs(other, target.Table))
				}
			}
		}
	}
}

// differs returns the error for a family that an earlier entry declares differently.
func (e declared) differs(earlier declared, target string) *diag.Error {
	return &diag.Error{Code: diag.FamilyDiffers, Pos: e.at(),
		What: fmt.Sprintf("family %s of target %s is %s for table %s, and %s for table %s", e.family.Name, target, earlier.family.Rule(), earlier.table.From, e.family.Rule(), e.table.From),
		Cause: fmt.Sprintf("the entry of %s is at %s. A family has one rule. Under the other rule, cells could vanish too early or stay too long",
			earlier.table.From, earlier.at()),
		Fix: "give one of them its own family or target, or declare the family the same way in both entries"}
}

// at returns the position of the family's declaration, or of the entry if it has none.
func (e declared) at() diag.Position {
	return e.table.place(fmt.Sprintf("tables[%d].families.%s", e.table.index, e.family.Name), 0)
}
