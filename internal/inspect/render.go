package inspect

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Render writes the explanation as text.
func (e *Explanation) Render(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) { _, _ = fmt.Fprintf(tab, label+"\t"+format+"\n", args...) }
	if e.Source.Present {
		line("source", "present in %s with %s", e.Table, terminal.Plural(e.Source.Attributes, "attribute"))
	} else {
		line("source", "absent from %s", e.Table)
	}
	line("mapping", "%s", e.Rule)
	if e.Source.Unmappable != nil {
		line("", "cannot be mapped: %s", diag.Printable(*e.Source.Unmappable))
	}
	for _, row := range e.Rows {
		line("row", "%s  %s", row.Table, row.Row)
		line("target", "%s", row.held())
		for _, d := range row.Differs {
			line("differs", "%s", d)
		}
	}
	for _, record := range e.Parked {
		line("parked", "%s: %s", record.Ref, diag.Printable(record.Reason))
	}
	if text := e.Shard.String(); text != "" {
		line("shard", "%s", text)
	}
	line("verdict", "%s", e.Verdict.Text)
	if e.Likely != nil {
		line("likely", "%s: %s", strings.ReplaceAll(e.Likely.Reason, "_", " "), e.Likely.Text)
		if e.Verdict.State == itemDifferent {
			line("", "replicator verify --table %s --repair fixes the differences", e.Table)
		}
	}
	return tab.Flush()
}

func (r *explainedRow) held() string {
	var parts []string
	if r.Live != nil {
		parts = append(parts, fmt.Sprintf("live with %s, %s", terminal.Plural(r.Cells, "cell"), r.Live))
	}
	if r.Tombstone != nil {
		parts = append(parts, fmt.Sprintf("removed, %s, tombstone written at %s", r.Tombstone, r.Tombstone.WrittenAt.Format(time.RFC3339)))
	}
	if len(parts) == 0 && r.Cells > 0 {
		parts = append(parts, fmt.Sprintf("%s without replicator's version", terminal.Plural(r.Cells, "cell")))
	}
	if len(parts) == 0 {
		return "row not found"
	}
	return strings.Join(parts, "; ")
}

func (v *heldVersion) String() string {
	if v.Copied != nil {
		return "copied by load " + *v.Copied
	}
	if v.LoadedAt != nil {
		return fmt.Sprintf("generation %d, loaded %s, count %d", v.Generation, v.LoadedAt.Format(time.RFC3339), v.Count)
	}
	return fmt.Sprintf("generation %d, hop %d, sequence %s, count %d", v.Generation, v.Hop, v.Sequence, v.Count)
}

func (d differingAt) String() string {
	side := func(n *int, value Octets) string {
		switch {
		case n == nil:
			return "nothing"
		case value != nil:
			return value.String()
		}
		return terminal.Plural(*n, "byte")
	}
	return fmt.Sprintf("%s: should be %s, is %s", d.Column, side(d.WantBytes, d.Want), side(d.HaveBytes, d.Have))
}

func (s explainedShard) String() string {
	var parts []string
	switch {
	case s.Carried != nil:
		parts = append(parts, "the version came from "+*s.Carried)
	case s.AtHop > 1:
		parts = append(parts, fmt.Sprintf("the version came from one of %d shards", s.AtHop))
	}
	switch {
	case s.Next != nil:
		parts = append(parts, "the next change comes from "+*s.Next)
	case s.Open > 1:
		parts = append(parts, fmt.Sprintf("the next change comes from one of %d open shards; DynamoDB does not say which", s.Open))
	}
	return strings.Join(parts, "; ")
}
func (s *Preview) write(w io.Writer, as string) error {
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
		fmt.Fprintf(&b, "cannot be mapped: %s\n", diag.Printable(*s.Unmappable))
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

// writeCBT writes a row in the form of `cbt read` of the Google Cloud CLI, with times in UTC.
// Unlike cbt, it quotes unprintable text.
func (r *previewRow) writeCBT(b *strings.Builder) {
	fmt.Fprintf(b, "%s\n%s\n", strings.Repeat("-", 40), r.Row)
	for _, c := range r.Cells {
		fmt.Fprintf(b, "  %-40s @ %s\n    %q\n", c.column(), c.Time.Format("2006/01/02-15:04:05.000000"), []byte(c.Value))
	}
}

// shown returns the value as printable text.
func (c *previewCell) shown() string {
	if c.Counter != nil {
		return strconv.FormatInt(*c.Counter, 10)
	}
	return c.Value.String()
}

// column returns the name of the cell's column as text. An empty qualifier is shown as "".
func (c *previewCell) column() string {
	if len(c.Qualifier) == 0 {
		return c.Family + ":"
	}
	return c.Family + ":" + c.Qualifier.String()
}
