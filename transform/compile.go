package transform

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// rule is a compiled Rule.
type rule struct {
	name   string
	when   Condition
	ignore bool
	writes []*write
}

// write is a compiled Write: what an item puts into one row.
type write struct {
	table    string
	row      []rowPart
	template *Template

	// folded reports that an item is one cell of a row that other items share.
	folded    bool
	family    string
	qualifier []rowPart
	cell      *CellRule
	only      []string // sorted; nil: all but dropped

	// targets are the columns, sorted by attribute, unless the item is folded. star is the target
	// of all other attributes, or nil if these are not copied.
	targets []target
	star    *target
	clashes []string // attributes whose column a rule gives to another attribute
	spread  bool     // values become several columns, whose names may collide

	families   []string // owned as a whole
	columns    []Column // owned one by one
	ownVersion bool     // the row holds the item's version under the item's key
	origin     bool     // the row key does not identify the item
	ours       bool     // made by NewMapping; its rows never begin like a witness key
	ages       map[string]time.Duration
}

// target is the place that an attribute is written to.
type target struct {
	attribute string
	drop      bool
	family    string
	qualifier string // of fixed targets; otherwise the attribute's name
	fixed     bool
	as        Encoding
	value     string
}

// rowPart is a compiled Part.
type rowPart struct {
	literal string // if set, all other fields are empty
	name    string
	kind    attribute.Kind // of a primary key attribute; KindNone for any other, which may be S, N or B from item to item
	calls   []Call
	escaped byte
	digits  bool   // a part of the table's name that has a fixed number of digits
	where   string // "the row key", "the column"
}

// New compiles a mapping. A finding of Check is an error, ErrMapping, unless it is a warning.
func New(spec Spec) (*Mapping, error) {
	m, findings := compile(&spec, true)
	for _, f := range findings {
		if !f.Warning {
			return nil, fmt.Errorf("%w: table %s: %s", ErrMapping, spec.Source, f.What)
		}
	}
	return m, nil
}

// compiler compiles a spec and collects findings.
type compiler struct {
	spec     *Spec
	m        *Mapping
	schema   bool // the key schema is known
	symbolic bool // the values of Spec.Varies are unknown
	findings []Finding
	families map[string]*Family
}

func compile(spec *Spec, needKey bool) (*Mapping, []Finding) {
	c := &compiler{}
	c.compile(spec, needKey)
	return c.m, c.findings
}

// compile compiles the spec and reports findings.
func (c *compiler) compile(spec *Spec, needKey bool) {
	c.spec, c.schema, c.families = spec, len(spec.PrimaryKey) > 0, map[string]*Family{}
	c.m = &Mapping{spec: spec, Source: spec.Source, Table: spec.Table, ttl: spec.TTL, keep: spec.KeepVersions, number: spec.VersionAttribute, merged: spec.Merged, PrimaryKey: slices.Clone(spec.PrimaryKey)}
	c.names(needKey)
	for i := range spec.Families {
		c.families[spec.Families[i].Name] = &spec.Families[i]
	}
	rules := spec.Rules
	if len(rules) == 0 {
		rules = []Rule{{Writes: []Write{{}}}}
	}
	for i := range rules {
		r := &rules[i]
		compiled := &rule{name: r.Name, when: r.When, ignore: r.Ignore}
		for j := range r.Writes {
			compiled.writes = append(compiled.writes, c.write(&r.Writes[j], at{i, j}))
		}
		if r.Ignore == (len(r.Writes) > 0) {
			c.report(Finding{Problem: BadRule, Rule: i, Write: -1, What: "a rule either writes its items or ignores them"})
		}
		c.m.rules = append(c.m.rules, compiled)
	}
	c.own()
	c.expiry()
	c.history()
	if c.schema {
		c.keys()
	} else {
		c.unkept()
	}
	c.unreachable(rules)
	c.outliving()
	c.m.conclude()
}

// insteadOf returns the fix for a capture that the table's name does not have.
func (c *compiler) insteadOf(name string) string {
	fix := "write {" + name + "} for an attribute"
	var known []string
	for capture := range c.spec.Captures {
		known = append(known, "{$"+capture+"}")
	}
	if len(known) > 0 {
		slices.Sort(known)
		fix = "use " + strings.Join(known, ", ") + "; or " + fix
	}
	return fix
}

// at locates a write in the spec.
type at struct{ rule, write int }

func (c *compiler) report(f Finding) { c.findings = append(c.findings, f) }

