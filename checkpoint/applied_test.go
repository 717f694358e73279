package checkpoint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// Runs agree with the sets of numbers for which they stand.
func TestRunsAreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (checkpoint.Runs, map[uint64]bool) {
			var r checkpoint.Runs
			set := map[uint64]bool{}
			for range rapid.IntRange(0, 8).Draw(t, name) {
				from := rapid.Uint64Range(1, 30).Draw(t, "from")
				to := from + rapid.Uint64Range(0, 5).Draw(t, "length")
				r = r.Union(checkpoint.Runs{{From: from, To: to, At: time.Unix(int64(to), 0)}})
				for n := from; n <= to; n++ {
					set[n] = true
				}
			}
			return r, set
		}
		a, inA := draw("a")
		b, inB := draw("b")
		both, within := a.Union(b), true
		for n := range inA {
			within = within && inB[n]
		}
		if a.Within(b) != within || (len(a.Outside(b)) == 0) != within {
			t.Fatalf("%v within %v: %t", a, b, a.Within(b))
		}
		for n := uint64(0); n < 40; n++ {
			if held := (checkpoint.Runs{{From: n, To: n}}).Within(both); held != (inA[n] || inB[n]) {
				t.Fatalf("%d in %v and %v: %t", n, a, b, held)
			}
		}
		for i := 1; i < len(both); i++ {
			if both[i].From <= both[i-1].To+1 {
				t.Fatalf("%v touch", both)
			}
		}
		after := rapid.Uint64Range(0, 30).Draw(t, "after")
		want := after
		for inA[want+1] {
			want++
		}
		if got, _ := a.Prefix(after); got != want {
			t.Fatalf("the prefix of %v after %d is %d, not %d", a, after, got, want)
		}
	})
}

