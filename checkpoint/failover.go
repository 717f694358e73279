package checkpoint

import (
	"context"
	"slices"
	"time"
)

// Activity describes the processes that write a ledger, according to one read of all its rows.
type Activity struct {
	counters map[string]uint64
	by       map[string]string // the last writer of each row
	// Held are the processes that hold a lease, sorted. A process that ended cleanly holds no
	// lease.
	Held []string
}

// Activity reads every row of the ledger.
func (l *Ledger) Activity(ctx context.Context) (Activity, error) {
	rows, err := l.store.Read(ctx, l.name+"/")
	if err != nil {
		return Activity{}, err
	}
	a := Activity{counters: map[string]uint64{}, by: map[string]string{}}
	for _, row := range rows {
		var r struct {
			header
			Owner string `json:"owner"`
		}
		if err := decode(row, &r); err != nil {
			return Activity{}, err
		}
		a.counters[row.Key], a.by[row.Key] = row.Counter, r.By
		if r.Owner != "" {
			a.Held = append(a.Held, r.Owner)
		}
	}
	slices.Sort(a.Held)
	a.Held = slices.Compact(a.Held)
	return a, nil
}

// Since returns the processes that wrote a row between the read before and this one, sorted. It
// compares only counters, so clocks need not agree.
func (a Activity) Since(before Activity) []string {
	var writers []string
	for key, counter := range a.counters {
		if before.counters[key] != counter {
			writers = append(writers, a.by[key])
		}
	}
	slices.Sort(writers)
	return slices.Compact(writers)
}

// Move changes the cluster to which the migration is assigned. The argument `from` must name the
// current cluster, and the argument `to` names the new cluster. If the new cluster is already the
// current one, Move does nothing. If the current cluster is neither of these two, Move fails with
// ErrClusterChanged. An empty `from` means that no cluster is known yet. Move is the last step of a
// failover: workers then write again (H46).
func (l *Ledger) Move(ctx context.Context, from, to string) error {
	for range tries {
		p, counter, err := l.readPipeline(ctx)
		if err != nil {
			return err
		}
		if p.Cluster == to {
			return nil
		}
		if p.Cluster != from {
			return ErrClusterChanged
		}
		p.Cluster = to
		done, err := l.swap(ctx, l.store, l.pipelineKey(), counter, l.stamp(&p.header, &p))
		if err != nil {
			return err
		}
		if done {
			return nil
		}
	}
	return ErrConflict
}

// Settle ends a running cutover attempt in a ledger that lost its cluster. The operator says
// whether the application has switched, because the ledger cannot know. The copied ledger may lack
// the attempt's last steps. So if it records no freeze, Settle assumes that the freeze began with
// the recorded step.
func (c *Cutover) Settle(switched bool, reason string, now time.Time) error {
	if !c.Step.Cancellable() && c.Step != CutoverSwitching {
		return c.refuse("settle", "see replicator cutover check")
	}
	if c.FreezeBegunAt.IsZero() {
		c.FreezeBegunAt = c.StepAt
	}
	if !switched {
		c.unswitched(reason, now)
		return nil
	}
	if c.FrozenAt.IsZero() {
		c.FrozenAt = c.StepAt
	}
	c.SwitchedAt = now.UTC()
	c.enter(CutoverWatching, now, "switched, according to an operator: "+reason)
	return nil
}
