package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// life is an item's history, one image after the other: its number, "" without one, "-" for no
// item.
type life []string

// numberedMapping returns a mapping of items with the version attribute rev.
func numberedMapping(t testing.TB) *transform.Mapping {
	t.Helper()
	m, err := transform.New(transform.Spec{Source: "S", Table: "t", VersionAttribute: "rev", Families: []transform.Family{{Name: "d"}},
		PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// image returns the item after n changes; its text names the change.
func (l life) image(n int) attribute.Item {
	if n < 0 || l[n] == "-" {
		return attribute.Item{}
	}
	list := []attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "at", Value: attribute.String(fmt.Sprint(n))}}
	if l[n] != "" {
		number, err := attribute.Number(l[n])
		if err != nil {
			panic(err)
		}
		list = append(list, attribute.Attribute{Name: "rev", Value: number})
	}
	return attribute.NewItem(list)
}

// changes returns the stream's records of the history.
func (l life) changes() (all []cdc.Change) {
	keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
	for n := range l {
		c := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(uint64(n + 1)), Time: time.Unix(int64(n), 0), Keys: keys, Old: l.image(n - 1), New: l.image(n)}
		switch {
		case !c.New.Exists():
			c.Event = cdc.Remove
		case !c.Old.Exists():
			c.Event = cdc.Insert
		}
		all = append(all, c)
	}
	return all
}

