package comparison

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Reverse is the result of a comparison of a table's items with their rows. The row decides.
type Reverse struct {
	WayBack string    `json:"way_back"` // state of the way back: following, gap, …
	Clean   bool      `json:"clean"`    // all items but those of parked rows equal their rows
	BegunAt time.Time `json:"begun_at"`
	EndedAt time.Time `json:"ended_at"`
	// Frozen reports that no process wrote to either side during the comparison.
	Frozen     bool  `json:"frozen"`
	Items      int64 `json:"items"`
	Rows       int64 `json:"rows"`
	Missing    int64 `json:"missing"`
	Different  int64 `json:"different"`
	Extra      int64 `json:"extra"`
	Unreadable int64 `json:"unreadable"`
	Parked     int64 `json:"parked"`
	Unmapped   int64 `json:"unmapped"`
	Repaired   int64 `json:"repaired"`
	// GapEnded reports that this comparison ended a gap of the way back.
	GapEnded bool `json:"gap_ended"`
	// Findings are the worst differences that this command found. The ledger does not keep them.
	Findings []ReverseFinding `json:"findings"`
}

// ReverseFinding is a row that differs from its item.
type ReverseFinding struct {
	Kind    string  `json:"kind"`
	RowHash string  `json:"row_hash"`
	Reason  *string `json:"reason"`
}

// comparedItems returns the last comparison of a table's items with their rows, or nil.
func comparedItems(t *table) *Reverse {
	r, wayBack := t.fallback.Reverse, string(t.fallback.State)
	if t.reversed != nil {
		r = t.reversed.ReverseResult
	}
	if !r.Known() {
		return nil
	}
	out := &Reverse{
		WayBack: wayBack, Clean: r.Clean(), BegunAt: r.BeganAt, EndedAt: r.EndedAt, Frozen: r.Frozen, Items: r.Items, Rows: r.Rows,
		Missing: r.Missing, Different: r.Different, Extra: r.Extra, Unreadable: r.Unreadable, Parked: r.Parked, Unmapped: r.Unmapped, Repaired: r.Repaired,
		Findings: []ReverseFinding{},
	}
	if t.reversed != nil {
		out.GapEnded = t.reversed.gapEnded
		for _, f := range t.reversed.Findings {
			out.Findings = append(out.Findings, ReverseFinding{Kind: string(f.Kind), RowHash: f.Hash, Reason: terminal.Known(f.Reason)})
		}
	}
	return out
}

// nextReverse returns the command to run next after a comparison of items with their rows, without
// the word replicator and the table, and the reason for it.
func nextReverse(t Table) (command, why string) {
	switch r := t.Reverse; {
	case r == nil:
		return "verify --reverse", "the items of " + t.Source + " were never compared completely with their rows"
	case !r.Clean:
		return "verify --reverse --repair", "the way back makes the items of " + t.Source + " equal to their rows"
	case r.WayBack == string(checkpoint.FallbackGap):
		return "verify --reverse --repair", "changes were lost again during the comparison of " + t.Source
	}
	return "", ""
}

// renderReversed writes the document of a comparison of items with their rows, for people.
func (d *Document) renderReversed(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "TABLE\tWAY BACK\tITEMS\tROWS\tMISSING\tDIFFERENT\tEXTRA\tUNREADABLE\tPARKED\tREPAIRED")
	for _, t := range d.Tables {
		if r := t.Reverse; r != nil {
			_, _ = fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", t.Source, r.WayBack, r.Items, r.Rows, r.Missing, r.Different, r.Extra, r.Unreadable, r.Parked, r.Repaired)
		}
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, t := range d.Tables {
		t.renderReverseFindings(w)
	}
	return standing.WriteNext(w, d.NextSteps)
}

// renderReverse writes a line about the last comparison of items with their rows, if there was one.
func (t *Table) renderReverse(w io.Writer) {
	r := t.Reverse
	if r == nil {
		return
	}
	verdict := "clean"
	if n := r.Missing + r.Different + r.Extra + r.Unreadable; n > 0 {
		verdict = terminal.RowsDiffer(int(n), t.Source)
	}
	_, _ = fmt.Fprintf(w, "\n%s: way back %s; items compared with rows at %s: %s\n", t.Source, r.WayBack, r.EndedAt.UTC().Format(time.RFC3339), verdict)
}

func (t *Table) renderReverseFindings(w io.Writer) {
	r := t.Reverse
	if r == nil {
		return
	}
	if r.GapEnded {
		_, _ = fmt.Fprintf(w, "\n%s: the way back is complete again: this comparison has ended its gap\n", t.Source)
	}
	if r.Unmapped > 0 {
		_, _ = fmt.Fprintf(w, "\n%s: no row can belong to %s; the way back leaves them as they are\n", t.Source, terminal.Plural(int(r.Unmapped), "item"))
	}
	for i, f := range r.Findings {
		if i == mostShown {
			break
		}
		reason := ""
		if f.Reason != nil {
			reason = "  (" + diag.Printable(*f.Reason) + ")"
		}
		_, _ = fmt.Fprintf(w, "%s  %s  %s%s\n", t.Source, strings.ReplaceAll(f.Kind, "_", " "), f.RowHash, reason)
	}
	all := r.Missing + r.Different + r.Extra + r.Unreadable + r.Parked
	if more := all - int64(min(len(r.Findings), mostShown)); more > 0 {
		_, _ = fmt.Fprintf(w, "%s  and %s\n", t.Source, terminal.Plural(int(more), "more row"))
	}
}
