package backfill

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

const (
	// maxAside bounds the rows that wait for a second check. While the stream lags, every row that
	// an application writes must wait.
	maxAside = 10_000
	// asideEvery is how often a sweep checks how far the stream is applied.
	asideEvery = time.Second
)

// aside holds rows without a version that an application may have just written. If an application
// wrote such a row, the stream will bring the change and give the row a version. A row is foreign
// if it still has no version when everything committed before its first check is applied. The rows
// are in the order of their keys.
type aside struct {
	rows  []asideRow
	asked time.Duration // when the sweep last checked the stream's progress
}

type asideRow struct {
	key  string
	seen time.Time // when the row was seen, on the source's clock
}

// from returns the row at which a sweep must resume that has read all rows before `next`. That is
// the first waiting row, or `next` if no row waits.
func (a *aside) from(next []byte) []byte {
	if len(a.rows) > 0 {
		return []byte(a.rows[0].key)
	}
	return next
}

// lookAgain checks the due rows a second time. If `all` is set, it also waits for rows that are not
// due yet.
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
		if err := save(ctx); err != nil { // a lost lease or a drain ends the wait
			return err
		}
	}
	return nil
}

// second reads rows again. It settles the suspects among the rows that still have no version. Such
// rows are no reason for another pass. While an application keeps writing, every pass would find
// new rows.
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

// rows reads the marks of rows concurrently. The result leaves out rows that no longer exist.
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