// numberedRow returns the text of a row's item, or "gone", or nothing.
func numberedRow(t testing.TB, m *transform.Mapping, memory *sinktest.Memory) (holds string, version transform.Version) {
	t.Helper()
	err := memory.ReadRows(context.Background(), "t", sink.Range{}, func(r sink.Row) error {
		live, gone, _ := r.Versions("")
		if version = max(live, gone); gone > live {
			holds = "gone"
			if len(r.Cells) > 0 {
				holds = "cells beside a tombstone"
			}
			return nil
		}
		for _, c := range r.Cells {
			if c.Qualifier == "at" {
				holds = string(c.Value)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return holds, version
}

// TestH87_TheStreamJudgesWhatIsCreatedAnew: an item that is removed and recreated below the number
// that its row remembers is written, and so is every later change of it. Only a number below that
// of its own old image is parked, and the next change heals it.
func TestH87_TheStreamJudgesWhatIsCreatedAnew(t *testing.T) {
	m := numberedMapping(t)
	for name, c := range map[string]struct {
		life life
		want string // after each change: the row's content, and a ! if the item is parked
	}{
		"created at 1":                       {life{"5", "-", "1", "2", "-", "1"}, "0 gone 2 3 gone 5"},
		"created at the number":              {life{"5", "-", "5", "6"}, "0 gone 2 3"},
		"created without a number":           {life{"5", "-", "", ""}, "0 gone 2 3"},
		"raised above what the row remember": {life{"5", "-", "1", "6", "7"}, "0 gone 2 3 4"},
		"fell":                               {life{"5", "3", "4", "-"}, "0 gone! 2 gone"},
		"created at 3, and fell":             {life{"5", "-", "3", "2", "3"}, "0 gone 2 gone! 4"},
	} {
		memory, lot := &sinktest.Memory{}, newLot()
		memory.Create("t", "d")
		w := sink.NewWriter(sink.Options{Table: memory, Rows: memory, Parking: lot})
		var got []string
		var before transform.Version
		for _, change := range c.life.changes() {
			b := transform.Fold(m, []cdc.Change{change}, transform.Stamp{Generation: 1, Hop: 500_000})
			if err := w.Write(t.Context(), sink.Unfenced(), &b); err != nil {
				t.Fatal(err)
			}
			if _, _, err := lot.Resolve(t.Context(), m, memory); err != nil {
				t.Fatal(err)
			}
			holds, version := numberedRow(t, m, memory)
			if version <= before {
				t.Errorf("%s: the version fell from %s to %s", name, before, version)
			}
			if before = version; len(lot.list(t)) > 0 {
				holds += "!"
			}
			got = append(got, holds)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// paused is a target at which one request of a worker arrives long after the worker was replaced.
type paused struct {
	*sinktest.Memory
	at, requests int
	late         *sink.Request
}

func (p *paused) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if p.requests++; p.requests == p.at {
		late := *r
		p.late = &late
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	}
	return p.Memory.Apply(ctx, r)
}

// TestH87_ARaisedChangeIsNeverLate: two workers read any pages, any request of the first may arrive
// after all of the second's, and the application's own writes come before all of them or last. In
// every case the row equals the item.
func TestH87_ARaisedChangeIsNeverLate(t *testing.T) {
	m := numberedMapping(t)
	for _, l := range []life{{"5", "-", "1", "2", "-"}, {"5", "-", "1", "5", "6"}, {"5", "-", "4", "-", "1"}, {"9", "3", "4", "9"}, {"9", "3", "-", "1", "9"}} {
		want := fmt.Sprint(len(l) - 1)
		if !l.image(len(l) - 1).Exists() {
			want = "gone"
		}
		changes := l.changes()
		runs := 0
		for first := range 1 << (len(l) - 1) {
			for second := range 1 << (len(l) - 1) {
				ahead := (first+second)%2 == 1
				for at := 1; ; at++ {
					memory := &sinktest.Memory{}
					memory.Create("t", "d")
					if ahead {
						applyByApplication(t, m, memory, changes)
					}
					slow := &paused{Memory: memory, at: at}
					from := follow(t, m, slow, changes, 0, first)
					if slow.late == nil {
						break // it sends fewer requests
					}
					runs++
					follow(t, m, memory, changes, from, second)
					if _, err := memory.Apply(t.Context(), slow.late); err != nil {
						t.Fatal(err)
					}
					applyByApplication(t, m, memory, changes)
					if got, version := numberedRow(t, m, memory); got != want {
						t.Fatalf("%q in pages %b and %b, request %d late, the application ahead %t: the row holds %q at %s, want %q", l, first, second, at, ahead, got, version, want)
					}
				}
			}
		}
		if runs < 100 {
			t.Errorf("%q: only %d runs", l, runs)
		}
	}
}

// follow writes the changes from an index on, in pages that end at the set bits. It returns where
// the first page begins that could not be written.
func follow(t *testing.T, m *transform.Mapping, table interface {
	sink.Table
	sink.Looker
}, changes []cdc.Change, from, ends int) int {
	w := sink.NewWriter(sink.Options{Table: table, Rows: table, Parking: newLot()})
	for n := from; n < len(changes); n++ {
		if ends&(1<<n) == 0 && n < len(changes)-1 {
			continue
		}
		b := transform.Fold(m, changes[from:n+1], transform.Stamp{Generation: 1, Hop: 500_000})
		if err := w.Write(t.Context(), sink.Unfenced(), &b); sink.Is(err, sink.Unknown) {
			return from
		} else if err != nil {
			t.Fatal(err)
		}
		from = n + 1
	}
	return from
}

// applyByApplication writes each change as the application does.
func applyByApplication(t *testing.T, m *transform.Mapping, memory *sinktest.Memory, changes []cdc.Change) {
	for _, change := range changes {
		b := transform.Fold(m, []cdc.Change{change}, transform.Stamp{})
		if len(b.Parked) > 0 {
			continue
		}
		for _, row := range b.Rows {
			row.Version = row.Version.Rank().AppliedBy()
			request := sink.Guard(row)
			if _, err := memory.Apply(t.Context(), &request); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestH87_LoadsAreRaisedOverRemovedItemsAlone: a load's image replaces an older removed item, and
// the stream's later changes follow. Over an image with a higher number it is parked, and so are
// later changes until the item's number is above that.
func TestH87_LoadsAreRaisedOverRemovedItemsAlone(t *testing.T) {
	m := numberedMapping(t)
	for name, c := range map[string]struct {
		held transform.Version
		want string // after the load, and after the item's next changes
	}{
		"a removed item": {ranked(9, true, 1), "loaded 1 2"},
		"an image":       {ranked(9, false, 1), "held! held! 2"},
		"a phantom":      {ranked(9, false, 0), "held held 2"}, // a verify finds it
		"an image that the same load read before": {transform.RankOf(9, false).At(transform.LoadVersion(2, time.Unix(50, 0))), "held! held! 2"},
	} {
		memory, lot := &sinktest.Memory{}, newLot()
		memory.Create("t", "d")
		w := sink.NewWriter(sink.Options{Table: memory, Rows: memory, Parking: lot})
		write := func(b transform.Batch) string {
			if err := w.Write(t.Context(), sink.Unfenced(), &b); err != nil {
				t.Fatal(err)
			}
			if _, _, err := lot.Resolve(t.Context(), m, memory); err != nil {
				t.Fatal(err)
			}
			holds, _ := numberedRow(t, m, memory)
			if len(lot.list(t)) > 0 {
				holds += "!"
			}
			return holds
		}
		row := transform.Fold(m, life{"9"}.changes(), transform.Stamp{}).Rows[0]
		row.Version, row.Remove = c.held, c.held.Rank().Removed
		for i := range row.Cells {
			if row.Cells[i].Qualifier == "at" {
				row.Cells[i].Value = []byte("held")
			}
		}
		request := sink.Guard(row)
		if _, err := memory.Apply(t.Context(), &request); err != nil {
			t.Fatal(err)
		}
		l := life{"4", "5", "10"}
		loaded := transform.Load(m, []attribute.Item{l.image(0)}, 2, time.Unix(100, 0))
		for i := range loaded.Rows[0].Cells {
			if loaded.Rows[0].Cells[i].Qualifier == "at" {
				loaded.Rows[0].Cells[i].Value = []byte("loaded")
			}
		}
		got := []string{write(loaded)}
		for _, change := range l.changes()[1:] {
			got = append(got, write(transform.Fold(m, []cdc.Change{change}, transform.Stamp{Generation: 2, Hop: 500_000})))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestH87_AReplayShowsNothingOlder: a later generation reads changes again. Meanwhile a row keeps
// its content, and nothing stays parked once the newest change was read. A recreated item is
// written at the latest with the load.
func TestH87_AReplayShowsNothingOlder(t *testing.T) {
	m := numberedMapping(t)
	for name, c := range map[string]struct {
		applied, again life // in the first generation, and as read by the second one
		loaded         bool
		want           string
	}{
		"an image":                {life{"5", "9"}, life{"5", "9"}, false, "1! 1"},
		"a removed item":          {life{"5", "9", "-"}, life{"5", "9", "-"}, false, "gone! gone! gone"},
		"an item created anew":    {life{"5", "9", "-"}, life{"4", "5"}, false, "gone! gone!"},
		"an item that was loaded": {life{"5", "9", "-"}, life{"4", "5"}, true, "0 1"},
	} {
		memory, lot := &sinktest.Memory{}, newLot()
		memory.Create("t", "d")
		w := sink.NewWriter(sink.Options{Table: memory, Rows: memory, Parking: lot})
		write := func(b transform.Batch) string {
			if err := w.Write(t.Context(), sink.Unfenced(), &b); err != nil {
				t.Fatal(err)
			}
			if _, _, err := lot.Resolve(t.Context(), m, memory); err != nil {
				t.Fatal(err)
			}
			holds, _ := numberedRow(t, m, memory)
			if len(lot.list(t)) > 0 {
				holds += "!"
			}
			return holds
		}
		write(transform.Fold(m, c.applied.changes(), transform.Stamp{Generation: 1, Hop: 500_000}))
		if c.loaded {
			write(transform.Load(m, []attribute.Item{c.again.image(0)}, 2, time.Unix(100, 0)))
		}
		var got []string
		for _, change := range c.again.changes() {
			got = append(got, write(transform.Fold(m, []cdc.Change{change}, transform.Stamp{Generation: 2, Hop: 500_000})))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A raised row that Bigtable rejects is parked once, like any other. With the policy Stop it ends
// the write and is not parked.
func TestH87_ARaisedRowMayBeRejected(t *testing.T) {
	m := numberedMapping(t)
	changes := life{"5", "-", "1"}.changes()
	for policy, want := range map[sink.OnBadItem]int{sink.Park: 1, sink.Stop: 0} {
		memory, lot := &sinktest.Memory{}, newLot()
		memory.Create("t", "d")
		w := sink.NewWriter(sink.Options{Table: &rejecting{memory}, Rows: memory, Parking: lot, OnBadItem: policy})
		for n := range changes {
			b := transform.Fold(m, changes[n:n+1], transform.Stamp{Generation: 1, Hop: 500_000})
			err := w.Write(t.Context(), sink.Unfenced(), &b)
			var bad *sink.BadItem
			if stopped := errors.As(err, &bad); stopped != (policy == sink.Stop && n == 2) || err != nil && !stopped {
				t.Fatalf("change %d, policy %d: %v", n, policy, err)
			}
		}
		if parked := lot.list(t); len(parked) != want {
			t.Errorf("policy %d: %d records are parked", policy, len(parked))
		}
		if holds, _ := numberedRow(t, m, memory); holds != "gone" {
			t.Errorf("the row holds %q", holds)
		}
	}
}

// rejecting rejects puts at the number of a removed item.
type rejecting struct{ *sinktest.Memory }

func (r *rejecting) Apply(ctx context.Context, request *sink.Request) (bool, error) {
	for _, op := range request.Ops {
		if op.Kind == sink.SetCell && op.Family == sink.LiveFamily && transform.Version(op.Value).Rank().Removed {
			return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Rejected, Code: "InvalidArgument"}
		}
	}
	return r.Memory.Apply(ctx, request)
}
