package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

var trimmed = checkpoint.DeclaredGap{Shard: "a", Reason: "trimmed"}

// adopted fails unless every unfinished shard is in the table's generation, which must be above
// from.
func (p *place) adopted(ctx context.Context, l *checkpoint.Ledger, from uint32) checkpoint.TableState {
	p.Helper()
	state := table(p.T, ctx, l)
	if state.Generation <= from || state.Adopted != state.Generation {
		p.Fatalf("generation %d after %d, adopted %d", state.Generation, from, state.Adopted)
	}
	for id, s := range rows(p.T, ctx, l) {
		if !s.Finished() && s.Generation != state.Generation {
			p.Errorf("shard %s stayed in generation %d of %d", id, s.Generation, state.Generation)
		}
	}
	return state
}

// A holder commits ten times a second while the generation is raised on a slow network. At the
// latest when the raise returns, the holder can no longer commit.
func TestH70_RaiseFencesTheHolder(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		mb, b := p.worker("b")
		create(t, ctx, a, shard("a", ""), shard("b", ""), shard("c", "a"))
		slow := func(ctx context.Context) error { return task.Sleep(ctx, 70*time.Millisecond) }
		p.store.OnRead = func(ctx context.Context, _ string) error { return slow(ctx) }
		p.store.OnSwap = func(ctx context.Context, _ string, execute func() bool) (bool, error) {
			if err := slow(ctx); err != nil {
				return false, err
			}
			return execute(), slow(ctx)
		}
		over := 0
		for _, id := range []string{"a", "b"} {
			held := take(t, ma.Context(), a, id)
			ma.Go("commit "+id, func() {
				for n := 0; ; n++ {
					if err := held.Commit(ma.Context(), at(n)); err != nil {
						if !errors.Is(err, checkpoint.ErrLeaseLost) {
							t.Error(err)
						}
						over++
						return
					}
					p.sleep(ma.Context(), 100*time.Millisecond)
				}
			})
		}
		p.sleep(ctx, time.Second)
		_, err := b.Raise(mb.Context(), source, 1, trimmed, nil)
		check(t, err)
		before := rows(t, ctx, a)
		p.sleep(ctx, time.Second)
		if over != 2 {
			t.Errorf("%d of 2 holders lost their lease", over)
		}
		p.adopted(ctx, b, 1)
		for id, s := range rows(t, ctx, a) {
			if s.Counter != before[id].Counter || s.Owner != "" || s.Epoch <= 1 && id != "c" {
				t.Errorf("shard %s was written after the raise: %+v", id, s)
			}
		}
	})
}

// The raising worker ends after each of its writes in turn. Another worker completes the raise, and
// only one generation begins.
func TestH70_CrashInTheMiddleOfARaise(t *testing.T) {
	for after := 0; ; after++ {
		crashed := false
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			mb, b := p.worker("b")
			_, c := p.worker("c")
			create(t, ctx, a, shard("a", ""), shard("b", ""), shard("c", "a"))
			held := take(t, ctx, a, "a")
			writes := 0
			p.store.OnSwap = func(ctx context.Context, _ string, execute func() bool) (bool, error) {
				done := execute()
				if writes++; writes > after {
					crashed = true
					mb.Kill()
					return false, task.NewEvent(ctx).Wait(ctx)
				}
				return done, nil
			}
			mb.Go("raise", func() { _, _ = b.Raise(mb.Context(), source, 1, trimmed, nil) })
			p.sleep(ctx, time.Second)
			p.store.OnSwap = nil
			began := table(t, ctx, c).Generation
			state, err := c.Adopt(ctx, source)
			check(t, err)
			if now := p.adopted(ctx, c, 1); state.Generation != began || now.GapCount != 1 || !now.NeedsLoad {
				t.Errorf("after %d writes: %+v", after+1, now)
			}
			if err := held.Commit(ctx, at(1)); !errors.Is(err, checkpoint.ErrLeaseLost) {
				t.Errorf("after %d writes the old holder commits: %v", after+1, err)
			}
		})
		if t.Failed() || !crashed {
			if after < 5 {
				t.Errorf("a raise of three shards took %d writes", after)
			}
			return
		}
	}
}

