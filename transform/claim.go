package transform

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// This file finds the items that may have written a row of a target table. A sweep needs these
// items for rows of an older generation, because no image names the address of such a row. An item
// counts as the writer of a row only if a rule maps it to that row, regardless of its attributes
// beyond the primary key.

// Merged reports whether other source tables write to the target too. Then every row of this
// mapping names its item and source.
func (m *Mapping) Merged() bool { return m.merged }

// OneRule reports whether all items follow one rule with one row. Such a rule owns the same cells
// regardless of an item's attributes.
func (m *Mapping) OneRule() bool { return len(m.rules) == 1 && len(m.rules[0].writes) == 1 }

// ParseItemKey is the inverse of ItemKey. It returns the primary key of an item, or false if the
// text is not an item key.
func (m *Mapping) ParseItemKey(text string) (attribute.Item, bool) {
	parts := strings.Split(text, "/")
	if len(parts) != len(m.PrimaryKey) {
		return attribute.Item{}, false
	}
	keys := make([]attribute.Attribute, len(parts))
	for i, k := range m.PrimaryKey {
		kind, encoded, _ := strings.Cut(parts[i], ":")
		value, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
		if err != nil || kind != k.Type.String() {
			return attribute.Item{}, false
		}
		v, err := keyValue(k.Type, string(value))
		if err != nil {
			return attribute.Item{}, false
		}
		keys[i] = attribute.Attribute{Name: k.Name, Value: v}
	}
	return attribute.NewItem(keys), true
}

// ItemsOf returns the primary keys of the items that may have the row, according to the row's key.
// Usually there is one item. If many items share the row's cells, there is none. The argument
// `unnamed` reports that the row holds a version that names no item. Rules that always name their
// items never write such a row.
func (m *Mapping) ItemsOf(table, row string, unnamed bool) []attribute.Item {
	var items []attribute.Item
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table != table || w.folded || unnamed && (w.origin || w.ownVersion) {
				continue
			}
			keys, ok := w.invert(m, r, row)
			if ok && w.fits(m, r, row, keys) && !slices.ContainsFunc(items, keys.Equal) {
				items = append(items, keys)
			}
		}
	}
	return items
}

// Claim returns the removal of everything that an item may have in a row under any rule. It returns
// false if no rule maps the item to the row. The argument `shared` reports that the item's version
// is stored under its own name, next to the versions of other items. The version of the mutation is
// not set.
func (m *Mapping) Claim(table, row string, keys attribute.Item, shared bool) (RowMutation, bool) {
	claim := RowMutation{Item: m.ItemKey(keys), Table: table, Row: row, Remove: true, Keep: m.keep}
	if shared {
		claim.Owner = claim.Item
	}
	found := false
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table != table || w.ownVersion != shared || !w.fits(m, r, row, keys) {
				continue
			}
			owned := RowMutation{Families: w.families, Columns: w.columns, Remove: true}
			if w.folded {
				qualifier, err := w.appendQualifier(nil, keys)
				if err != nil {
					continue
				}
				owned.Columns = []Column{{w.family, string(qualifier)}}
			}
			merge(&claim, &owned)
			found = true
		}
	}
	return claim, found
}

// Contests reports whether other items than the claim's may have cells in the claim's families and
// columns, according to the row's key. If so, executing the claim may delete their cells. Contests
// is for claims of another mapping, because a mapping's own claims touch only the cells of their
// item.
func (m *Mapping) Contests(claim RowMutation) bool {
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table != claim.Table || !w.ownVersion && claim.Owner == "" || !w.fits(m, r, claim.Row, attribute.Item{}) {
				continue
			}
			for _, family := range w.written() {
				if slices.Contains(claim.Families, family) {
					return true
				}
			}
			if slices.ContainsFunc(claim.Columns, w.mayHold) {
				return true
			}
		}
	}
	return false
}

// mayHold reports whether some item may get the column from this write.
func (w *write) mayHold(c Column) bool {
	switch {
	case w.folded:
		return w.family == c.Family && reaches(w.qualifier, c.Qualifier, nil)
	case slices.Contains(w.families, c.Family):
		return true
	default:
		return slices.Contains(w.columns, c)
	}
}

// Without returns the claim without the families and columns that `o` names.
func (m RowMutation) Without(o RowMutation) RowMutation {
	m.Families = slices.DeleteFunc(slices.Clone(m.Families), func(f string) bool { return slices.Contains(o.Families, f) })
	m.Columns = slices.DeleteFunc(slices.Clone(m.Columns), func(c Column) bool {
		return slices.Contains(o.Columns, c) || slices.Contains(o.Families, c.Family)
	})
	return m
}

// With joins two claims of one item in one row.
func (m RowMutation) With(o RowMutation) RowMutation {
	merge(&m, &o)
	return m
}

// RowPrefix returns the prefix that all rows of the mapping in a table share; "" if they share
// none.
func (m *Mapping) RowPrefix(table string) string {
	common, first := "", true
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table != table {
				continue
			}
			text, _ := start(w.row, r.implied())
			if first {
				common, first = text, false
			}
			common = CommonPrefix(common, text)
		}
	}
	return common
}

