package fallback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Reader holds the requests with which rows and their changes are read.
type Reader interface {
	ReadSet(ctx context.Context, table string, rows []string, f func(sink.Row) error) error
	ChangePartitions(ctx context.Context, table string) ([]sink.Range, error)
	ReadChanges(ctx context.Context, table string, partition sink.Range, from []sink.ChangePosition, since time.Time, heartbeat time.Duration, f func(sink.ChangeRecord) error) error
}

// Bigtable reads rows and the change streams of tables. It implements Rows and Changes.
type Bigtable struct {
	Target Reader
	// Families are the families of the mapping, by target table. Cells of other families, such as
	// those of replicator, are no part of an item.
	Families map[string][]string
}

// Row implements Rows.
func (b *Bigtable) Row(ctx context.Context, table, key string) (cells []transform.Cell, err error) {
	err = b.Target.ReadSet(ctx, table, []string{key}, func(row sink.Row) error {
		cells = Newest(row, b.Families[table])
		return nil
	})
	return cells, err
}

// Newest returns the newest cell of each column of a row, in the families of the mapping. Without
// such a cell, the row does not exist.
func Newest(row sink.Row, families []string) (cells []transform.Cell) {
	for _, c := range row.Cells {
		newest := len(cells) == 0 || cells[len(cells)-1].Family != c.Family || cells[len(cells)-1].Qualifier != c.Qualifier
		if newest && slices.Contains(families, c.Family) {
			cells = append(cells, c)
		}
	}
	return cells
}

// Partitions implements Changes.
func (b *Bigtable) Partitions(ctx context.Context, table string) ([]checkpoint.KeyRange, error) {
	ranges, err := b.Target.ChangePartitions(ctx, table)
	all := make([]checkpoint.KeyRange, len(ranges))
	for i, r := range ranges {
		all[i] = checkpoint.KeyRange{Start: r.From, End: r.To}
	}
	return all, lost(err)
}

// silence is how many heartbeats may be missing before a stream is opened again.
const silence = 12

// errSilent is the cause of a stream that was ended because the service sent nothing.
var errSilent = errors.New("the change stream is silent")

// ear knows when a stream was last heard.
type ear struct {
	mu     sync.Mutex
	heard  time.Duration // on the monotonic clock
	taking bool          // a record is being taken, which may wait
}

func (e *ear) take(taking bool, now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taking, e.heard = taking, now
}

// silent returns for how long the service has sent nothing, although its records were taken.
func (e *ear) silent(now time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.taking {
		return 0
	}
	return now - e.heard
}

// Read implements Changes.
func (b *Bigtable) Read(ctx context.Context, table string, from Place, heartbeat time.Duration, take func(Record) error) error {
	var positions []sink.ChangePosition
	for _, t := range from.Tokens {
		positions = append(positions, sink.ChangePosition{Range: sink.Range{From: t.Start, To: t.End}, Token: t.Token})
	}
	ear := &ear{heard: task.Mono(ctx)}
	g := task.NewGroup(ctx, 0)
	ended := errors.New("ended")
	g.Go("watch a change stream", func(ctx context.Context) error {
		for task.Sleep(ctx, heartbeat) == nil {
			if ear.silent(task.Mono(ctx)) > silence*heartbeat {
				return errSilent
			}
		}
		return nil
	})
	g.Go("read a change stream", func(ctx context.Context) error {
		err := b.Target.ReadChanges(ctx, table, sink.Range{From: from.Start, To: from.End}, positions, from.From, heartbeat, func(r sink.ChangeRecord) error {
			record := Record{Key: r.Row, Token: r.Token, Watermark: r.Watermark, Closed: r.Ended}
			for _, n := range r.Next {
				record.Children = append(record.Children, checkpoint.Continuation{
					KeyRange: checkpoint.KeyRange{Start: n.Range.From, End: n.Range.To}, Token: n.Token, Into: checkpoint.KeyRange{Start: n.Into.From, End: n.Into.To},
				})
			}
			ear.take(true, task.Mono(ctx))
			err := take(record)
			ear.take(false, task.Mono(ctx))
			return err
		})
		if err == nil {
			return ended
		}
		return lost(err)
	})
	if err := g.Wait(); !errors.Is(err, ended) {
		return err
	}
	return nil
}

// lost marks an error after which a change stream cannot be continued.
func lost(err error) error {
	if sink.LostChanges(err) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}