// While one worker completes an adoption, another one raises the generation again and then ends.
// The recorded adoption is that of the generation for which the rows were read. The newer one
// counts as adopted only after they are read again.
func TestH70_RaiseInTheMiddleOfAnAdoption(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		mc, c := p.worker("c")
		create(t, ctx, a, shard("a", ""))
		take(t, ctx, a, "a")
		ends := func(ctx context.Context, _ string, execute func() bool) (bool, error) {
			execute()
			mc.Kill()
			return false, task.NewEvent(ctx).Wait(ctx)
		}
		var between uint32
		writes := 0
		p.store.OnSwap = func(ctx context.Context, key string, execute func() bool) (bool, error) {
			if strings.Contains(key, "/table/") {
				writes++
			}
			if writes == 2 { // the first began the generation; this one is to record the adoption
				between = table(t, ctx, c).Generation
				p.store.OnSwap = ends
				mc.Go("raise", func() { _, _ = c.Raise(mc.Context(), source, between, checkpoint.DeclaredGap{Reason: "another"}, nil) })
				p.sleep(ctx, time.Second)
				p.store.OnSwap = nil
			}
			return execute(), nil
		}
		_, err := b.Raise(ctx, source, 1, trimmed, nil)
		check(t, err)
		if between == 0 {
			t.Fatal("nothing happened in between")
		}
		p.adopted(ctx, b, between)
	})
}

// Shards are created, taken and committed while generations are raised, on a network that loses,
// delays and repeats. Once a generation is adopted, no worker writes a shard under an older one.
func TestH70_CreationAndTakeRaceWithARaise(t *testing.T) {
	for seed := range uint64(100) {
		race(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func race(t *testing.T, seed uint64) {
	w := virtual.NewWorld(seed, begin, false)
	bt := model.NewBigtable(w)
	bt.Create("state", "l")
	bt.LoseReply, bt.Late, bt.Drop, bt.Twice, bt.LateBy = 0.03, 0.03, 0.03, 0.05, 3*time.Second
	store := model.Store{Bigtable: bt, Table: "state", Family: "l"}
	var adopted uint32
	bt.Executed = func(_, key string, _, after *model.Row) {
		text, _ := after.Value("l", "r")
		var r struct {
			Generation, Adopted uint32
			Owner               string
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Error(err)
		}
		switch {
		case strings.Contains(key, "/table/"):
			adopted = max(adopted, r.Adopted)
		case strings.Contains(key, "/shard/") && r.Owner != "" && r.Generation < adopted:
			t.Errorf("%s writes %s in generation %d, adopted is %d", r.Owner, key, r.Generation, adopted)
		}
	}
	open := func(ctx context.Context, name string) *checkpoint.Ledger {
		return again(ctx, func() (*checkpoint.Ledger, error) {
			return checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: name, ID: "l", Lease: lease})
		})
	}
	err := w.Run(time.Hour, func(ctx context.Context) {
		l := open(ctx, "main")
		again(ctx, func() (checkpoint.TableState, error) {
			return l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
				s.Generation, s.Adopted, s.Listed, s.Label = 1, 1, 1, label
				return nil
			})
		})
		end := 8 * time.Second
		for n := range 3 {
			machine := w.NewProcess(fmt.Sprint("w", n))
			machine.Go("main", func() { churn(w, machine.Context(), open(machine.Context(), machine.Name())) })
		}
		w.Go("creator", func(ctx context.Context) {
			for n := range 6 {
				s := shard(fmt.Sprint("s", n), "")
				s.Generation = adopted // as the coordinator saw it before it listed
				_ = task.Sleep(ctx, time.Duration(w.Rand().Int64N(int64(time.Second))))
				again(ctx, func() (bool, error) { return true, l.CreateShard(ctx, s) })
			}
		})
		for w.Now().Sub(begin) < end {
			_ = task.Sleep(ctx, time.Duration(w.Rand().Int64N(int64(2*time.Second))))
			from := adopted
			again(ctx, func() (checkpoint.TableState, error) {
				return l.Raise(ctx, source, from, checkpoint.DeclaredGap{Reason: "test"}, nil)
			})
		}
	})
	if err != nil {
		t.Error(err)
	}
	if adopted < 3 {
		t.Errorf("only generation %d", adopted)
	}
}

