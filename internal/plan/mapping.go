package plan

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// MappingChange describes the effects of a change from the ledger's mapping to the configuration's
// mapping.
type MappingChange struct {
	// Kept reports whether the ledger has the former mapping. If not, rows and columns that only
	// the former mapping wrote remain in the target. The ledger then keeps a note of that, and the
	// other fields are empty.
	Kept          bool     `json:"former_kept"`
	NewTables     []string `json:"new_tables"`
	FormerTables  []string `json:"former_tables"` // tables that lose this migration's rows
	NewColumns    []string `json:"new_columns"`
	FormerColumns []string `json:"former_columns"` // columns that are removed from rows
	RowKeys       bool     `json:"row_keys_change"`
	Sampled       int      `json:"sampled"`
	Moved         int      `json:"moved"`        // number of sampled items that move to another row
	Swept         []string `json:"swept_tables"` // tables that are swept after the items are copied again
	// Unattributed lists families with former cells that may belong to other items.
	Unattributed []string `json:"unattributed_families"`
}

// changeOf returns the effect of the configuration's mapping on a table that the ledger knows.
func changeOf(state checkpoint.TableState, present *transform.Mapping, sample []attribute.Item) *MappingChange {
	c := &MappingChange{NewTables: []string{}, FormerTables: []string{}, NewColumns: []string{}, FormerColumns: []string{}, Swept: present.Tables(), Unattributed: []string{}}
	former, err := config.RestoreMapping(state.Mapping)
	if c.Kept = state.Mapping != "" && err == nil; !c.Kept {
		return c
	}
	d := transform.ChangeOf(former, present)
	for _, pair := range []struct{ to, from *[]string }{
		{&c.NewTables, &d.NewTables}, {&c.FormerTables, &d.FormerTables}, {&c.NewColumns, &d.NewColumns}, {&c.FormerColumns, &d.FormerColumns}, {&c.Unattributed, &d.Unattributed},
	} {
		*pair.to = append(*pair.to, *pair.from...)
	}
	c.RowKeys, c.Sampled, c.Swept = d.RowKeys, len(sample), append(c.Swept, d.FormerTables...)
	for _, f := range state.Former { // former mappings with rows that are not swept yet
		for _, table := range f.Tables {
			if !slices.Contains(c.Swept, table) {
				c.Swept = append(c.Swept, table)
			}
		}
	}
	for _, item := range sample {
		if !slices.Equal(places(former, item), places(present, item)) {
			c.Moved++
		}
	}
	return c
}

// places returns the rows to which an item maps; none if it cannot be mapped.
func places(m *transform.Mapping, item attribute.Item) []string {
	rows, err := m.Addresses(item)
	if err != nil {
		return nil
	}
	var at []string
	for _, r := range rows {
		at = append(at, r.Table+"\x00"+r.Row)
	}
	slices.Sort(at)
	return at
}

// lines describes the change in lines of text.
func (c *MappingChange) lines(items int64) [][2]string {
	all := [][2]string{{"mapping", "changed: a new generation begins; about " + backfill.Counted(float64(items), "item") + " will be copied again"}}
	add := func(name, format string, args ...any) {
		all = append(all, [2]string{name, fmt.Sprintf(format, args...)})
	}
	if !c.Kept {
		add("", "the ledger does not have the former mapping; rows and columns that only that mapping wrote remain, and the table still needs a load")
		return all
	}
	add("", "then %s swept", strings.Join(c.Swept, " and ")+map[bool]string{true: " is", false: " are"}[len(c.Swept) == 1])
	few := func(name, suffix string, list []string) {
		if len(list) > 0 {
			add(name, "%s%s", strings.Join(shortened(list, 8), ", "), suffix)
		}
	}
	few("new tables", "", c.NewTables)
	few("former tables", ": replicator's rows are removed", c.FormerTables)
	few("new columns", "", c.NewColumns)
	few("former columns", ": removed", c.FormerColumns)
	switch {
	case c.RowKeys && c.Sampled > 0:
		add("rows", "%d of %s move to another row; their former rows are orphans", c.Moved, terminal.Plural(c.Sampled, "sampled item"))
	case c.RowKeys:
		add("rows", "items move to another row; their former rows are orphans")
	}
	few("unattributed", ": cells of the former mapping may be where other items now have cells. They are not removed, and the table still needs a load. Use another family to avoid this", c.Unattributed)
	return all
}

func (c *MappingChange) write(tab *tabwriter.Writer, items int64) {
	for _, line := range c.lines(items) {
		_, _ = io.WriteString(tab, "  "+line[0]+"\t"+diag.Printable(line[1])+"\n")
	}
}
