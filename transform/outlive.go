package transform

import (
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// outliving rejects expire: keep unless an item's key determines its addresses. Cells of an expired
// item stay, and no image names them later. When the item is inserted again, the change has no old
// image. If it then maps to another address, or to a rule that owns other families of the row,
// nothing would remove the old cells.
func (c *compiler) outliving() {
	if c.spec.TTL.Attribute == "" || c.spec.TTL.Expire != KeepExpired {
		return
	}
	beyond := c.beyondKey()
	if beyond == "" {
		return
	}
	c.report(Finding{Problem: Outlives, Rule: -1, Write: -1, Field: "ttl",
		What:  "expire: keep needs rules that use only the primary key, but " + beyond,
		Cause: "an item that comes back after its expiry has no old image, so its former row is unknown and could stay",
		Fix:   "write expire: follow_deletes; or use only the primary key in when, row_key and the column of cell"})
}

// beyondKey returns a text that names an attribute beyond the primary key on which an item's
// addresses depend; "" if there is none. Without the key schema it returns a text only if more than
// two attributes are used, because a key has at most two.
func (c *compiler) beyondKey() string {
	var names []string
	for _, u := range c.uses() {
		if c.schema && c.m.keyType(u.attribute) == attribute.KindNone {
			return fmt.Sprintf("%s uses %s", u.where, quoteName(u.attribute))
		}
		if !c.schema && !slices.Contains(names, u.attribute) {
			names = append(names, u.attribute)
		}
	}
	if len(names) > 2 {
		return fmt.Sprintf("these use more than two attributes: %s, %s and %s", quoteName(names[0]), quoteName(names[1]), quoteName(names[2]))
	}
	return ""
}

// use is an attribute that a rule's condition, row key or column uses.
type use struct{ attribute, where string }

func (c *compiler) uses() []use {
	var all []use
	for i, r := range c.m.rules {
		if r.when != nil {
			for _, name := range r.when.Attributes() {
				all = append(all, use{name, "the condition of " + c.ruleName(at{i, -1})})
			}
		}
		for j, w := range r.writes {
			for _, p := range slices.Concat(w.row, w.qualifier) {
				if p.name != "" {
					all = append(all, use{p.name, p.where + " of " + c.ruleName(at{i, j})})
				}
			}
		}
	}
	return all
}
