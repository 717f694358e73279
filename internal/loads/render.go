package loads

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// render writes the document as text.
func (d *Document) render(w io.Writer) error {
	for _, one := range d.Decided {
		_, _ = fmt.Fprintf(w, "%s: %s: %s\n", one.Source, d.actionText(one.Action), one.Why)
		if e := one.Estimate; e != nil {
			d.estimate(w, e)
		}
		if err := writeWays(w, one.Ways, d.Currency); err != nil {
			return err
		}
	}
	if d.DryRun {
		_, err := fmt.Fprintln(w, "nothing was changed")
		return err
	}
	if len(d.Decided) > 0 {
		_, _ = fmt.Fprintln(w)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "TABLE\tLOAD\tPARTS\tITEMS\tBYTES\tRATE\tETA\tREAD UNITS\tSPENT")
	for _, t := range d.Tables {
		l := t.Load
		if l == nil {
			_, _ = fmt.Fprintf(tab, "%s\t%s\t-\t-\t-\t-\t-\t-\t-\n", t.Source, t.stateText())
			continue
		}
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.Source, t.stateText(), l.Parts, l.itemsText(), cost.Size(l.Bytes), rateText(l.ItemsPerSecond),
			etaText(l.ETASeconds), backfill.FormatCount(l.ReadUnits), d.spent(l))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if d.left != nil {
		_, err := fmt.Fprintf(w, "\n%s\n", d.left)
		return err
	}
	if notes := d.notes(); len(notes) > 0 {
		_, _ = fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
	return standing.WriteNext(w, d.NextSteps)
}

// actionText describes an action that was carried out, or that is planned.
func (d *Document) actionText(action string) string {
	done := map[string]string{ActionStart: "load requested", ActionPause: "paused", ActionResume: "resumed", ActionRedo: "load requested in a new generation",
		ActionCancel: "cancelled", ActionThrottle: "limits set", actionNone: "nothing to do", actionRefused: "refused"}
	if d.DryRun && action != actionNone && action != actionRefused {
		return "would " + action
	}
	return done[action]
}

func (d *Document) estimate(w io.Writer, e *Estimate) {
	_, _ = fmt.Fprintf(w, "  %s of %s in %s, %s", terminal.Plural(int(e.Items), "item"), cost.Size(e.Bytes), terminal.Plural(e.Parts, "part"), e.Mode)
	if e.Seconds != nil {
		_, _ = fmt.Fprintf(w, ", about %s with one worker, limited by %s", backfill.FormatDuration(time.Duration(*e.Seconds*float64(time.Second))), e.LimitedBy)
	}
	_, _ = fmt.Fprintln(w)
	for _, line := range e.Cost {
		_, _ = fmt.Fprintf(w, "  %s: %s, %s %s%s\n", line.What, line.Quantity, cost.Money(line.Amount), d.Currency, bracketed(line.Note))
	}
	_, _ = fmt.Fprintf(w, "  sweep: %s\n", e.Sweep)
}

func bracketed(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}

// stateText describes the state of a load.
func stateText(state standing.LoadState) string {
	if state == standing.LoadNotStarted {
		return terminal.NotStarted
	}
	return strings.ReplaceAll(string(state), "_", " ")
}

func (t Table) stateText() string {
	text := stateText(t.State)
	switch {
	case t.State == standing.LoadNotStarted && t.Needed:
		text = "needed"
	case t.State == standing.LoadDone && t.Needed:
		text = "done, but another is needed"
	case t.State == standing.LoadSweeping && t.Load.Sweep.Pass != nil:
		text = fmt.Sprintf("sweeping, pass %d", *t.Load.Sweep.Pass)
	}
	if t.Paused != nil {
		text += ", paused"
	}
	return text
}

func (p Parts) String() string {
	if p.Total == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", p.Done, p.Total)
}

// itemsText returns the number of copied items with its share. The estimate may be hours old, so
// the share might reach 100 % too early. Until the end of the copy, it stays below 100 %.
func (l *Load) itemsText() string {
	text := backfill.FormatCount(float64(l.Items))
	if l.CopiedAt != nil || l.Estimate == nil {
		return text
	}
	if percent, ok := backfill.Percent(l.Items, *l.Estimate, false); ok && l.Items <= *l.Estimate {
		text += fmt.Sprintf(" of about %s (%d%%)", backfill.FormatCount(float64(*l.Estimate)), percent)
	}
	return text
}

func rateText(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return backfill.FormatCount(*rate) + "/s"
}

func etaText(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return backfill.FormatDuration(time.Duration(*seconds * float64(time.Second)))
}

func (d *Document) spent(l *Load) string {
	total := 0.0
	for _, line := range l.Spent {
		total += line.Amount
	}
	return cost.Money(total) + " " + d.Currency
}

// notes returns the lines below the table.
func (d *Document) notes() []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, t := range d.Tables {
		if t.Needed && t.NeedsLoadReason != nil {
			kind := ""
			if t.LossKind != nil {
				kind = " (" + strings.ReplaceAll(*t.LossKind, "_", " ") + ")"
			}
			add("%s needs a load: %s%s", t.Source, *t.NeedsLoadReason, kind)
		}
		if t.LostFrom != nil {
			add("%s: changes since %s may be lost", t.Source, t.LostFrom.Format(time.RFC3339))
		}
		if t.WindowsBy != nil && t.State == standing.LoadNotStarted {
			add("%s: incremental exports whose period begins at %s or earlier can repair this without a copy", t.Source, t.WindowsBy.Format(time.RFC3339))
		}
		if t.Load != nil {
			if t.Load.copiedFrom != "" {
				add("%s is copied %s", t.Source, t.Load.copiedFrom)
			}
			for _, e := range t.Load.ExportStates {
				add("%s: %s", t.Source, e)
			}
			if t.Load.copying {
				add("%s: a fast load; removed items and attributes may show until the sweep is done", t.Source)
			}
			if t.Load.Guarded != nil {
				add("%s: the load is guarded, not fast: %s", t.Source, *t.Load.Guarded)
			}
			for _, why := range t.Load.Slowed {
				add("%s is slow: %s", t.Source, why)
			}
			if s := t.Load.Sweep; s.Pass != nil {
				add("%s: sweep, pass %d: %s read, %d written, %d removed, %d unexplained", t.Source, *s.Pass, rows(s.Seen), s.Put, s.Removed, s.Unexplained)
			}
		}
		if text := t.Limits.String(); text != "" {
			add("%s: %s", t.Source, text)
		}
	}
	if len(notes) > 0 || len(d.Tables) > 0 {
		add("Costs are list prices of %s; reading provisioned capacity costs nothing extra.", d.PricesDate)
	}
	return notes
}

