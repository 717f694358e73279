package backfill

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

const (
	// maxAside bounds the rows that wait for a second look. Their number is that of the writes of an
	// application while the stream lags.
	maxAside = 10_000
	// asideEvery is how often it is asked how far the stream is applied.
	asideEvery = time.Second
)

// aside are rows without a version that an application may have written just now: the stream brings
// the change, and gives them one. Those that still have none when everything is applied that was
// committed before they were seen are of nobody. They are in the order of their keys.
type aside struct {
	rows  []asideRow
	asked time.Duration // when it was last asked how far the stream is
}

type asideRow struct {
	key  string
	seen time.Time // on the source's clock
}

// from is where a sweep begins again that has read up to next: at the first row that waits.
func (a *aside) from(next []byte) []byte {
	if len(a.rows) > 0 {
		return []byte(a.rows[0].key)
	}
	return next
}

// lookAgain looks a second time at the rows that are due, and, if all is set, waits for the others.
func (s *Sweep) lookAgain(ctx context.Context, a *aside, all bool, sums *sink.SweepCounts, save func(ctx context.Context) error) error {
	for len(a.rows) > 0 {
		now := task.Mono(ctx)
		if a.asked > 0 && now-a.asked < asideEvery {
			if !all {
				return nil
			}
			if err := task.Sleep(ctx, a.asked+asideEvery-now); err != nil {
				return err
			}
		}
		a.asked = max(task.Mono(ctx), 1)
		var to time.Time
		err := s.retry(ctx, func(ctx context.Context) (err error) { to, err = s.AppliedTo(ctx); return err })
		if err != nil {
			return err
		}
		due := 0
		for due < len(a.rows) && !a.rows[due].seen.After(to) {
			due++
		}
		if err := s.second(ctx, a.rows[:due], sums); err != nil {
			return err
		}
		a.rows = a.rows[due:]
		if !all {
			return nil
		}
		if err := save(ctx); err != nil { // a lease that is lost, or a drain, ends the wait
			return err
		}
	}
	return nil
}

// second reads rows again. Of those that still have no version it settles the suspects, which are no
// reason for another pass: an application that goes on writing would make each pass find others.
func (s *Sweep) second(ctx context.Context, rows []asideRow, sums *sink.SweepCounts) error {
	for len(rows) > 0 {
		n := min(len(rows), sweepItems)
		found, err := s.rows(ctx, rows[:n])
		if err != nil {
			return err
		}
		var bare, marked []sink.Suspect
		for _, row := range found {
			suspects, unexplained := s.Suspects(row)
			sums.Unexplained += unexplained
			if sink.Bare(row) {
				bare = append(bare, suspects...)
			} else {
				marked = append(marked, suspects...)
			}
		}
		counts, err := s.settle(ctx, bare)
		if err != nil {
			return err
		}
		counts.Bare = counts.Put + counts.Removed
		sums.Add(counts)
		if counts, err = s.settle(ctx, marked); err != nil {
			return err
		}
		sums.Add(counts)
		rows = rows[n:]
	}
	return nil
}

// rows reads the marks of rows, all at once. Those that are gone are not among them.
func (s *Sweep) rows(ctx context.Context, of []asideRow) ([]sink.Row, error) {
	read := make([][]sink.Row, len(of))
	g := task.NewGroup(ctx, sweepItems)
	for i := range of {
		g.Go(fmt.Sprintf("row %d", i), func(ctx context.Context) error {
			return s.retry(ctx, func(ctx context.Context) error {
				read[i] = nil
				only := sink.Range{From: of[i].key, To: of[i].key + "\x00"}
				return s.Target.ReadMarks(ctx, s.Table, only, s.Owned, 1, func(row sink.Row) error {
					read[i] = []sink.Row{row}
					return nil
				})
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var found []sink.Row
	for _, rows := range read {
		found = append(found, rows...)
	}
	return found, nil
}
