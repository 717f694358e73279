package checkpoint_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// Runs agree with the sets of numbers that they represent.
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

// Joined runs have the latest time of all of them, in any order. A prefix has the time of its run.
func TestRunsHaveTheLatestTime(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	for name, c := range map[string]struct {
		runs    checkpoint.Runs
		through uint64
		at      time.Time
	}{
		"the first is later":  {checkpoint.Runs{{From: 1, To: 2, At: at(9)}, {From: 3, To: 4, At: at(5)}}, 4, at(9)},
		"the second is later": {checkpoint.Runs{{From: 1, To: 2, At: at(5)}, {From: 3, To: 4, At: at(9)}}, 4, at(9)},
		"one is within":       {checkpoint.Runs{{From: 1, To: 4, At: at(5)}, {From: 2, To: 3, At: at(9)}}, 4, at(9)},
		"they do not touch":   {checkpoint.Runs{{From: 1, To: 2, At: at(5)}, {From: 4, To: 4, At: at(9)}}, 2, at(5)},
		"none at the begin":   {checkpoint.Runs{{From: 2, To: 2, At: at(5)}}, 0, time.Time{}},
	} {
		joined := checkpoint.Runs(nil)
		for _, r := range c.runs {
			joined = joined.Union(checkpoint.Runs{r})
		}
		if through, at := joined.Prefix(0); through != c.through || !at.Equal(c.at) {
			t.Errorf("%s: through %d at %s", name, through, at)
		}
	}
}

// The oldest waiting message of a topic is not older than the last one that is known to be applied.
// If it is the last one published, it has the shard's latest time.
func TestSinceWhenMessagesWait(t *testing.T) {
	applied, event, covered, first := time.Unix(500_000, 0), time.Unix(500_100, 0), time.Unix(400_000, 0), time.Unix(450_000, 0)
	for name, c := range map[string]struct {
		edit   func(s *checkpoint.Shard)
		waits  uint64
		since  time.Time
		prefix time.Time
	}{
		"none":                        {func(s *checkpoint.Shard) { s.Applied = 3 }, 0, applied, applied},
		"the last one":                {func(s *checkpoint.Shard) { s.Applied = 4 }, 1, event, event},
		"the last one, of no time":    {func(s *checkpoint.Shard) { s.Applied, s.EventTime = 4, time.Time{} }, 1, applied, applied},
		"two":                         {func(s *checkpoint.Shard) { s.Applied = 5 }, 2, applied, applied},
		"all of another shard":        {func(s *checkpoint.Shard) { s.ID, s.Applied = "other", 5 }, 5, time.Time{}, covered},
		"all of another generation":   {func(s *checkpoint.Shard) { s.Generation, s.Applied = 6, 5 }, 5, time.Time{}, covered},
		"all, and nothing is covered": {func(s *checkpoint.Shard) { s.Label, s.Applied, s.CoveredTo = "other", 5, time.Time{} }, 5, time.Time{}, first.Add(-24 * time.Hour)},
		"all, and the shard was unread": {func(s *checkpoint.Shard) {
			s.Label, s.Applied, s.CoveredTo, s.FirstRead = "other", 5, time.Time{}, time.Time{}
		}, 5, time.Time{}, time.Time{}},
	} {
		s := checkpoint.Shard{ID: "s", Label: "l", Generation: 5, EventTime: event, CoveredTo: covered, FirstRead: first}
		merged := []checkpoint.Applied{{Track: checkpoint.Track{Generation: 5, Label: "l", Shard: "s"}, Runs: checkpoint.Runs{{From: 1, To: 3, At: applied}}}}
		c.edit(&s)
		waits, since := s.Waiting(merged)
		if prefix := s.AppliedPrefix(merged); waits != c.waits || !since.Equal(c.since) || !prefix.Equal(c.prefix) {
			t.Errorf("%s: %d wait since %s, the prefix is applied to %s; want %d, %s and %s", name, waits, since.UTC(), prefix.UTC(), c.waits, c.since.UTC(), c.prefix.UTC())
		}
	}
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

// An applier notes each message by itself, in the order in which the topic gives them. The work for
// a message, counted as bytes of memory, does not grow with the number of messages (issue 48).
func TestNotesAreJoinedOnce(t *testing.T) {
	ctx := context.Background()
	work := func(messages int) float64 {
		l, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "m", checkpoint.Options{Worker: "a", ID: "id"})
		if err != nil {
			t.Fatal(err)
		}
		notes := make([]checkpoint.Applied, messages)
		for i, n := range rand.New(rand.NewPCG(1, 2)).Perm(messages) {
			run := checkpoint.Run{From: 2*uint64(n) + 1, To: 2*uint64(n) + 1} // no run touches another
			notes[i] = checkpoint.Applied{Track: checkpoint.Track{1, "l", "s"}, Runs: checkpoint.Runs{run}}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := l.NoteApplied(ctx, "T", notes); err != nil {
			t.Fatal(err)
		}
		if err := l.MergeApplied(ctx, "T"); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if merged, err := l.Merged(ctx, "T"); err != nil || len(merged) != 1 || len(merged[0].Runs) != messages {
			t.Errorf("%d messages: merged %d, %v", messages, len(merged), err)
		}
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(messages)
	}
	if few, many := work(1000), work(16_000); many > 2*few {
		t.Errorf("of 1,000 messages each takes %.0f bytes, of 16,000 %.0f", few, many)
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
// of its descendants. Without these rows the missing messages would not be noticed.
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