func (c *compiler) names(needKey bool) {
	fail := func(format string, args ...any) {
		c.report(Finding{Problem: BadRule, Rule: -1, Write: -1, What: fmt.Sprintf(format, args...)})
	}
	if c.spec.Source == "" || c.spec.Table == "" {
		fail("source and target table need a name")
	}
	if needKey || c.schema {
		if err := checkKey(c.spec.PrimaryKey); err != nil {
			fail("%s", err)
		}
	}
	for i, f := range c.spec.Families {
		if err := checkFamilyName(f.Name); err != nil {
			c.report(Finding{Problem: BadRule, Rule: -1, Write: -1, Field: "families", Name: f.Name, What: err.Error()})
		}
		if slices.ContainsFunc(c.spec.Families[:i], func(o Family) bool { return o.Name == f.Name }) {
			fail("family %s is declared twice", f.Name)
		}
	}
}

// conclude derives the fields that are read often.
func (m *Mapping) conclude() {
	m.obstacles = m.hindrances()
	m.keyOnly = true
	isKey := func(name string) bool { return m.keyType(name) != attribute.KindNone }
	for _, r := range m.rules {
		if r.when != nil && slices.ContainsFunc(r.when.Attributes(), func(a string) bool { return !isKey(a) }) {
			m.keyOnly = false
		}
		for _, w := range r.writes {
			for _, p := range slices.Concat(w.row, w.qualifier) {
				if p.name != "" && !isKey(p.name) {
					m.keyOnly = false
				}
			}
		}
	}
}

// write compiles one write.
func (c *compiler) write(spec *Write, where at) *write {
	w := &write{table: cmp.Or(spec.Table, c.spec.Table), template: spec.RowKey}
	if w.template == nil && c.schema {
		var names []string
		for _, k := range c.spec.PrimaryKey {
			names = append(names, k.Name)
		}
		w.template = joined(names)
	}
	if w.template != nil {
		w.row = c.parts(w.template, "the row key", where, "row_key")
	}
	if spec.Cell != nil {
		c.fold(w, spec, where)
	} else {
		c.columns(w, spec.Columns, where)
	}
	if c.spec.TTL.Attribute != "" && c.spec.TTL.Expire == ExpireByGC {
		w.ages = map[string]time.Duration{}
		for _, family := range w.written() {
			if f := c.families[family]; f != nil {
				w.ages[family], _ = f.GC.expiry()
			}
		}
	}
	return w
}

// parts compiles a template: captures become literals.
func (c *compiler) parts(t *Template, name string, where at, field string) []rowPart {
	var parts []rowPart
	for i := range t.parts {
		p := &t.parts[i]
		switch {
		case p.Attribute != "":
			parts = append(parts, rowPart{name: p.Attribute, kind: c.m.keyType(p.Attribute), calls: p.Calls, escaped: p.escaped, where: name})
		case p.Capture != "":
			if part, ok := c.varying(p); ok && c.symbolic {
				parts = append(parts, part)
				continue
			}
			value, known := c.spec.Captures[p.Capture]
			if !known {
				c.report(Finding{Problem: BadTemplate, Rule: where.rule, Write: where.write, Field: field, Offset: p.Offset,
					What: fmt.Sprintf("{$%s} is not a part of the source table's name", p.Capture), Fix: c.insteadOf(p.Capture)})
				continue
			}
			v, err := applyCalls(scalar{attribute.KindS, value}, p.Calls)
			if err != nil {
				c.report(Finding{Problem: BadTemplate, Rule: where.rule, Write: where.write, Field: field, Offset: p.Offset,
					What: fmt.Sprintf("{$%s} is %q here: %s", p.Capture, value, err)})
			}
			parts = append(parts, rowPart{literal: string(appendEscaped(nil, v.text, p.escaped))})
		default:
			parts = append(parts, rowPart{literal: p.Literal})
		}
	}
	return parts
}