// String returns the limits in force; "" if there are none.
func (l Limits) String() string {
	var out []string
	if l.MaxRowsPerSecond != nil {
		out = append(out, number(*l.MaxRowsPerSecond)+" rows a second in each process")
	}
	if c := l.MaxReadCapacity; c != nil {
		text := *c + " read units a second"
		if strings.HasSuffix(*c, "%") {
			text = *c + " of the provisioned read capacity"
		}
		out = append(out, text)
	}
	if l.PauseAboveTargetCPU != nil {
		out = append(out, "waits while the target's CPU is above "+*l.PauseAboveTargetCPU)
	}
	if len(out) == 0 {
		return ""
	}
	by := "configured"
	if l.ChangedAt != nil {
		by = "set at " + l.ChangedAt.Format(time.RFC3339)
	}
	return "limits (" + by + "): " + strings.Join(out, "; ")
}

// line describes the progress of a load in one line.
func (in *Input) line(t TableInput, now time.Time) string {
	p := ProgressOf(t.State, t.Parts, now, in.Cfg.State.Lease)
	text := t.Config.From + "  " + stateText(standing.LoadOf(t.State, in.again()).State)
	if p.Total > 0 {
		text += fmt.Sprintf("  %d of %d parts", p.Done, p.Total)
	}
	if t.State.Stage() == checkpoint.StageCopying {
		text += "  " + backfill.Counted(float64(p.Items), "item")
		if p.RateKnown {
			text += fmt.Sprintf("  %s items/s", backfill.FormatCount(p.Rate))
		}
		if p.ETAKnown {
			text += "  ETA " + backfill.FormatDuration(p.ETA)
		}
	}
	for _, why := range p.Slowed {
		text += "  " + why
	}
	return text
}
