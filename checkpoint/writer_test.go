package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The record of a process grows with the numbers under which it may write, and is written only when
// it grows. A note adds to it, and withdraws no goodbye.
func TestWriterEnters(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		swaps := 0
		p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) { swaps++; return execute(), nil }
		enter := func(table string, w checkpoint.Writing) checkpoint.Writing {
			t.Helper()
			_, err := a.EnterWriter(ctx, map[string]checkpoint.Writing{table: w})
			check(t, err)
			all, err := a.Writers(ctx)
			check(t, err)
			if len(all) != 1 || all[0].Worker != "a" {
				t.Fatalf("%+v", all)
			}
			return all[0].Targets[table]
		}
		for i, c := range []struct {
			table string
			add   checkpoint.Writing
			want  checkpoint.Writing
			swaps int
		}{
			{"t", checkpoint.Writing{Number: 7}, checkpoint.Writing{Number: 7}, 1},
			{"t", checkpoint.Writing{Number: 7}, checkpoint.Writing{Number: 7}, 1},
			{"t", checkpoint.Writing{Number: 6}, checkpoint.Writing{Number: 7}, 1},
			{"u", checkpoint.Writing{Unfenced: true}, checkpoint.Writing{Unfenced: true}, 2},
			{"t", checkpoint.Writing{Number: 8, Doubt: 7}, checkpoint.Writing{Number: 8, Doubt: 7}, 3},
			{"t", checkpoint.Writing{Number: 9}, checkpoint.Writing{Number: 9, Doubt: 7}, 4},
		} {
			if got := enter(c.table, c.add); got != c.want || swaps != c.swaps {
				t.Errorf("%d: %+v after %d writes, want %+v after %d", i, got, swaps, c.want, c.swaps)
			}
		}
		for i, c := range []struct {
			attempt uint32
			doubts  map[string]checkpoint.Writing
			goodbye uint32
			t, u    checkpoint.Writing
		}{
			{0, map[string]checkpoint.Writing{"t": {Doubt: 9}, "other": {Doubt: 9}}, 0, checkpoint.Writing{Number: 9, Doubt: 9}, checkpoint.Writing{Unfenced: true}},
			{2, nil, 2, checkpoint.Writing{Number: 9, Doubt: 9}, checkpoint.Writing{Unfenced: true}},
			{0, map[string]checkpoint.Writing{"t": {Doubt: 8}, "u": {UnfencedDoubt: true}}, 2, checkpoint.Writing{Number: 9, Doubt: 9}, checkpoint.Writing{Unfenced: true, UnfencedDoubt: true}},
			{1, nil, 2, checkpoint.Writing{Number: 9, Doubt: 9}, checkpoint.Writing{Unfenced: true, UnfencedDoubt: true}},
		} {
			w, err := a.NoteWriter(ctx, "", c.attempt, c.doubts)
			check(t, err)
			if w.Goodbye != c.goodbye || len(w.Targets) != 2 || w.Targets["t"] != c.t || w.Targets["u"] != c.u {
				t.Errorf("note %d: goodbye %d, %+v", i, w.Goodbye, w.Targets)
			}
		}
	})
}

// A process that leaves removes its record, except for requests that never got an answer. Those
// stay until their numbers are dropped.
func TestWriterLeaves(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		_, c := p.worker("c")
		left := func() (text string) {
			all, err := a.Writers(ctx)
			check(t, err)
			for _, w := range all {
				text += fmt.Sprint(w.Worker, w.Targets)
			}
			return text
		}
		for _, l := range []*checkpoint.Ledger{a, b, c} {
			_, err := l.EnterWriter(ctx, map[string]checkpoint.Writing{"t": {Number: 7}, "u": {Number: 9}})
			check(t, err)
		}
		_, other := p.worker("d")
		check(t, other.LeaveWriter(ctx, nil)) // it has entered nothing
		check(t, a.LeaveWriter(ctx, map[string]checkpoint.Writing{"t": {}, "u": {}}))
		check(t, b.LeaveWriter(ctx, map[string]checkpoint.Writing{"t": {Doubt: 7}, "u": {}}))
		if got := left(); got != "bmap[t:{7 false 7 false}]cmap[t:{7 false 0 false} u:{9 false 0 false}]" {
			t.Error(got)
		}
		check(t, a.ForgetWriters(ctx, map[string]uint64{"t": 7})) // it is not dropped
		check(t, a.ForgetWriters(ctx, map[string]uint64{"v": 99}))
		if got := left(); got != "bmap[t:{7 false 7 false}]cmap[t:{7 false 0 false} u:{9 false 0 false}]" {
			t.Error(got)
		}
		check(t, a.ForgetWriters(ctx, map[string]uint64{"t": 8}))
		if got := left(); got != "cmap[u:{9 false 0 false}]" {
			t.Error(got)
		}
		_, err := c.EnterWriter(ctx, map[string]checkpoint.Writing{"u": {Number: 10, UnfencedDoubt: true}})
		check(t, err)
		check(t, a.ForgetWriters(ctx, map[string]uint64{"u": 11})) // no drop refuses a request without a number
		if got := left(); got != "cmap[u:{10 false 0 true}]" {
			t.Error(got)
		}
	})
}