// again repeats f until it succeeds or its context ends.
func again[T any](ctx context.Context, f func() (T, error)) T {
	for {
		v, err := f()
		if err == nil || task.Sleep(ctx, 50*time.Millisecond) != nil {
			return v
		}
	}
}

// churn takes shards, whoever holds them, and commits under all of its leases.
func churn(w *virtual.World, ctx context.Context, l *checkpoint.Ledger) {
	var held []*checkpoint.Lease
	for n := 0; ctx.Err() == nil; n++ {
		_ = task.Sleep(ctx, time.Duration(w.Rand().Int64N(int64(300*time.Millisecond))))
		if shards, err := l.Shards(ctx, source); err == nil && len(shards) > 0 && w.Rand().IntN(3) == 0 {
			if taken, err := l.Take(ctx, shards[w.Rand().IntN(len(shards))], nil); err == nil {
				held = append(held, taken)
			}
		}
		if len(held) > 0 {
			_ = held[w.Rand().IntN(len(held))].Commit(ctx, at(n))
		}
	}
}

func TestRaise_TwoDetectorsRaiseOnce(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a, shard("a", ""), shard("b", ""))
		first, err := a.Raise(ctx, source, 1, trimmed, nil)
		check(t, err)
		for range 2 { // the second time, because an answer was lost
			second, err := b.Raise(ctx, source, 1, checkpoint.DeclaredGap{Shard: "b", Reason: "trimmed"}, nil)
			check(t, err)
			if second.Generation != first.Generation || second.GapCount != 2 || len(second.Gaps) != 2 {
				t.Errorf("generation %d after %d, %d gaps", second.Generation, first.Generation, second.GapCount)
			}
		}
		if g := first.Gaps[0]; g.Generation != 1 || g.Shard != "a" || !g.At.Equal(begin) {
			t.Errorf("%+v", g)
		}
	})
}

// TestRaise_Overtaken_H24: a coordinator finds a new stream while a follower declares the old one's
// gap. The coordinator must not assume that the new stream is followed: it would look for the old
// one, and declare it gone.
func TestRaise_Overtaken_H24(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a, shard("a", ""))
		replaced := checkpoint.DeclaredGap{Reason: "a new stream"}
		follow := func(s *checkpoint.TableState) { s.Label, s.Listed = "l2", 0 }
		first, err := b.Raise(ctx, source, 1, trimmed, nil)
		check(t, err)
		if _, err := a.Raise(ctx, source, 1, replaced, follow); !errors.Is(err, checkpoint.ErrRaised) {
			t.Errorf("the coordinator's raise: %v", err)
		}
		if state := table(t, ctx, a); state.GapCount != 1 || state.Label != label {
			t.Errorf("the record is %+v", state)
		}
		for range 2 { // the second time, because an answer was lost
			second, err := a.Raise(ctx, source, first.Generation, replaced, follow)
			check(t, err)
			if second.Generation != first.Generation+1 || second.Label != "l2" || second.GapCount != 2 {
				t.Errorf("the record is %+v", second)
			}
		}
	})
}

