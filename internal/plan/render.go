package plan

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// Render writes the plan's text, which follows the results of the checks. Write errors are detected
// when the stream is closed.
func (r *Document) Render(w io.Writer) {
	if r.left {
		return
	}
	if len(r.Create) > 0 {
		_, _ = fmt.Fprintln(w, "\nWould be created")
		for _, c := range r.Create {
			writeCreation(w, c)
		}
	}
	for _, t := range r.Tables {
		writePlanTable(w, t)
	}
	for _, c := range r.Cutovers {
		_, _ = fmt.Fprintf(w, "\nCutover of %s\n", c.Group)
		for _, line := range c.lines {
			_, _ = fmt.Fprintln(w, "  "+line)
		}
		for _, why := range c.Longer {
			_, _ = fmt.Fprintln(w, "  lengthened by "+why)
		}
	}
	writeSizing(w, r.Sizing)
	writeCost(w, r)
	writeMissing(w, r.Missing)
	for _, e := range r.Warnings {
		headline, remedy := preflight.InPlace(e, "")
		_, _ = fmt.Fprintf(w, "\nwarning %s\n%s", headline, remedy)
	}
}

func writeCreation(w io.Writer, c Creation) {
	switch c.Kind {
	case "app_profile":
		_, _ = fmt.Fprintf(w, "  + app profile %s: single cluster %s, single-row transactions\n", c.Name, c.Cluster)
	case "family":
		_, _ = fmt.Fprintf(w, "  + family %s %s\n", c.Name, c.Families[0].Keep)
	case "view":
		_, _ = fmt.Fprintf(w, "  + view %s of %s\n", c.Name, strings.Join(c.Shows, ", "))
	case "change_stream":
		_, _ = fmt.Fprintf(w, "  ~ change stream of table %s, which exists: it would be altered, and keep records for %s\n", c.Name, timespan.Format(time.Duration(c.Kept)*time.Second))
	default:
		pieces := "one tablet"
		if n := len(c.SplitKeys); n > 0 {
			pieces = fmt.Sprintf("%d tablets, split at %s", n+1, strings.Join(shortened(c.SplitKeys, 3), ", "))
		}
		_, _ = fmt.Fprintf(w, "  + table %s: %s\n", c.Name, pieces)
		for _, f := range c.Families {
			_, _ = fmt.Fprintf(w, "      family %s %s\n", f.Name, f.Keep)
		}
		if c.Kept > 0 {
			_, _ = fmt.Fprintf(w, "      change stream that keeps records for %s\n", timespan.Format(time.Duration(c.Kept)*time.Second))
		}
		if c.View != "" {
			_, _ = fmt.Fprintf(w, "      view %s of %s\n", c.View, strings.Join(c.Shows, ", "))
		}
	}
}

// shortened returns the first n elements of a list as text. If there are more, the text shows that.
func shortened(list []string, n int) []string {
	if len(list) <= n {
		return list
	}
	return append(append([]string{}, list[:n]...), "…")
}