// Two appliers and a coordinator in any order: a recorded message is never forgotten, and rows
// without new messages are removed.
func TestWhatIsNotedIsMerged(t *testing.T) {
	ctx := context.Background()
	store := &checkpointtest.Memory{}
	open := func(worker string) *checkpoint.Ledger {
		l, err := checkpoint.Open(ctx, store, "m", checkpoint.Options{Worker: worker, ID: "id"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, b, coordinator := open("a"), open("b"), open("keeper")
	track := checkpoint.Track{5, "label", "shard"}
	note := func(l *checkpoint.Ledger, from, to uint64) {
		t.Helper()
		if err := l.NoteApplied(ctx, "T", []checkpoint.Applied{{Track: track, Runs: checkpoint.Runs{{From: from, To: to, At: time.Unix(int64(to), 0)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) {
		t.Helper()
		if err := coordinator.MergeApplied(ctx, "T"); err != nil {
			t.Fatal(err)
		}
		merged, err := coordinator.Merged(ctx, "T")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, m := range merged {
			got += fmt.Sprint(m.Generation, " ")
			for _, r := range m.Runs {
				got += fmt.Sprintf("%d-%d ", r.From, r.To)
			}
		}
		if got != want {
			t.Errorf("merged %q, want %q", got, want)
		}
		left, err := store.Read(ctx, "m/applied/")
		if err != nil || len(left) > 0 {
			t.Errorf("%d rows are left, %v", len(left), err)
		}
	}
	note(a, 11, 12)
	note(b, 14, 14)
	check("5 11-12 14-14 ")
	note(a, 12, 13)
	check("5 11-14 ")
	note(b, 11, 13) // again: nothing new
	check("5 11-14 ")

	shard := checkpoint.Shard{Apply: checkpoint.Topic, Label: "label", ID: "shard", Generation: 5, NumberedFrom: 10, Applied: 14}
	table := checkpoint.TableState{Label: "label", Generation: 5}
	behind := func() uint64 {
		merged, err := a.Merged(ctx, "T")
		if err != nil {
			t.Fatal(err)
		}
		n, at := shard.Behind(merged)
		if (n > 0) != (len(checkpoint.Unapplied(table, []checkpoint.Shard{shard}, merged)) > 0) {
			t.Error("Behind and Unapplied differ")
		}
		if n == 0 && !at.At.Equal(time.Unix(14, 0)) {
			t.Errorf("applied up to %s", at.At)
		}
		return n
	}
	if n := behind(); n != 0 {
		t.Errorf("%d behind", n)
	}
	shard.Applied = 16
	if n := behind(); n != 2 {
		t.Errorf("%d behind", n)
	}
	shard.NumberedFrom = 9 // the first one is missing
	if n := behind(); n != 7 {
		t.Errorf("%d behind", n)
	}

	track.Generation = 6 // replaces the older one, whose late notes are dropped
	note(a, 15, 15)
	check("6 15-15 ")
	track.Generation = 5
	note(b, 15, 16)
	check("6 15-15 ")
}

// A row is bounded while a message is missing.
func TestAnAppliersRowIsBounded(t *testing.T) {
	ctx := context.Background()
	l, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "m", checkpoint.Options{Worker: "a", ID: "id"})
	if err != nil {
		t.Fatal(err)
	}
	var runs checkpoint.Runs
	for n := range uint64(40_000) {
		runs = append(runs, checkpoint.Run{From: 1000 + 2*n, To: 1000 + 2*n, At: time.Unix(int64(n), 0)})
	}
	if err := l.NoteApplied(ctx, "T", []checkpoint.Applied{{Track: checkpoint.Track{1, "l", "s"}, Runs: runs}}); err != checkpoint.ErrAppliedFull {
		t.Error(err)
	}
	if err := l.NoteApplied(ctx, "T", []checkpoint.Applied{{Track: checkpoint.Track{1, "l", "s"}, Runs: slices.Clone(runs[:100])}}); err != nil {
		t.Error(err)
	}
}

// late executes every swap of an applier's row again on request.
type late struct {
	checkpointtest.Memory
	again []func()
}

func (s *late) Swap(ctx context.Context, key string, was, next uint64, data []byte) (bool, error) {
	if data != nil && strings.HasPrefix(key, "m/applied/") {
		s.again = append(s.again, func() { _, _ = s.Memory.Swap(ctx, key, was, next, data) })
	}
	return s.Memory.Swap(ctx, key, was, next, data)
}

// H114: an applier's row is removed when it is merged, and created again by the next note. A note
// that executes late does not undo later ones.
func TestH114_ALateNoteForgetsNothing(t *testing.T) {
	ctx, store := context.Background(), &late{}
	l, err := checkpoint.Open(ctx, store, "m", checkpoint.Options{Worker: "a", ID: "id"})
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= 6; n++ {
		run := checkpoint.Runs{{From: n, To: n}}
		if err := l.NoteApplied(ctx, "T", []checkpoint.Applied{{Track: checkpoint.Track{1, "l", "s"}, Runs: run}}); err != nil {
			t.Fatal(err)
		}
		for _, again := range store.again {
			again()
		}
		if n%2 == 0 {
			if err := l.MergeApplied(ctx, "T"); err != nil {
				t.Fatal(err)
			}
		}
	}
	merged, err := l.Merged(ctx, "T")
	if err != nil || len(merged) != 1 || len(merged[0].Runs) != 1 || merged[0].Runs[0].To != 6 {
		t.Errorf("merged %v, %v", merged, err)
	}
}

// The row of a shard stays while some of its messages are not known to be applied, and so do those
// of its descendants: without these rows the missing messages would not be noticed.
func TestRowsOfUnappliedShardsStay(t *testing.T) {
	shard := func(id, parent string, applied uint64) checkpoint.Shard {
		return checkpoint.Shard{Apply: checkpoint.Topic, Label: "l", ID: id, Parent: parent, Generation: 1, Applied: applied}
	}
	shards := []checkpoint.Shard{shard("a", "", 3), shard("b", "", 3), shard("c", "b", 0), shard("d", "c", 0), shard("e", "a", 0)}
	merged := []checkpoint.Applied{
		{Track: checkpoint.Track{1, "l", "a"}, Runs: checkpoint.Runs{{From: 1, To: 3}}},
		{Track: checkpoint.Track{1, "l", "b"}, Runs: checkpoint.Runs{{From: 1, To: 1}, {From: 3, To: 3}}},
	}
	got := ""
	for _, s := range checkpoint.HoldBack(shards, checkpoint.TableState{Label: "l", Generation: 1}, merged) {
		got += s.ID
	}
	if got != "ae" {
		t.Errorf("removed %q", got)
	}
}
