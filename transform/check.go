package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Problem is a kind of mistake in a mapping.
type Problem uint8

// The problems.
const (
	BadRule          Problem = iota + 1 // a rule whose parts contradict each other or are missing
	BadTemplate                         // a row key or column that cannot be built
	UndeclaredFamily                    // a family that is used and not declared
	CounterFamily                       // a counter outside an aggregate family, or another value in an aggregate family
	SharedFamily                        // two rules of one row write the same family, and one would delete the other's cells
	NotInjective                        // two items can take the same address
	KeyCollision                        // two source tables can take the same row
	Unreachable                         // a rule that never applies
	NoExpiry                            // garbage collection cannot expire items
	Moves                               // warning: items move when an attribute beyond the primary key changes
	NoHistory                           // older cells cannot be kept
	KeepsNothing                        // warning: garbage collection keeps no older cell
	Outlives                            // rows of an expired item could stay when the item is written again to another row
)

// Finding is one mistake in a mapping, and where it is.
type Finding struct {
	Problem Problem
	Warning bool
	// Rule and Write are indexes in the spec, from 0. They are -1 if the finding concerns no
	// particular rule or write.
	Rule, Write int
	// Field is the key of the configuration: row_key, columns, cell, when, families, ttl; "" for the rule or table as a whole.
	Field string
	// Name is an attribute of columns, or a family.
	Name string
	// Offset is the place in a template, in bytes.
	Offset           int
	What, Cause, Fix string
	// Add is set instead of Fix if the write lacks a key. It is that key with its value, as YAML.
	// It is added to the write's rule or, if the table has no rules, to the table.
	Add string
}

// Check finds all mistakes in a mapping. The key schema is known only to DynamoDB. Without it,
// Check leaves out the checks that need it, and still checks names and templates.
func Check(spec Spec) []Finding {
	_, findings := compile(&spec, false)
	return findings
}

// implied returns what a rule's condition says about the attributes of the items that it matches.
func (r *rule) implied() Implying {
	if known, ok := r.when.(Implying); ok {
		return known
	}
	return nil
}

// start returns the prefix that every text made of the parts has, and whether the prefix is the
// whole text.
func start(parts []rowPart, known Implying) (text string, whole bool) {
	var b []byte
	for _, p := range parts {
		if p.name == "" {
			b = append(b, p.literal...)
			continue
		}
		if known == nil {
			return string(b), false
		}
		if v, ok := known.Fixed(p.name); ok && v.Kind() >= attribute.KindS && v.Kind() <= attribute.KindB {
			result, err := applyCalls(scalar{v.Kind(), v.Text()}, p.calls)
			if err != nil {
				return string(b), false
			}
			b = appendEscaped(b, result.text, p.escaped)
			continue
		}
		if prefix, ok := known.Prefix(p.name); ok {
			calls := p.calls
			if len(calls) > 0 && calls[0].Name == "after" {
				if rest, ok := strings.CutPrefix(prefix, calls[0].Text); ok {
					prefix, calls = rest, calls[1:]
				}
			}
			if len(calls) == 0 {
				b = appendEscaped(b, prefix, p.escaped)
			}
		}
		return string(b), false
	}
	return string(b), true
}

// apart reports whether two texts with these beginnings always differ.
func apart(a string, aWhole bool, b string, bWhole bool) bool {
	switch {
	case aWhole && bWhole:
		return a != b
	case aWhole:
		return !strings.HasPrefix(a, b)
	case bWhole:
		return !strings.HasPrefix(b, a)
	default:
		return !strings.HasPrefix(a, b) && !strings.HasPrefix(b, a)
	}
}

func partsApart(a []rowPart, knownA Implying, b []rowPart, knownB Implying) bool {
	textA, wholeA := start(a, knownA)
	textB, wholeB := start(b, knownB)
	return apart(textA, wholeA, textB, wholeB)
}

// keys checks that addresses are injective in the primary key (T1).
func (c *compiler) keys() {
	for _, w := range c.placed() {
		texts := [][]rowPart{w.row}
		if w.folded {
			texts = append(texts, w.qualifier)
		}
		if missing := c.undetermined(texts, w.rule.implied()); len(missing) > 0 {
			c.report(c.notInjective(w, missing))
		}
		w.origin = !w.folded && !c.plain(w.write) || c.spec.Merged
		c.moves(w)
	}
	for i, r := range c.m.rules {
		if r.when == nil {
			continue
		}
		for _, name := range r.when.Attributes() {
			if c.m.keyType(name) == attribute.KindNone {
				c.report(movesFinding(at{i, -1}, "when", name, fmt.Sprintf("the condition uses %s, which is not part of the primary key", quoteName(name))))
				break
			}
		}
	}
}

// unkept finds, without a key schema, addresses that have no attribute whose values stay distinct.
// Two items would share such an address under any primary key. If a condition gives an attribute
// one value, the address may belong to a single item.
func (c *compiler) unkept() {
	for _, w := range c.placed() {
		if w.template == nil {
			continue
		}
		texts := [][]rowPart{w.row}
		if w.folded {
			texts = append(texts, w.qualifier)
		}
		known := w.rule.implied()
		if w.rule.when != nil && (known == nil || slices.ContainsFunc(w.rule.when.Attributes(), func(name string) bool { _, fixed := known.Fixed(name); return fixed })) {
			continue
		}
		if len(determinedBy(texts, known)) == 0 {
			c.report(c.carriesNothing(w))
		}
	}
}

