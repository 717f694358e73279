package transform

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Limits of Bigtable on the rows and cells of an item. Source:
// https://cloud.google.com/bigtable/quotas#limits-data-size and #limits-operations
const (
	MaxRowKeyBytes    = 4 << 10
	MaxQualifierBytes = 16 << 10
	MaxCellBytes      = 100_000_000
	// MaxRowBytes bounds the cells of one row mutation: a request and a row may have 256 MB,
	// including headers and replicator's own cells.
	MaxRowBytes = 250_000_000
	// MaxRowCells bounds the cells of one row mutation: a request may have 100,000 mutations,
	// including the guard's own.
	MaxRowCells = 99_900
)

// The longest partition key and sort key of DynamoDB, in bytes.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
const (
	MaxKeyBytes     = 2048
	MaxSortKeyBytes = 1024
)

// Unmappable is the error for an item that Bigtable cannot hold under a mapping. A retry does not
// help.
type Unmappable struct {
	// Reason is for the operator. It contains names, types and sizes, never values.
	Reason string
}

func (e *Unmappable) Error() string { return "cannot be mapped: " + e.Reason }

func unmappable(format string, args ...any) error {
	return &Unmappable{Reason: fmt.Sprintf(format, args...)}
}

// Row returns the row key of an item, or *Unmappable.
//
// It works for a rule that writes one row; Map works for every rule. A mapping of NewMapping joins
// the values of the row key's attributes with '#'. Text is written unchanged, numbers in canonical
// text (1, 1.0 and 1e0 are one row, as they are one item), binaries raw. In every part but the
// last, '#' is written %23 and '%' is written %25. So the first delimiters of the row are the
// delimiters between the parts. The row can be split again, and items with different primary keys
// never share a row (T1). The last part is never escaped, so rows of one partition sort as DynamoDB
// sorts them.
func (m *Mapping) Row(item attribute.Item) (string, error) {
	b, err := m.appendRow(nil, item)
	return string(b), err
}

func (m *Mapping) appendRow(b []byte, item attribute.Item) ([]byte, error) {
	w, err := m.singleWrite(item)
	if err != nil {
		return b, err
	}
	return w.appendRow(b, item)
}

func (w *write) appendRow(b []byte, item attribute.Item) ([]byte, error) {
	start := len(b)
	b, err := appendParts(b, w.row, item)
	if err != nil {
		return b[:start], err
	}
	switch n := len(b) - start; {
	case n == 0:
		return b[:start], unmappable("the row key is empty")
	case n > MaxRowKeyBytes:
		return b[:start], unmappable("the row key has %d bytes; Bigtable allows %d", n, MaxRowKeyBytes)
	case !w.ours && b[start] == WitnessPrefix[0] && strings.HasPrefix(string(b[start:]), WitnessPrefix):
		return b[:start], unmappable("the row key begins like replicator's own rows")
	}
	return b, nil
}

// appendParts appends the text of a compiled template for an item.
func appendParts(b []byte, parts []rowPart, item attribute.Item) ([]byte, error) {
	for i := range parts {
		p := &parts[i]
		if p.name == "" {
			b = append(b, p.literal...)
			continue
		}
		v, ok := item.Get(p.name)
		if len(p.calls) == 0 {
			if !ok {
				return b, unmappable("attribute %s of %s is missing", quoteName(p.name), p.where)
			}
			if err := p.check(v, len(parts) == 1); err != nil {
				return b, err
			}
			b = appendEscaped(b, v.Text(), p.escaped)
			continue
		}
		text, err := p.evaluate(v, ok)
		if err != nil {
			return b, err
		}
		b = appendEscaped(b, text, p.escaped)
	}
	return b, nil
}

// evaluate applies the functions of a placeholder to its attribute.
func (p *rowPart) evaluate(v attribute.Value, ok bool) (string, error) {
	calls := p.calls
	var s scalar
	if ok {
		if err := p.check(v, false); err != nil {
			return "", err
		}
		s = scalar{v.Kind(), v.Text()}
	} else {
		n := slices.IndexFunc(calls, func(c Call) bool { return c.f.Name == "default" })
		if n < 0 {
			return "", unmappable("attribute %s of %s is missing", quoteName(p.name), p.where)
		}
		s, calls = scalar{attribute.KindS, calls[n].Text}, calls[n+1:]
	}
	s, err := applyCalls(s, calls)
	if err != nil {
		return "", unmappable("attribute %s of %s: %s", quoteName(p.name), p.where, err)
	}
	return s.text, nil
}

func applyCalls(s scalar, calls []Call) (scalar, error) {
	for i := range calls {
		var err error
		if s, err = calls[i].f.apply(s, &calls[i]); err != nil {
			return scalar{}, fmt.Errorf("%s: %w", calls[i].Name, err)
		}
	}
	return s, nil
}

