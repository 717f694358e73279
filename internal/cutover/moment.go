package cutover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// A freeze must not wait for a condition that only time can fulfil. So the application is frozen
// only at a moment at which a short freeze is expected. Before that moment, the attempt stays in
// its checks, and the application writes.

// survey is the result of one check of all conditions for a freeze. At most one of ends, closed and
// waits is set.
type survey struct {
	gates     []checkpoint.CutoverGate
	known     knownLosses
	ends      string         // why the attempt ends
	closed    string         // the gate that is not ready
	waits     string         // the condition for which the attempt waits
	next      time.Time      // when that wait is expected to end; zero if unknown
	search    map[string]int // how many candidates to write next, by table, while the attempt waits
	brief     bool           // whether that wait is so short that the record need not show it
	uncovered bool           // whether an open shard may receive no canary
}

func (l survey) moment() bool { return l.ends+l.closed+l.waits == "" }

// why returns the reason why the application must not be frozen now; "" if it may be frozen.
func (l survey) why() string { return l.ends + l.closed + l.waits }

// survey checks all conditions for a freeze of the application. It checks the shards last, because
// they change most often.
func (v *drive) survey(ctx context.Context, c checkpoint.Cutover, now time.Time) (l survey, err error) {
	if l.gates, err = v.Gates(ctx, c.CutoverPlan, now); err != nil {
		return l, err
	}
	if l.ends, err = v.rival(ctx, c); err != nil || l.ends != "" {
		return l, err
	}
	if open := readiness.Open(l.gates); len(open) > 0 {
		l.closed = fmt.Sprintf("gate %s of table %s is not ready: %s", open[0].Name, open[0].Table, open[0].Figure)
		return l, nil
	}
	if !raised(c) {
		l.waits = "the fence is not raised yet"
		return l, nil
	}
	if doubted, err := v.forgetDoubts(ctx, c); err != nil || doubted {
		l.waits = "a request was never answered, so the fence is raised again"
		return l, err
	}
	if l.waits, l.ends, err = v.recheck(ctx, c, now); err != nil || !l.moment() {
		return l, err
	}
	if l.known, err = v.known(ctx, c); err != nil {
		return l, err
	}
	if n := l.known.parkedItems(); n > mostParked {
		l.ends = fmt.Sprintf("%d items are parked; a cutover leaves at most %d behind", n, mostParked)
		return l, nil
	}
	found, err := v.rowsOfAll(ctx, c)
	if err != nil {
		return l, err
	}
	covered := v.coverage(ctx, c, found)
	l.uncovered, l.waits, l.search = covered.uncovered, covered.waits, covered.next
	l.brief = l.waits != "" && covered.brief
	if l.waits == "" {
		l.waits, l.next = tooLong(c, found, comparesItself(found, v.settings.Ready.Small), now)
	}
	if l.waits != "" && len(l.search) == 0 {
		return l, nil
	}
	if err := v.probeCanaries(ctx, c); err != nil {
		l.ends = fmt.Sprintf("canaries cannot be written to a source: %v", err)
	}
	return l, nil
}

// tooLong returns why a freeze that begins now would last too long, and when a short one is
// expected. The argument `small` is the number of tables that this process compares as a whole.
func tooLong(c checkpoint.Cutover, found []readiness.Figures, small int, now time.Time) (why string, next time.Time) {
	rest := restOf(c, small)
	most := provedWithin(c.Foreseeable(), rest)
	for i, source := range c.Tables {
		d := drain.Foreseen(found[i], c.ListedWithin(), now)
		if d.Length <= most {
			continue
		}
		if at := now.Add(d.Length - most); at.After(next) {
			next = at
			why = fmt.Sprintf("shard %s of table %s has ended, and its children may be listed late: a freeze would last %s, but only %s is allowed; the next moment is expected at %s",
				d.Shard, source, timespan.Spell((d.Length + rest).Round(time.Second)), timespan.Spell(c.Foreseeable()), at.UTC().Format(time.TimeOnly))
		}
	}
	return why, next
}

// stillMoment repeats the survey. It returns why the freeze must not begin now; "" if it may begin.
func (v *drive) stillMoment(ctx context.Context, c checkpoint.Cutover) (why string, err error) {
	now, known := v.now(ctx, c, false)
	if !known {
		return "the source's answer has no Date header", nil
	}
	l, err := v.survey(ctx, c, now)
	if err != nil {
		return "", err
	}
	if l.moment() && !maps.EqualFunc(l.known.parked, c.Parked, slices.Equal) {
		return "the parked items have changed", nil
	}
	return l.why(), nil
}

// looks is the maximum number of surveys directly before the freeze. If a survey takes too long, it
// is repeated, because the hook must be called soon after it.
const looks = 3

// beforeFreeze ensures that the survey directly before the freeze found all conditions true. If it
// returns an error, the hook must not be called.
func (v *drive) beforeFreeze(ctx context.Context, c checkpoint.Cutover) error {
	for range looks {
		why, err := v.stillMoment(ctx, c)
		if err != nil {
			return err
		}
		if why != "" {
			return v.noMoment(ctx, c, why)
		}
		looked := task.Mono(ctx)
		if err := v.stillWanted(ctx, c); err != nil {
			return err
		}
		if task.Mono(ctx)-looked <= v.settings.Fresh {
			return nil
		}
	}
	return v.noMoment(ctx, c, "the ledger answers too slowly")
}

// noMoment sets the attempt back to the checks. If the hook may have been called already, it
// cancels the attempt instead. It always returns an error.
func (v *drive) noMoment(ctx context.Context, c checkpoint.Cutover, why string) error {
	now, known := v.now(ctx, c, false)
	if !known {
		now = c.StepAt
	}
	_, err := v.Ledger.InStep(ctx, c, func(latest *checkpoint.Cutover) error {
		switch {
		case latest.Calls != c.Calls: // another driver may have called the hook meanwhile
			return checkpoint.ErrMoved
		case c.Calls > c.CallsBefore+1:
			return latest.GiveUp("the moment for a short freeze has passed: "+why, checkpoint.CureWait, now)
		}
		return latest.MomentPassed(now, why)
	})
	if err == nil {
		err = checkpoint.ErrMoved
	}
	return err
}
