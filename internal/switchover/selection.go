package switchover

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Selection selects the groups of tables on which a command acts.
type Selection struct {
	Group  string   // the name of a group
	Tables []string // all source tables of one or several groups
	All    bool     // all groups
}

// Flags defines the flags that select groups.
func (s *Selection) Flags(f *pflag.FlagSet) {
	f.StringVar(&s.Group, "group", "", "only the group of tables with this `NAME`, from cutover.groups")
	f.StringArrayVar(&s.Tables, "table", nil, "only the groups that consist of these source `TABLE`s")
	f.BoolVar(&s.All, "all", false, "all groups of tables")
}

// group is a group of tables, and the cutover that counts for it.
type group struct {
	config.Group
	record checkpoint.Cutover
	alone  bool // the migration has no other group
}

// of describes the group in messages.
func (o *Operator) of(g group) string {
	if g.alone {
		return o.Cfg.Name
	}
	return "group " + g.Name + " of " + o.Cfg.Name
}

// with returns the flags to append to commands about the group.
func (o *Operator) with(g group) string {
	if g.alone {
		return o.With
	}
	return " --group " + standing.Quote(g.Name) + o.With
}

// named returns the names of groups, for messages.
func named(groups []group) string {
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// chooses returns the groups that a command selects. The result `chosen` is false if it selects
// none, and there are several.
func (o *Operator) chooses() (groups []group, chosen bool, err error) {
	for _, g := range o.Cfg.Groups(o.configs()) {
		one := group{Group: g}
		one.record = o.Cutovers().OfGroup(g.Row, sourcesOf(g.Tables), g.Patterns)
		groups = append(groups, one)
	}
	for i := range groups {
		groups[i].alone = len(groups) == 1
	}
	s := o.Select
	flags := 0
	for _, given := range []bool{s.Group != "", len(s.Tables) > 0, s.All} {
		if given {
			flags++
		}
	}
	switch {
	case flags > 1:
		return nil, false, diag.BadUsage("--group, --table and --all exclude each other", "give one of them")
	case s.All || len(groups) == 1 && flags == 0:
		return groups, true, nil
	case s.Group != "":
		at := slices.IndexFunc(groups, func(g group) bool { return g.Name == s.Group })
		if at < 0 {
			return nil, false, diag.BadUsage(fmt.Sprintf("there is no group %q", s.Group), "give one of "+named(groups))
		}
		return groups[at : at+1], true, nil
	case len(s.Tables) > 0:
		groups, err = whole(groups, s.Tables)
		return groups, true, err
	}
	return groups, false, nil
}

// whole returns the groups that consist of the named tables or patterns. It refuses a part of a group,
// because tables with a common target can only be cut over together.
func whole(groups []group, tables []string) (chosen []group, err error) {
	found := map[string]bool{}
	for _, g := range groups {
		members := append(sourcesOf(g.Tables), g.Patterns...)
		var missing []string
		for _, m := range members {
			if slices.Contains(tables, m) {
				found[m] = true
			} else if !ofPattern(g, m) {
				missing = append(missing, m)
			}
		}
		if !slices.ContainsFunc(members, func(m string) bool { return found[m] }) {
			continue
		}
		if len(missing) > 0 {
			return nil, diag.BadUsage("--table names only a part of group "+g.Name, "a group is cut over as a whole: also give --table "+strings.Join(missing, " --table "))
		}
		chosen = append(chosen, g)
	}
	for _, name := range tables {
		if !found[name] {
			return nil, diag.BadUsage(fmt.Sprintf("there is no source table %q", name), "give tables of one of the groups "+named(groups))
		}
	}
	return chosen, nil
}

// ofPattern reports whether a member of a group is a table of one of its patterns. Such a table need not
// be named: the pattern stands for it.
func ofPattern(g group, member string) bool {
	return slices.ContainsFunc(g.Tables, func(t config.Table) bool { return t.From == member && t.Pattern() != "" })
}

func sourcesOf(tables []config.Table) (names []string) {
	for _, t := range tables {
		names = append(names, t.From)
	}
	return names
}

// unchosen returns the error for a command that must name its group.
func unchosen(groups []group, why string) error {
	return diag.BadUsage(why+", and the command names none", "add --group with one of: "+named(groups)+"; or --all")
}

// toStart returns the groups for a command that begins or judges cutovers.
func (o *Operator) toStart() ([]group, error) {
	groups, chosen, err := o.chooses()
	if err == nil && !chosen {
		err = unchosen(groups, fmt.Sprintf("there are %d groups of tables", len(groups)))
	}
	return groups, err
}

// toShow returns the groups for a command that only reads. Groups without tables are left out.
func (o *Operator) toShow() ([]group, error) {
	groups, chosen, err := o.chooses()
	if err != nil || chosen {
		return groups, err
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.Tables) == 0 && g.record.Attempt == 0 }), nil
}

// toSteer returns the groups for a command on cutovers that have begun. If it names none, that is the only
// one to which the command applies.
func (o *Operator) toSteer(command string, applies func(c *checkpoint.Cutover) bool) ([]group, error) {
	groups, chosen, err := o.chooses()
	if err != nil || chosen && len(groups) == 1 {
		return groups, err
	}
	able := slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !applies(&g.record) })
	switch {
	case len(able) == 0:
		return nil, &diag.Error{Code: diag.CutoverRefused, What: "cannot " + command + " a cutover of " + o.Cfg.Name, Cause: "no group has a cutover in a step that allows this",
			Fix: "replicator cutover status" + o.With}
	case len(able) > 1 && !chosen:
		return nil, unchosen(able, terminal.Plural(len(able), "cutover")+" could be meant")
	}
	return able, nil
}

// asOfNow reads the record of a group again.
func (o *Operator) asOfNow(ctx context.Context, g group) (checkpoint.Cutover, error) {
	c, err := o.Ledger.Cutover(ctx, g.record.Row)
	if err != nil {
		return c, explain(ctx, "cannot read the ledger in table "+o.Cfg.State.Table, err)
	}
	return c, nil
}