// carriesNothing returns the finding of unkept for a write. It names the first attribute that the
// address uses.
func (c *compiler) carriesNothing(w placed) Finding {
	f := Finding{Problem: NotInjective, Rule: w.at.rule, Write: w.at.write, Field: "row_key",
		What:  "many items have the same row key, because it has no attribute",
		Cause: "items with the same address overwrite or delete each other",
		Fix:   "add the attributes of the table's primary key, like {PK}#{SK}"}
	if w.folded {
		f.What = "many items have the same row key and column, because these have no attribute"
	}
	for _, p := range slices.Concat(w.row, w.qualifier) {
		if p.name != "" {
			missing := c.notInjective(w, []string{p.name})
			missing.What = strings.Replace(f.What, "has no attribute", "has no whole attribute", 1)
			missing.What = strings.Replace(missing.What, "have no attribute", "have no whole attribute", 1)
			return missing
		}
	}
	return f
}

func movesFinding(where at, field, name, what string) Finding {
	return Finding{Problem: Moves, Warning: true, Rule: where.rule, Write: where.write, Field: field, Name: name, What: what,
		Cause: "when the attribute changes, the item moves to another row; only the old image names the former row",
		Fix:   "use a stream with view type NEW_AND_OLD_IMAGES, or only attributes of the primary key"}
}

// moves reports addresses that use attributes beyond the primary key. The column of a folded item
// must not use any such attribute. Otherwise, if an item moves and no available image names its old
// column, that column would stay permanently (H74).
func (c *compiler) moves(w placed) {
	for _, p := range w.row {
		if p.name != "" && p.kind == attribute.KindNone {
			c.report(movesFinding(w.at, "row_key", p.name, fmt.Sprintf("the row key uses %s, which is not part of the primary key", quoteName(p.name))))
			break
		}
	}
	for _, p := range w.qualifier {
		if p.name != "" && p.kind == attribute.KindNone {
			c.report(Finding{Problem: NotInjective, Rule: w.at.rule, Write: w.at.write, Field: "cell", Name: p.name,
				What:  fmt.Sprintf("the column uses %s, which is not part of the primary key", quoteName(p.name)),
				Cause: "an item's column must depend on its key alone; otherwise the item's former column could stay",
				Fix:   "use attributes of the primary key in the column; put the other one into the row key if you need it"})
		}
	}
}

// plain reports whether the row key is only the primary key's attributes, so the item can be
// derived from it.
func (c *compiler) plain(w *write) bool {
	names := []string{}
	for i, p := range w.row {
		switch {
		case p.name == "" && (i == 0 || i == len(w.row)-1 || p.literal != string(Delimiter)):
			return false
		case p.name != "" && (len(p.calls) > 0 || p.kind == attribute.KindNone):
			return false
		case p.name != "":
			names = append(names, p.name)
		}
	}
	return len(names) == len(c.spec.PrimaryKey)
}

// undetermined returns the attributes of the primary key that cannot be derived from texts of these
// parts.
func (c *compiler) undetermined(texts [][]rowPart, known Implying) []string {
	determined := determinedBy(texts, known)
	if known != nil {
		for _, k := range c.spec.PrimaryKey {
			if _, ok := known.Fixed(k.Name); ok {
				determined[k.Name] = true
			}
		}
		for _, k := range c.spec.PrimaryKey {
			for _, same := range known.Equal(k.Name) {
				determined[k.Name] = determined[k.Name] || determined[same]
			}
		}
	}
	var missing []string
	for _, k := range c.spec.PrimaryKey {
		if !determined[k.Name] {
			missing = append(missing, k.Name)
		}
	}
	return missing
}

// determinedBy returns the attributes that can be derived from texts of these parts. Each text is
// parsed separately.
func determinedBy(texts [][]rowPart, known Implying) map[string]bool {
	determined := map[string]bool{}
	for _, parts := range texts {
		last := -1
		for i, p := range parts {
			if p.name != "" {
				last = i
			}
		}
		for i := range parts {
			p := &parts[i]
			if p.name == "" {
				continue
			}
			if known != nil {
				if _, ok := known.Fixed(p.name); ok {
					continue
				}
			}
			if i != last && !p.delimited() {
				break // neither this part nor the parts after it can be derived
			}
			if p.keeps(known) {
				determined[p.name] = true
			}
		}
	}
	return determined
}

// delimited reports whether the part's end can be found in the text.
func (p *rowPart) delimited() bool {
	return p.escaped != 0 || p.digits || len(p.calls) > 0 && p.calls[len(p.calls)-1].f.selfDelimiting
}

