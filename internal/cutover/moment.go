package cutover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A freeze never waits for what time alone heals. So the application is frozen only at a moment at
// which the length of the freeze can be foreseen, and is short. Until then the attempt waits in its
// checks, and the application writes.

// listingTakes is how long a worker takes to list the children of a shard, once that can be done.
const listingTakes = 2 * time.Second

// delay is what a freeze that begins now would wait for, at least.
type delay struct {
	length time.Duration
	shard  string // the shard whose children may be listed late; "" if there is none
}

// foreseen returns how long a freeze that begins now lasts at least. It is pure. A shard that has
// ended gives no canary any more, so all of its children must have rows. A listing shows them that
// begins at the bound after the shard's end. If that listing is late, or the end is not known, a new
// worker may be counting from the beginning.
func foreseen(f Figures, bound time.Duration, now time.Time) (d delay) {
	for _, sh := range lineageOf(f).rows {
		if !sh.Incomplete() {
			continue
		}
		left := bound + listingTakes
		if end := sh.EndTime(); !end.IsZero() && now.Before(end.Add(left)) {
			left = min(left, end.Add(left).Sub(now))
		}
		if left > d.length || left == d.length && sh.ID < d.shard {
			d = delay{left, sh.ID}
		}
	}
	return d
}

// survey is what one look at everything found that must hold when the application is frozen. At most one
// of ends, closed and waits is set.
type survey struct {
	gates  []checkpoint.CutoverGate
	known  knownLosses
	ends   string    // why the attempt ends
	closed string    // the gate that is not ready
	waits  string    // what is waited for
	next   time.Time // when that is expected to be over; zero: unknown
}

func (l survey) moment() bool { return l.ends+l.closed+l.waits == "" }

// why says why the application is not frozen now.
func (l survey) why() string { return l.ends + l.closed + l.waits }

// survey looks whether this is a moment to freeze the application. It looks at the shards last, because
// they change most often.
func (v *drive) survey(ctx context.Context, c checkpoint.Cutover, now time.Time) (l survey, err error) {
	if l.gates, err = v.Gates(ctx, c.CutoverPlan, now); err != nil {
		return l, err
	}
	if open := Open(l.gates); len(open) > 0 {
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
	if l.waits, l.next, err = v.tooLong(ctx, c, now); err != nil || l.waits != "" {
		return l, err
	}
	if err := v.probeCanaries(ctx, c); err != nil {
		l.ends = fmt.Sprintf("canaries cannot be written to a source: %v", err)
	}
	return l, nil
}

// tooLong says why a freeze that begins now would last longer than it may, and when that is over.
func (v *drive) tooLong(ctx context.Context, c checkpoint.Cutover, now time.Time) (why string, next time.Time, err error) {
	found, err := v.rowsOfAll(ctx, c)
	if err != nil {
		return "", next, err
	}
	for i, source := range c.Tables {
		d := foreseen(found[i], c.ListedWithin(), now)
		if d.length <= c.AtMost() {
			continue
		}
		if at := now.Add(d.length - c.AtMost()); at.After(next) {
			next = at
			why = fmt.Sprintf("shard %s of table %s has ended, and its children may be listed late: a freeze would last %s, and may last %s; the next moment is expected at %s",
				d.shard, source, spell(d.length.Round(time.Second)), spell(c.AtMost()), at.UTC().Format(time.TimeOnly))
		}
	}
	return why, next, nil
}

// stillMoment says why the hook that freezes the application must not be called now; "" if a look that
// has just ended found nothing.
func (v *drive) stillMoment(ctx context.Context, c checkpoint.Cutover) (why string, err error) {
	now, known := v.now(ctx, c, false)
	if !known {
		return "the source's answer has no time", nil
	}
	l, err := v.survey(ctx, c, now)
	if err != nil {
		return "", err
	}
	if l.moment() && !maps.EqualFunc(l.known.parked, c.Parked, slices.Equal) {
		return "other items are parked than a moment ago", nil
	}
	return l.why(), nil
}

// looks is how often a driver looks before a call that freezes the application, if it is too slow.
const looks = 3

// beforeFreeze makes sure that a call that freezes the application follows a look at which all held. If
// it returns an error, the call must not be made.
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

// noMoment returns to the checks, or ends the attempt if the hook may have been called already. It
// returns an error in any case.
func (v *drive) noMoment(ctx context.Context, c checkpoint.Cutover, why string) error {
	now, known := v.now(ctx, c, false)
	if !known {
		now = c.StepAt
	}
	_, err := v.Ledger.InStep(ctx, c, func(latest *checkpoint.Cutover) error {
		switch {
		case latest.Calls != c.Calls: // another driver may have called it meanwhile
			return checkpoint.ErrMoved
		case c.Calls > c.CallsBefore+1:
			return latest.Cancel("the moment for a short freeze has passed: "+why, now)
		}
		return latest.MomentPassed(now, why)
	})
	if err == nil {
		err = checkpoint.ErrMoved
	}
	return err
}
