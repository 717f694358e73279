package backfill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Items are read a few at a time, dated before their reads, and paid for by size; a missing item
// costs as well. If the pace fails, the sweep ends before its position moves.
func TestSweepReadsAndPaysForItems(t *testing.T) {
	m := sweptMapping("S", false, always+"{pk} > d")
	w := virtual.NewWorld(1, day, false)
	err := w.Run(time.Hour, func(ctx context.Context) {
		target := &sinktest.Memory{}
		target.Create("t", "d", "e")
		images := newMemory(70).items
		for _, row := range transform.Load(m, images, 1, day).Rows {
			request := sink.Guard(row)
			if _, err := target.Apply(ctx, &request); err != nil {
				t.Fatal(err)
			}
		}
		large := attribute.NewItem(append([]attribute.Attribute{{Name: "w", Value: attribute.String(strings.Repeat("x", 9000))}}, images[0].Attributes()...))
		var units float64
		var asked, inBatch, batches int
		s := Sweep{Sweeping: sink.Sweeping{Mapping: m, Table: "t", Generation: 2}, Target: target, Save: func(context.Context, SweepProgress) error { return nil },
			Pace: func(_ context.Context, u float64) error { units += u; return nil },
			Source: getter(func(key attribute.Item) (attribute.Item, bool, error) {
				asked++
				inBatch++
				// The reads come one after the other, as tasks of a virtual world run.
				_ = task.Sleep(ctx, time.Second)
				if keyOf(key) == keyOf(large) {
					return large, true, nil
				}
				return images[1], false, nil // the item beside found=false is ignored
			})}
		s.Write = func(_ context.Context, b *transform.Batch) error {
			batches++
			for _, row := range b.Rows {
				if read := row.Version.Sequence(); read.Compare(transform.LoadVersion(2, task.Now(ctx)).Sequence()) >= 0 {
					t.Errorf("row %s claims to be read at %s, after its read", row.Row, read)
				}
				if row.Remove == (row.Row == keyOf(large)) {
					t.Errorf("row %s is removed: %t", row.Row, row.Remove)
				}
			}
			if inBatch > sweepItems {
				t.Errorf("%d items were read at once", inBatch)
			}
			inBatch = 0
			return nil
		}
		p, err := s.Run(ctx, SweepProgress{})
		if err != nil || !p.Done || asked != 70 || units != 72 || batches != 3 || p.Sums != (sink.SweepCounts{Seen: 70, Suspects: 70, Put: 1, Removed: 69, Units: 72}) {
			t.Errorf("%+v, %d items for %g units in %d batches, %v", p, asked, units, batches, err)
		}
		ended := errors.New("ended")
		s.Pace = func(context.Context, float64) error { return ended }
		if p, err := s.Run(ctx, SweepProgress{}); !errors.Is(err, ended) || p.From != nil || p.Done {
			t.Errorf("%+v, %v", p, err)
		}
		s.Now = func(context.Context) time.Time { return day.Add(-time.Hour) }
		s.Pace = nil
		s.Write = func(_ context.Context, b *transform.Batch) error {
			if got, want := b.Rows[0].Version.Sequence(), transform.LoadVersion(2, day.Add(-time.Hour)).Sequence(); got != want {
				t.Errorf("by the source's clock: %s, want %s", got, want)
			}
			return ended
		}
		if _, err := s.Run(ctx, SweepProgress{}); !errors.Is(err, ended) {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sampler returns keys that divide a table.
type sampler []string

func (s sampler) SampleKeys(context.Context, string) ([]string, error) {
	if s == nil {
		return nil, errDown
	}
	return s, nil
}

// A pass has the requested number of ranges, from one to 64.
func TestRangesOfASweep(t *testing.T) {
	keys := sampler{}
	for n := range 500 {
		keys = append(keys, fmt.Sprintf("k%03d", n))
	}
	s := sink.Sweeping{Mapping: sweptMapping("S", false, always+"{pk} > d"), Table: "t"}
	for most, want := range map[int]int{-1: 1, 0: 1, 1: 1, 3: 3, 64: 64, 100: 64} {
		if ranges, err := SweepRanges(context.Background(), keys, s, most); err != nil || len(ranges) != want {
			t.Errorf("%d: %d ranges, %v", most, len(ranges), err)
		}
	}
	if _, err := SweepRanges(context.Background(), sampler(nil), s, 3); !errors.Is(err, errDown) {
		t.Error(err)
	}
}
