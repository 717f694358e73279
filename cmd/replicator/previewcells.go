package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// preview is what one item becomes.
type preview struct {
	Source     string       `json:"source"`
	Rule       rule         `json:"rule"`
	Rows       []previewRow `json:"rows"`
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

// previewsOf maps items as a load at the given time would.
func previewsOf(m *transform.Mapping, r rule, items []cdc.Item, at time.Time) []preview {
	previews := make([]preview, 0, len(items))
	for _, item := range items {
		shown := preview{Source: m.Source, Rule: r, Rows: []previewRow{}, OnDelete: "removes the row"}
		batch := transform.Load(m, []cdc.Item{item}, 1, at)
		for _, parked := range batch.Parked {
			shown.Unmappable = &parked.Reason
		}
		for _, row := range batch.Rows {
			if row.Remove {
				continue
			}
			next := previewRow{Table: row.Table, Row: octets(row.Row), Cells: []previewCell{}}
			for _, c := range row.Cells {
				next.Cells = append(next.Cells, previewCell{c.Family, octets(c.Qualifier), time.UnixMicro(c.Timestamp).UTC(), octets(c.Value)})
			}
			shown.Rows = append(shown.Rows, next)
		}
		previews = append(previews, shown)
	}
	return previews
}

// showPreviews writes what the items become. What cannot be mapped makes the answer no.
func (p *program) showPreviews(f previewFlags, previews []preview) error {
	var err error
	switch {
	case p.asJSON() || f.as == "json":
		err = p.writeJSON(struct {
			Schema string    `json:"schema"`
			Items  []preview `json:"items"`
		}{"replicator.preview/v1", previews})
	case len(previews) == 0:
		_, err = fmt.Fprintln(p.stdout, "the table has no items")
	default:
		for i := range previews {
			if i > 0 && f.as == "text" && err == nil {
				_, err = fmt.Fprintln(p.stdout)
			}
			if err == nil {
				err = previews[i].write(p.stdout, f.as)
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
	return &diag.Error{Code: diag.ItemsParked, What: plural(bad, "item") + " cannot be mapped", Cause: "the reasons are listed above",
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
		fmt.Fprintf(b, "  %-*s  @%s  %s\n", min(width, 40), c.column(), c.Time.Format("2006-01-02T15:04:05.000Z"), c.Value)
	}
}

// writeCBT writes a row as `cbt read` of the Google Cloud CLI prints it, times in UTC.
func (r *previewRow) writeCBT(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n%s\n", strings.Repeat("-", 40), []byte(r.Row))
	for _, c := range r.Cells {
		fmt.Fprintf(b, "  %-40s @ %s\n    %q\n", c.Family+":"+string(c.Qualifier), c.Time.Format("2006/01/02-15:04:05.000000"), []byte(c.Value))
	}
}

// column is the cell's column for people; an empty qualifier shows as such.
func (c *previewCell) column() string {
	if len(c.Qualifier) == 0 {
		return c.Family + ":"
	}
	return c.Family + ":" + c.Qualifier.String()
}
