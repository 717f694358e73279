package freeze

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// tablesAtOnce is the maximum number of tables that are frozen or probed concurrently.
const tablesAtOnce = 128

// denial is the freeze of one attempt. It implements cutover.Denial.
type denial struct {
	*Policy
	of     checkpoint.Cutover
	group  *task.Group // its tasks end with the driver's lease
	proof  func(ctx context.Context) (time.Time, error)
	times  tablepolicy.Timings
	tables []*table

	mu      sync.Mutex // guards the fields up to through
	probing bool
	last    time.Time     // of the last proof
	sent    time.Duration // when it began
	through string        // the first table to which a write was let through
	waits   string        // what the last Lift waited for
	lifted  time.Duration // when it began
}

// each calls f for all tables concurrently, and returns the first error.
func (d *denial) each(ctx context.Context, does string, f func(ctx context.Context, t *table) error) error {
	g := task.NewGroup(ctx, tablesAtOnce)
	for _, t := range d.tables {
		g.Go(does+" "+t.source, func(ctx context.Context) error { return f(ctx, t) })
	}
	return g.Wait()
}

// begin notes in the record of the cutover that a statement may be left (Z1).
func (d *denial) begin(ctx context.Context, c checkpoint.Cutover, waits string) error {
	_, err := d.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		c.Denial.Left, c.Trouble = true, waits
		return nil
	})
	return err
}

// Freeze implements cutover.Denial.
func (d *denial) Freeze(ctx context.Context, c checkpoint.Cutover) error {
	if err := d.begin(ctx, c, "waiting until the policies of the tables deny writes"); err != nil {
		return err
	}
	err := d.each(ctx, "freeze", func(ctx context.Context, t *table) error { return t.freeze(ctx) })
	if err != nil {
		return err
	}
	if through, unknown := d.Probe(ctx, false); through != "" {
		return d.failure(ctx, through, errThrough)
	} else if unknown != "" {
		return fmt.Errorf("it is unknown whether the policy of table %s denies writes: the probe has no answer", unknown)
	}
	_, err = d.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		c.Denial.Begins = max(c.Denial.Begins, d.slowest(func(t *table) time.Duration { return t.begins }))
		return nil
	})
	return err
}

// Rehearse implements cutover.Denial.
func (d *denial) Rehearse(ctx context.Context, c checkpoint.Cutover) error {
	if err := d.begin(ctx, c, "rehearsing the freeze by policies, for the probe's role"); err != nil {
		return err
	}
	err := d.each(ctx, "rehearse the freeze of", func(ctx context.Context, t *table) error {
		if err := t.freeze(ctx); err != nil {
			return err
		}
		return t.unfreeze(ctx)
	})
	if err != nil {
		return err
	}
	begins, ends := d.slowest(func(t *table) time.Duration { return t.begins }), d.slowest(func(t *table) time.Duration { return t.ends })
	now := d.Ledger.Now(ctx)
	_, err = d.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		c.Denial.Rehearsed, c.Denial.Begins, c.Denial.Ends = c.Attempt, begins, ends
		c.Note(now, fmt.Sprintf("the policies denied writes %s after the change, and let them through %s after the end", begins.Round(time.Second), ends.Round(time.Second)))
		return nil
	})
	return err
}

// Unfreeze implements cutover.Denial.
func (d *denial) Unfreeze(ctx context.Context, c checkpoint.Cutover) error {
	if err := d.each(ctx, "end the freeze of", func(ctx context.Context, t *table) error { return t.unfreeze(ctx) }); err != nil {
		return err
	}
	_, err := d.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
		c.Denial.Ends = max(c.Denial.Ends, d.slowest(func(t *table) time.Duration { return t.ends }))
		return nil
	})
	return err
}

// Reopen implements cutover.Denial.
func (d *denial) Reopen(ctx context.Context, c checkpoint.Cutover) error {
	if err := d.Unfreeze(ctx, c); err != nil {
		return err
	}
	lasts := cmp.Or(d.times.Frozen, time.Minute)
	for since := task.Mono(ctx); task.Mono(ctx)-since < lasts; {
		if err := task.Sleep(ctx, d.look()); err != nil {
			return err
		}
		if !d.open(ctx) {
			since = task.Mono(ctx)
		}
	}
	return nil
}

// open probes all tables, and reports whether a write was let through to each of them.
func (d *denial) open(ctx context.Context) bool {
	shut := make([]bool, len(d.tables))
	_ = d.each(ctx, "probe", func(ctx context.Context, t *table) error {
		i := slices.Index(d.tables, t)
		shut[i] = t.probe(ctx) != tablepolicy.LetThrough
		return nil
	})
	return !slices.Contains(shut, true)
}

// Lift implements cutover.Denial. It looks at the policies every few seconds only.
func (d *denial) Lift(ctx context.Context, c checkpoint.Cutover) (waits string, err error) {
	if d.waits != "" && task.Mono(ctx)-d.lifted < 5*d.look() {
		return d.waits, nil
	}
	d.lifted = task.Mono(ctx)
	err = d.each(ctx, "make sure of the end of the freeze of", func(ctx context.Context, t *table) error { return t.lift(ctx) })
	if err != nil {
		return "the policies of the tables may still deny writes: " + err.Error(), err
	}
	var at time.Time
	over := true
	for _, t := range d.tables {
		if over = over && t.over; t.overAt.After(at) {
			at = t.overAt
		}
	}
	if !over {
		d.waits = "making sure that no late request freezes a table"
		if at.After(d.Ledger.Now(ctx)) {
			d.waits += ", until " + at.UTC().Format(time.TimeOnly)
		}
		return d.waits, nil
	}
	_, err = d.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Denial.Left = false; return nil })
	return "", err
}

// slowest returns the longest of a duration of all tables.
func (d *denial) slowest(of func(t *table) time.Duration) (most time.Duration) {
	for _, t := range d.tables {
		most = max(most, of(t))
	}
	return most
}

// look returns the time between two looks at a table.
func (d *denial) look() time.Duration {
	if d.times.Look > 0 {
		return d.times.Look
	}
	return time.Second
}
