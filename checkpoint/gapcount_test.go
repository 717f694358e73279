package checkpoint_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// trimmedAt declares a gap of a shard whose changes up to a time were applied.
func trimmedAt(t *testing.T, ctx context.Context, l *checkpoint.Ledger, id string, applied time.Time) checkpoint.DeclaredGap {
	t.Helper()
	held, to := take(t, ctx, l, id), at(7)
	to.EventTime, to.FirstRead = applied, begin
	check(t, held.Commit(ctx, to))
	l.Heard(ctx, begin.Add(20*time.Hour))
	check(t, held.Declare(ctx, checkpoint.Trimmed, "trimmed"))
	return checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: id, Reason: "trimmed"}
}

func loadedOnce(s *checkpoint.TableState) error { s.Base = s.Generation; return nil }

// Two shards of a generation are trimmed. The second one was further behind, and its loss counts
// too, whether its gap came before the first raise looked or between that look and its write. Its
// shard is not read again until its loss counts.
func TestASecondGapOfAGenerationIsNotLost(t *testing.T) {
	for _, between := range []bool{false, true} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			_, b := p.worker("b")
			create(t, ctx, a, shard("a", ""), shard("b", ""))
			_, err := a.UpdateTable(ctx, source, loadedOnce)
			check(t, err)
			first := trimmedAt(t, ctx, a, "a", begin.Add(4*time.Hour))
			var second checkpoint.DeclaredGap
			declare := func() { second = trimmedAt(t, ctx, b, "b", begin.Add(time.Hour)) }
			if !between {
				declare()
			}
			p.store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
				if p.store.OnSwap = nil; between && strings.HasSuffix(key, "/a") {
					declare()
				}
				return execute(), nil
			}
			state, err := a.Raise(ctx, source, 1, first, nil)
			check(t, err)
			behind := row(t, ctx, a, "b")
			if behind.Undeclared(state) != between {
				t.Errorf("found between look and raise: %t; its gap is still to be declared: %t", between, behind.Undeclared(state))
			}
			check(t, a.Reopen(ctx, behind, state)) // does nothing before the gap counts
			for range 2 {                          // by its own slow worker, and by the coordinator
				_, err := b.Raise(ctx, source, 1, second, nil)
				check(t, err)
			}
			state = table(t, ctx, a)
			if want := begin.Add(time.Hour - checkpoint.Slack); !state.LostFrom.Equal(want) || state.GapCount != 2 || state.Kind != checkpoint.KindStream {
				t.Errorf("between %t: lost from %s, wanted %s; %d gaps, %s: %+v", between, state.LostFrom, want, state.GapCount, state.Kind, state.Gaps)
			}
			if checkpoint.MendsFrom(state, begin.Add(3*time.Hour)) == nil {
				t.Error("windows are accepted that begin after the second loss")
			}
		})
	}
}

// A gap of a shard whose messages wait in a topic begins with the first change that is not applied.
// Windows of exports must bring all changes from there, including published ones. The same applies
// to a gap of another shard, because the raise ends the waiting messages of all.
func TestL3_AGapBeginsWithWhatWaitsInTheTopic(t *testing.T) {
	for _, lost := range []string{"s", "other"} {
		virtually(t, func(ctx context.Context, p *place) {
			_, l := p.worker("a")
			check(t, l.CheckMode(ctx, source, checkpoint.Topic, false))
			create(t, ctx, l, shard("s", ""), shard("other", ""))
			_, err := l.UpdateTable(ctx, source, loadedOnce)
			check(t, err)
			held := take(t, ctx, l, "s")
			for n, hour := range []time.Duration{1, 4} {
				to := at(7 + n)
				to.EventTime, to.FirstRead, to.Applied = begin.Add(hour*time.Hour), begin.Add(20*time.Hour), uint64(1+n)
				check(t, held.Commit(ctx, to))
			}
			if n := len(checkpoint.Unapplied(table(t, ctx, l), []checkpoint.Shard{row(t, ctx, l, "s")}, nil)); n != 1 {
				t.Fatalf("messages of %d shards wait", n)
			}
			gap := checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "s", Reason: "trimmed"}
			if lost == "s" {
				l.Heard(ctx, begin.Add(20*time.Hour))
				check(t, held.Declare(ctx, checkpoint.Trimmed, "trimmed"))
			} else {
				gap = trimmedAt(t, ctx, l, "other", begin.Add(3*time.Hour))
			}
			state, err := l.Raise(ctx, source, 1, gap, nil)
			check(t, err)
			if want := begin.Add(20*time.Hour - cdc.Retention - checkpoint.Slack); !state.LostFrom.Equal(want) {
				t.Errorf("of %s: lost from %s, and nothing that was published is applied: want %s", lost, state.LostFrom, want)
			}
		})
	}
}

