package loads

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// rateAfter is how long a load has to run before it has a rate.
const rateAfter = 10 * time.Second

// Progress is the progress of a load's phase, and its speed.
type Progress struct {
	checkpoint.Sums
	// Rate is in items per second over the last five minutes, and ETA is the remaining time of the
	// copy. The flags are false if the values are unknown.
	Rate      float64
	RateKnown bool
	ETA       time.Duration
	ETAKnown  bool
	// Slowed lists the reasons why it is not faster, in fixed words.
	Slowed []string
}

// ProgressOf judges the parts of the load's current phase. Reports of a worker that has written
// nothing for three leases do not count as current.
func ProgressOf(state checkpoint.TableState, parts []checkpoint.Part, now time.Time, lease time.Duration) Progress {
	_, total := state.RunningPhase()
	stage := state.Stage()
	p := Progress{Sums: checkpoint.PartsDone(parts, total)}
	paused := state.Load.Paused != "" && stage != checkpoint.StageNone && stage != checkpoint.StageOver // otherwise the pause concerns the next load
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

// rate returns how many items per second the parts made durable in the last minutes. A part that
// began before that window counts in proportion to its time in it. Workers' clocks differ, so their
// times are converted to the service's clock, and none may be later than now.
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
	return "paused: " + strings.ReplaceAll(why, "_", " ")
}
