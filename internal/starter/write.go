package starter

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Target is the target of the tables, if known.
type Target struct{ Project, Instance string }

// Proposal is a configuration, and the facts recognised about each table.
type Proposal struct {
	Config string
	Tables []Recognised
}

// Recognised holds the facts recognised about a table.
type Recognised struct {
	Table   string `json:"table"`
	Sampled int    `json:"sampled"` // number of sampled items
	// Types are the types of items, if the table's keys show several types; otherwise empty.
	Types      []string `json:"types"`
	Hot        string   `json:"hot"`          // why all new rows would go to one tablet; empty if they would not
	TimeToLive string   `json:"time_to_live"` // the time-to-live attribute; empty if there is none
	Series     string   `json:"series"`       // a pattern of names, if the tables look like one table split by time
}

// Propose writes a configuration for tables. The argument `region` may be "". A minimal
// configuration has no comments and no proposed rules.
func Propose(region string, target Target, tables []Table, minimal bool) Proposal {
	w := writer{minimal: minimal, taken: map[string]bool{"replicator_state": true}}
	w.head(region, target)
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].Name
	}
	w.series = seriesOf(names)
	out := Proposal{Tables: []Recognised{}}
	for i := range tables {
		out.Tables = append(out.Tables, w.table(&tables[i]))
	}
	out.Config = w.text.String()
	return out
}

