package fence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Cutovers of two groups close and open the gates of their own targets only.
func TestH145_EachGroupOpensItsOwnGates(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, _ *families) {
		targets := []string{"a", "b", "c"}
		r, stamps := proved(t, ctx, f, targets...)
		stop := heeds(t, ctx, r, time.Second, time.Second)
		released := task.NewEvent(ctx)
		released.Set()
		for _, c := range []struct {
			row  string
			step checkpoint.CutoverStep
			open string // the targets that are written afterwards
		}{{"one", checkpoint.CutoverFence, "b c"}, {"two", checkpoint.CutoverFence, "c"}, {"one", checkpoint.CutoverCancelling, "a c"}, {"two", checkpoint.CutoverCancelling, "a b c"}, {"one", checkpoint.CutoverFence, "b c"}} {
			if _, err := f.Ledger.UpdateCutover(ctx, c.row, func(a *checkpoint.Cutover) error {
				a.Attempt, a.Step, a.Targets = 1, c.step, []string{map[string]string{"one": "a", "two": "b"}[c.row]}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := task.Sleep(ctx, 3*time.Second); err != nil {
				t.Fatal(err)
			}
			var open []string
			for _, target := range targets {
				if _, err := sink.Execute(ctx, stamps, slow{released}, nil, &transform.RowMutation{Table: target, Row: "k", Version: "1"}); !errors.Is(err, sink.ErrFenced) {
					open = append(open, target)
				}
			}
			if got := strings.Join(open, " "); got != c.open {
				t.Errorf("after group %s is in step %s, %q are open, not %q", c.row, c.step, got, c.open)
			}
		}
		stop()
	})
}

