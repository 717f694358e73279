package verify

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// If no process applies changes, rows with a change on the way are in flight, and the others are
// judged at once. As long as a process applies them, the comparison waits.
func TestRowsThatWaitForAChange(t *testing.T) {
	for _, applies := range []bool{false, true} {
		in(t, func(ctx context.Context) {
			w := newWorld(t, mapping(t, nil, "{id} > d"))
			ids := []string{"bare", "equal", "timed", "waits", "wrong"}
			for _, id := range ids {
				w.source.put(item(id, "v=1"))
			}
			w.load(noon, item("equal", "v=1"), item("waits", "v=0"), item("wrong", "v=0"))
			w.timed(item("timed", "v=0"))
			c := w.comparison()
			c.Settle = time.Minute
			asked := 0
			c.Applied = func(context.Context, time.Time) (bool, error) { asked++; return applies && asked > 3, nil }
			c.Unapplied = func(context.Context, time.Time) (func(Place) bool, error) {
				if applies {
					return nil, nil
				}
				return func(p Place) bool { return p.Row == "waits" || p.Row == "timed" }, nil
			}
			var places []Place
			for _, id := range ids {
				places = append(places, Place{Table: "t", Row: id, Keys: []attribute.Item{item(id)}})
			}
			began := task.Mono(ctx)
			r := (&Work{Comparison: c, Look: true}).begin(ctx, Progress{})
			err := c.looks(ctx, places, func(look Look) error {
				if !look.differs() {
					return nil
				}
				return r.suspect(ctx, Candidate{Look: look, wants: everything})
			})
			if err = errors.Join(err, r.confirm(ctx, within)); err != nil {
				t.Fatal(err)
			}
			got, took := brief(r.found), task.Mono(ctx)-began
			want := []string{"different wrong d:v", "in_flight timed d:v", "in_flight waits d:v", "missing bare d:id,d:v"}
			if applies {
				want = []string{"different waits d:v", "different wrong d:v", "in_flight timed d:v", "missing bare d:id,d:v"}
			}
			if !slices.Equal(got, want) || applies != (took >= time.Minute) || r.at.InFlight != map[bool]int64{false: 2, true: 1}[applies] {
				t.Errorf("applied %v: %q after %s, %+v", applies, got, took, r.at.Counts)
			}
			checked, err := c.Check(ctx, nil, places...)
			var equal []string
			for _, p := range checked.Equal {
				equal = append(equal, p.Row)
			}
			if err != nil || !slices.Equal(equal, []string{"equal"}) {
				t.Errorf("applied %v: %q are equal, %v", applies, equal, err)
			}
		})
	}
	failed := errors.New("no stream")
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	w.source.put(item("a"))
	c := w.comparison()
	c.Applied = func(context.Context, time.Time) (bool, error) { return false, nil }
	c.Unapplied = func(context.Context, time.Time) (func(Place) bool, error) { return nil, failed }
	if _, err := c.Check(t.Context(), nil, Place{Table: "t", Row: "a", Keys: []attribute.Item{item("a")}}); !errors.Is(err, failed) {
		t.Errorf("the stream cannot be read: %v", err)
	}
}

// Without a stream there is nothing to be applied, but an application may still settle.
func TestTheSecondLookSettlesWithoutAStream(t *testing.T) {
	in(t, func(ctx context.Context) {
		w := newWorld(t, mapping(t, nil, "{id} > d"))
		w.source.put(item("a"))
		c := w.comparison()
		c.Settle = time.Minute
		began := task.Mono(ctx)
		got, err := c.Check(ctx, nil, Place{Table: "t", Row: "a", Keys: []attribute.Item{item("a")}})
		if took := task.Mono(ctx) - began; err != nil || got.Missing != 1 || took != time.Minute {
			t.Errorf("%+v after %s, %v", got.Counts, took, err)
		}
	})
}

// The wait of rows for their second look counts from the first of them.
func TestTheOldestRowThatWaits(t *testing.T) {
	in(t, func(ctx context.Context) {
		w := newWorld(t, mapping(t, nil, "{id} > d"))
		for n := range 28 {
			w.source.put(item(name(n)))
		}
		c := w.comparison()
		c.Pace = func(_ context.Context, items int, units float64, _ int) error {
			if items == 7 && units == 1 { // a page of the scan
				return task.Sleep(ctx, 3*time.Minute)
			}
			return nil
		}
		var saved []int64
		work := &Work{Comparison: c, Look: true, Save: func(_ context.Context, p Progress, _ News) error {
			saved = append(saved, p.Missing)
			return nil
		}}
		end, _, err := work.source(ctx, 0, 1, Progress{})
		if err != nil || end.Missing != 28 || !slices.Equal(saved, []int64{0, 0, 14, 14}) {
			t.Errorf("saved with %v rows, %+v, %v", saved, end.Counts, err)
		}
	})
}