// After an outage longer than the stream's retention, the gap of one shard includes all shards that
// are as far behind. One generation begins for all of them, and each costs the ledger only a few
// writes.
func TestL8_OneRaiseTakesInAllThatIsOverdue(t *testing.T) {
	const shards = 50
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		var all []checkpoint.Shard
		for n := range shards + 1 {
			all = append(all, shard(fmt.Sprintf("s%02d", n), ""))
		}
		create(t, ctx, l, all...)
		for n := range shards + 1 {
			held, to := take(t, ctx, l, fmt.Sprintf("s%02d", n)), at(7)
			to.EventTime, to.FirstRead = begin.Add(time.Duration(n)*time.Minute), begin
			if n == shards { // it was read since, and was empty
				to.AppliedTo = begin.Add(29 * time.Hour)
			}
			check(t, held.Commit(ctx, to))
			check(t, held.Release(ctx))
		}
		l.Heard(ctx, begin.Add(30*time.Hour))
		check(t, take(t, ctx, l, "s07").Declare(ctx, checkpoint.Trimmed, "trimmed"))
		writes := 0
		p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) { writes++; return execute(), nil }
		state, err := l.Raise(ctx, source, 1, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: "s07", Reason: "trimmed"}, nil)
		check(t, err)
		reopened := 0
		for _, s := range rows(t, ctx, l) {
			if s.Undeclared(state) {
				t.Errorf("the gap of %s asks for another generation", s.ID)
			}
			if s.Reopenable(state) {
				reopened++
				check(t, l.Reopen(ctx, s, state))
			}
		}
		if reopened != shards || state.GapCount != shards || !state.LostFrom.Equal(begin.Add(-checkpoint.Slack)) {
			t.Errorf("%d of %d shards are read on; %d gaps, lost from %s", reopened, shards, state.GapCount, state.LostFrom)
		}
		if writes > 4*shards {
			t.Errorf("%d writes for %d shards", writes, shards)
		}
	})
}