// fold compiles a cell.
func (c *compiler) fold(w *write, spec *Write, where at) {
	cell := *spec.Cell
	w.folded, w.family, w.cell = true, cell.Family, &cell
	if spec.Cell.As != AsJSON && spec.Cell.As != AsDynamoDBJSON {
		c.report(Finding{Problem: BadRule, Rule: where.rule, Write: where.write, Field: "cell", What: "an item in one cell must be written as json or dynamodb_json"})
	}
	if len(spec.Columns) > 0 {
		c.report(Finding{Problem: BadRule, Rule: where.rule, Write: where.write, Field: "cell", What: "a write has either columns or a cell"})
	}
	if spec.Cell.Only != nil {
		w.only = slices.Sorted(slices.Values(spec.Cell.Only))
	}
	for _, name := range c.spec.Drop {
		w.targets = append(w.targets, target{attribute: name, drop: true})
	}
	sortTargets(w)
	if w.cell.Qualifier == nil {
		w.cell.Qualifier = &Template{}
	}
	w.qualifier = c.parts(w.cell.Qualifier, "the column", where, "cell")
	c.declared(spec.Cell.Family, AsJSON, where, "cell", "")
}

// columns compiles the column rules.
func (c *compiler) columns(w *write, rules []ColumnRule, where at) {
	if rules == nil {
		if len(c.spec.Families) != 1 {
			c.report(Finding{Problem: BadRule, Rule: where.rule, Write: where.write, Field: "columns",
				What: fmt.Sprintf("%d families are declared, but no rule maps attributes to them", len(c.spec.Families)),
				Add:  fmt.Sprintf(`columns: { "*": %s }`, c.ordinaryFamily())})
			return
		}
		rules = []ColumnRule{{Attribute: "*", To: c.spec.Families[0].Name}}
	}
	named := map[string]bool{}
	for _, r := range rules {
		t := target{attribute: r.Attribute, as: r.As, value: r.Value}
		t.family, t.qualifier, t.fixed = strings.Cut(r.To, ":")
		problem := func(format string, args ...any) {
			c.report(Finding{Problem: BadRule, Rule: where.rule, Write: where.write, Field: "columns", Name: r.Attribute, What: fmt.Sprintf(format, args...)})
		}
		switch {
		case named[r.Attribute]:
			problem("attribute %s is given twice", quoteName(r.Attribute))
		case r.Attribute == "*" && t.fixed:
			problem(`"*" needs a family, not a column`)
		case r.As.flattens() && r.Attribute != "*":
			problem("as: %s works only with \"*\"", r.As)
		case r.As == AsCells && r.Attribute == "*":
			problem("as: cells works only with a single attribute")
		case r.Value != "" && r.As != AsColumns:
			problem("value works only with as: columns")
		case len(t.qualifier) > MaxQualifierBytes:
			problem("a column name has %d bytes; Bigtable allows %d", len(t.qualifier), MaxQualifierBytes)
		}
		named[r.Attribute] = true
		w.spread = w.spread || r.As == AsColumns || r.As.flattens()
		c.declared(t.family, r.As, where, "columns", r.Attribute)
		if f := c.families[t.family]; r.As == AsCells && f != nil && !f.GC.never() {
			c.report(Finding{Problem: BadRule, Rule: where.rule, Write: where.write, Field: "columns", Name: r.Attribute,
				What:  fmt.Sprintf("a list goes to cells of family %s (%s), which does not keep all of them", f.Name, f.GC),
				Cause: "the elements are versions of one column, with their positions as milliseconds since 1970",
				Fix:   fmt.Sprintf("write %s: never, or give lists their own family", f.Name)})
		}
		if r.Attribute == "*" {
			star := t
			w.star = &star
			continue
		}
		w.targets = append(w.targets, t)
	}
	for _, name := range c.spec.Drop {
		if !named[name] {
			named[name] = true
			w.targets = append(w.targets, target{attribute: name, drop: true})
		}
	}
	if key, ok := w.template.isWholeRowKey(); ok && w.star != nil && w.star.as == AsGoogleUtility && !named[key] {
		w.targets = append(w.targets, target{attribute: key, drop: true})
	}
	sortTargets(w)
	c.clashes(w, where)
}

func sortTargets(w *write) {
	slices.SortFunc(w.targets, func(a, b target) int { return strings.Compare(a.attribute, b.attribute) })
}

// clashes reports columns that two attributes would share.
func (c *compiler) clashes(w *write, where at) {
	taken := map[Column]string{}
	for _, t := range w.targets {
		if t.drop || t.as == AsColumns {
			continue
		}
		column := Column{t.family, t.attribute}
		if t.fixed {
			column.Qualifier = t.qualifier
		}
		if other, ok := taken[column]; ok {
			c.report(Finding{Problem: BadRule, Rule: where.rule, Write: where.write, Field: "columns", Name: t.attribute,
				What: fmt.Sprintf("attributes %s and %s have the same column %s:%s", quoteName(other), quoteName(t.attribute), column.Family, quoteName(column.Qualifier))})
		}
		taken[column] = t.attribute
		if w.star == nil || t.family != w.star.family {
			continue
		}
		if name, ok := w.star.attributeOf(column.Qualifier); ok && name != t.attribute && w.find(name) == nil {
			w.clashes = append(w.clashes, name)
		}
	}
}