func TestRaise_KeepsTheLastGapsAndCountsAll(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a)
		generation := uint32(1)
		for n := range 60 {
			state, err := a.Raise(ctx, source, generation, checkpoint.DeclaredGap{Shard: fmt.Sprint(n), Reason: fmt.Sprint("gap ", n)}, nil)
			check(t, err)
			generation = state.Generation
		}
		state := table(t, ctx, a)
		// The operator is shown why a load is needed now, not why one was needed months ago.
		if state.Reason != "gap 59" {
			t.Errorf("the load is needed for %q", state.Reason)
		}
		if len(state.Gaps) != 50 || state.Gaps[0].Shard != "10" || state.GapCount != 60 {
			t.Errorf("%d gaps from %q on, %d in all", len(state.Gaps), state.Gaps[0].Shard, state.GapCount)
		}
	})
}

func TestRaise_NoGenerationIsLeft(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("a", ""))
		_, err := a.Raise(ctx, source, 1, trimmed, func(s *checkpoint.TableState) { s.Generation = checkpoint.MaxGeneration })
		check(t, err)
		if state, err := a.Raise(ctx, source, checkpoint.MaxGeneration, trimmed, nil); err == nil {
			t.Errorf("raised to %d", state.Generation)
		}
	})
}

func TestNextGeneration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		previous := rapid.Uint32Range(0, checkpoint.MaxGeneration-1).Draw(t, "previous")
		now := time.Unix(rapid.Int64().Draw(t, "seconds"), 0)
		next := checkpoint.NextGeneration(previous, now)
		if next <= previous || next > checkpoint.MaxGeneration {
			t.Fatalf("%d after %d", next, previous)
		}
		if minutes := now.Unix() / 60; minutes > 0 && minutes < checkpoint.MaxGeneration/2 && int64(next) < minutes {
			t.Fatalf("%d is below the minutes since 1970, %d", next, minutes)
		}
	})
	// Even a clock that is wrong by centuries leaves higher generations.
	far := checkpoint.NextGeneration(0, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	if next := checkpoint.NextGeneration(far, begin); next != far+1 {
		t.Errorf("%d after %d", next, far)
	}
}

// H24: the table has a new stream. The unread part of the old one is a declared gap, and no worker
// continues it.
func TestH24_UnfinishedShardsOfAReplacedStreamAreLost(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("read", ""), shard("waiting", "read"), shard("finished", ""))
		held := take(t, ctx, a, "read")
		check(t, take(t, ctx, a, "finished").Finish(ctx, at(1)))
		p.sleep(ctx, time.Minute)
		_, err := a.Raise(ctx, source, 1, checkpoint.DeclaredGap{Reason: "a new stream"}, func(s *checkpoint.TableState) { s.Label = "l2" })
		check(t, err)
		if err := held.Commit(ctx, at(2)); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("the holder commits: %v", err)
		}
		// A coordinator that has not seen the raise adds a row. No worker may read it, and the next
		// pass settles it.
		check(t, a.CreateShard(ctx, shard("late", "finished")))
		if _, err := attempt(t, ctx, a, "late"); !errors.Is(err, checkpoint.ErrTaken) {
			t.Errorf("a shard of the old stream was taken: %v", err)
		}
		_, err = a.Adopt(ctx, source)
		check(t, err)
		all := rows(t, ctx, a)
		for _, id := range []string{"read", "waiting", "late"} {
			s := all[id]
			if s.State != checkpoint.Gap || s.Loss != checkpoint.Replaced || s.Owner != "" || !s.DoneAt.Equal(begin.Add(time.Minute)) {
				t.Errorf("%s: %+v", id, s)
			}
		}
		if all["finished"].State != checkpoint.Done {
			t.Errorf("finished: %+v", all["finished"])
		}
		var shards []checkpoint.Shard
		for _, s := range all {
			shards = append(shards, s)
		}
		if gone := checkpoint.Removable(shards, "l2", nil, false, begin.Add(47*time.Hour)); len(gone) > 0 {
			t.Errorf("%d rows are removed at once", len(gone))
		}
		if gone := checkpoint.Removable(shards, "l2", nil, false, begin.Add(49*time.Hour)); len(gone) != 4 {
			t.Errorf("%d of 4 rows are removed in the end", len(gone))
		}
	})
}

