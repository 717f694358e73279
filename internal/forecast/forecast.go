// Package forecast estimates the freeze of a cutover and the wait before.
package forecast

import (
	"fmt"
	"math"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

const (
	// typically is how long a freeze lasts if no earlier attempt has shown it.
	typically = 5 * time.Second
	// proving is how long the proof takes that the policies of the tables freeze writes.
	proving = time.Minute
	// shardLife is about how long a shard of a stream stays open. DynamoDB documents no number.
	shardLife = 4 * time.Hour
)

// Forecast is what can be expected of a cutover before it begins.
type Forecast struct {
	// Freeze is the time from the answer of the hook that freezes until the switch hook is called,
	// with the time that the policies of the tables need.
	Freeze time.Duration
	// Measured reports that the last attempt took that long. Otherwise Freeze is an estimate.
	Measured bool
	// Wait is the mean time until a moment at which a freeze is short.
	Wait time.Duration
	// Quiet reports that the application may promise, when it is frozen, that its own writes to the
	// target have ended. The forecast is for a cutover in which it does.
	Quiet bool
	// The policy is the part of Freeze that proves that the policies of the tables freeze writes. The
	// delay is how long they needed last to take effect. Both are 0 without policies.
	policy, delay time.Duration
}

// Foretell returns the forecast for a cutover of tables with the given number of open shards. The
// argument `last` is the last attempt. The argument `quiet` reports that the application may promise
// that its own writes to the target have ended.
func Foretell(plan checkpoint.CutoverPlan, openShards int, last checkpoint.Cutover, quiet bool) Forecast {
	measured := last.Measured
	f := Forecast{Freeze: typically, Quiet: quiet && plan.UnlessQuiet > 0}
	most := plan.AtMost()
	if f.Quiet {
		most -= plan.UnlessQuiet
	} else {
		f.Freeze += plan.UnlessQuiet
	}
	if plan.FenceFirst && !plan.FenceUnlessQuiet { // otherwise UnlessQuiet contains it
		f.Freeze += cutover.Fencing
	}
	// An attempt that waited for the application's writes says nothing about one that need not
	// wait.
	waited := plan.UnlessQuiet > 0 && measured >= plan.UnlessQuiet
	if measured > 0 && (plan.UnlessQuiet == 0 || waited != f.Quiet) {
		f.Freeze, f.Measured = measured, true
	}
	f.Wait = untilMoment(openShards, drain.LongestListing(plan)-cutover.Provable(checkpoint.Cutover{CutoverPlan: plan, Quiet: f.Quiet}, most))
	if plan.ByPolicy {
		f.policy, f.delay = proving, last.Denial.Begins
		f.Freeze += f.policy + f.delay
	}
	return f
}

// untilMoment returns the mean time until no shard has ended for the given time. Shards end independently
// of each other, so their ends form a Poisson process. In such a process the mean wait for a pause of
// length w is (exp(r w) - 1 - r w) / r beyond the present pause, where r is the rate of ends.
func untilMoment(shards int, pause time.Duration) time.Duration {
	if shards == 0 || pause <= 0 {
		return 0
	}
	rate := float64(shards) / shardLife.Seconds()
	x := rate * pause.Seconds()
	const most = 365 * 24 * time.Hour // such a moment is not expected to come
	wait := math.Min((math.Exp(x)-1-x)/rate, most.Seconds())
	return time.Duration(wait * float64(time.Second)).Round(time.Second)
}

// Lines describes the forecast, a sentence each.
func (f Forecast) Lines(plan checkpoint.CutoverPlan, openShards int) (lines []string) {
	how := "estimated; a rehearsal measures it"
	if f.Measured {
		how = "measured by the last attempt"
	}
	lines = append(lines, fmt.Sprintf("expected freeze: about %s (%s)", timespan.Format(f.Freeze.Round(100*time.Millisecond)), how))
	switch {
	case f.delay > 0:
		lines = append(lines, fmt.Sprintf("of the freeze, the proof of the tables' policies takes at least %s, and they needed %s to take effect the last time", timespan.Format(f.policy), timespan.Format(f.delay.Round(time.Second))))
	case f.policy > 0:
		lines = append(lines, fmt.Sprintf("of the freeze, the proof of the tables' policies takes at least %s, without the time that they need to take effect; a rehearsal measures it", timespan.Format(f.policy)))
	}
	switch {
	case f.Quiet:
		lines = append(lines, fmt.Sprintf("if the hook freeze_writes does not answer quiet, the freeze lasts about %s longer", timespan.Format(plan.UnlessQuiet)))
	case plan.UnlessQuiet > 0:
		lines = append(lines, fmt.Sprintf("if the hook freeze_writes answers quiet, the freeze lasts about %s less", timespan.Format(plan.UnlessQuiet)))
	}
	if f.Wait >= longWait {
		lines = append(lines, fmt.Sprintf("expected wait for a moment at which the freeze is short: about %s, because %d shards are open. Cut over fewer tables at once (cutover.groups), raise cutover.freeze_at_most, or lower cutover.listing_bound",
			timespan.Format(f.Wait), openShards))
	}
	if plan.ListedWithin() > plan.AtMost() {
		lines = append(lines, fmt.Sprintf("if a shard splits just before the freeze, the try is abandoned within about 5s, and the next one begins up to %s later", timespan.Format(plan.ListedWithin())))
	}
	return lines
}

// longWait is the shortest expected wait that is worth a line.
const longWait = time.Minute