// find returns the target that a rule gives to the attribute.
func (w *write) find(attr string) *target {
	n, ok := slices.BinarySearchFunc(w.targets, attr, func(t target, name string) int { return strings.Compare(t.attribute, name) })
	if !ok {
		return nil
	}
	return &w.targets[n]
}

// written returns the families that a write uses, in the order in which the rule names them.
func (w *write) written() []string {
	if w.folded {
		return []string{w.family}
	}
	var families []string
	add := func(t *target) {
		if !t.drop && !slices.Contains(families, t.family) {
			families = append(families, t.family)
		}
	}
	for i := range w.targets {
		add(&w.targets[i])
	}
	if w.star != nil {
		add(w.star)
	}
	return families
}

// declared checks that a family exists. It also checks that counters go only to aggregates that
// keep their cells, and that aggregates take only counters.
func (c *compiler) declared(family string, as Encoding, where at, field, attr string) {
	f := c.families[family]
	finding := Finding{Rule: where.rule, Write: where.write, Field: field, Name: attr}
	if f == nil {
		finding.Problem = UndeclaredFamily
		finding.What = fmt.Sprintf("family %s is not declared", quoteName(family))
		finding.Fix = undeclared(family, as, attr)
		c.report(finding)
		return
	}
	finding.Problem = CounterFamily
	switch {
	case as == AsCounter && f.Aggregate == NoAggregate:
		finding.What = fmt.Sprintf("a counter goes to family %s, which is not an aggregate", family)
		finding.Fix = fmt.Sprintf("declare another family for counters, like counters: never:intsum, or write %s: %s:intsum", family, f.GC.ageless())
	case as == AsCounter && f.Aggregate == IntHLL:
		finding.What = fmt.Sprintf("a counter goes to family %s, which counts distinct values and cannot be set to a number", family)
		finding.Fix = "use intsum, intmin or intmax"
	case as == AsCounter && f.GC.hasAge():
		finding.What = fmt.Sprintf("a counter goes to family %s (%s), which has an age rule", family, f.GC)
		finding.Cause = "the cell of a counter has the timestamp 0, so an age rule collects it immediately"
		finding.Fix = fmt.Sprintf("write %s: never:%s, or give counters their own family", family, f.Aggregate)
	case as != AsCounter && f.Aggregate != NoAggregate:
		finding.What = fmt.Sprintf("family %s is an aggregate (%s), and takes counters only", family, f.Aggregate)
		finding.Fix = "write as: counter, or choose another family"
	default:
		return
	}
	c.report(finding)
}

// longestAge is the longest age of a rule by which cells can be stamped to expire. The stamp is the
// expiry minus the age, and no cell can be dated before 1970. With an age of 60 years, no cell
// could expire before 2030. The items that are written expire in the future, or expired at most
// five years ago.
const longestAge = 18250 * 24 * time.Hour

// expiry checks that garbage collection can expire items at their time to live.
func (c *compiler) expiry() {
	if c.spec.TTL.Attribute == "" || c.spec.TTL.Expire != ExpireByGC {
		return
	}
	checked := map[string]bool{}
	for _, r := range c.m.rules {
		for _, w := range r.writes {
			for _, family := range w.written() {
				f := c.families[family]
				if f == nil || checked[family] || f.Aggregate != NoAggregate {
					continue
				}
				checked[family] = true
				finding := Finding{Problem: NoExpiry, Rule: -1, Write: -1, Field: "families", Name: family,
					Cause: "expire: gc dates cells so that they reach the maximum age when the item expires",
					Fix:   fmt.Sprintf("write %s: maxversions=1 || maxage=30d, or expire: follow_deletes", family)}
				switch age, ok := f.GC.expiry(); {
				case !ok:
					finding.What = fmt.Sprintf("expire: gc needs an age rule, but family %s (%s) has none", family, f.GC)
					c.report(finding)
				case age > longestAge:
					finding.What = fmt.Sprintf("expire: gc works with ages up to %s, but the age of family %s is %s", ageText(longestAge), family, ageText(age))
					finding.Cause += ", and no cell can be dated before 1970"
					c.report(finding)
				}
			}
		}
	}
}
