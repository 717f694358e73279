package config

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// presetUtility is the layout of Google's batch utility, byte for byte except for the order of map
// members with Java hashes in the same bucket. The row key is the partition key, which is not a
// column, and values are written as: google_utility. The other preset is the layout that the
// utility intended: the row key is the whole primary key, and values are written as: flattened.
const presetUtility = "google-migration-utility"

// preset completes the rules that have neither columns nor a cell. Without rules, it adds one rule.
func (b *specBuilder) preset() {
	t := b.table
	if t.Preset == "" {
		return
	}
	if len(t.Rules) == 0 {
		b.spec.Rules = []transform.Rule{{Writes: []transform.Write{{}}}}
	}
	for i := range b.spec.Rules {
		for j := range b.spec.Rules[i].Writes {
			w := &b.spec.Rules[i].Writes[j]
			if w.Columns != nil || w.Cell != nil {
				continue
			}
			if len(b.spec.Families) != 1 {
				b.report(diag.RuleInvalid, ".preset", 0, fmt.Sprintf("preset %s writes one family, but %d are declared", t.Preset, len(b.spec.Families)),
					"the preset cannot choose one", "declare one family, or give each rule its columns")
				return
			}
			as := transform.AsFlattened
			if t.Preset == presetUtility {
				as = transform.AsGoogleUtility
				b.utilityKey(w)
			}
			w.Columns = []transform.ColumnRule{{Attribute: "*", To: b.spec.Families[0].Name, As: as}}
		}
	}
}

// utilityKey makes the partition key the row key, if the key schema is known. It refuses a table
// with a sort key, because the utility ignores sort keys.
func (b *specBuilder) utilityKey(w *transform.Write) {
	key := b.spec.PrimaryKey
	switch {
	case w.RowKey != nil || len(key) == 0 || b.found != nil:
	case len(key) > 1:
		b.report(diag.AddressAmbiguous, ".preset", 0,
			fmt.Sprintf("preset %s uses the partition key as row key, but the table has a sort key, %q", presetUtility, key[1].Name),
			"items with the same partition key share one row, in which the utility mixes their columns. No migration can continue from such rows",
			fmt.Sprintf("set a row key: rules: [{ row_key: \"{%s}#{%s}\" }]; or write preset: %s-corrected", key[0].Name, key[1].Name, presetUtility))
	default:
		w.RowKey = transform.UtilityRowKey(key[0])
	}
}
