package transform

import (
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// outliving refuses expire: keep where it does not follow from an item's key which places it has. What the time to live removed stays, and no
// image names it any more: the insert by which the item comes again has no old image. If it comes to another place, or by a rule that owns
// other families of the row, nothing would ever remove what it left.
func (c *compiler) outliving() {
	if c.spec.TTL.Attribute == "" || c.spec.TTL.Expire != KeepExpired {
		return
	}
	beyond := c.beyondKey()
	if beyond == "" {
		return
	}
	c.report(Finding{Problem: Outlives, Rule: -1, Write: -1, Field: "ttl",
		What:  "expire: keep needs rules that use only the primary key, and " + beyond,
		Cause: "an item that comes back after its expiry has no old image, so its former row is unknown and could stay",
		Fix:   "write expire: follow_deletes; or use only the primary key in when, row_key and the column of cell"})
}

// beyondKey says by what an item's places depend on more than its key; "" if they do not. Without the key schema it is told only if
// it is so for every key, which has two attributes at the most.
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

// use is an attribute by which a rule says which items it is for, or where they go.
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
