package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The mode of a table is that of its first process, and changes only if an operator accepts that. A
// table that leaves its topic needs a load, because messages that wait there may never be applied.
func TestAModeIsChangedOnPurpose(t *testing.T) {
	const direct, both, topic = checkpoint.Direct, checkpoint.Both, checkpoint.Topic
	for _, c := range []struct {
		generation uint32
		from, to   checkpoint.Mode
		accept     bool
		refused    bool
		raised     bool
	}{
		{0, direct, topic, false, false, false},
		{0, topic, direct, false, false, false},
		{0, topic, direct, true, false, false},
		{1, direct, direct, false, false, false},
		{1, topic, topic, true, false, false},
		{1, direct, both, false, true, false},
		{1, direct, topic, false, true, false},
		{1, both, topic, false, true, false},
		{1, topic, direct, false, true, false},
		{1, direct, both, true, false, false},
		{1, direct, topic, true, false, false},
		{1, both, topic, true, false, false},
		{1, both, direct, true, false, false},
		{1, topic, both, true, false, true},
		{1, topic, direct, true, false, true},
	} {
		virtually(t, func(ctx context.Context, p *place) {
			_, l := p.worker("a")
			_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
				s.Apply = c.from
				if c.generation > 0 {
					s.Generation, s.Adopted, s.Listed, s.Label, s.StreamARN = 1, 1, 1, label, "arn/"+label
				}
				s.Pause.Reason = "there is a record"
				return nil
			})
			check(t, err)
			err = l.CheckMode(ctx, source, c.to, c.accept)
			is, want := table(t, ctx, l), c.to
			if c.refused {
				want = c.from
			}
			if errors.Is(err, checkpoint.ErrMode) != c.refused || !c.refused && err != nil || is.Apply != want || is.NeedsLoad != c.raised || (is.Generation > c.generation) != c.raised {
				t.Errorf("%+v: %v, mode %s in generation %d, needs a load: %t", c, err, is.Apply, is.Generation, is.NeedsLoad)
			}
			if c.raised && is.Gaps[len(is.Gaps)-1].Reason != checkpoint.LeftTopic {
				t.Errorf("%+v: %+v", c, is.Gaps)
			}
		})
	}
}

// A process leases nothing after the mode that it has checked was changed. The numbers of a shard's
// messages restart with its first lease in a mode that publishes, and with a generation.
func TestWhereTheNumbersOfAModeBegin(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a, shard("s", ""))
		check(t, a.CheckMode(ctx, source, checkpoint.Direct, false))
		check(t, b.CheckMode(ctx, source, checkpoint.Direct, false))
		applied := uint64(0)
		for i, c := range []struct {
			mode   checkpoint.Mode
			raised bool
			from   uint64
		}{
			{checkpoint.Direct, false, 0}, {checkpoint.Both, false, 1}, {checkpoint.Both, false, 1}, {checkpoint.Topic, false, 3}, {checkpoint.Topic, false, 3},
			{checkpoint.Topic, true, 5}, {checkpoint.Direct, true, 6}, {checkpoint.Topic, true, 7},
		} {
			check(t, a.CheckMode(ctx, source, c.mode, true))
			if c.raised && table(t, ctx, a).Generation == row(t, ctx, a, "s").Generation {
				_, err := a.Raise(ctx, source, table(t, ctx, a).Generation, checkpoint.DeclaredGap{Kind: checkpoint.KindAskedFor, Reason: "r"}, nil)
				check(t, err)
			}
			held := take(t, ctx, a, "s")
			if s := row(t, ctx, a, "s"); s.NumberedFrom != c.from || s.Apply != c.mode || held.Shard().NumberedFrom != c.from {
				t.Errorf("%d, mode %s: the numbers begin after %d, want %d; the shard has mode %s", i, c.mode, s.NumberedFrom, c.from, s.Apply)
			}
			applied++
			to := at(int(applied))
			to.Applied = applied
			check(t, held.Commit(ctx, to))
			check(t, held.Release(ctx))
			if _, err := attempt(t, ctx, b, "s"); errors.Is(err, checkpoint.ErrMode) == (c.mode == checkpoint.Direct) {
				t.Errorf("%d: a process of mode direct leases a shard of mode %s: %v", i, c.mode, err)
			} else if err == nil {
				check(t, held.Release(ctx))
			}
		}
	})
	for mode, want := range map[checkpoint.Mode]string{checkpoint.Direct: "direct false true", checkpoint.Both: "both true true", checkpoint.Topic: "topic true false"} {
		got := mode.String()
		for _, is := range []bool{mode.Publishes(), mode.Writes()} {
			got += map[bool]string{true: " true", false: " false"}[is]
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The lease and the raise both stamp a shard with a new generation. Whichever is first restarts the
// numbers, because the other finds nothing to do.
func TestNumbersRestartWithALeaseAmidARaise(t *testing.T) {
	for _, mode := range []checkpoint.Mode{checkpoint.Direct, checkpoint.Both, checkpoint.Topic} {
		virtually(t, func(ctx context.Context, p *place) {
			_, a := p.worker("a")
			mb, b := p.worker("b")
			create(t, ctx, a, shard("s", ""))
			check(t, a.CheckMode(ctx, source, mode, true))
			held := take(t, ctx, a, "s")
			to := at(5)
			to.Applied = 5
			check(t, held.Commit(ctx, to))
			check(t, held.Release(ctx))
			p.store.OnSwap = func(ctx context.Context, _ string, execute func() bool) (bool, error) {
				execute() // the generation begins in the table's row, and no shard has it yet
				mb.Kill()
				return false, task.NewEvent(ctx).Wait(ctx)
			}
			mb.Go("raise", func() { _, _ = b.Raise(mb.Context(), source, 1, trimmed, nil) })
			p.sleep(ctx, time.Second)
			p.store.OnSwap = nil
			if s := row(t, ctx, a, "s"); s.Generation != 1 || table(t, ctx, a).Generation == 1 {
				t.Fatalf("the shard has generation %d of %d", s.Generation, table(t, ctx, a).Generation)
			}
			want := uint64(0)
			if mode.Publishes() {
				want = 5
			}
			held = take(t, ctx, a, "s")
			if s := held.Shard(); s.NumberedFrom != want || s.Generation != table(t, ctx, a).Generation {
				t.Errorf("%s: leased in generation %d, the numbers begin after %d, want %d", mode, s.Generation, s.NumberedFrom, want)
			}
			to.Applied = 7
			check(t, held.Commit(ctx, to))
			if _, err := a.Adopt(ctx, source); err != nil {
				t.Fatal(err)
			}
			if s := row(t, ctx, a, "s"); s.NumberedFrom != want || s.Applied != 7 {
				t.Errorf("%s: after the adoption they begin after %d, want %d", mode, s.NumberedFrom, want)
			}
		})
	}
}