// While shards of a generation wait for their first read, they may be gaps as well. The raise waits
// for them, but not for those that wait for their parents, and at most a minute.
func TestGapsCome(t *testing.T) {
	adopted := begin.Add(time.Hour)
	state := checkpoint.TableState{Label: "l1", Generation: 3, Adopted: 3, AdoptedAt: adopted}
	lost := checkpoint.Shard{Label: "l1", ID: "lost", State: checkpoint.Gap, Generation: 3, DoneAt: adopted.Add(time.Minute)}
	of := func(id, parent string, s checkpoint.State, read time.Duration) checkpoint.Shard {
		return checkpoint.Shard{Label: "l1", ID: id, Parent: parent, State: s, Generation: 3, ReadAt: adopted.Add(read)}
	}
	read, unread := of("r", "", checkpoint.Reading, time.Second), of("u", "", checkpoint.Waiting, -time.Second)
	other := unread
	other.Label = "l0"
	for _, c := range []struct {
		name   string
		shards []checkpoint.Shard
		after  time.Duration // since the first gap
		want   bool
	}{
		{"one was not read yet", []checkpoint.Shard{lost, read, unread}, 0, true},
		{"all were read", []checkpoint.Shard{lost, read}, 0, false},
		{"a child waits for its parent", []checkpoint.Shard{lost, read, of("c", "r", checkpoint.Waiting, -time.Second)}, 0, false},
		{"of another stream", []checkpoint.Shard{lost, read, other}, 0, false},
		{"it was waited for long enough", []checkpoint.Shard{lost, unread}, time.Minute, false},
		{"not yet", []checkpoint.Shard{lost, unread}, time.Minute - time.Second, true},
		{"nothing is lost", []checkpoint.Shard{read, unread}, 0, false},
	} {
		if got := checkpoint.GapsCome(state, c.shards, lost.DoneAt.Add(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	state.AdoptedAt = time.Time{}
	if checkpoint.GapsCome(state, []checkpoint.Shard{lost, unread}, lost.DoneAt) {
		t.Error("it waits though nobody knows since when the generation is read")
	}
}

// Rows of a generation belong to this ledger if it used the generation, however many gaps followed,
// or if a lost ledger may have used it. A generation between two used ones belongs to another
// migration.
func TestWhichGenerationsALedgerHasHad(t *testing.T) {
	for name, c := range map[string]struct {
		raises int
		lost   int // the raise for a lost ledger; 0: none
	}{"one": {1, 0}, "more than are listed": {120, 0}, "a lost ledger": {3, 2}, "one lost long ago": {120, 2}} {
		virtually(t, func(ctx context.Context, p *place) {
			_, l := p.worker("a")
			set := func(change func(*checkpoint.TableState)) checkpoint.TableState {
				s, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { change(s); return nil })
				if err != nil {
					t.Error(err)
				}
				return s
			}
			s := set(func(s *checkpoint.TableState) { s.Generation = 90_000_000 })
			had := []uint32{s.Generation}
			for i := range c.raises {
				gap := checkpoint.DeclaredGap{Kind: checkpoint.KindUnknown, Reason: "lost"}
				if i+1 == c.lost {
					gap.Kind = checkpoint.KindLedgerLost
				}
				var err error
				s, err = l.Raise(ctx, source, s.Generation, gap, func(s *checkpoint.TableState) { s.Generation += 9 })
				if err != nil {
					t.Error(err)
				}
				had = append(had, s.Generation)
			}
			for i, g := range had {
				below := c.lost > 0 && i <= c.lost
				if !s.HadGeneration(g) || s.HadGeneration(g-1) != below || s.HadGeneration(g+1) && i >= c.lost {
					t.Errorf("%s: generation %d of %d: %v, below %v, above %v", name, i, len(had), s.HadGeneration(g), s.HadGeneration(g-1), s.HadGeneration(g+1))
				}
			}
		})
	}
}

// What a gap lost is known to its worker. Other shards that are gaps now may have lost more, or
// nobody knows since when. Without such shards the known time stays.
func TestALossBeginsWithTheEarliestShard(t *testing.T) {
	known := begin.Add(3 * time.Hour)
	for name, c := range map[string]struct {
		second time.Duration // up to when the second shard was applied; 0: it was never read, -1: it is no gap
		want   time.Time
	}{
		"the first alone":      {-1, known},
		"the second is behind": {2 * time.Hour, begin.Add(2*time.Hour - checkpoint.Slack)},
		"the second is ahead":  {10 * time.Hour, known},
		"it was never read":    {0, time.Time{}},
	} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			create(t, ctx, a, shard("a", ""), shard("b", ""))
			_, err := a.UpdateTable(ctx, source, loadedOnce)
			check(t, err)
			gap := trimmedAt(t, ctx, a, "a", begin.Add(4*time.Hour))
			switch {
			case c.second > 0:
				trimmedAt(t, ctx, a, "b", begin.Add(c.second))
			case c.second == 0:
				check(t, take(t, ctx, a, "b").Declare(ctx, checkpoint.Trimmed, "trimmed"))
			}
			gap.LostFrom = known
			state, err := a.Raise(ctx, source, 1, gap, nil)
			check(t, err)
			if !state.LostFrom.Equal(c.want) || (state.Kind == checkpoint.KindStream) == c.want.IsZero() {
				t.Errorf("%s: lost from %s, %s", name, state.LostFrom, state.Kind)
			}
		})
	}
}