// H148: a stream that was left is followed again. A parent is read before its child is reopened,
// because the child rests, or because the coordinator ended between the two. The parent must not be
// given up, although the child began in an earlier generation: it was not read since then.
func TestH148_AParentIsReopenedBeforeItsChild(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("parent", ""), shard("child", "parent"))
		take(t, ctx, a, "parent")
		state, _, err := a.Table(ctx, source)
		check(t, err)
		here := state.Label
		for _, label := range []string{"there", here} {
			state, err = a.Raise(ctx, source, state.Generation, checkpoint.DeclaredGap{Kind: checkpoint.KindSourceMoved, Reason: "to " + label}, func(s *checkpoint.TableState) { s.Label = label })
			check(t, err)
			p.sleep(ctx, time.Hour)
		}
		check(t, a.Reopen(ctx, rows(t, ctx, a)["parent"], state))
		take(t, ctx, a, "parent")
		shards, err := a.Shards(ctx, source)
		check(t, err)
		if out := checkpoint.Outrun(shards, state); len(out) > 0 {
			t.Errorf("given up: %+v", out)
		}
		check(t, a.Reopen(ctx, rows(t, ctx, a)["child"], state))
		if s := rows(t, ctx, a)["child"]; s.State != checkpoint.Waiting || s.Generation != state.Generation {
			t.Errorf("%+v", s)
		}
	})
}

// To complete a raise, a worker reads the table's record and then the rows of its shards, which may
// take minutes. Meanwhile the stream is replaced, and the new stream's shards get rows. These do
// not count as shards of the old stream.
func TestH24_ReplacedWhileAnAdoptionReads(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("old", ""))
		_, b := p.worker("b")
		p.store.OnRead = func(ctx context.Context, prefix string) error {
			if !strings.HasPrefix(prefix, "p/shard/") {
				return nil
			}
			p.store.OnRead = nil
			_, err := a.Raise(ctx, source, 1, checkpoint.DeclaredGap{Reason: "a new stream"}, func(s *checkpoint.TableState) { s.Label, s.Listed = "l2", 2 })
			check(t, err)
			next := shard("new", "")
			next.Label, next.Generation = "l2", 2
			check(t, a.CreateShard(ctx, next))
			return nil
		}
		_, err := b.Adopt(ctx, source)
		check(t, err)
		if p.store.OnRead != nil {
			t.Fatal("the stream was not replaced")
		}
		all := rows(t, ctx, a)
		if s := all["new"]; s.State != checkpoint.Waiting || s.Loss != "" {
			t.Errorf("new: %+v", s)
		}
		if s := all["old"]; s.Loss != checkpoint.Replaced {
			t.Errorf("old: %+v", s)
		}
		take(t, ctx, a, "new")
	})
}

// H33: an operator's machine raises the generation without having heard the service's time, which
// an export's images must follow. The first worker that completes the adoption and knows the time
// records it, once. Until then no export is admissible.
func TestH33_AdoptedByWhoKnowsNoTime(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		operator, err := checkpoint.Open(p.world.NewProcess("operator").Context(), p.store, "p", checkpoint.Options{Worker: "operator", Lease: lease, ReadOnly: true})
		check(t, err)
		state, err := operator.Redo(ctx, source, 1, "again", false)
		check(t, err)
		if state.Adopted != state.Generation || !state.AdoptedAt.IsZero() {
			t.Fatalf("%+v", state)
		}
		var hole *checkpoint.NotAdmissible
		state.Listed = state.Generation
		if err := checkpoint.Admissible(state, nil, p.world.Now(), time.Minute); !errors.As(err, &hole) || !hole.Yet {
			t.Errorf("a load beside the application's writes: %v", err)
		}
		a.Heard(ctx, p.world.Now())
		for range 2 {
			p.sleep(ctx, time.Minute)
			if state, err = a.Adopt(ctx, source); err != nil || !state.AdoptedAt.Equal(begin.Add(time.Minute)) {
				t.Errorf("adopted at %s: %v", state.AdoptedAt, err)
			}
		}
	})
}
