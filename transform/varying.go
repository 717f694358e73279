package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Varying is a part of the source table's name that differs among the tables of a pattern.
type Varying struct {
	Name string
	// Digits is the number of its digits; 0 if it can be any text that a table's name allows.
	Digits int
}

// varyingName returns the name under which a varying part is listed among attributes. No attribute
// has such a name: in every template that ParseTemplate reads from a configuration, names are text
// without NUL.
func varyingName(name string) string { return "\x00" + name }

// varying returns the part of a capture whose text is not known, only its form.
func (c *compiler) varying(p *Part) (rowPart, bool) {
	for _, v := range c.spec.Varies {
		if v.Name == p.Capture {
			return rowPart{name: varyingName(v.Name), kind: attribute.KindS, calls: p.Calls, escaped: p.escaped, digits: v.Digits > 0 && len(p.Calls) == 0}, true
		}
	}
	return rowPart{}, false
}

// tables checks that no two tables of a pattern can produce the same row. A write keeps the tables
// apart if its row key contains every varying part. Two writes that could collide must both begin
// with these parts, in the same form.
func (c *compiler) tables() (Finding, bool) {
	all := c.placed()
	for _, w := range all {
		if missing := c.uncarried(w.row, w.rule.implied()); len(missing) > 0 {
			return c.notCarried(w, missing), true
		}
	}
	for i, w := range all {
		for _, o := range all[:i] {
			if w.table != o.table || sameLead(c.lead(w.row), c.lead(o.row)) || partsApart(w.row, w.rule.implied(), o.row, o.rule.implied()) {
				continue
			}
			return Finding{Problem: KeyCollision, Rule: w.at.rule, Write: w.at.write, Field: "row_key",
				What:  fmt.Sprintf("two tables of the pattern can produce the same row of %s: one by %s, one by %s", w.table, c.ruleName(o.at), c.ruleName(w.at)),
				Cause: "items of two tables with the same row overwrite or delete each other",
				Fix:   fmt.Sprintf("begin both row keys with %s#", c.captures(c.spec.Varies))}, true
		}
	}
	return Finding{}, false
}

// uncarried returns the varying parts that cannot be derived from the row key.
func (c *compiler) uncarried(row []rowPart, known Implying) []Varying {
	determined := determinedBy([][]rowPart{row}, known)
	var missing []Varying
	for _, v := range c.spec.Varies {
		if !determined[varyingName(v.Name)] {
			missing = append(missing, v)
		}
	}
	return missing
}

// lead returns the beginning of a row key up to the delimiter of the last varying part. It returns
// nil unless this beginning contains all varying parts and no other placeholder. Two rows with the
// same lead show their tables in the same way.
func (c *compiler) lead(row []rowPart) []rowPart {
	left := len(c.spec.Varies)
	seen := map[string]bool{}
	for i, p := range row {
		switch {
		case p.name == "":
			continue
		case !strings.HasPrefix(p.name, "\x00") || !p.delimited() || !p.keeps(nil):
			return nil
		case !seen[p.name]:
			seen[p.name] = true
			left--
		}
		if left > 0 {
			continue
		}
		lead := slices.Clone(row[:i+1])
		if p.escaped != 0 && !p.digits { // digits are never escaped
			literal := row[i+1].literal
			lead = append(lead, rowPart{literal: literal[:strings.IndexByte(literal, p.escaped)+1]})
		}
		return lead
	}
	return nil
}

func sameLead(a, b []rowPart) bool {
	return a != nil && slices.EqualFunc(a, b, func(a, b rowPart) bool {
		return a.literal == b.literal && a.name == b.name && a.digits == b.digits && (a.digits || a.escaped == b.escaped) &&
			slices.EqualFunc(a.calls, b.calls, func(a, b Call) bool { return a.Name == b.Name && a.Text == b.Text && a.Number == b.Number })
	})
}

// notCarried returns the finding for a row key that lacks parts of the table's name, with the
// smallest fix.
func (c *compiler) notCarried(w placed, missing []Varying) Finding {
	f := Finding{Problem: KeyCollision, Rule: w.at.rule, Write: w.at.write, Field: "row_key",
		What:  fmt.Sprintf("two tables of the pattern can produce the same row of %s: the row key lacks %s", w.table, c.captures(missing)),
		Cause: "items of two tables with the same row overwrite or delete each other"}
	for _, p := range w.row {
		name, ok := strings.CutPrefix(p.name, "\x00")
		if !ok || !slices.ContainsFunc(missing, func(v Varying) bool { return v.Name == name }) {
			continue
		}
		f.Cause = fmt.Sprintf("the end of {$%s} is ambiguous, because nothing follows it or the part before it is raw", name)
		f.Fix = fmt.Sprintf("write {$%s}# at the beginning of the row key", name)
		for _, call := range p.calls {
			if !call.f.injective {
				f.Cause = fmt.Sprintf("%s makes different values of {$%s} equal", call.Name, name)
				f.Fix = fmt.Sprintf("write {$%s} without %s", name, call.Name)
			}
		}
		return f
	}
	if w.write.template == nil {
		// The default key consists of the primary key's attributes, whose names are not known here.
		f.Add = fmt.Sprintf(`row_key: "%s#{PARTITION_KEY}#{SORT_KEY}"  # use the names of the primary key's attributes`, c.captures(missing))
		return f
	}
	f.Fix = fmt.Sprintf("write row_key: %q", c.carrying(w.write.template, missing))
	return f
}

// carrying returns the template with the missing parts inserted after the varying parts at its
// beginning.
func (c *compiler) carrying(t *Template, missing []Varying) string {
	end, digits := 0, false
	for i := range t.parts {
		p := &t.parts[i]
		part, ok := c.varying(p)
		if p.Capture == "" || !ok {
			break
		}
		if end, digits = len(t.text), part.digits; i+1 < len(t.parts) {
			end = t.parts[i+1].Offset
		}
		if i+1 < len(t.parts) && t.parts[i+1].IsPlaceholder() {
			continue
		}
		break
	}
	inserted := c.captures(missing)
	switch {
	case end == 0:
		inserted += "#"
	case !digits:
		inserted = "#" + inserted
	}
	return t.text[:end] + inserted + t.text[end:]
}

// captures returns varying parts as template text. A part that does not show its own end gets a
// delimiter after it.
func (c *compiler) captures(parts []Varying) string {
	var b strings.Builder
	for i, v := range parts {
		if i > 0 && parts[i-1].Digits == 0 {
			b.WriteByte('#')
		}
		b.WriteString("{$" + v.Name + "}")
	}
	return b.String()
}
