package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// DataFamily is the column family of the mapping without rules.
const DataFamily = "d"

// plain reports whether the entry has no mapping options: each attribute is a column of DataFamily.
func (t *Table) plain() bool {
	return len(t.Families) == 0 && len(t.Drop) == 0 && len(t.Rules) == 0 && t.Preset == "" && !t.KeepVersions && t.TTL == TTL{}
}

// Mapping returns the table's mapping, given the source's key schema. The error is a diag.List with
// every finding and its position.
func (t *Table) Mapping(primaryKey []transform.KeyAttribute) (*transform.Mapping, error) {
	if t.plain() && !t.merged && t.number == "" {
		return transform.NewMapping(t.From, t.To, DataFamily, primaryKey)
	}
	if t.IsPattern() {
		panic("config: the mapping of a pattern, which is no table")
	}
	spec, found := t.spec(primaryKey)
	if found == nil {
		for _, f := range transform.Check(spec) {
			if !f.Warning {
				found = append(found, t.finding(f))
			}
		}
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	return transform.New(spec)
}

// RestoreMapping rebuilds a mapping from the text of transform.Mapping.Describe.
func RestoreMapping(text string) (*transform.Mapping, error) {
	return transform.Restore(text, func(text string) (transform.Condition, error) { return expression.ParseWhen(text) })
}

// TargetFamilies returns the families to which the table's items are written.
func (t *Table) TargetFamilies() []transform.Family {
	spec, _ := t.spec(nil)
	return spec.Families
}

// ExpiresByGC reports whether garbage collection removes expired items. Then the cells get
// timestamps that depend on the item's time to live.
func (t *Table) ExpiresByGC() bool { return expires[t.TTL.Expire] == transform.ExpireByGC }

// Targets returns the tables to which the items are written, with the families that each needs:
// first To, then the tables that rules name.
func (t *Table) Targets() []transform.Target {
	spec, _ := t.spec(nil)
	return transform.Targets(spec)
}

// TargetNames returns the names of the target tables, for people.
func (t *Table) TargetNames() string { return strings.Join(t.targets(), ", ") }

// targets returns To and the other tables that rules name.
func (t *Table) targets() []string {
	names := []string{t.To}
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, r := range t.Rules {
		add(r.To)
		for _, w := range r.Write {
			add(w.To)
		}
	}
	return names
}

// FamiliesAs returns the families to which rules write attributes in an encoding.
func (t *Table) FamiliesAs(as transform.Encoding) []string {
	spec, _ := t.spec(nil)
	var names []string
	for _, r := range spec.Rules {
		for _, w := range r.Writes {
			for _, c := range w.Columns {
				if family, _, _ := strings.Cut(c.To, ":"); c.As == as && !slices.Contains(names, family) {
					names = append(names, family)
				}
			}
		}
	}
	return names
}

// rule returns the name and position of a rule; those of the table's entry if there are no rules.
func (t *Table) rule(n int) (string, diag.Position) {
	path := fmt.Sprintf("tables[%d]", t.index)
	if n < 0 || n >= len(t.Rules) {
		if t.Preset != "" {
			return "preset " + t.Preset, t.where[path+".preset"]
		}
		return "default mapping", t.where[path+".from"]
	}
	name := t.Rules[n].Name
	if name == "" {
		name = fmt.Sprint(n + 1)
	}
	return "rule " + name, t.where[fmt.Sprintf("%s.rules[%d]", path, n)]
}

// spec translates the configuration into a transform.Spec. The key schema is nil if it is unknown.
// The findings concern presets and parts that cannot be parsed. transform.Check checks the rest.
func (t *Table) spec(primaryKey []transform.KeyAttribute) (transform.Spec, diag.List) {
	b := t.read(primaryKey)
	return b.spec, b.found
}

// read translates the configuration as spec does, and records the rules that cannot be parsed.
func (t *Table) read(primaryKey []transform.KeyAttribute) *specBuilder {
	b := &specBuilder{table: t, path: t.Path(), at: noRule, unread: t.refusedParts()}
	b.spec = transform.Spec{Source: t.From, Table: t.To, PrimaryKey: primaryKey, Drop: t.Drop, Merged: t.merged, KeepVersions: t.KeepVersions, VersionAttribute: t.number,
		Captures: t.captures, TTL: transform.TTL{Attribute: t.TTL.Attribute, Expire: expires[t.TTL.Expire]}}
	if t.IsPattern() {
		b.spec.Captures, b.spec.Varies = t.pattern.Example(), t.pattern.Varies()
	}
	for _, f := range t.Families {
		family, err := transform.ParseFamily(f.Name, f.Rule)
		if err != nil {
			b.report(diag.RuleInvalid, ".families."+f.Name, 0, "family "+f.Name, strings.TrimPrefix(err.Error(), transform.ErrMapping.Error()+": "), "write it like d: maxversions=1")
		}
		b.spec.Families = append(b.spec.Families, family)
	}
	switch {
	case len(b.spec.Families) > 0:
	case t.Preset != "":
		b.spec.Families = []transform.Family{{Name: transform.UtilityFamily, GC: transform.GC{Versions: 1}}}
	default:
		b.spec.Families = []transform.Family{{Name: DataFamily, GC: transform.GC{Versions: 1}}}
	}
	if (t.TTL.Attribute == "") != (t.TTL.Expire == "") {
		b.report(diag.MissingValue, ".ttl", 0, b.path+".ttl needs both attribute and expire", "the handling of expired items depends on both",
			"write ttl: { attribute: expiresAt, expire: gc }")
	}
	for i := range t.Rules {
		b.at = i
		b.rule(&t.Rules[i], fmt.Sprintf(".rules[%d]", i))
	}
	b.at = noRule
	b.preset()
	return b
}

// noRule is used instead of a rule's index for parts of a mapping that belong to no rule.
const noRule = -1

var expires = map[string]transform.Expire{"gc": transform.ExpireByGC, "keep": transform.KeepExpired}

// specBuilder translates the entry of one table.
type specBuilder struct {
	table *Table
	path  string
	spec  transform.Spec
	found diag.List

	at     int          // index of the rule that is being translated, or noRule
	unread map[int]bool // rules that cannot be parsed; noRule for parts that belong to no rule
}

// report adds a finding about the value at a path, unless the decoder already refused that value.
func (b *specBuilder) report(code, path string, offset int, what, cause, fix string) {
	b.unread[b.at] = true
	if b.table.refused[b.path+path] {
		return
	}
	b.found = append(b.found, &diag.Error{Code: code, Pos: b.table.place(b.path+path, offset), What: what, Cause: cause, Fix: fix})
}

// place returns the position of a value plus an offset into its text. If the value is not given, it
// returns the position of the nearest section that is given.
func (t *Table) place(path string, offset int) diag.Position {
	if w, ok := t.written[path]; ok {
		return w.place(offset)
	}
	if pos, ok := t.where[path]; ok {
		return pos
	}
	for path != "" {
		if i := strings.LastIndexAny(path, ".["); i >= 0 {
			path = path[:i]
		} else {
			path = ""
		}
		if pos, ok := t.where[path]; ok {
			return pos
		}
	}
	return diag.Position{}
}

func (b *specBuilder) rule(r *Rule, path string) {
	rule := transform.Rule{Name: r.Name, Ignore: r.Ignore}
	b.uniqueName(r.Name, path)
	if r.When != "" {
		when, err := expression.ParseWhen(r.When)
		if err != nil {
			b.condition(err, path+".when")
			when = nil
		}
		if when != nil {
			rule.When, rule.Text = when, when.Text()
		}
	}
	single := Write{r.To, r.RowKey, r.Columns, r.Cell}
	given := single.To != "" || single.RowKey != "" || len(single.Columns) > 0 || single.Cell.given()
	switch {
	case len(r.Write) > 0 && given:
		b.report(diag.RuleInvalid, path, 0, "a rule has write, and also to, row_key, columns or cell", "each entry of write has its own", "move them into the entries of write")
	case r.Ignore && (given || len(r.Write) > 0):
		b.report(diag.RuleInvalid, path, 0, "a rule has ignore, and also a row key, columns or a cell", "ignored items are not written", "remove ignore, or the other keys")
	case r.Ignore:
	case len(r.Write) == 0:
		rule.Writes = []transform.Write{b.write(&single, path)}
	}
	for j := range r.Write {
		rule.Writes = append(rule.Writes, b.write(&r.Write[j], fmt.Sprintf("%s.write[%d]", path, j)))
	}
	b.spec.Rules = append(b.spec.Rules, rule)
}

// uniqueName checks that no earlier rule has the same name.
func (b *specBuilder) uniqueName(name, path string) {
	earlier := slices.IndexFunc(b.table.Rules[:b.at], func(r Rule) bool { return r.Name == name && name != "" })
	if earlier < 0 {
		return
	}
	b.report(diag.RuleInvalid, path+".name", 0, fmt.Sprintf("two rules have the name %s", diag.Shortened(name)),
		fmt.Sprintf("the name identifies a rule in messages and metrics; the other rule is at %s", b.table.place(fmt.Sprintf("%s.rules[%d].name", b.path, earlier), 0)),
		"give each rule a unique name, or none")
}

func (b *specBuilder) condition(err error, path string) {
	var syntax *expression.SyntaxError
	if errors.As(err, &syntax) {
		b.report(diag.ConditionInvalid, path, syntax.Offset, "the condition cannot be parsed", syntax.Problem, syntax.Suggestion)
		return
	}
	b.report(diag.ConditionInvalid, path, 0, "the condition cannot be parsed", err.Error(), "")
}

func (c *Cell) given() bool { return c.To != "" || c.As != "" || len(c.Only) > 0 }

func (b *specBuilder) write(w *Write, path string) transform.Write {
	out := transform.Write{Table: w.To}
	if w.RowKey != "" {
		out.RowKey = b.template(w.RowKey, path+".row_key", 0)
	}
	for _, c := range w.Columns {
		as, _ := transform.ParseEncoding(c.As)
		out.Columns = append(out.Columns, transform.ColumnRule{Attribute: c.Attribute, To: c.To, As: as, Value: c.Value})
	}
	if !w.Cell.given() {
		return out
	}
	cell := &transform.CellRule{As: transform.AsJSON, Only: w.Cell.Only}
	if w.Cell.As != "" {
		cell.As, _ = transform.ParseEncoding(w.Cell.As)
	}
	family, qualifier, found := strings.Cut(w.Cell.To, ":")
	if !found || qualifier == "" {
		b.report(diag.RuleInvalid, path+".cell.to", 0, "a cell needs a family and a column", "several items share the row, and each needs its own column",
			`write to: "family:{SK}"`)
	}
	cell.Family = family
	cell.Qualifier = b.template(qualifier, path+".cell.to", len(family)+1)
	out.Cell = cell
	return out
}

// template parses a template that begins at an offset of a value.
func (b *specBuilder) template(text, path string, offset int) *transform.Template {
	t, err := transform.ParseTemplate(text)
	var wrong *transform.TemplateError
	if errors.As(err, &wrong) {
		b.report(diag.TemplateInvalid, path, offset+wrong.Offset, "the template cannot be parsed", wrong.What, wrong.Fix)
		t, _ = transform.ParseTemplate("")
	}
	return t
}

// problems maps the findings of transform.Check to error codes.
var problems = map[transform.Problem]string{
	transform.BadRule: diag.RuleInvalid, transform.BadTemplate: diag.TemplateInvalid, transform.UndeclaredFamily: diag.FamilyUndeclared,
	transform.CounterFamily: diag.CounterFamily, transform.SharedFamily: diag.SharedFamily, transform.NotInjective: diag.AddressAmbiguous,
	transform.KeyCollision: diag.SharedTarget, transform.Unreachable: diag.RuleUnreachable, transform.NoExpiry: diag.FamilyKeeps, transform.Moves: diag.ItemsMove,
	transform.NoHistory: diag.HistoryImpossible, transform.KeepsNothing: diag.HistoryEmpty, transform.Outlives: diag.ExpiredStay,
}

// finding converts a finding of transform.Check to an error with a position.
func (t *Table) finding(f transform.Finding) *diag.Error {
	path := fmt.Sprintf("tables[%d]", t.index)
	offset := 0
	if f.Rule >= 0 && f.Rule < len(t.Rules) {
		path += fmt.Sprintf(".rules[%d]", f.Rule)
		if f.Write >= 0 && f.Write < len(t.Rules[f.Rule].Write) {
			path += fmt.Sprintf(".write[%d]", f.Write)
		}
	}
	switch f.Field {
	case "":
	case "columns", "families":
		path += "." + f.Field
		if f.Name != "" {
			path += "." + f.Name
		}
	case "cell":
		path += ".cell.to"
	default:
		path += "." + f.Field
		offset = f.Offset
	}
	e := &diag.Error{Code: problems[f.Problem], Warning: f.Warning, Pos: t.place(path, offset), What: f.What, Cause: f.Cause, Fix: f.Fix}
	switch {
	case f.Add == "":
	case len(t.Rules) == 0:
		e.Fix = "add rules:\n  - " + f.Add
	default:
		e.Fix = "add " + f.Add
	}
	return e
}

// checkMappings checks mappings as far as possible without the key schemas: first each mapping by
// itself, then the families and rows of mappings that share a target. For parts that were already
// refused, it reports no further findings.
func (d *decoder) checkMappings(c *Config) {
	var specs []transform.Spec
	var tables []*Table
	for i := range c.Tables {
		t := &c.Tables[i]
		if t.plain() && !t.merged {
			continue
		}
		b := t.read(nil)
		d.found = append(d.found, b.found...)
		if b.unread[noRule] {
			continue
		}
		faults := len(d.found)
		for _, f := range transform.Check(b.spec) {
			if !f.Warning && (len(b.unread) == 0 || ofOneRule[f.Problem] && !b.unread[f.Rule]) {
				d.found = append(d.found, t.finding(f))
			}
		}
		if len(b.unread) == 0 && len(d.found) == faults {
			specs, tables = append(specs, b.spec), append(tables, t)
		}
	}
	d.checkFamilies(specs, tables)
	for i, found := range transform.CheckMerged(specs) {
		for _, f := range found {
			d.found = append(d.found, tables[i].finding(f))
		}
	}
}

// ofOneRule are the problems that a rule can have by itself, without regard to other rules.
var ofOneRule = map[transform.Problem]bool{transform.BadRule: true, transform.BadTemplate: true, transform.UndeclaredFamily: true,
	transform.CounterFamily: true, transform.NotInjective: true}

// ofNoMapping are the keys of a table entry that do not belong to the mapping.
var ofNoMapping = []string{".start", ".discover_every", ".dual_writes", ".backfill_mode"}

// refusedParts returns the rules in which the decoder has refused a value, and noRule if it refused
// another part of the mapping.
func (t *Table) refusedParts() map[int]bool {
	parts := map[int]bool{}
	for path, refused := range t.refused {
		below, is := strings.CutPrefix(path, t.Path())
		if !refused || !is || below != "" && below[0] != '.' || slices.Contains(ofNoMapping, below) {
			continue
		}
		var rule int
		if n, _ := fmt.Sscanf(below, ".rules[%d]", &rule); n == 0 {
			rule = noRule
		}
		parts[rule] = true
	}
	return parts
}
