package backfill

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// halves is the number of halves in a read capacity unit. Half a unit is the least that a read can
// cost.
const halves = 2

// Limits pace the parts that a worker loads, to a number of rows and of read capacity units per
// second. Both limits may be changed while parts run. A nil Limits never waits.
type Limits struct {
	rows    atomic.Pointer[Throttle]
	ramp    *Throttle // rows too
	units   *Throttle
	running atomic.Int64 // the number of running parts
}

// NewLimits returns limits of rows and units a second; zero or less means no limit.
func NewLimits(rows, units float64) *Limits {
	l := &Limits{ramp: NewThrottle(0), units: NewThrottle(units * halves)}
	l.rows.Store(NewThrottle(rows))
	return l
}

// UseRows makes a throttle pace the rows. Other loads may use the same throttle.
func (l *Limits) UseRows(t *Throttle) { l.rows.Store(t) }

// SetRamp changes a second limit of rows per second, which bounds this worker at the beginning of a
// load (RampUp); 0 means no limit.
func (l *Limits) SetRamp(ctx context.Context, rows float64) { l.ramp.Set(ctx, rows) }

// SetUnits changes the limit of read capacity units a second.
func (l *Limits) SetUnits(ctx context.Context, units float64) { l.units.Set(ctx, units*halves) }

// set changes the limits of rows and units. A waiting part uses a higher limit within half a
// minute.
func (l *Limits) set(ctx context.Context, rows, units float64) {
	l.rows.Load().Set(ctx, rows)
	l.units.Set(ctx, units*halves)
}

// Share returns a worker's share of a limit of the whole load. The share is the number of parts
// that the worker holds, divided by the number of all held parts. A worker that is about to take
// its first part counts as if it held one.
func Share(limit float64, mine, all int) float64 {
	mine = max(mine, 1)
	return limit * float64(mine) / float64(max(all, mine))
}

func (l *Limits) enter() {
	if l != nil {
		l.running.Add(1)
	}
}

func (l *Limits) leave() {
	if l != nil {
		l.running.Add(-1)
	}
}

// Take accounts for rows and units that were read, and waits until both limits allow them. It pays
// in steps of about a second. So a new limit takes effect soon. It returns how long each limit
// caused the wait, and an error if one of the contexts ended first.
func (l *Limits) Take(drain, ctx context.Context, rows int, units float64) (forRows, forUnits time.Duration, err error) {
	if l == nil {
		return 0, 0, nil
	}
	cost := int(math.Ceil(units * halves))
	for rows > 0 || cost > 0 {
		paid, rowsDelay := l.rows.Load().reserve(ctx, min(rows, l.ramp.portion()))
		rampDelay := l.ramp.reserveAll(ctx, paid)
		rows -= paid
		paid, unitsDelay := l.units.reserve(ctx, cost)
		cost -= paid
		delay := max(rowsDelay, rampDelay, unitsDelay)
		if delay <= 0 {
			continue
		}
		waited, err := l.wait(drain, ctx, delay)
		if err != nil {
			return forRows, forUnits, err
		}
		switch {
		case rampDelay > max(rowsDelay, unitsDelay): // nobody can raise this limit
		case rowsDelay >= unitsDelay:
			forRows += waited
		default:
			forUnits += waited
		}
	}
	return forRows, forUnits, nil
}

// stretch is the longest time for which a part waits before it reads its limits again. An operator
// may have raised them. A limit far below one row per second may require a wait of hours.
const stretch = 30 * time.Second

// wait waits for delay, or until a limit was raised. After a raise, a part that has paid continues
// immediately.
func (l *Limits) wait(drain, ctx context.Context, delay time.Duration) (waited time.Duration, err error) {
	rows, units := l.rows.Load().perSecond(), l.units.perSecond()
	for waited < delay && l.rows.Load().perSecond() <= rows && l.units.perSecond() <= units {
		step := min(delay-waited, stretch)
		if err := task.SleepWithin(ctx, drain, step); err != nil {
			return waited, err
		}
		waited += step
	}
	return waited, nil
}

// pageItems returns how many items a part asks for in a request. It is about the number of items
// that the part may read in a second. So the load moves evenly, and repeats little after a stop.
// The result 0 asks for full pages of 1 MB. Full pages cost the fewest requests.
func (l *Limits) pageItems(at checkpoint.PartProgress) int {
	if l == nil {
		return 0
	}
	limit := l.rows.Load().perSecond()
	if units := l.units.perSecond() / halves; !math.IsInf(units, 1) {
		items := float64(fewestItemsPerPage) // until the cost of an item is known
		if at.Items > 0 && at.Units > 0 {
			items = units * float64(at.Items) / at.Units
		}
		limit = min(limit, items)
	}
	return pageOf(limit / float64(max(l.running.Load(), 1)))
}