// check reports whether a value may be this part of a row key. The argument `alone` is true if
// there are no other parts.
func (p *rowPart) check(v attribute.Value, alone bool) error {
	switch kind := v.Kind(); {
	case kind != attribute.KindS && kind != attribute.KindN && kind != attribute.KindB:
		return unmappable("attribute %s of %s is %s; it must be S, N or B", quoteName(p.name), p.where, kind)
	case p.kind != attribute.KindNone && kind != p.kind:
		return unmappable("key attribute %s is %s; the table's key schema says %s", quoteName(p.name), kind, p.kind)
	case kind == attribute.KindS && !utf8.ValidString(v.Text()):
		// DynamoDB stores no text that is not valid UTF-8. The witness key relies on this check.
		return unmappable("attribute %s of %s is not valid UTF-8", quoteName(p.name), p.where)
	case alone && p.kind != attribute.KindNone && len(v.Text()) > MaxKeyBytes:
		// DynamoDB stores no partition key that is longer. The witness key relies on this check
		// too: without rules, a row of one part is a partition key. For other attributes only
		// Bigtable's limit on the whole row key applies.
		return unmappable("key attribute %s has %d bytes; DynamoDB allows %d", quoteName(p.name), len(v.Text()), MaxKeyBytes)
	}
	return nil
}

// appendEscaped appends s and percent-encodes '%' and the marker of the delimiter. A part before
// the last must not contain them unencoded. Without a marker it escapes nothing.
func appendEscaped(b []byte, s string, marker byte) []byte {
	const digits = "0123456789ABCDEF"
	if marker == 0 {
		return append(b, s...)
	}
	done := 0
	for i := range len(s) {
		if c := s[i]; c == marker || c == '%' {
			b = append(b, s[done:i]...)
			b = append(b, '%', digits[c>>4], digits[c&15])
			done = i + 1
		}
	}
	return append(b, s[done:]...)
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '%':
			b = append(b, s[i])
			continue
		case strings.HasPrefix(s[i:], "%23"):
			b = append(b, '#')
		case strings.HasPrefix(s[i:], "%25"):
			b = append(b, '%')
		default:
			return "", fmt.Errorf("%w: an escape that this mapping does not write", ErrRow)
		}
		i += 2
	}
	return string(b), nil
}

// ErrRow is returned for a row key that the mapping does not produce.
var ErrRow = fmt.Errorf("not a row of this %w", ErrMapping)

// Key is the inverse of Row: it returns the primary key of the item that has the row, or ErrRow. A
// mapping of New has this inverse only if all items follow one rule with one row, and the row key
// shows the whole primary key. Rows of keys that DynamoDB does not allow are an ErrRow then.
func (m *Mapping) Key(row string) (attribute.Item, error) {
	if m.parts == nil {
		return m.keyOf(row)
	}
	if row == "" || len(row) > MaxRowKeyBytes {
		return attribute.Item{}, fmt.Errorf("%w: %d bytes", ErrRow, len(row))
	}
	texts := strings.SplitN(row, string(Delimiter), len(m.parts))
	if len(texts) < len(m.parts) {
		return attribute.Item{}, fmt.Errorf("%w: %d parts, the mapping has %d", ErrRow, len(texts), len(m.parts))
	}
	keys := make([]attribute.Attribute, 0, len(m.PrimaryKey))
	for i, p := range m.parts {
		text := texts[i]
		if i < len(m.parts)-1 {
			var err error
			if text, err = unescape(text); err != nil {
				return attribute.Item{}, err
			}
		}
		if p.kind == attribute.KindNone {
			continue // this part is not in the primary key, and the row does not show its type
		}
		v, err := keyValue(p.kind, text)
		if err != nil {
			return attribute.Item{}, err
		}
		if p.check(v, len(m.parts) == 1) != nil {
			return attribute.Item{}, fmt.Errorf("%w: part %d is not a key", ErrRow, i+1)
		}
		keys = append(keys, attribute.Attribute{Name: p.name, Value: v})
	}
	return attribute.NewItem(keys), nil
}

func keyValue(kind attribute.Kind, text string) (attribute.Value, error) {
	switch kind {
	case attribute.KindS:
		return attribute.String(text), nil
	case attribute.KindB:
		return attribute.Binary([]byte(text)), nil
	default:
		v, err := attribute.Number(text)
		if err != nil || v.Text() != text { // Row writes only canonical numbers
			return attribute.Value{}, fmt.Errorf("%w: a part is not a canonical number", ErrRow)
		}
		return v, nil
	}
}

// WitnessKey returns the row key of the witness, replicator's own row for the source table in the
// target table. It is never an item's row, because no mapping produces it. It contains no '#', but
// every row of two or more parts contains one. It is not valid UTF-8, but every text and every
// number is. It is longer than the longest partition key, so it cannot be a row of one binary part.
// It begins with the byte 0xFF, so it sorts after all text, and it names the source table. The
// padding is a character that no table name has, so two tables have different witnesses.
func (m *Mapping) WitnessKey() string { return WitnessKeyOf(m.Source) }

// WitnessKeyOf returns the WitnessKey of every mapping of a source table.
func WitnessKeyOf(source string) string {
	named := WitnessPrefix + source
	return named + strings.Repeat("~", max(1, MaxKeyBytes+1-len(named)))
}

// WitnessSource returns the source table whose witness has the key.
func WitnessSource(key string) string {
	return strings.TrimRight(strings.TrimPrefix(key, WitnessPrefix), "~")
}

// WitnessPrefix begins every witness key.
const WitnessPrefix = "\xff_cdc~witness~"

// quoteName shows an attribute's name in a message. It cuts long names so that a name cannot flood
// a log.
func quoteName(name string) string {
	const shown = 64
	if len(name) <= shown {
		return fmt.Sprintf("%q", name)
	}
	cut := shown
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return fmt.Sprintf("%q… (%d bytes)", name[:cut], len(name))
}
