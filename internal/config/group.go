package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Group is a set of tables that are cut over together: cutover.groups names them, or they have common
// target tables.
type Group struct {
	// Name is the name in cutover.groups, or else the first source table or pattern of the group.
	Name string
	// Row names the ledger's record of the group's cutover (checkpoint.Cutover.Row).
	Row      string
	Tables   []Table  // the group's tables, of those that were given
	Patterns []string // the group's patterns
}

// Groups returns the groups in the order of the configuration. It divides the given tables, which are a
// result of Expand. A pattern belongs to one group, even if no table matches it yet.
func (c *Config) Groups(tables []Table) (groups []Group) {
	names := c.groupNames()
	at := map[string]int{}
	group := func(t *Table) *Group {
		name := cmp.Or(names[t.index], t.From)
		if _, known := at[name]; !known {
			at[name] = len(groups)
			groups = append(groups, Group{Name: name, Row: name})
		}
		return &groups[at[name]]
	}
	for i := range c.Tables {
		if g := group(&c.Tables[i]); c.Tables[i].IsPattern() {
			g.Patterns = append(g.Patterns, c.Tables[i].From)
		}
	}
	for _, t := range tables {
		g := group(&t)
		g.Tables = append(g.Tables, t)
	}
	if len(groups) == 1 {
		groups[0].Row = "" // versions without groups look for it there
	}
	return groups
}

// groupNames returns for each entry of the configuration the name of its group.
func (c *Config) groupNames() map[int]string {
	first := map[int]int{} // the first entry of the group, by the index of an entry
	join := func(a, b int) {
		from, to := max(first[a], first[b]), min(first[a], first[b])
		for i, f := range first {
			if f == from {
				first[i] = to
			}
		}
	}
	writer := map[string]int{} // an entry that writes the target table
	for i := range c.Tables {
		t := &c.Tables[i]
		first[t.index] = t.index
		for _, target := range t.targets() {
			if other, found := writer[target]; found {
				join(other, t.index)
			}
			writer[target] = t.index
		}
	}
	names := map[int]string{}
	for _, g := range c.Cutover.Groups {
		members := c.members(g)
		for _, i := range members {
			join(members[0], i)
		}
		for _, i := range members {
			names[first[i]] = g.Name
		}
	}
	of := map[int]string{}
	for i := range c.Tables {
		t := &c.Tables[i]
		of[t.index] = t.From
		if f := first[t.index]; names[f] != "" {
			of[t.index] = names[f]
		} else if f != t.index {
			of[t.index] = of[f]
		}
	}
	return of
}

// members returns the indexes of the entries that a group names.
func (c *Config) members(g CutoverGroup) (indexes []int) {
	for _, name := range g.Tables {
		name = nameOf(name)
		if i := slices.IndexFunc(c.Tables, func(t Table) bool { return t.From == name }); i >= 0 {
			indexes = append(indexes, c.Tables[i].index)
		}
	}
	return indexes
}

// checkGroups refuses groups that cannot be cut over by themselves.
func (d *decoder) checkGroups(c *Config) {
	report := func(pos diag.Position, what, cause, fix string) {
		d.report(diag.Error{Code: diag.InvalidValue, Pos: pos, What: what, Cause: cause, Fix: fix})
	}
	if len(c.Cutover.Groups) == 0 || len(d.found) > 0 {
		return // an error elsewhere may have hidden some tables
	}
	groupOf := map[string]string{} // by the name of the table
	for _, g := range c.Cutover.Groups {
		path := "cutover.groups." + g.Name
		for _, name := range g.Tables {
			name = nameOf(name)
			switch other, taken := groupOf[name]; {
			case !slices.ContainsFunc(c.Tables, func(t Table) bool { return t.From == name }):
				report(c.Where(path), fmt.Sprintf(`%s: %s is not under "tables"`, path, diag.Shortened(name)), "a group names tables and patterns of this file", "name one of "+strings.Join(c.from(), ", "))
			case taken:
				report(c.Where(path), fmt.Sprintf("%s: table %s is already in group %s", path, name, other), "a table belongs to one group", "remove it from one of them")
			}
			groupOf[name] = g.Name
		}
	}
	for _, g := range c.Groups(c.Tables) {
		path := "cutover.groups." + g.Name
		for _, t := range g.Tables {
			switch named := groupOf[t.From]; {
			case named == g.Name, named == "" && c.Where(path) == (diag.Position{}):
			case named == "":
				report(c.Where(path), fmt.Sprintf("%s lacks table %s", path, t.From), "it shares a target table with the group, or the group has its name", "add "+t.From+" to the group")
			default:
				report(c.Where(path), fmt.Sprintf("groups %s and %s share a target table", named, g.Name), "tables that share a target table are cut over together", "join the groups")
				return
			}
		}
	}
}

// from returns the source tables and patterns as they are written.
func (c *Config) from() (names []string) {
	for i := range c.Tables {
		names = append(names, c.Tables[i].From)
	}
	return names
}

// Without returns the configuration without some of its source tables and patterns.
func (c *Config) Without(left func(t Table) bool) *Config {
	rest := *c
	rest.Tables = slices.DeleteFunc(slices.Clone(c.Tables), left)
	return &rest
}
