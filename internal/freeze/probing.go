package freeze

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// longestGap is the longest time without a round of probes after which a table still counts as
// frozen.
const longestGap = 15 * time.Second

// watch lets the probes of a table go on.
func (d *denial) watch(t *table) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.watched = true
	if d.probing {
		return
	}
	d.probing = true
	d.group.Go("probe frozen tables", func(ctx context.Context) error {
		d.keepProbing(ctx)
		return nil
	})
}

// unwatch ends the probes of a table.
func (t *table) unwatch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched, t.seen = false, false
}

// keepProbing probes the watched tables until none is left, or until the cutover has left the steps in
// which the tables must be frozen.
func (d *denial) keepProbing(ctx context.Context) {
	for n := 1; ; n++ {
		watched := d.watchedTables()
		if len(watched) == 0 || n%10 == 0 && !d.needed(ctx) || ctx.Err() != nil {
			break
		}
		d.round(ctx, watched)
		if task.Sleep(ctx, d.look()) != nil {
			break
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probing = false
}

// needed reports whether the cutover is in a step in which the tables must be frozen.
func (d *denial) needed(ctx context.Context) bool {
	c, err := d.Ledger.Cutover(ctx, d.of.Row)
	return err != nil || c.Attempt == d.of.Attempt && c.Step.Cancellable()
}

func (d *denial) watchedTables() (watched []*table) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.tables {
		if t.watched {
			watched = append(watched, t)
		}
	}
	return watched
}

// round makes one round of probes for each of some tables.
func (d *denial) round(ctx context.Context, tables []*table) {
	g := task.NewGroup(ctx, tablesAtOnce)
	for _, t := range tables {
		g.Go("probe "+t.source, func(ctx context.Context) error {
			began := task.Mono(ctx)
			seen := t.probe(ctx)
			d.mu.Lock()
			defer d.mu.Unlock()
			switch {
			case seen == tablepolicy.LetThrough && t.watched && d.through == "":
				d.through = t.source
			case seen == tablepolicy.Denied:
				t.denied, t.seen = began, true
			}
			return nil
		})
	}
	_ = g.Wait() // the tasks return no errors
}

// probe makes one round of probes of the table.
func (t *table) probe(ctx context.Context) tablepolicy.Seen {
	t.mu.Lock()
	prober := t.prober
	t.mu.Unlock()
	f := tablepolicy.Freezer{Prober: prober, Timings: t.times}
	return f.Watch(ctx)
}

// Probe implements cutover.Denial. A process that continues a freeze begins to probe here. It does
// not put a statement that is gone: no process does after the tables were frozen.
func (d *denial) Probe(ctx context.Context, fresh bool) (through, unknown string) {
	for _, t := range d.tables {
		if _, err := t.reach(ctx); err != nil {
			d.failed("describe table "+t.source, err)
			return "", t.source
		}
		d.watch(t)
	}
	began := task.Mono(ctx)
	if fresh {
		d.round(ctx, d.tables)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.tables {
		if !t.seen || began-t.denied > longestGap || fresh && t.denied < began {
			unknown = t.source
		}
	}
	return d.through, unknown
}

func (d *denial) failed(step string, err error) {
	if d.Failed != nil {
		d.Failed(step, err)
	}
}
