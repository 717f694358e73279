package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// preview is what one item becomes.
type preview struct {
	Source     string       `json:"source"`
	Rule       rule         `json:"rule"`
	Rows       []previewRow `json:"rows"`
	Ignored    bool         `json:"ignored"` // the rule says not to copy the item
	OnDelete   string       `json:"on_delete"`
	Unmappable *string      `json:"unmappable"` // why the item would be parked; null if it can be mapped
}

// previewRow is one row of an item.
type previewRow struct {
	Table string        `json:"table"`
	Row   octets        `json:"row"`
	Cells []previewCell `json:"cells"`
}

type previewCell struct {
	Family    string    `json:"family"`
	Qualifier octets    `json:"qualifier"`
	Time      time.Time `json:"time"`
	Value     octets    `json:"value"`
	Counter   *int64    `json:"counter,omitempty"` // the value of an aggregate
}

// octets are bytes as documents for programs hold them: text where they are UTF-8, otherwise {"base64": "…"}.
type octets []byte

// MarshalJSON implements json.Marshaler.
func (o octets) MarshalJSON() ([]byte, error) {
	if utf8.Valid(o) {
		return json.Marshal(string(o))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(o)})
}

// String is for people: the text as it is if all of it can be printed, otherwise quoted.
func (o octets) String() string {
	text := string(o)
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, unprintable) < 0 && text != "" {
		return text
	}
	return strconv.Quote(text)
}

// previewsOf maps items as they would be if they were written at the given time.
func previewsOf(m *transform.Mapping, cfg *config.Config, t config.Table, items []attribute.Item, at time.Time) []preview {
	previews := make([]preview, 0, len(items))
	for _, item := range items {
		placed, err := m.Map(item, at)
		shown := preview{Source: m.Source, Rule: ruleOf(cfg, t, placed), Rows: []previewRow{}, Ignored: placed.Ignored, OnDelete: onDelete(placed, max(1, len(t.Families)))}
		if err != nil {
			reason := err.Error()
			var unmappable *transform.Unmappable
			if errors.As(err, &unmappable) {
				reason = unmappable.Reason
			}
			shown.Unmappable = &reason
		}
		for _, row := range placed.Rows {
			next := previewRow{Table: row.Table, Row: octets(row.Row), Cells: []previewCell{}}
			for _, c := range row.Cells {
				cell := previewCell{Family: c.Family, Qualifier: octets(c.Qualifier), Time: time.UnixMicro(c.Timestamp).UTC(), Value: octets(c.Value)}
				if c.Add && len(c.Value) == 8 {
					sum := int64(binary.BigEndian.Uint64(c.Value))
					cell.Counter = &sum
				}
				next.Cells = append(next.Cells, cell)
			}
			shown.Rows = append(shown.Rows, next)
		}
		previews = append(previews, shown)
	}
	return previews
}

// onDelete says what of the target goes when the item is removed; families are those of the whole target table.
func onDelete(p transform.Placement, families int) string {
	if len(p.Rows) == 0 { // ignored, or without a place
		return "nothing is there"
	}
	var parts []string
	seen := map[string]int{}
	for _, row := range p.Rows {
		part := ownedText(row, families)
		if seen[part]++; seen[part] == 1 {
			parts = append(parts, part)
		}
	}
	for i, part := range parts {
		if n := seen[part]; n > 1 {
			parts[i] = fmt.Sprintf("%s, in each of %d rows", part, n)
		}
	}
	return "removes " + strings.Join(parts, "; ")
}

// ownedText names what an item owns of a row.
func ownedText(row transform.RowMutation, families int) string {
	switch n := len(row.Columns); {
	case n == 0 && len(row.Families) >= families && row.Owner == "":
		return "the row"
	case n == 0 && len(row.Families) == 1:
		return "family " + row.Families[0] + " of the row"
	case n == 0:
		return "families " + strings.Join(row.Families, ", ") + " of the row"
	case n == 1 && len(row.Families) == 0:
		return "this one cell"
	case len(row.Families) == 0:
		return terminal.Plural(n, "column") + " of the row"
	default:
		return terminal.Plural(n, "column") + " and families " + strings.Join(row.Families, ", ") + " of the row"
	}
}

// showPreviews writes what the items become. What cannot be mapped makes the answer no.
func (p *program) showPreviews(f previewFlags, previews []preview) error {
	var err error
	switch {
	case p.AsJSON() || f.as == "json":
		err = p.WriteJSON(struct {
			Schema string    `json:"schema"`
			Items  []preview `json:"items"`
		}{"replicator.preview/v1", previews})
	case len(previews) == 0:
		_, err = fmt.Fprintln(p.Stdout, "the table has no items")
	default:
		for i := range previews {
			if i > 0 && f.as == "text" && err == nil {
				_, err = fmt.Fprintln(p.Stdout)
			}
			if err == nil {
				err = previews[i].write(p.Stdout, f.as)
			}
		}
	}
	if err != nil {
		return err
	}
	bad := 0
	for _, shown := range previews {
		if shown.Unmappable != nil {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return &diag.Error{Code: diag.ItemsParked, What: terminal.Plural(bad, "item") + " cannot be mapped", Cause: "the reasons are listed above",
		Fix: "correct the items in the source; a run would park them"}
}

func (s *preview) write(w io.Writer, as string) error {
	var b strings.Builder
	if as == "text" {
		fmt.Fprintln(&b, s.Rule)
	}
	for _, row := range s.Rows {
		if as == "cbt" {
			row.writeCBT(&b)
		} else {
			row.writeText(&b)
		}
	}
	if s.Ignored && as == "text" {
		fmt.Fprintln(&b, "ignored: the item is not copied")
	}
	if s.Unmappable != nil {
		fmt.Fprintf(&b, "cannot be mapped: %s\n", *s.Unmappable)
	}
	if as == "text" {
		fmt.Fprintf(&b, "on delete: %s\n", s.OnDelete)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeText writes a row with one line for each cell.
func (r *previewRow) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "%s  row %s\n", r.Table, r.Row)
	width := 0
	for _, c := range r.Cells {
		width = max(width, utf8.RuneCountInString(c.column()))
	}
	for _, c := range r.Cells {
		fmt.Fprintf(b, "  %-*s  @%s  %s\n", min(width, 40), c.column(), c.Time.Format("2006-01-02T15:04:05.000Z"), c.shown())
	}
}

// writeCBT writes a row as `cbt read` of the Google Cloud CLI prints it, times in UTC.
func (r *previewRow) writeCBT(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n%s\n", strings.Repeat("-", 40), []byte(r.Row))
	for _, c := range r.Cells {
		fmt.Fprintf(b, "  %-40s @ %s\n    %q\n", c.Family+":"+string(c.Qualifier), c.Time.Format("2006/01/02-15:04:05.000000"), []byte(c.Value))
	}
}

// shown is the value for people.
func (c *previewCell) shown() string {
	if c.Counter != nil {
		return strconv.FormatInt(*c.Counter, 10)
	}
	return c.Value.String()
}

// column is the cell's column for people; an empty qualifier shows as such.
func (c *previewCell) column() string {
	if len(c.Qualifier) == 0 {
		return c.Family + ":"
	}
	return c.Family + ":" + c.Qualifier.String()
}
