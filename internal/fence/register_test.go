package fence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// writers are the records in a ledger, as text.
func writers(t *testing.T, ctx context.Context, l *checkpoint.Ledger) (text string) {
	t.Helper()
	all, err := l.Writers(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, w := range all {
		text += fmt.Sprint(w.Worker, w.Targets)
	}
	return text
}

// D4: what a process may write stands in the ledger before the process reads whether the table is
// halted. So of a cutover that halts the tables first and then lists the records, either the process
// reads the halt, or the cutover finds its record.
func TestH145_RecordIsWrittenBeforeTheHaltIsRead(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, _ *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		r := fence.NewRegister(f.Ledger)
		seen := ""
		right := func(ctx context.Context) error { seen = writers(t, ctx, f.Ledger); return nil }
		prove := func() {
			t.Helper()
			if _, err := r.Prove(ctx, []string{"t"}, right); err != nil {
				t.Error(err)
			}
		}
		prove()
		if seen != "wmap[t:{1000 false 0 false}]" {
			t.Errorf("before the halt is read: %q", seen)
		}
		if _, err := f.Raise(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		prove()
		if seen != "wmap[t:{1001 false 0 false}]" {
			t.Errorf("under the next number: %q", seen)
		}
		if withheld, err := f.Drop(ctx, "t", 1001); withheld != "" || err != nil || writers(t, ctx, f.Ledger) != seen {
			t.Errorf("a drop of the number before leaves %q, %q, %v", writers(t, ctx, f.Ledger), withheld, err)
		}
		if err := r.Leave(ctx); err != nil || writers(t, ctx, f.Ledger) != "" {
			t.Errorf("after the end of the process: %q, %v", writers(t, ctx, f.Ledger), err)
		}
	})
}

// No right is given while the record cannot be written, and tasks that prove rights at the same time
// write it once.
func TestRegisterWritesTheRecordOnce(t *testing.T) {
	store := &checkpointtest.Memory{}
	playOn(t, store, func(ctx context.Context, f fence.Fence, _ *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		failed, writes, proved := errors.New("no answer"), 0, 0
		store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, failed }
		r := fence.NewRegister(f.Ledger)
		right := func(context.Context) error { proved++; return nil }
		if _, err := r.Prove(ctx, []string{"t"}, right); !errors.Is(err, failed) || proved > 0 {
			t.Errorf("%d rights are proved, %v", proved, err)
		}
		store.OnSwap = func(ctx context.Context, _ string, execute func() bool) (bool, error) {
			writes++
			return execute(), task.Sleep(ctx, time.Second)
		}
		g := task.NewGroup(ctx, 0)
		for range 5 {
			g.Go("prove", func(ctx context.Context) error {
				_, err := r.Prove(ctx, []string{"t"}, right)
				return err
			})
		}
		if err := g.Wait(); err != nil || writes != 1 || proved != 5 {
			t.Errorf("%d writes for %d rights, %v", writes, proved, err)
		}
	})
}

