package backfill

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// halves are in a read capacity unit: half of one is the least that a read costs.
const halves = 2

// Limits pace the parts that a worker loads: to rows a second, and to read capacity units a second.
// Both may be changed while parts run. Nil never waits.
type Limits struct {
	rows    atomic.Pointer[Throttle]
	units   *Throttle
	running atomic.Int64 // parts
}

// NewLimits returns limits of so much a second; zero or less means none.
func NewLimits(rows, units float64) *Limits {
	l := &Limits{units: NewThrottle(units * halves)}
	l.rows.Store(NewThrottle(rows))
	return l
}

// UseRows paces rows by a throttle that others use, too.
func (l *Limits) UseRows(t *Throttle) { l.rows.Store(t) }

// SetUnits changes the limit of read capacity units a second.
func (l *Limits) SetUnits(ctx context.Context, units float64) { l.units.Set(ctx, units*halves) }

// set changes both limits. Who waits hears of higher ones within half a minute.
func (l *Limits) set(ctx context.Context, rows, units float64) {
	l.rows.Load().Set(ctx, rows)
	l.units.Set(ctx, units*halves)
}

// Share is a worker's share of a limit of the whole load, by the parts that it holds of all that
// are held. A worker that is about to take its first counts as if it held it.
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

// Take accounts for what was read and waits until both limits allow it, side by side: in steps of
// about a second, so that a new limit takes hold soon. It returns how long each limit was the one
// that was waited for, and an error if one of the contexts ended first.
func (l *Limits) Take(drain, ctx context.Context, rows int, units float64) (forRows, forUnits time.Duration, err error) {
	if l == nil {
		return 0, 0, nil
	}
	cost := int(math.Ceil(units * halves))
	for rows > 0 || cost > 0 {
		paid, rowsDelay := l.rows.Load().reserve(ctx, rows)
		rows -= paid
		paid, unitsDelay := l.units.reserve(ctx, cost)
		cost -= paid
		delay := max(rowsDelay, unitsDelay)
		if delay <= 0 {
			continue
		}
		waited, err := l.wait(drain, ctx, delay)
		if err != nil {
			return forRows, forUnits, err
		}
		if rowsDelay >= unitsDelay {
			forRows += waited
		} else {
			forUnits += waited
		}
	}
	return forRows, forUnits, nil
}

// stretch is how long a wait lasts before it looks whether a limit was raised: one far below a row a
// second asks for hours.
const stretch = 30 * time.Second

// wait waits so long, or until a limit is found raised: then what was paid for goes on at once.
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

// pageItems is how many items a part asks for in a request: about what the part may read in a
// second, so that the load moves evenly and little is repeated after a stop. 0 asks for full pages
// of 1 MB, which cost the fewest requests.
func (l *Limits) pageItems(at checkpoint.PartProgress) int {
	if l == nil {
		return 0
	}
	limit := l.rows.Load().perSecond()
	if units := l.units.perSecond() / halves; !math.IsInf(units, 1) {
		items := float64(fewestItemsPerPage) // until it is known what an item costs
		if at.Items > 0 && at.Units > 0 {
			items = units * float64(at.Items) / at.Units
		}
		limit = min(limit, items)
	}
	return pageOf(limit / float64(max(l.running.Load(), 1)))
}
