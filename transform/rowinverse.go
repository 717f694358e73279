package transform

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// This file derives primary keys from rows.

// keyOf is Key for a mapping that was made from rules.
func (m *Mapping) keyOf(row string) (attribute.Item, error) {
	w := m.onlyWrite()
	if w == nil || w.folded || len(w.unshown(m)) > 0 {
		return attribute.Item{}, fmt.Errorf("%w: its rows do not show primary keys", ErrRow)
	}
	keys, ok := w.invert(m, m.rules[0], row)
	if !ok {
		return attribute.Item{}, fmt.Errorf("%w: its parts are not those of a primary key", ErrRow)
	}
	for i, k := range m.PrimaryKey {
		v, _ := keys.Get(k.Name)
		if n := len(v.Text()); n == 0 || n > MaxKeyBytes || i > 0 && n > MaxSortKeyBytes {
			return attribute.Item{}, fmt.Errorf("%w: key attribute %s would have %d bytes, which DynamoDB does not allow", ErrRow, quoteName(k.Name), n)
		}
	}
	if again, err := w.appendRow(nil, keys); err != nil || string(again) != row {
		return attribute.Item{}, fmt.Errorf("%w: the item of this key has another row", ErrRow)
	}
	return keys, nil
}

// unshown returns why rows do not show the primary key of their item, one text per attribute. It is
// empty if every row shows it. It considers only the form of the row key, not the rule's condition.
func (w *write) unshown(m *Mapping) []string {
	var why []string
	cause, shown := map[string]string{}, map[string]bool{}
	readable := true
	for i := range w.row {
		p := &w.row[i]
		if p.name == "" {
			continue
		}
		if m.keyType(p.name) == attribute.KindNone {
			why = append(why, fmt.Sprintf("the row key uses %s, which is not part of the primary key", quoteName(p.name)))
		}
		lost := slices.IndexFunc(p.calls, func(c Call) bool { return !c.undoable() })
		switch readable = readable && w.ends(i); {
		case !readable:
			cause[p.name] = "the row does not show where it ends"
		case lost >= 0:
			cause[p.name] = fmt.Sprintf("%s cannot be undone", p.calls[lost].Name)
		default:
			shown[p.name] = true
		}
	}
	for _, k := range m.PrimaryKey {
		if !shown[k.Name] {
			text := "the row key does not show " + quoteName(k.Name)
			if cause[k.Name] != "" {
				text += ": " + cause[k.Name]
			}
			why = append(why, text)
		}
	}
	return why
}

// ends reports whether every row shows where the placeholder ends. It is false only for a
// placeholder for which end can fail.
func (w *write) ends(i int) bool {
	p := &w.row[i]
	_, fixed := p.width()
	last := !slices.ContainsFunc(w.row[i+1:], func(q rowPart) bool { return q.name != "" })
	return fixed || last || p.escaped != 0 || p.selfEnding()
}

// undoable reports whether undo returns the value for every text that the function produces. The
// function after is undone only with the help of a condition, and is not counted here.
func (c *Call) undoable() bool {
	switch c.Name {
	case "raw", "default", "pad", "newest_first", "hex", "reverse", "reverse_domain", "sortable":
		return true
	}
	return false
}

// invert splits a row into its parts and returns the primary key in it. The parts must be
// distinguishable, and their functions must be invertible. Use fits to check that the item can have
// the row.
func (w *write) invert(m *Mapping, r *rule, row string) (attribute.Item, bool) {
	known := r.implied()
	values := map[string]attribute.Value{}
	rest := row
	for i := range w.row {
		p := &w.row[i]
		if p.name == "" {
			if !strings.HasPrefix(rest, p.literal) {
				return attribute.Item{}, false
			}
			rest = rest[len(p.literal):]
			continue
		}
		n, ok := w.end(i, rest)
		if !ok {
			break
		}
		if kind := m.keyType(p.name); kind != attribute.KindNone {
			if text, ok := p.undo(rest[:n], known); ok {
				if v, err := keyValue(kind, text); err == nil {
					values[p.name] = v
				}
			}
		}
		rest = rest[n:]
	}
	var keys []attribute.Attribute
	for _, k := range m.PrimaryKey {
		v, ok := values[k.Name]
		if !ok && known != nil {
			v, ok = known.Fixed(k.Name)
		}
		if !ok {
			return attribute.Item{}, false
		}
		keys = append(keys, attribute.Attribute{Name: k.Name, Value: v})
	}
	return attribute.NewItem(keys), true
}

// end returns the length of the placeholder at the beginning of `rest`, the unread part of a row.
// It returns false if the row does not show where the placeholder ends.
func (w *write) end(i int, rest string) (int, bool) {
	p := &w.row[i]
	if least, most := p.extent(rest); least == most {
		return least, true
	} else if least > most {
		return 0, false
	}
	literals := 0 // the number of literals after the last placeholder
	for _, q := range w.row[i+1:] {
		if q.name != "" {
			literals = -1
			break
		}
		literals += len(q.literal)
	}
	if literals >= 0 {
		return len(rest) - literals, literals <= len(rest)
	}
	if p.escaped == 0 {
		return 0, false
	}
	n := strings.IndexByte(rest, p.escaped) - strings.IndexByte(w.row[i+1].literal, p.escaped)
	return n, n >= 0
}

// undo returns the value that the placeholder turned into this text, if its functions can be
// undone.
func (p *rowPart) undo(text string, known Implying) (string, bool) {
	if p.escaped != 0 {
		text = percentDecoded(text)
	}
	for i := len(p.calls) - 1; i >= 0; i-- {
		switch c := p.calls[i]; c.Name {
		case "raw", "default":
		case "pad", "newest_first":
			if strings.Trim(text, "0123456789") != "" {
				return "", false
			}
			if c.Name == "newest_first" {
				text = complement(text)
			}
			if text = strings.TrimLeft(text, "0"); text == "" {
				text = "0"
			}
		case "hex":
			b, err := hex.DecodeString(text)
			if err != nil {
				return "", false
			}
			text = string(b)
		case "reverse":
			if !utf8.ValidString(text) {
				return "", false
			}
			characters := []rune(text)
			slices.Reverse(characters)
			text = string(characters)
		case "after":
			if known == nil {
				return "", false
			}
			if prefix, ok := known.Prefix(p.name); !ok || i > 0 || !strings.HasPrefix(prefix, c.Text) {
				return "", false
			}
			text = c.Text + text
		case "reverse_domain":
			text = domainReversed(text)
		case "sortable":
			number, ok := unsortable(text)
			if !ok {
				return "", false
			}
			text = number
		default:
			return "", false
		}
	}
	return text, true
}

// percentDecoded is the inverse of appendEscaped. Escapes that appendEscaped does not write stay as
// they are.
func percentDecoded(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				b, i = append(b, c...), i+2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
