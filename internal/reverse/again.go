package reverse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// differ counts differences if no process writes. Otherwise it notes their rows, and looks at them
// again when there are many.
func (r *run) differ(ctx context.Context, found []difference) error {
	if r.Frozen {
		return r.count(ctx, found)
	}
	r.mu.Lock()
	for _, d := range found {
		r.later = append(r.later, d.row)
	}
	var now []string
	if len(r.later) >= mostLater {
		now, r.later = r.later, nil
	}
	r.mu.Unlock()
	return r.confirm(ctx, now)
}

// confirm looks at rows again, and counts those that still differ. With Repair, it first asks the
// leader to look at them.
func (r *run) confirm(ctx context.Context, rows []string) error {
	slices.Sort(rows) // both passes may have found the same row, if it changed meanwhile
	found, err := r.again(ctx, slices.Compact(rows))
	if err == nil && r.Repair && len(found) > 0 {
		asked := keysOf(found)
		if err = r.ask(ctx, asked); err != nil {
			return err
		}
		if found, err = r.again(ctx, asked); err == nil {
			r.mu.Lock()
			r.result.Repaired += int64(len(asked) - len(found))
			r.mu.Unlock()
		}
	}
	if err != nil {
		return err
	}
	return r.count(ctx, found)
}

// again returns the rows that still differ at each of several looks, each after a while (V1).
func (r *run) again(ctx context.Context, rows []string) (found []difference, err error) {
	for range r.times.Looks {
		if len(rows) == 0 {
			return nil, nil
		}
		if err := task.Sleep(ctx, r.times.Again); err != nil {
			return nil, err
		}
		found = nil
		for batch := range slices.Chunk(rows, setRows) {
			differ, err := r.look(ctx, batch)
			if err != nil {
				return nil, err
			}
			found = append(found, differ...)
		}
		rows = keysOf(found)
	}
	return found, nil
}

func keysOf(found []difference) []string {
	keys := make([]string, len(found))
	for i, d := range found {
		keys[i] = d.row
	}
	return keys
}

// count adds differences to the result. Those that the leader has parked count as parked.
func (r *run) count(ctx context.Context, found []difference) error {
	if len(found) == 0 {
		return nil
	}
	var parked []checkpoint.ParkedKey
	err := r.retry(ctx, func(ctx context.Context) (err error) {
		parked, err = r.Ledger.FallbackParked(ctx, r.Source)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the parked rows of %s: %w", r.Table, err)
	}
	reasons := map[string]string{}
	for _, p := range parked {
		reasons[string(p.Key)] = p.Reason
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range found {
		if reason, is := reasons[d.row]; is {
			d.kind, d.reason = Parked, reason
		}
		r.result.add(d)
	}
	return nil
}

// suspects are the rows that the ledger asks the leader to look at, as last read.
type suspects struct {
	rows map[string]bool
	at   time.Duration // when they were read, on the monotonic clock
}

// Errors of a repair.
var (
	// ErrNotLooked is the error of a repair whose rows the leader has not looked at in time.
	ErrNotLooked = errors.New("the leader of the way back has not looked at all differing rows in time")
	// ErrNotFollowing is the error of a repair while DynamoDB does not follow Bigtable.
	ErrNotFollowing = errors.New("DynamoDB does not follow Bigtable any more")
)

// ask asks the leader to look at rows, and waits until it has.
func (r *run) ask(ctx context.Context, rows []string) error {
	g := task.NewGroup(ctx, getsAtOnce)
	for _, row := range rows {
		g.Go("ask the leader to look at a row", func(ctx context.Context) error {
			return r.retry(ctx, func(ctx context.Context) error { return r.Ledger.SuspectFallback(ctx, r.Source, row) })
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("ask the leader to look at rows of %s: %w", r.Table, err)
	}
	asked := task.Mono(ctx)
	patience := r.times.Patience
	for {
		if err := task.Sleep(ctx, r.times.Poll); err != nil {
			return err
		}
		f, err := r.following(ctx)
		if err != nil {
			return err
		}
		if patience == 0 {
			patience = f.Wait + 2*time.Minute
		}
		left, err := r.left(ctx, rows)
		if err != nil || !left {
			return err
		}
		if task.Mono(ctx)-asked > patience {
			return ErrNotLooked
		}
	}
}

// following returns the record of the way back, or an error if DynamoDB does not follow Bigtable.
func (r *run) following(ctx context.Context) (f checkpoint.Fallback, err error) {
	err = r.retry(ctx, func(ctx context.Context) (err error) {
		f, _, err = r.Ledger.Fallback(ctx, r.Source)
		return err
	})
	if err == nil && f.State != checkpoint.FallbackFollowing && f.State != checkpoint.FallbackGap {
		err = fmt.Errorf("%w: the way back of table %s is %s", ErrNotFollowing, r.Source, f.State)
	}
	return f, err
}

// left reports whether the leader still has to look at some of the rows. Several tasks that wait
// share one read of the ledger.
func (r *run) left(ctx context.Context, rows []string) (bool, error) {
	began := task.Mono(ctx)
	if err := r.asking.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer r.asking.Release(1)
	if r.known.rows == nil || r.known.at < began {
		at := task.Mono(ctx)
		var all []checkpoint.SuspectKey
		err := r.retry(ctx, func(ctx context.Context) (err error) {
			all, err = r.Ledger.FallbackSuspects(ctx, r.Source)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("read the suspect rows of %s: %w", r.Table, err)
		}
		r.known = suspects{rows: make(map[string]bool, len(all)), at: at}
		for _, s := range all {
			r.known.rows[string(s.Key)] = true
		}
	}
	return slices.ContainsFunc(rows, func(row string) bool { return r.known.rows[row] }), nil
}