// Records of processes that were killed are joined after a day, and keep their rights until those are
// dropped. A running process writes its record again. One that was suspended enters its rights again
// when it runs.
func TestWritersOfEndedProcessesAreJoined(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, killed := p.worker("killed")
		_, asleep := p.worker("asleep")
		_, alive := p.worker("alive")
		records := func() (text string) {
			all, err := alive.Writers(ctx)
			check(t, err)
			for _, w := range all {
				text += fmt.Sprint(w.Worker, w.Targets)
			}
			return text
		}
		wants := func(when, want string) {
			t.Helper()
			if got := records(); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		enter := func(l *checkpoint.Ledger, w checkpoint.Writing) {
			_, err := l.EnterWriter(ctx, map[string]checkpoint.Writing{"t": w})
			check(t, err)
		}
		enter(killed, checkpoint.Writing{Number: 8, Doubt: 7})
		enter(asleep, checkpoint.Writing{Number: 9})
		enter(alive, checkpoint.Writing{Number: 7})
		check(t, task.Sleep(ctx, 23*time.Hour))
		check(t, alive.RefreshWriter(ctx, nil))
		check(t, alive.JoinWriters(ctx))
		wants("after 23 hours", "alivemap[t:{7 false 0 false}]asleepmap[t:{9 false 0 false}]killedmap[t:{8 false 7 false}]")
		began := task.Now(ctx)
		check(t, task.Sleep(ctx, 2*time.Hour))
		check(t, alive.JoinWriters(ctx))
		check(t, alive.JoinWriters(ctx))
		wants("after 25 hours", "alivemap[t:{7 false 0 false}]ended-uncleanlymap[t:{9 false 7 false}]")
		all, err := alive.Writers(ctx)
		check(t, err)
		if at := all[1].At; at.After(began) {
			t.Errorf("the joined record is of %s", at)
		}
		check(t, asleep.RefreshWriter(ctx, map[string]checkpoint.Writing{"t": {Number: 9}}))
		wants("after one woke up", "alivemap[t:{7 false 0 false}]asleepmap[t:{9 false 0 false}]ended-uncleanlymap[t:{9 false 7 false}]")
		check(t, alive.ForgetWriters(ctx, map[string]uint64{"t": 10}))
		wants("after the drop", "")
	})
}

// A join that stops between its two writes loses no right. The joined record has the rights before
// the record of the ended process is removed, and the next join completes the work.
func TestAJoinThatStopsKeepsTheRights(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, killed := p.worker("killed")
		_, alive := p.worker("alive")
		_, err := killed.EnterWriter(ctx, map[string]checkpoint.Writing{"t": {Number: 8, Doubt: 7}, "u": {Unfenced: true}})
		check(t, err)
		check(t, task.Sleep(ctx, 25*time.Hour))
		lost := errors.New("lost")
		records := func() (text string) {
			all, err := alive.Writers(ctx)
			check(t, err)
			for _, w := range all {
				text += fmt.Sprint(w.Worker, w.Targets)
			}
			return text
		}
		const rights = "map[t:{8 false 7 false} u:{0 true 0 false}]"
		for failing, want := range []string{"killed" + rights, "ended-uncleanly" + rights + "killed" + rights} {
			swaps := 0
			p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
				if swaps++; swaps > failing {
					return false, lost
				}
				return execute(), nil
			}
			if err := alive.JoinWriters(ctx); !errors.Is(err, lost) || records() != want {
				t.Errorf("write %d fails: %s, %v", failing, records(), err)
			}
		}
		// Its process writes the record between the two writes, so the record stays.
		p.store.OnSwap = func(ctx context.Context, key string, execute func() bool) (bool, error) {
			p.store.OnSwap = nil
			check(t, killed.RefreshWriter(ctx, nil))
			return execute(), nil
		}
		check(t, alive.JoinWriters(ctx))
		if got := records(); !strings.Contains(got, "killed"+rights) {
			t.Errorf("a record that was written meanwhile: %s", got)
		}
		check(t, task.Sleep(ctx, 25*time.Hour))
		check(t, alive.JoinWriters(ctx))
		if got := records(); got != "ended-uncleanly"+rights {
			t.Errorf("at last: %s", got)
		}
	})
}