// CommonPrefix returns the longest prefix of both texts.
func CommonPrefix(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// fits reports whether the write can map an item with these keys to the row. Without keys, it
// reports whether the write can map any item to the row.
func (w *write) fits(m *Mapping, r *rule, row string, keys attribute.Item) bool {
	known := r.implied()
	if keys.Exists() && !m.admits(r, keys) {
		return false
	}
	return row != "" && reaches(w.row, row, func(p *rowPart) (string, bool, bool) {
		v, ok := valueOf(p.name, keys, known)
		if !ok {
			return "", false, true
		}
		text, err := appendParts(nil, []rowPart{{name: p.name, kind: p.kind, calls: p.calls, escaped: p.escaped, where: p.where}},
			attribute.NewItem([]attribute.Attribute{{Name: p.name, Value: v}}))
		return string(text), true, err == nil
	})
}

// admits reports whether the rule's condition may hold for an item with these keys.
func (m *Mapping) admits(r *rule, keys attribute.Item) bool {
	if r.when == nil {
		return true
	}
	beyond := func(name string) bool { return m.keyType(name) == attribute.KindNone }
	if !slices.ContainsFunc(r.when.Attributes(), beyond) {
		return r.when.Match(keys)
	}
	known := r.implied()
	if known == nil {
		return true
	}
	for _, k := range keys.Attributes() {
		if v, fixed := known.Fixed(k.Name); fixed && !v.Equal(k.Value) {
			return false
		}
		if prefix, ok := known.Prefix(k.Name); ok && !strings.HasPrefix(k.Value.Text(), prefix) {
			return false
		}
	}
	return true
}

// valueOf returns the value that an attribute has in every item that has these keys and matches the
// condition.
func valueOf(name string, keys attribute.Item, known Implying) (attribute.Value, bool) {
	if v, ok := keys.Get(name); ok || known == nil {
		return v, ok
	}
	if v, fixed := known.Fixed(name); fixed {
		return v, true
	}
	for _, same := range known.Equal(name) {
		if v, ok := keys.Get(same); ok {
			return v, true
		}
	}
	return attribute.Value{}, false
}

// reaches reports whether the parts can produce exactly the text in `whole`. The function `text`
// returns the text that a placeholder with a known value becomes. Its result `ok` is false if the
// value has no text. A placeholder without a known value can become every text that its form
// allows. If the function `text` is nil, no value is known.
func reaches(parts []rowPart, whole string, text func(*rowPart) (result string, known, ok bool)) bool {
	at := make([]bool, len(whole)+1) // where the next part can begin
	at[0] = true
	for i := range parts {
		p := &parts[i]
		result, known, ok := p.literal, p.name == "", true
		if !known && text != nil {
			if result, known, ok = text(p); !ok {
				return false
			}
		}
		next := make([]bool, len(whole)+1)
		for from, here := range at {
			switch {
			case !here:
			case known:
				if strings.HasPrefix(whole[from:], result) {
					next[from+len(result)] = true
				}
			default:
				least, most := p.extent(whole[from:])
				for n := least; n <= most; n++ {
					next[from+n] = true
				}
			}
		}
		at = next
	}
	return at[len(whole)]
}

// extent returns the least and the most bytes of `rest` that a placeholder with an unknown value
// can take. If `rest` cannot begin with such a placeholder, `least` is greater than `most`.
func (p *rowPart) extent(rest string) (least, most int) {
	if n, ok := p.width(); ok {
		if n > len(rest) {
			return 1, 0
		}
		return n, n
	}
	if p.selfEnding() {
		if strings.HasPrefix(rest, sortableZero) {
			return 1, 1
		}
		n := strings.IndexAny(rest, string([]rune{endPositive, endNegative})) + 1
		if n == 0 {
			return 1, 0
		}
		return n, n
	}
	most = len(rest)
	if n := strings.IndexByte(rest, p.escaped); p.escaped != 0 && n >= 0 {
		most = n
	}
	return 0, most
}

// selfEnding reports whether the text has an end mark.
func (p *rowPart) selfEnding() bool {
	return len(p.calls) > 0 && p.calls[len(p.calls)-1].Name == "sortable"
}

// width returns the placeholder's length in bytes, if its last function fixes it.
func (p *rowPart) width() (int, bool) {
	if len(p.calls) == 0 || p.escaped != 0 { // escaping may lengthen it
		return 0, false
	}
	switch c := p.calls[len(p.calls)-1]; c.Name {
	case "pad", "newest_first", "hash":
		return c.Number, true
	case "salt":
		return len(strconv.Itoa(c.Number - 1)), true
	case "date":
		return len(c.Text), true
	}
	return 0, false
}

// Found is the result of reading one item. Image does not exist if the source does not hold the
// item.
type Found struct{ Keys, Image attribute.Item }

// Sweep turns consistent reads at `readAt` into mutations, as Load does. The rows to which the
// images map are put, and claimed rows to which no image maps are removed. In a row that is put,
// the claimed cells are deleted too. Every claim must belong to an item in `found`. A claim's
// version is the version that the row holds, if any. With a version attribute, the claim's version
// ranks the removal of a deleted item.
func Sweep(m *Mapping, found []Found, claims []RowMutation, generation uint32, readAt time.Time) Batch {
	var images []attribute.Item
	var absent []attribute.Item
	index := map[string]int{}
	for _, f := range found {
		if f.Image.Exists() {
			index[m.ItemKey(f.Keys)] = len(images)
			images = append(images, f.Image)
		}
	}
	for _, f := range found {
		if !f.Image.Exists() {
			index[m.ItemKey(f.Keys)] = len(images) + len(absent)
			absent = append(absent, f.Keys)
		}
	}
	b := Load(m, images, generation, readAt)
	b.absent, b.Changes = absent, len(found)
	v := LoadVersion(generation, readAt)
	for _, claim := range claims {
		if n := sameRow(b.Rows, &claim); n >= 0 {
			claim.Origin, claim.Cells, claim.Remove = "", nil, b.Rows[n].Remove
			merge(&b.Rows[n], &claim)
			continue
		}
		n := index[claim.Item]
		order := m.removalOf(claim.Version)
		if n < len(images) {
			order, _ = m.RankOf(images[n], false)
		}
		claim.Version, claim.At, claim.Change = order.At(v), readAt, n
		b.Rows = append(b.Rows, claim)
	}
	return b
}