// writer writes a configuration from beginning to end.
type writer struct {
	text    strings.Builder
	minimal bool
	taken   map[string]bool // names of target tables
	series  []series
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

// note writes a comment, except in a minimal configuration.
func (w *writer) note(format string, args ...any) {
	if !w.minimal {
		w.line(format, args...)
	}
}

func (w *writer) head(region string, target Target) {
	w.note("# A first config, made from a sample of each table. It contains no item data, except prefixes of keys that look like names of types.")
	w.note("# Read it, then run: replicator lint, replicator plan, replicator preview --sample 20.")
	w.note("# docs/reference/configuration.md explains every key. So do editors, with the schema from `replicator config schema`.")
	w.line("version: 1")
	w.note("# name: acme-2026              # of this migration: prefix of leases and checkpoints, label of metrics")
	if region != "" {
		w.line("source:\n  region: %s", quoted(region))
	}
	w.line("target:")
	if target.Project == "" {
		target.Project = "my-project"
		w.note("  # Write the ids of your project and instance here.")
	}
	if target.Instance == "" {
		target.Instance = "my-instance"
	}
	w.line("  project: %s\n  instance: %s", quoted(target.Project), quoted(target.Instance))
	w.note("  # app_profile: replicator    # single-cluster routing, single-row transactions")
	w.note("  # view: app                  # an authorized view that hides the rows of removed items from readers")
	w.line("tables:")
}

func (w *writer) table(t *Table) Recognised {
	found := Recognised{Table: t.Name, Sampled: len(t.Items), Types: []string{}, Hot: t.hot(), TimeToLive: t.TimeToLive}
	for _, s := range w.series {
		if !slices.Contains(s.names, t.Name) {
			continue
		}
		found.Series = s.pattern
		if s.names[0] == t.Name {
			w.note("  # The names of %d tables differ only in a date. One entry with a pattern matches all of them, and new ones:", len(s.names))
			w.note("  #   from: %s", s.pattern)
			w.note("  #   to: %s", quoted(strings.TrimRight(s.pattern[:strings.IndexByte(s.pattern, '{')], "_.-")))
			w.note("  # with row keys that contain {$year} and {$month}, to keep the tables' rows apart.")
		}
	}
	w.line("  - from: %s", quoted(t.Name))
	if to := targetName(t.Name, w.taken); to != "" {
		w.line("    to: %s", quoted(to))
	}
	if e := t.Stream; e != nil {
		w.line("    # Before a run: %s: %s.", e.What, e.Cause)
		for line := range strings.Lines(e.Fix) {
			w.line("    #   %s", strings.TrimSpace(line))
		}
	}
	if w.minimal {
		return found
	}
	if rules := t.rules(); rules != "" {
		for _, one := range t.single() {
			found.Types = append(found.Types, strings.TrimSpace(one.prefix+" "+one.text))
		}
		w.text.WriteString(rules)
	} else if found.Hot != "" {
		w.spread(t, found.Hot)
	}
	if t.TimeToLiveUnknown {
		w.line("    # It is unknown whether its items expire. If they do: ttl: { attribute: NAME, expire: follow_deletes }")
	}
	if t.TimeToLive != "" {
		w.line("    # Items expire by this attribute. With gc instead, Bigtable collects cells at that time; every family then needs an age, such as")
		w.line("    # d: maxversions=1 || maxage=30d")
		w.line("    ttl: { attribute: %s, expire: follow_deletes }", quoted(t.TimeToLive))
	}
	return found
}

// spread writes a comment that proposes a row key, to avoid a hot tablet.
func (w *writer) spread(t *Table, why string) {
	first := t.PrimaryKey[0].Name
	key := fmt.Sprintf("{%s | salt(16)}#{%s}", first, first)
	if len(t.PrimaryKey) == 2 {
		key += fmt.Sprintf("#{%s}", t.PrimaryKey[1].Name)
	}
	w.line("    # The partition key %s %s. Bigtable sorts rows by key, so new rows would all go to one tablet.", first, why)
	w.line("    # With a salt they spread over 16 ranges. A reader of one item computes the salt; a reader of all rows in order reads 16 ranges:")
	w.line("    # families: { d: maxversions=1 }")
	w.line("    # rules:")
	w.line("    #   - row_key: %s", "'"+key+"'")
	w.line("    #     columns: { \"*\": d }")
}

// rules returns the families and rules for a table that holds several types of items; "" if there
// is no proposal. The program accepts the rules, and they map every item of the sample.
func (t *Table) rules() string {
	types := t.single()
	if len(types) == 0 {
		return ""
	}
	text := t.ruleText(types)
	c, err := config.Parse("proposal", []byte("version: 1\ntarget: { project: p, instance: i }\ntables:\n  - from: proposed\n"+text), none)
	if err != nil {
		return ""
	}
	m, err := c.Tables[0].Mapping(t.PrimaryKey)
	if err != nil {
		return ""
	}
	for _, item := range t.Items {
		if _, err := m.Map(item, time.Unix(0, 0)); err != nil {
			return ""
		}
	}
	return text
}

func none(string) (string, bool) { return "", false }

// dataFamily is the family of items that have their own row.
const dataFamily = config.DataFamily

// family returns the name of the family for the cells of a type.
func family(text string) string {
	if name := word(text); name != dataFamily {
		return name
	}
	return dataFamily + "_items"
}

// The sizes of rows in the text below are from https://cloud.google.com/bigtable/quotas (data size
// within tables).

// lastRule is the name of the rule for items that belong to no type.
const lastRule = "other"

// ruleText writes the rules of types. If an item is the only item of its type in a partition, it
// becomes a row. The other items become cells of that row. If the sort key of an item names another
// type with rows, the item links the two types, and is written to both rows.
func (t *Table) ruleText(types []itemType) string {
	rows := map[string]itemType{} // the type of items that become rows, by prefix
	for _, one := range types {
		if _, taken := rows[one.prefix]; one.alone() && !taken {
			rows[one.prefix] = one
		}
	}
	partition, sort := t.PrimaryKey[0].Name, t.PrimaryKey[1].Name
	families := []string{dataFamily}
	use := func(name string) string {
		if !slices.Contains(families, name) {
			families = append(families, name)
		}
		return name
	}
	names := map[string]bool{lastRule: true}
	var rules strings.Builder
	for _, one := range types {
		when := fmt.Sprintf("begins_with(%s, %q)", partition, one.prefix)
		cell, name := "", word(one.prefix)+"_"+word(one.text)
		switch one.role {
		case sortSame:
			when, name = when+fmt.Sprintf(" AND %s = %s", sort, partition), word(one.prefix)
		case sortName:
			when += fmt.Sprintf(" AND %s = %q", sort, one.text)
			cell = fmt.Sprintf("%s:{%s}", family(one.text), sort)
		case sortPrefix:
			when += fmt.Sprintf(" AND begins_with(%s, %q)", sort, one.text)
			cell = fmt.Sprintf("%s:{%s | after('%s')}", family(one.text), sort, one.text)
		}
		free := name
		for n := 2; names[free]; n++ { // different prefixes may result in the same name
			free = fmt.Sprintf("%s_%d", name, n)
		}
		names[free] = true
		fmt.Fprintf(&rules, "      - name: %s\n        when: '%s'\n", quoted(free), when)
		_, linked := rows[one.text]
		switch {
		case rows[one.prefix] == one:
			fmt.Fprintf(&rules, "        row_key: '{%s}'\n        columns: { \"*\": %s }\n", partition, dataFamily)
		case one.role == sortPrefix && linked && one.text != one.prefix:
			use(family(one.text))
			back := use(family(one.prefix))
			fmt.Fprintf(&rules, "        write:                       # it links two partitions, and is a cell of both rows\n"+
				"          - row_key: '{%s}'\n            cell: { to: \"%s\", as: json }\n", partition, cell)
			fmt.Fprintf(&rules, "          - row_key: '{%s}'\n            cell: { to: \"%s:{%s | after('%s')}\", as: json }\n", sort, back, partition, one.prefix)
		default:
			use(family(one.text))
			fmt.Fprintf(&rules, "        row_key: '{%s}'\n        cell: { to: \"%s\", as: json }\n", partition, cell)
		}
	}
	var b strings.Builder
	b.WriteString("    # It holds several types of items. The items of a partition become one wide row. The only item of its type becomes the row's\n" +
		"    # columns, the others become cells, each type in its own family. The last rule takes all other items.\n" +
		"    # A partition with very many items becomes a very wide row. Bigtable recommends at most 100 MB and refuses more than 256 MB.\n    families:\n")
	for _, name := range families {
		fmt.Fprintf(&b, "      %s: maxversions=1\n", quoted(name))
	}
	b.WriteString("    rules:\n")
	b.WriteString(rules.String())
	fmt.Fprintf(&b, "      - name: %s\n        row_key: 'other/{%s}#{%s}'\n        columns: { \"*\": %s }\n", lastRule, partition, sort, dataFamily)
	return b.String()
}
