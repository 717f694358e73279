package backfill

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// dual is a table that replicator created and an application writes too. The stream brings its
// writes half a minute later.
type dual struct {
	m       *transform.Mapping
	target  *sinktest.Memory
	items   map[string]attribute.Item
	applied time.Time // all changes up to then are applied
	asked   int
	fails   error // the error of the next answer
}

func (d *dual) Get(_ context.Context, _ string, key attribute.Item) (attribute.Item, bool, error) {
	i, ok := d.items[keyOf(key)]
	return i, ok, nil
}

// insert writes a row like an application: without a version.
func (d *dual) insert(t *testing.T, ctx context.Context, pk string, there bool) {
	t.Helper()
	if there {
		d.items[pk] = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}})
	}
	r := sink.Request{Table: "t", Row: pk, Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"},
		Ops: []sink.Op{{Kind: sink.SetCell, Family: "d", Qualifier: "pk", Value: []byte(pk)}}}
	if _, err := d.target.Apply(ctx, &r); err != nil {
		t.Fatal(err)
	}
}

// stream writes an item like the stream does.
func (d *dual) stream(t *testing.T, ctx context.Context, pk string) {
	t.Helper()
	for _, row := range transform.Load(d.m, []attribute.Item{d.items[pk]}, sweptGeneration, task.Now(ctx)).Rows {
		if _, err := sink.Execute(ctx, sink.Unfenced(), d.target, d.target, &row); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *dual) sweep(ctx context.Context) Sweep {
	s := Sweep{Sweeping: sink.Sweeping{Mapping: d.m, Table: "t", Generation: sweptGeneration, Owned: true, Written: true}, Target: d.target, Source: d, pageRows: 2,
		Save: func(context.Context, SweepProgress) error { return nil },
		Write: func(ctx context.Context, b *transform.Batch) error {
			for i := range b.Rows {
				if _, err := sink.Execute(ctx, sink.Unfenced(), d.target, d.target, &b.Rows[i]); err != nil {
					return err
				}
			}
			return nil
		}}
	s.AppliedTo = func(context.Context) (time.Time, error) {
		d.asked++
		if err := d.fails; err != nil {
			d.fails = nil
			return time.Time{}, err
		}
		return d.applied, nil
	}
	return s
}

func dually(t *testing.T, f func(ctx context.Context, d *dual)) {
	t.Helper()
	err := virtual.NewWorld(1, day, false).Run(time.Hour, func(ctx context.Context) {
		d := &dual{m: sweptMapping("S", false, always+"{pk} > d"), target: &sinktest.Memory{}, items: map[string]attribute.Item{}}
		d.target.Create("t", "d", "e")
		f(ctx, d)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Rows that an application has just written have no version until the stream brings the change.
// They are checked again once everything committed before is applied. Rows that are still foreign
// are then removed, or put if there is an item. That needs no further pass.
func TestRowsThatAnApplicationWroteAreLookedAtTwice(t *testing.T) {
	dually(t, func(ctx context.Context, d *dual) {
		for _, pk := range []string{"a", "b", "c", "d", "e"} {
			d.insert(t, ctx, pk, pk != "b")
		}
		s, began := d.sweep(ctx), task.Now(ctx)
		s.AppliedTo = func(ctx context.Context) (time.Time, error) {
			if d.asked++; task.Now(ctx).Sub(began) > 30*time.Second && d.applied.IsZero() {
				for _, pk := range []string{"a", "d", "e"} { // the change of c was lost
					d.stream(t, ctx, pk)
				}
				d.applied = task.Now(ctx)
			}
			return d.applied, nil
		}
		p, err := s.Run(ctx, SweepProgress{})
		want := sink.SweepCounts{Seen: 5, Suspects: 2, Put: 1, Removed: 1, Bare: 2, Units: 2}
		if err != nil || !p.Done || p.Sums != want || p.Sums.Wrote() {
			t.Errorf("%v, %+v", err, p)
		}
		if took := task.Now(ctx).Sub(began); took < 30*time.Second || took > 35*time.Second || d.asked > 40 {
			t.Errorf("it took %s, and asked %d times", took, d.asked)
		}
		if p, err := s.Run(ctx, SweepProgress{}); err != nil || p.Sums.Suspects > 0 {
			t.Errorf("the next pass: %v, %+v", err, p)
		}
		s.AppliedTo = nil
		d.insert(t, ctx, "f", false)
		if p, err := s.Run(ctx, SweepProgress{}); err != nil || !p.Sums.Wrote() || p.Sums.Bare > 0 || p.Sums.Removed != 1 {
			t.Errorf("where no application writes: %v, %+v", err, p)
		}
	})
}

// The saved position never passes a waiting row, so the next worker checks the row again. A lost
// lease ends the wait, and the next attempt retries after an error.
func TestASweepIsSavedBeforeTheRowsThatWait(t *testing.T) {
	dually(t, func(ctx context.Context, d *dual) {
		for n := range 9 {
			d.insert(t, ctx, fmt.Sprint("k", n), true)
			if n != 4 {
				d.stream(t, ctx, fmt.Sprint("k", n))
			}
		}
		lost := errors.New("lost")
		var saved SweepProgress
		saves, s := 0, d.sweep(ctx)
		s.Save = func(_ context.Context, p SweepProgress) error {
			saved = p
			if saves++; saves == 3 {
				return lost
			}
			return nil
		}
		if _, err := s.Run(ctx, SweepProgress{}); !errors.Is(err, lost) || string(saved.From) != "k4" || saved.Done {
			t.Errorf("%v, saved before %q", err, saved.From)
		}
		d.fails = errors.New("no ledger")
		if p, err := s.Run(ctx, saved); err == nil || p.Done {
			t.Errorf("an error: %v, %+v", err, p)
		}
		d.applied = task.Now(ctx).Add(time.Minute)
		p, err := s.Run(ctx, saved)
		if err != nil || !p.Done || p.Sums.Put != 1 || p.Sums.Bare != 1 {
			t.Errorf("%v, %+v", err, p)
		}
	})
}

// A row that was removed before the second check, or got an old version, is judged in that state.
func TestWhatASecondLookFinds(t *testing.T) {
	dually(t, func(ctx context.Context, d *dual) {
		d.insert(t, ctx, "gone", true)
		d.insert(t, ctx, "old", true)
		s := d.sweep(ctx)
		s.AppliedTo = func(ctx context.Context) (time.Time, error) {
			d.target.Create("t", "d", "e") // recreate it
			for _, row := range transform.Load(d.m, []attribute.Item{d.items["old"]}, 1, day).Rows {
				if _, err := sink.Execute(ctx, sink.Unfenced(), d.target, d.target, &row); err != nil {
					t.Fatal(err)
				}
			}
			return task.Now(ctx), nil
		}
		p, err := s.Run(ctx, SweepProgress{})
		if want := (sink.SweepCounts{Seen: 2, Suspects: 1, Put: 1, Units: 1}); err != nil || p.Sums != want || !p.Sums.Wrote() {
			t.Errorf("%v, %+v", err, p.Sums)
		}
	})
}
