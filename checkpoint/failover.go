package checkpoint

import (
	"context"
	"slices"
)

// Activity is what one look at every row of a ledger shows of those who write it.
type Activity struct {
	counters map[string]uint64
	by       map[string]string // the last writer of a row
	// Held are the processes that hold a lease, in order. One that ended as it should holds none.
	Held []string
}

// Activity looks at every row of the ledger.
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

// Since are the processes that wrote a row after the look before, in order. Whether somebody writes
// is told by the counters alone: no two clocks need agree.
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

// Move makes the migration one of cluster to, if it is of cluster from or was moved already; else
// it fails with ErrClusterChanged. A from of "" is a migration of which no cluster is known. It is
// the last step of a failover: from then on workers write again (H46).
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