// A cutover may halt a target after a task has read its mark, and before the process has a record.
// No task of the process then gets a right.
func TestH145_TheHaltOfATargetIsReadAfterTheRecord(t *testing.T) {
	store := &checkpointtest.Memory{}
	playOn(t, store, func(ctx context.Context, f fence.Fence, _ *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		set := func(change func(t *checkpoint.Target) error) {
			t.Helper()
			if _, err := f.Ledger.UpdateTarget(ctx, "t", change); err != nil {
				t.Error(err)
			}
		}
		r := fence.NewRegister(f.Ledger)
		prove := func(ctx context.Context) error {
			_, err := r.Prove(ctx, []string{"t"}, func(context.Context) error { return nil })
			return err
		}
		store.OnSwap = func(ctx context.Context, _ string, execute func() bool) (bool, error) {
			store.OnSwap = nil
			if err := task.Sleep(ctx, time.Second); err != nil { // the other task has read the mark
				return false, err
			}
			set(func(t *checkpoint.Target) error { return t.HaltFor(3) })
			return execute(), nil
		}
		g := task.NewGroup(ctx, 0)
		for range 2 {
			g.Go("prove", func(ctx context.Context) error {
				if err := prove(ctx); !errors.Is(err, checkpoint.ErrHalted) {
					t.Errorf("while the target is halted: %v", err)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		set(func(t *checkpoint.Target) error { return t.Unhalt(3) })
		if err := prove(ctx); err != nil {
			t.Errorf("after a cancel: %v", err)
		}
		set(func(t *checkpoint.Target) error {
			if t.HaltFor(3) == nil {
				return errors.New("a cancelled attempt halts the target")
			}
			return t.HaltFor(4)
		})
		if err := prove(ctx); !errors.Is(err, checkpoint.ErrHalted) {
			t.Errorf("a process with a record, while the target is halted: %v", err)
		}
	})
}

// Each target of a write is proved: a halt of any of them refuses the right to write to all.
func TestH145_TheHaltOfEachTargetIsRead(t *testing.T) {
	for halted, want := range map[string]error{"": nil, "t": checkpoint.ErrHalted, "u": checkpoint.ErrHalted, "v": nil} {
		play(t, func(ctx context.Context, f fence.Fence, _ *families) {
			if err := f.Open(ctx, "t", "u", "v"); err != nil {
				t.Fatal(err)
			}
			if halted != "" {
				if _, err := f.Ledger.UpdateTarget(ctx, halted, func(t *checkpoint.Target) error { return t.HaltFor(3) }); err != nil {
					t.Fatal(err)
				}
			}
			proved := false
			_, err := fence.NewRegister(f.Ledger).Prove(ctx, []string{"t", "u"}, func(context.Context) error { proved = true; return nil })
			if !errors.Is(err, want) || proved != (want == nil) {
				t.Errorf("halted %q: %v, the caller's right is proved: %t", halted, err, proved)
			}
		})
	}
}

// A halt of the target does not hide that the fence has risen, or has not. A refused write needs to
// know that.
func TestStampsAreComparedWhileTheTargetIsHalted(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, _ *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		stamps, err := fence.NewRegister(f.Ledger).Prove(ctx, []string{"t"}, func(context.Context) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Ledger.UpdateTarget(ctx, "t", func(t *checkpoint.Target) error { return t.HaltFor(1) }); err != nil {
			t.Fatal(err)
		}
		for _, risen := range []bool{false, true} {
			if outdated, err := stamps.Outdated(ctx); outdated != risen || err != nil {
				t.Errorf("the number has risen: %t: %t, %v", risen, outdated, err)
			}
			if _, err := f.Raise(ctx, "t"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A process that ends leaves its requests without an answer in its record, of each target. The drop of
// their number removes them, because nothing of them can be executed any more.
func TestDoubtsStayUntilTheirNumberIsDropped(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		targets := []string{"t", "u"}
		r, stamps := proved(t, ctx, f, targets...)
		send := func(target string) error {
			m := transform.RowMutation{Table: target, Row: "k", Version: transform.Version("1")}
			_, err := sink.Execute(ctx, stamps, unanswered{}, nil, &m)
			return err
		}
		for _, target := range targets {
			_ = send(target)
		}
		if err := r.Leave(ctx); err != nil || writers(t, ctx, f.Ledger) != "wmap[t:{1000 false 1000 false} u:{1001 false 1001 false}]" {
			t.Errorf("%q, %v", writers(t, ctx, f.Ledger), err)
		}
		for i, target := range targets {
			if err := send(target); !errors.Is(err, sink.ErrFenced) {
				t.Errorf("a process that has left sends a request to %s: %v", target, err)
			}
			raised, err := f.Raise(ctx, target)
			if err != nil {
				t.Fatal(err)
			}
			before, left := task.Mono(ctx), []string{"wmap[u:{1001 false 1001 false}]", ""}[i]
			if withheld, err := f.Drop(ctx, target, raised.Fence); withheld != "" || err != nil || writers(t, ctx, f.Ledger) != left || task.Mono(ctx)-before < schema.delay {
				t.Errorf("%q after %s, %q, %v", writers(t, ctx, f.Ledger), task.Mono(ctx)-before, withheld, err)
			}
		}
	})
}

// unanswered is a target that never answers.
type unanswered struct{}

func (unanswered) Apply(context.Context, *sink.Request) (bool, error) {
	return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "DeadlineExceeded"}
}

// The register of a killed process does nothing more, so the record stays, whatever its age.
func TestRecordOfAKilledProcessStays(t *testing.T) {
	store := &checkpointtest.Memory{}
	world := virtual.NewWorld(1, begin, false)
	err := world.Run(60*24*time.Hour, func(ctx context.Context) {
		open := func(ctx context.Context, name string) *checkpoint.Ledger {
			l, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: name, ID: "ledger"})
			if err != nil {
				t.Error(err)
			}
			return l
		}
		look, killed, entered := open(ctx, "look"), world.NewProcess("killed"), world.NewEvent()
		killed.Go("write", func() {
			_, err := open(killed.Context(), "killed").EnterWriter(killed.Context(), map[string]checkpoint.Writing{"t": {Number: 7}})
			if err != nil {
				t.Error(err)
			}
			entered.Set()
		})
		_ = entered.Wait(ctx)
		killed.Kill()
		_ = task.Sleep(ctx, 30*24*time.Hour)
		if err := look.ShowProcess(ctx, checkpoint.RoleStandby); err != nil || writers(t, ctx, look) != "killedmap[t:{7 false 0 false}]" {
			t.Errorf("%q, %v", writers(t, ctx, look), err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