// keeps reports whether different values of the attribute give different texts.
func (p *rowPart) keeps(known Implying) bool {
	for i, call := range p.calls {
		switch {
		case call.f.injective:
		case call.f.prefixed && i == 0 && known != nil:
			if prefix, ok := known.Prefix(p.name); !ok || !strings.HasPrefix(prefix, call.Text) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// notInjective returns the finding for an address that is not injective, with the smallest fix.
func (c *compiler) notInjective(w placed, missing []string) Finding {
	what := "row key"
	field := "row_key"
	if w.folded {
		what = "row key and column together"
	}
	f := Finding{Problem: NotInjective, Rule: w.at.rule, Write: w.at.write, Field: field,
		What:  fmt.Sprintf("two items can have the same %s: it lacks %s", what, strings.Join(missing, " and ")),
		Cause: "items with the same address overwrite or delete each other",
		Fix:   fmt.Sprintf("add #{%s} at the end of row_key", strings.Join(missing, "}#{"))}
	if w.folded {
		f.Fix = fmt.Sprintf("add {%s} at the end of the cell's column", strings.Join(missing, "}#{"))
	}
	for _, p := range slices.Concat(w.row, w.qualifier) {
		if !slices.Contains(missing, p.name) {
			continue
		}
		for i, call := range p.calls {
			switch {
			case call.f.injective:
			case call.f.prefixed && i == 0:
				f.Cause = fmt.Sprintf("{%s | %s(%q)} drops the text before it", p.name, call.Name, call.Text)
				f.Fix = fmt.Sprintf("add begins_with(%s, %q) to `when`, or %s", p.name, call.Text, f.Fix)
				return f
			default:
				f.Cause = fmt.Sprintf("%s makes different values of %s equal", call.Name, p.name)
				return f
			}
		}
		f.Cause = "the parts before it are ambiguous, because they are raw or have no separator"
	}
	return f
}

// unreachable reports rules that never apply, because an earlier rule matches all their items.
func (c *compiler) unreachable(rules []Rule) {
	for i := range rules {
		for j := range rules[:i] {
			if !covers(&rules[j], &rules[i]) {
				continue
			}
			c.report(Finding{Problem: Unreachable, Rule: i, Write: -1, Field: "when",
				What:  fmt.Sprintf("%s never applies: %s matches all its items first", c.ruleName(at{i, -1}), c.ruleName(at{j, -1})),
				Cause: "the first rule that matches an item applies", Fix: "put the more specific rule first, or remove one"})
			break
		}
	}
}

// covers reports whether a rule certainly matches all items of another rule, according to the
// conditions of the two rules.
func covers(first, second *Rule) bool {
	if first.When == nil || first.Text != "" && first.Text == second.Text {
		return true
	}
	known, ok := second.When.(Comparing)
	return ok && known.Implies(first.When)
}

// CheckMerged finds pairs of source tables that can produce the same row of one target table. A
// pair has tables of two specs, or two tables of one spec for a pattern. Rule and Write of a
// finding refer to the second table of the pair. The map's keys are indexes of specs.
func CheckMerged(specs []Spec) map[int][]Finding {
	compiled := make([]*Mapping, len(specs))
	found := map[int][]Finding{}
	for i := range specs {
		c := &compiler{symbolic: true}
		c.compile(&specs[i], false)
		compiled[i] = c.m
		if len(specs[i].Varies) > 0 {
			if f, ok := c.tables(); ok {
				found[i] = append(found[i], f)
			}
		}
	}
	for i := range specs {
		for j := range specs[:i] {
			if f, ok := collide(compiled[j], compiled[i]); ok {
				found[i] = append(found[i], f)
			}
		}
	}
	return found
}

func collide(a, b *Mapping) (Finding, bool) {
	for _, ra := range a.rules {
		for _, wa := range ra.writes {
			for i, rb := range b.rules {
				for j, wb := range rb.writes {
					if wa.table != wb.table || rowsApart(wa, ra, wb, rb) {
						continue
					}
					f := Finding{Problem: KeyCollision, Rule: i, Write: j, Field: "row_key",
						What:  fmt.Sprintf("tables %s and %s can produce the same row of %s", a.Source, b.Source, wb.table),
						Cause: "items of two tables with the same row overwrite or delete each other",
						Fix:   "begin their row keys with different literals or with a part of the table's name; or give each table its own target"}
					if unnamed := defaultKeys(a, wa, b, wb); unnamed != "" {
						f.Cause += "; the default row key of " + unnamed + " begins with an attribute, which can have any value"
					}
					return f, true
				}
			}
		}
	}
	return Finding{}, false
}

// rowsApart reports whether items of two tables always take different rows of one target. Without
// the key schema, the text of a default row key is unknown. A default row key begins with an
// attribute's value, so no literal in another row key keeps the two apart.
func rowsApart(a *write, ruleA *rule, b *write, ruleB *rule) bool {
	if a.template == nil || b.template == nil {
		return false
	}
	return partsApart(a.row, ruleA.implied(), b.row, ruleB.implied())
}

// defaultKeys names the tables whose write uses the default row key.
func defaultKeys(a *Mapping, wa *write, b *Mapping, wb *write) string {
	var names []string
	if wa.template == nil {
		names = append(names, a.Source)
	}
	if wb.template == nil {
		names = append(names, b.Source)
	}
	return strings.Join(names, " and of ")
}