func writePlanTable(w io.Writer, t Table) {
	_, _ = fmt.Fprintf(w, "\n%s → %s\n", t.Source, t.Target)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(tab, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("items", "about %s, %s (DynamoDB's count, up to 6 hours old), %s", backfill.FormatCount(float64(t.Items)), cost.Size(t.Bytes), t.Billing)
	if t.Key != "" {
		row("encrypted by", "%s; a customer managed key needs kms:Decrypt and kms:DescribeKey", t.Key)
	}
	if e := t.Export; e != nil {
		row("copied from", "%s, as of %s: %s in %s", e.Address, e.At.Format(time.RFC3339), terminal.Plural(int(e.Items), "item"), terminal.Plural(e.Files, "file"))
	}
	t.Copy.write(row)
	if t.OpenShards != nil {
		row("stream", "%s", terminal.Plural(*t.OpenShards, "open shard"))
	}
	if t.DualWrites != nil {
		for i, line := range t.DualWrites.Lines() {
			row([]string{"dual writes", ""}[min(i, 1)], "%s", line)
		}
	}
	if t.MappingChange != nil {
		t.MappingChange.write(tab, t.Items)
	}
	for i, key := range t.RowKeys {
		name := ""
		if i == 0 {
			name = "row keys"
		}
		row(name, "%s", key)
	}
	name := "fallback"
	for _, why := range t.NoWayBack {
		row(name, "not possible: %s", why)
		name = ""
	}
	for _, what := range t.Losses {
		row(name, "possible, but %s", what)
		name = ""
	}
	_ = tab.Flush()
}

// write writes the estimates of the copy: first the mode that is used, then the other mode.
func (c Copy) write(row func(name, format string, args ...any)) {
	if c.Seconds <= 0 {
		return
	}
	name := "copy"
	for _, used := range []bool{true, false} {
		for _, m := range c.Modes {
			if (m.Mode == c.Mode) != used {
				continue
			}
			mode := m.Mode
			if !used {
				mode = "or " + mode
			}
			row(name, "%s: %s at %s rows/s, limited by %s; %s for nodes", mode, copyTime(m.Seconds), backfill.FormatCount(m.RowsPerSecond), m.LimitedBy, cost.Money(m.Nodes))
			name = ""
		}
	}
	if c.Guarded != nil {
		row("", "not fast: %s", *c.Guarded)
	}
}

// copyTime formats the estimated time of a copy.
func copyTime(seconds float64) string {
	if seconds < 60 {
		return "less than a minute"
	}
	return "about " + backfill.FormatDuration(time.Duration(seconds*float64(time.Second)))
}

// writeSizing writes which workers and nodes the migration needs.
func writeSizing(w io.Writer, s *cost.Sizing) {
	if s == nil {
		return
	}
	rate, nodes := "at most "+backfill.FormatCount(s.Changes)+" changes/s, which the open shards can give", ""
	if s.Measured {
		rate = backfill.FormatCount(s.Changes) + " changes/s, as measured by the workers"
	}
	if s.Have > 0 {
		nodes = fmt.Sprintf("; the cluster has %d", s.Have)
	}
	_, _ = fmt.Fprintf(w, "\nSizing: an estimate for %s\n", rate)
	_, _ = fmt.Fprintf(w, "  %s, one of which can fail: each %g CPU, %d MiB\n", terminal.Plural(s.Workers, "worker"), s.Cores, s.Memory>>20)
	_, _ = fmt.Fprintf(w, "  %s for changes, %d during the copy%s\n", terminal.Plural(s.Nodes, "Bigtable node"), s.CopyNodes, nodes)
}

func writeCost(w io.Writer, r *Document) {
	if len(r.Tables) == 0 {
		return
	}
	_, _ = fmt.Fprintf(w, "\nCost: an estimate in %s at list prices of %s (%s); use --prices for your own prices\n", r.Prices.Currency, r.Prices.Date, r.Prices.Regions)
	var text strings.Builder
	tab := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(table string, l cost.Line) {
		price := "-"
		if unit, ok := r.Prices.Prices[l.Price]; ok {
			price = fmt.Sprintf("%s %g", l.Price, unit.Price)
		}
		per := l.Per
		if per != cost.Once {
			per = "per " + per
		}
		_, _ = fmt.Fprintf(tab, "  %s\t%s\t%s\t%s %s\t%s\t%s\n", table, l.What, l.Quantity, cost.Money(l.Amount), per, price, l.Note)
	}
	for _, t := range r.Tables {
		for _, l := range t.Cost {
			line(t.Source, l)
		}
	}
	for _, l := range r.Shared {
		line("all", l)
	}
	_ = tab.Flush()
	for row := range strings.Lines(text.String()) {
		// Trim the spaces at the end of a line without a note.
		_, _ = fmt.Fprintln(w, strings.TrimRight(row, " \n"))
	}
	var sums []string
	for _, total := range r.Totals {
		if per := total.Per; per == cost.Once {
			sums = append(sums, cost.Money(total.Amount)+" once")
		} else {
			sums = append(sums, cost.Money(total.Amount)+" a "+per)
		}
	}
	_, _ = fmt.Fprintf(w, "  total about %s, without per-change costs\n", strings.Join(sums, ", "))
}

func writeMissing(w io.Writer, m *MissingPrivileges) {
	if m == nil {
		return
	}
	if m.AWS != nil {
		_, _ = fmt.Fprintln(w, "\nThe policy that the AWS identity needs (replicator plan --print-iam aws)")
		_ = writePolicy(w, *m.AWS)
	}
	if len(m.GCP) > 0 {
		_, _ = fmt.Fprintln(w, "\nPermissions that the Google identity lacks (replicator plan --print-iam gcp prints the role)")
		for _, permission := range m.GCP {
			_, _ = fmt.Fprintln(w, "  "+permission)
		}
	}
}