// A cancelled cutover opens the gates that it closed once. Afterwards it opens neither the gates
// that another group's cutover closes, nor those of a process that has left.
func TestACancelledCutoverOpensItsGatesOnce(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		play(t, func(ctx context.Context, f fence.Fence, _ *families) {
			r, stamps := proved(t, ctx, f, "t")
			stop := heeds(t, ctx, r, time.Second, time.Second)
			released := task.NewEvent(ctx)
			released.Set()
			sends := func() bool {
				t.Helper()
				if err := task.Sleep(ctx, 3*time.Second); err != nil {
					t.Fatal(err)
				}
				_, err := sink.Execute(ctx, stamps, slow{released}, nil, &transform.RowMutation{Table: "t", Row: "k", Version: "1"})
				return !errors.Is(err, sink.ErrFenced)
			}
			step := func(row string, step checkpoint.CutoverStep) {
				t.Helper()
				if _, err := f.Ledger.UpdateCutover(ctx, row, func(c *checkpoint.Cutover) error {
					c.Attempt, c.Step, c.Targets = 1, step, []string{"t"}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			step("second", checkpoint.CutoverFence)
			if sends() {
				t.Error("a closed gate lets a write through")
			}
			step("second", checkpoint.CutoverCancelling)
			if !sends() {
				t.Error("a cancelled cutover keeps the gate closed")
			}
			var err error
			if leaves {
				err = r.Leave(ctx)
			} else {
				step("first", checkpoint.CutoverFence) // it is obeyed before the cancelled one
			}
			if err != nil || sends() {
				t.Errorf("left %v: a write goes through, %v", leaves, err)
			}
			stop()
		})
	}
}

// A request without a number whose outcome is unknown is recorded like one with a number: at once
// while a cutover asks, and with the goodbye.
func TestADoubtWithoutANumberIsRecorded(t *testing.T) {
	for _, told := range []checkpoint.CutoverStep{checkpoint.CutoverChecks, checkpoint.CutoverFence} {
		play(t, func(ctx context.Context, f fence.Fence, _ *families) {
			f.Families = nil
			r, stamps := proved(t, ctx, f, "t")
			_, _ = sink.Execute(ctx, stamps, unanswered{}, nil, &transform.RowMutation{Table: "t", Row: "k", Version: "1"})
			if _, err := f.Ledger.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error {
				c.Attempt, c.Step, c.Targets = 1, told, []string{"t"}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			stop := heeds(t, ctx, r, time.Second, time.Second)
			if err := task.Sleep(ctx, 3*time.Second); err != nil {
				t.Fatal(err)
			}
			if got := writers(t, ctx, f.Ledger); got != "wmap[t:{0 true 0 true}]" {
				t.Errorf("in step %s: %s", told, got)
			}
			stop()
		})
	}
}

// A refresh that fails is repeated at the next pass, not an hour later. A process that writes to no
// target has no record.
func TestAFailedRefreshIsRepeatedSoon(t *testing.T) {
	store := &checkpointtest.Memory{}
	playOn(t, store, func(ctx context.Context, f fence.Fence, _ *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		r := fence.NewRegister(f.Ledger)
		stop := heeds(t, ctx, r, time.Minute, time.Second)
		if err := task.Sleep(ctx, 90*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := writers(t, ctx, f.Ledger); got != "" {
			t.Errorf("before it writes: %q", got)
		}
		if _, err := r.Prove(ctx, []string{"t"}, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{10 * time.Minute, 50 * time.Minute} { // until the first refresh, and the next
			if err := task.Sleep(ctx, wait); err != nil {
				t.Fatal(err)
			}
			failures := 0
			store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
				if failures++; failures <= 3 {
					return false, errors.New("away")
				}
				return execute(), nil
			}
		}
		before := task.Now(ctx)
		if err := task.Sleep(ctx, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		store.OnSwap = nil
		all, err := f.Ledger.Writers(ctx)
		if err != nil || len(all) != 1 || all[0].At.Before(before.Add(-time.Minute)) {
			t.Errorf("%+v is older than %s, %v", all, before, err)
		}
		stop()
	})
}

// Writes have the published number as long as it is published, also while other numbers are tried.
// A mend keeps it too, because its family exists.
func TestANumberThatWasOnlyTriedIsNotUsed(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		schema.creates = []error{failure(sink.Denied, "Unauthenticated")} // no family is created
		if _, err := f.Raise(ctx, "t"); err == nil {
			t.Fatal("the raise succeeded")
		}
		for _, mend := range []bool{false, true} {
			if mend {
				if err := f.Mend(ctx, "t"); err != nil {
					t.Error(err)
				}
			}
			target, _, err := f.Ledger.Target(ctx, "t")
			if mark := fence.MarkOf(f.Ledger, target); err != nil || target.Last != 1001 || mark.Number != 1000 || mark.Withheld || !slices.Contains(schema.names, number(1000)) {
				t.Errorf("mended %v: %+v, %+v, %v", mend, target, mark, err)
			}
		}
	})
}

// Every failed request is reported: the caller repeats it.
func TestAFenceAndARegisterReportFailures(t *testing.T) {
	store := &checkpointtest.Memory{}
	playOn(t, store, func(ctx context.Context, f fence.Fence, schema *families) {
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		away := failure(sink.Unknown, "Unavailable")
		for name, step := range map[string]func() error{
			"a clear without a listing":    func() error { schema.lists = []error{away}; return f.Clear(ctx, "t") },
			"a mend without a listing":     func() error { schema.lists = []error{away}; return f.Mend(ctx, "t") },
			"a mend that clears without":   func() error { schema.lists = []error{nil, away}; return f.Mend(ctx, "t") },
			"a raise without a listing":    func() error { schema.lists = []error{away}; _, err := f.Raise(ctx, "t"); return err },
			"a creation without a listing": func() error { schema.lists = []error{nil, away}; _, err := f.Raise(ctx, "t"); return err },
			"a drop without a listing":     func() error { schema.lists = []error{away}; _, err := f.Drop(ctx, "t", 1); return err },
		} {
			if err := step(); err == nil {
				t.Errorf("%s does not fail", name)
			}
			schema.lists = nil
		}
		r := fence.NewRegister(f.Ledger)
		if _, err := r.Prove(ctx, []string{"t"}, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		unknown := errors.New("no answer")
		store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, unknown }
		if err := r.Leave(ctx); !errors.Is(err, unknown) {
			t.Errorf("a record that is not ended: %v", err)
		}
		store.OnSwap, store.OnRead = nil, func(context.Context, string) error { return unknown }
		if err := f.Clear(ctx, "t"); !errors.Is(err, unknown) {
			t.Errorf("a clear without the ledger: %v", err)
		}
	})
}

// A running process joins the records of processes that were killed a day ago.
func TestHeedJoinsTheRecordsOfKilledProcesses(t *testing.T) {
	err := virtual.NewWorld(1, begin, false).Run(72*time.Hour, func(ctx context.Context) {
		store := &checkpointtest.Memory{}
		open := func(name string) *checkpoint.Ledger {
			l, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: name, ID: "ledger"})
			if err != nil {
				t.Error(err)
			}
			return l
		}
		if _, err := open("killed").EnterWriter(ctx, map[string]checkpoint.Writing{"t": {Number: 7}}); err != nil {
			t.Error(err)
		}
		l := open("w")
		r := fence.NewRegister(l)
		schema := &families{names: []string{"d"}}
		err := fence.Fence{Ledger: l, Families: schema}.Open(ctx, "t")
		if _, proved := r.Prove(ctx, []string{"t"}, func(context.Context) error { return nil }); errors.Join(err, proved) != nil {
			t.Error(err, proved)
		}
		stop := heeds(t, ctx, r, time.Minute, time.Second)
		if err := task.Sleep(ctx, 26*time.Hour); err != nil {
			t.Error(err)
		}
		if got := writers(t, ctx, l); !strings.Contains(got, checkpoint.EndedWriters+"map[t:{7 ") || strings.Contains(got, "killed") {
			t.Errorf("%q", got)
		}
		stop()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A drop for many targets writes the record of each process once. One whose drop fails holds up no
// other.
func TestADropOfManyTargetsWritesEachRecordOnce(t *testing.T) {
	store := &checkpointtest.Memory{}
	playOn(t, store, func(ctx context.Context, f fence.Fence, schema *families) {
		below, marks := map[string]uint64{}, map[string]checkpoint.Writing{}
		for i := range 50 {
			target := fmt.Sprint("t", i)
			below[target], marks[target] = 8, checkpoint.Writing{Number: 7}
		}
		if _, err := f.Ledger.EnterWriter(ctx, marks); err != nil {
			t.Fatal(err)
		}
		writes := 0
		store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) { writes++; return execute(), nil }
		away := errors.New("away")
		schema.lists = []error{away}
		withheld, err := f.DropAll(ctx, below)
		if !errors.Is(err, away) || len(withheld) != 49 || writes != 1 {
			t.Errorf("%d of 50 are dropped with %d writes, %v", len(withheld), writes, err)
		}
		all, err := f.Ledger.Writers(ctx)
		if err != nil || len(all) != 1 || len(all[0].Targets) != 1 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
