package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// WayBack returns the reasons why items could not be restored from the table's rows after the
// cutover. It returns nil if they could be. The mapping may be nil if the source was not read.
func WayBack(t config.Table, m *transform.Mapping) (lost []string) {
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(lost, text) {
			lost = append(lost, text)
		}
	}
	if m != nil && m.HidesKeys() {
		add("item keys cannot be derived from row keys once finalize has removed _cdc:k")
	}
	if len(t.Drop) > 0 {
		add("attributes %s are not copied", strings.Join(t.Drop, ", "))
	}
	if t.TTL.Expire == "gc" {
		add("garbage collection removes cells of items that have expired")
	}
	columns := func(list []config.Column) {
		whole := len(list) == 0 // without a list, each attribute is a column
		for _, c := range list {
			whole = whole || c.Attribute == "*"
			switch c.As {
			case "", "text", "json", "flattened", "columns", "google_utility":
				add("types are lost: numbers, texts, bytes and sets look alike; use as: dynamodb_json to keep them")
			}
		}
		if !whole {
			add("attributes without a column are not copied")
		}
	}
	rule := func(list []config.Column, cell config.Cell) {
		switch {
		case cell.To == "":
			columns(list)
		case len(cell.Only) > 0:
			add("cells hold only %s", strings.Join(cell.Only, ", "))
		}
		if cell.To != "" && cell.As != "dynamodb_json" || cell.To == "" && len(list) == 0 {
			add("types are lost: numbers, texts, bytes and sets look alike; use as: dynamodb_json to keep them")
		}
	}
	for _, r := range t.Rules {
		switch {
		case r.Ignore:
			add("items of rule %s are not copied", orItsPlace(r.Name))
		case len(r.Write) > 0:
			for _, w := range r.Write {
				rule(w.Columns, w.Cell)
			}
		default:
			rule(r.Columns, r.Cell)
		}
	}
	if len(t.Rules) == 0 {
		rule(nil, config.Cell{})
	}
	return lost
}

func orItsPlace(name string) string {
	if name == "" {
		return "with ignore"
	}
	return name
}
