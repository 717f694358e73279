package inspect

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// rule is the part of the configuration that maps an item.
type rule struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// ruleOf returns the rule that mapped an item. If the table has no rules, it returns the table's
// entry, by which every item has the default mapping.
func ruleOf(cfg *config.Config, t config.Table, placed transform.Placement) rule {
	table := cfg.Where(t.Path() + ".from")
	at := cfg.Where(fmt.Sprintf("%s.rules[%d]", t.Path(), placed.Rule))
	switch {
	case at != (diag.Position{}):
		name := "rule " + placed.Name
		if placed.Name == "" {
			name = fmt.Sprintf("rule %d", placed.Rule+1)
		}
		return rule{name, at.File, at.Line}
	case cfg.Where(t.Path()+".rules[0]") != (diag.Position{}):
		return rule{"no rule", table.File, table.Line}
	case t.Preset != "":
		at = cfg.Where(t.Path() + ".preset")
		return rule{"preset " + t.Preset, at.File, at.Line}
	}
	return rule{"default mapping", table.File, table.Line}
}

func (r rule) String() string {
	return diag.Printable(fmt.Sprintf("%s (%s:%d)", r.Name, r.File, r.Line))
}
