package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Preview shows the rows to which one item maps.
type Preview struct {
	Source     string       `json:"source"`
	Rule       rule         `json:"rule"`
	Rows       []previewRow `json:"rows"`
	Ignored    bool         `json:"ignored"` // the item's rule ignores it
	OnDelete   string       `json:"on_delete"`
	Unmappable *string      `json:"unmappable"` // why the item would be parked; null if it can be mapped
}

// previewRow is one row of an item.
type previewRow struct {
	Table string        `json:"table"`
	Row   Octets        `json:"row"`
	Cells []previewCell `json:"cells"`
}

type previewCell struct {
	Family    string    `json:"family"`
	Qualifier Octets    `json:"qualifier"`
	Time      time.Time `json:"time"`
	Value     Octets    `json:"value"`
	Counter   *int64    `json:"counter,omitempty"` // the value of an aggregate, such as a counter
}

// previewsOf returns the previews of items, as if they were written at the given time.
func previewsOf(m *transform.Mapping, cfg *config.Config, t config.Table, items []attribute.Item, at time.Time) []Preview {
	previews := make([]Preview, 0, len(items))
	for _, item := range items {
		placed, err := m.Map(item, at)
		shown := Preview{Source: m.Source, Rule: ruleOf(cfg, t, placed), Rows: []previewRow{}, Ignored: placed.Ignored, OnDelete: onDelete(placed, max(1, len(t.Families)))}
		if err != nil {
			reason := err.Error()
			var unmappable *transform.Unmappable
			if errors.As(err, &unmappable) {
				reason = unmappable.Reason
			}
			shown.Unmappable = &reason
		}
		for _, row := range placed.Rows {
			next := previewRow{Table: row.Table, Row: Octets(row.Row), Cells: []previewCell{}}
			for _, c := range row.Cells {
				cell := previewCell{Family: c.Family, Qualifier: Octets(c.Qualifier), Time: time.UnixMicro(c.Timestamp).UTC(), Value: Octets(c.Value)}
				if c.Add && len(c.Value) == 8 {
					sum := int64(binary.BigEndian.Uint64(c.Value))
					cell.Counter = &sum
				}
				next.Cells = append(next.Cells, cell)
			}
			shown.Rows = append(shown.Rows, next)
		}
		previews = append(previews, shown)
	}
	return previews
}

// onDelete describes, in words, the cells that a delete of the item removes from the target. The
// argument `families` is the number of families of the target table.
func onDelete(p transform.Placement, families int) string {
	if len(p.Rows) == 0 { // the item is ignored, or has no row
		return "nothing, because there is no row"
	}
	var parts []string
	seen := map[string]int{}
	for _, row := range p.Rows {
		part := ownedText(row, families)
		if seen[part]++; seen[part] == 1 {
			parts = append(parts, part)
		}
	}
	for i, part := range parts {
		if n := seen[part]; n > 1 {
			parts[i] = fmt.Sprintf("%s, in each of %d rows", part, n)
		}
	}
	return "removes " + strings.Join(parts, "; ")
}

// ownedText describes the parts of a row that belong to an item.
func ownedText(row transform.RowMutation, families int) string {
	switch n := len(row.Columns); {
	case n == 0 && len(row.Families) >= families && row.Owner == "":
		return "the row"
	case n == 0 && len(row.Families) == 1:
		return "family " + row.Families[0] + " of the row"
	case n == 0:
		return "families " + strings.Join(row.Families, ", ") + " of the row"
	case n == 1 && len(row.Families) == 0:
		return "this one cell"
	case len(row.Families) == 0:
		return terminal.Plural(n, "column") + " of the row"
	default:
		return terminal.Plural(n, "column") + " and families " + strings.Join(row.Families, ", ") + " of the row"
	}
}

// ShowPreviews writes the rows of the items, as text, cbt or json. If an item cannot be mapped, it
// returns an error with the exit status of the answer "no".
func ShowPreviews(p *terminal.Console, previews []Preview, as string) error {
	var err error
	switch {
	case as == "json":
		err = p.WriteJSON(struct {
			Schema string    `json:"schema"`
			Items  []Preview `json:"items"`
		}{"replicator.preview/v1", previews})
	case len(previews) == 0:
		_, err = fmt.Fprintln(p.Stdout, "the table has no items")
	default:
		for i := range previews {
			if i > 0 && as == "text" && err == nil {
				_, err = fmt.Fprintln(p.Stdout)
			}
			if err == nil {
				err = p.Show(p.Stdout, func(w io.Writer) error { return previews[i].write(w, as) })
			}
		}
	}
	if err != nil {
		return err
	}
	bad := 0
	for _, shown := range previews {
		if shown.Unmappable != nil {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return &diag.Error{Code: diag.ItemsParked, What: terminal.Plural(bad, "item") + " cannot be mapped", Cause: "the reasons are listed above",
		Fix: "correct the items in the source; a run would park them"}
}
