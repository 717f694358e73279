package loads

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// judge makes the document from the input, without further requests. The argument `with` holds
// flags to append to commands of next steps.
func (in *Input) judge(prices cost.Prices, with string, now time.Time) *Document {
	d := &Document{Schema: schemaName, Name: in.Cfg.Name, At: now.UTC(), Decided: []Decided{}, Tables: []Table{}, NextSteps: []standing.NextStep{},
		PricesDate: prices.Date, Currency: prices.Currency, left: in.left}
	for _, t := range in.Tables {
		d.Tables = append(d.Tables, in.table(t, prices, now))
		if in.left != nil {
			continue // every further command is refused
		}
		step, ok := Next(t.State, in.again(), with)
		switch {
		case in.ledger == nil || !t.Found || t.State.Generation == 0:
			step, ok = standing.NextStep{Command: standing.Command("run", "", with), Why: t.Config.From + ": " + terminal.NotStarted}, true
		case ok:
			step.Why = t.Config.From + ": " + step.Why
		}
		if ok {
			d.NextSteps = append(d.NextSteps, step)
		}
	}
	return d
}

// again reports whether a load after a gap starts automatically.
func (in *Input) again() bool { return in.Cfg.Backfill.OnGap == "load" }

func (in *Input) table(t TableInput, prices cost.Prices, now time.Time) Table {
	s := t.State
	out := Table{Source: t.Config.From, Target: t.Config.TargetNames(), State: standing.LoadNotStarted, Limits: limitsOf(in.Cfg.Backfill, s)}
	if !t.Found || s.Generation == 0 {
		return out
	}
	stands := standing.LoadOf(s, in.again())
	out.Generation, out.State, out.Tries = &s.Generation, stands.State, s.Tries
	out.Needed, out.NeedsLoadReason = stands.Needed, terminal.Known(s.Reason)
	out.LossKind, out.LostFrom = terminal.Known(string(s.Kind)), terminal.KnownTime(s.LostFrom)
	if checkpoint.Mendable(s) == nil {
		out.WindowsBy = terminal.KnownTime(s.WindowsBy())
	}
	if out.State == standing.LoadNotStarted {
		return out
	}
	out.Paused = terminal.Known(s.Load.Paused)
	if out.State == standing.LoadDone {
		out.Paused = nil // the pause applies to the next load
	}
	out.Load = load(s, t.Parts, ProgressOf(s, t.Parts, now, in.Cfg.State.Lease), prices)
	return out
}

func load(s checkpoint.TableState, parts []checkpoint.Part, p Progress, prices cost.Prices) *Load {
	l := s.Load
	out := &Load{Number: l.Number, Exports: []string{}, copiedFrom: CopiedFrom(l), AskedAt: terminal.KnownTime(l.AskedAt), StartedAt: terminal.KnownTime(l.StartedAt), CopiedAt: terminal.KnownTime(l.DoneAt), SweptAt: terminal.KnownTime(l.SweptAt),
		Parts: Parts{p.Total, p.Done, p.Held}, Items: l.Items, Bytes: l.Bytes, ReadUnits: l.Units, Slowed: append([]string{}, p.Slowed...), Sweep: sweepOf(l.Sweep, p)}
	for _, e := range l.Exports() {
		out.Exports = append(out.Exports, e.Address)
	}
	out.ExportStates = exportStates(l, parts)
	if l.Parts > 0 {
		out.Estimate, out.EstimateBytes = &l.Estimate, &l.EstimateBytes
		out.Mode = ModeOf(l)
	}
	out.Guarded, out.copying = terminal.Known(l.Guarded), s.Copying()
	if s.Stage() == checkpoint.StageCopying {
		out.Items, out.Bytes, out.ReadUnits = p.Items, p.Bytes, p.Units
	} else {
		out.ReadUnits += p.Units // read units of the pass of the sweep
	}
	if p.RateKnown {
		out.ItemsPerSecond = &p.Rate
	}
	if p.ETAKnown {
		seconds := p.ETA.Round(time.Millisecond).Seconds()
		out.ETASeconds = &seconds
	}
	out.Spent = prices.Spent(out.ReadUnits, out.Bytes)
	return out
}

// ModeOf returns how the rows of a planned load are written.
func ModeOf(l checkpoint.Load) *string {
	mode := string(checkpoint.GuardedLoad)
	if l.Fast {
		mode = string(checkpoint.FastLoad)
	}
	return &mode
}

// sweepOf adds the counts of the running pass to those of the earlier passes.
func sweepOf(s checkpoint.Sweep, p Progress) Sweep {
	out := Sweep{BegunAt: terminal.KnownTime(s.BegunAt), Approved: s.Approved, Seen: s.Seen, Put: s.Put, Removed: s.Removed, Unexplained: s.Unexplained}
	if !s.BegunAt.IsZero() {
		out.Pass = &s.Pass
	}
	if s.Parts > 0 {
		out.Seen, out.Unexplained, out.Put, out.Removed = p.Seen, p.Unexplained, s.Put+p.Put, s.Removed+p.Removed
	}
	return out
}

// Next returns the command that an operator should run for a table with a waiting load; false if
// there is none. The argument `again` reports whether loads after a gap start automatically. The
// argument `flags` is appended to the command, as in standing.Command.
func Next(s checkpoint.TableState, again bool, flags string) (standing.NextStep, bool) {
	command, why := next(s, again)
	return standing.NextStep{Command: standing.Command(command, s.Source, flags), Why: why}, command != ""
}

// next returns the command of Next, in the form that standing.Command needs, and the reason; "" if
// there is no command.
func next(s checkpoint.TableState, again bool) (command, why string) {
	load := standing.LoadOf(s, again)
	switch {
	case s.Generation == 0:
	case load.State == standing.LoadApproval:
		c := s.Load.Sweep.Counts
		return "backfill resume --table TABLE --yes", fmt.Sprintf("the sweep waits for approval: it would write %s and remove %s in a target that replicator did not create",
			terminal.Plural(int(c.Put), "row"), terminal.Plural(int(c.Removed), "row"))
	case NoExport(s) != "":
		return againText(s), NoExport(s)
	case !load.Needed && !load.Over && !s.Load.CancelledAt.IsZero():
		return "backfill start --table TABLE", "an operator cancelled its load"
	case load.UnderWay:
		if s.Load.Paused == checkpoint.PausedByOperator {
			return "backfill resume --table TABLE", "the load is paused by an operator"
		}
		if cause, open := strings.CutPrefix(s.Load.Paused, checkpoint.PausedForFence); open {
			return "backfill redo --table TABLE", fmt.Sprintf("the fence does not reject late requests of the fast load (%s), so its sweep waits; another load is guarded, and needs no fence", cause)
		}
	case load.Needed && load.State == standing.LoadDone:
		return load.Leads, s.Reason
	case load.Needed && s.Tries >= checkpoint.MaxTries:
		return load.Leads, fmt.Sprintf("%s; %d loads did not complete, so an operator must request the next one", lost(s), s.Tries)
	case load.Waits != "":
		return load.Leads, lost(s)
	}
	return "", ""
}

// lost describes the loss that a load has to repair.
func lost(s checkpoint.TableState) string {
	text := s.Reason
	if !s.LostFrom.IsZero() {
		text = "changes since " + s.LostFrom.UTC().Format(time.RFC3339) + " may be lost: " + text
	}
	return text
}
