package loads

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// rateAfter is how long a load must run before its rate is shown.
const rateAfter = 10 * time.Second

// Progress is the progress and the speed of a load's phase.
type Progress struct {
	checkpoint.Sums
	// Rate is in items per second over the last five minutes. ETA is the remaining time of the
	// copy. The flags after them report whether the values are known.
	Rate      float64
	RateKnown bool
	ETA       time.Duration
	ETAKnown  bool
	// Slowed lists the reasons why the load is not faster, in fixed words.
	Slowed []string
}

// ProgressOf computes the progress from the parts of the load's current phase. It ignores the
// reports of a worker that has written nothing to the ledger for the time of three leases.
func ProgressOf(state checkpoint.TableState, parts []checkpoint.Part, now time.Time, lease time.Duration) Progress {
	_, total := state.RunningPhase()
	stage := state.Stage()
	p := Progress{Sums: checkpoint.PartsDone(parts, total)}
	// If no phase runs, the pause applies to the next load.
	paused := state.Load.Paused != "" && stage != checkpoint.StageNone && stage != checkpoint.StageOver
	if paused {
		p.Slowed = append(p.Slowed, pausedText(state.Load.Paused))
	}
	if text := exportText(state.Load); text != "" && stage == checkpoint.StageAsked {
		p.Slowed = append(p.Slowed, text)
	}
	live := false
	for _, part := range parts {
		fresh := standing.Answers(part.Heartbeat, now, lease)
		live = live || fresh
		if cause := part.Trouble.Cause; fresh && part.Owner != "" && cause != "" && !slices.Contains(p.Slowed, cause) {
			p.Slowed = append(p.Slowed, cause)
		}
	}
	if !live && !paused && stage == checkpoint.StageCopying && !p.Complete() && started(state.Load, now, lease) {
		p.Slowed = append(p.Slowed, untouched(p.Total-p.Done, parts))
	}
	slices.Sort(p.Slowed)
	if !live || paused {
		return p
	}
	p.Rate, p.RateKnown = rate(parts, now)
	if stage == checkpoint.StageCopying && p.RateKnown {
		p.ETA, p.ETAKnown = backfill.ETA(p.Items, state.Load.Estimate, p.Rate, now.Sub(state.Load.StartedAt))
	}
	return p
}

// started reports whether a load has lasted long enough for a worker to acquire a part.
func started(l checkpoint.Load, now time.Time, lease time.Duration) bool {
	return !l.StartedAt.IsZero() && now.Sub(l.StartedAt) > standing.Fresh(lease)
}

// untouched describes a copy on which no process works, with the last trouble that a part shows.
func untouched(left int, parts []checkpoint.Part) string {
	var last checkpoint.Part
	for _, part := range parts {
		if part.Trouble.Cause != "" && part.WrittenAt.After(last.WrittenAt) {
			last = part
		}
	}
	text := "no worker or job works on " + terminal.Plural(left, "part")
	if last.Trouble.Cause != "" {
		text += "; last trouble: " + last.Trouble.Cause
	}
	return text + "; start a worker, or submit the job again"
}

// rate returns the number of items per second that the parts made durable in the last minutes. If a
// part's report covers more time, a proportional share of its items counts. Workers' clocks differ,
// so their times are converted to the service's clock. A time after `now` counts as `now`.
func rate(parts []checkpoint.Part, now time.Time) (float64, bool) {
	from, first, items := now.Add(-backfill.RateWindow), now, 0.0
	for _, part := range parts {
		begun, end := part.Begun, part.ByService(part.WrittenAt)
		if begun.IsZero() {
			continue
		}
		if ahead := end.Sub(now); ahead > 0 {
			end, begun = now, begun.Add(-ahead)
		}
		if begun.Before(first) {
			first = begun
		}
		if end.Before(from) {
			continue
		}
		share := 1.0
		if begun.Before(from) {
			share = end.Sub(from).Seconds() / end.Sub(begun).Seconds()
		}
		items += share * float64(part.Items)
	}
	if first.Before(from) {
		first = from
	}
	span := now.Sub(first)
	if span < rateAfter {
		return 0, false
	}
	return items / span.Seconds(), true
}

// pausedText returns why a load is paused.
func pausedText(why string) string {
	switch why {
	case checkpoint.PausedByOperator:
		return "paused by an operator"
	case checkpoint.PausedForHeadroom:
		return "paused: the stream will soon drop unapplied changes"
	}
	if other, yes := strings.CutPrefix(why, checkpoint.PausedForStranger); yes {
		return "refused: " + other
	}
	if cause, yes := strings.CutPrefix(why, checkpoint.PausedForFence); yes {
		return "waits: the fence does not reject late requests: " + cause
	}
	return "paused: " + strings.ReplaceAll(why, "_", " ")
}
