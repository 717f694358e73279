package fence_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// withheld is the answer of a service that can have no fence.
var withheld = failure(sink.Permanent, "Unimplemented")

// The record of a process that ends has its requests without an answer under the fence with which
// they were sent: under the number, or as unfenced. A request in flight has no answer either.
func TestH145_DoubtsHaveTheFenceOfTheirRequests(t *testing.T) {
	for name, c := range map[string]struct {
		unfenced bool
		in       string // what is sent: answered, unanswered or in flight
		want     string
	}{
		"fenced, answered":     {false, "answered", ""},
		"fenced, unanswered":   {false, "unanswered", "wmap[t:{1000 false 1000 false}]"},
		"fenced, in flight":    {false, "in flight", "wmap[t:{1000 false 1000 false}]"},
		"unfenced, answered":   {true, "answered", ""},
		"unfenced, unanswered": {true, "unanswered", "wmap[t:{0 true 0 true}]"},
		"unfenced, in flight":  {true, "in flight", "wmap[t:{0 true 0 true}]"},
	} {
		play(t, func(ctx context.Context, f fence.Fence, schema *families) {
			if c.unfenced {
				schema.creates = []error{withheld}
			}
			r, stamps := proved(t, ctx, f, "t")
			released, g := task.NewEvent(ctx), task.NewGroup(ctx, 0)
			var table sink.Table = slow{released}
			if c.in == "unanswered" {
				table = unanswered{}
			}
			if c.in == "answered" {
				released.Set()
			}
			g.Go("write", func(ctx context.Context) error {
				_, _ = sink.Execute(ctx, stamps, table, nil, &transform.RowMutation{Table: "t", Row: "k", Version: "1"})
				return nil
			})
			if err := errors.Join(task.Sleep(ctx, time.Second), r.Leave(ctx)); err != nil {
				t.Fatal(err)
			}
			if got := writers(t, ctx, f.Ledger); got != c.want {
				t.Errorf("%s: %q", name, got)
			}
			released.Set()
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The cutovers are read at the quick pace only while one asks writers, and also if a read fails
// then.
func TestHeedReadsCutoversAtTheirPace(t *testing.T) {
	store := &checkpointtest.Memory{}
	playOn(t, store, func(ctx context.Context, f fence.Fence, _ *families) {
		heeding, stop := context.WithCancel(ctx)
		g := task.NewGroup(ctx, 0)
		r := fence.NewRegister(f.Ledger)
		g.Go("heed", func(context.Context) error { r.Heed(heeding, 10*time.Second, time.Second); return nil })
		for _, c := range []struct {
			step  checkpoint.CutoverStep
			away  bool
			reads int // in a hundred seconds
		}{{"", false, 10}, {checkpoint.CutoverRequested, false, 10}, {checkpoint.CutoverChecks, false, 100}, {checkpoint.CutoverDrain, true, 100}, {checkpoint.CutoverCancelling, false, 100},
			{checkpoint.CutoverWatching, false, 10}, {checkpoint.CutoverDone, true, 10}, {checkpoint.CutoverCancelled, false, 10}} {
			if _, err := f.Ledger.UpdateCutover(ctx, "", func(a *checkpoint.Cutover) error { a.Attempt, a.Step = 1, c.step; return nil }); err != nil {
				t.Fatal(err)
			}
			if err := task.Sleep(ctx, 20*time.Second); err != nil {
				t.Fatal(err)
			}
			reads := 0
			store.OnRead = func(_ context.Context, prefix string) error {
				if !strings.Contains(prefix, "cutover") {
					return nil
				}
				reads++
				if c.away {
					return errors.New("away")
				}
				return nil
			}
			err := task.Sleep(ctx, 100*time.Second)
			store.OnRead = nil
			if err != nil || reads < c.reads-1 || reads > c.reads+1 {
				t.Errorf("%s: %d reads, %v", c.step, reads, err)
			}
		}
		stop()
	})
}

// A process writes its record for a cutover of its targets, where there is something new, and once.
// It says no goodbye to a cutover of other targets or to a rehearsal.
func TestH145_TheRecordIsWrittenForNewsOnly(t *testing.T) {
	for name, c := range map[string]struct {
		step     checkpoint.CutoverStep
		targets  []string
		rehearse bool
		doubt    bool
		writes   int
		goodbye  uint32
	}{
		"a request, nothing new":       {checkpoint.CutoverRequested, []string{"t"}, false, false, 0, 0},
		"a request, a doubt":           {checkpoint.CutoverRequested, []string{"t"}, false, true, 0, 0},
		"checks, nothing new":          {checkpoint.CutoverChecks, []string{"t"}, false, false, 0, 0},
		"checks, a doubt":              {checkpoint.CutoverChecks, []string{"t"}, false, true, 1, 0},
		"checks of others, a doubt":    {checkpoint.CutoverChecks, []string{"other"}, false, true, 0, 0},
		"a fence":                      {checkpoint.CutoverFence, []string{"t"}, false, false, 1, 3},
		"a fence, a doubt":             {checkpoint.CutoverFence, []string{"t", "other"}, false, true, 1, 3},
		"a fence of others":            {checkpoint.CutoverFence, []string{"other"}, false, false, 0, 0},
		"a rehearsal":                  {checkpoint.CutoverFence, []string{"t"}, true, false, 0, 0},
		"a rehearsal, a doubt":         {checkpoint.CutoverFence, []string{"t"}, true, true, 1, 0},
		"the switch":                   {checkpoint.CutoverSwitching, []string{"t"}, false, false, 1, 3},
		"a cancelled cutover, a doubt": {checkpoint.CutoverCancelled, []string{"t"}, false, true, 0, 0},
	} {
		store := &checkpointtest.Memory{}
		playOn(t, store, func(ctx context.Context, f fence.Fence, _ *families) {
			r, stamps := proved(t, ctx, f, "t")
			stop := heeds(t, ctx, r, time.Second, time.Second)
			if err := task.Sleep(ctx, 5*time.Second); err != nil { // the first refresh
				t.Fatal(err)
			}
			if c.doubt {
				_, _ = sink.Execute(ctx, stamps, unanswered{}, nil, &transform.RowMutation{Table: "t", Row: "k", Version: "1"})
			}
			if _, err := f.Ledger.UpdateCutover(ctx, "", func(a *checkpoint.Cutover) error {
				a.Attempt, a.Step, a.Targets, a.Rehearse = 3, c.step, c.targets, c.rehearse
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			writes := 0
			store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) { writes++; return execute(), nil }
			if err := task.Sleep(ctx, 20*time.Second); err != nil {
				t.Fatal(err)
			}
			store.OnSwap = nil
			all, err := f.Ledger.Writers(ctx)
			if err != nil || len(all) != 1 || writes != c.writes || all[0].Goodbye != c.goodbye {
				t.Errorf("%s: %d writes, %+v, %v", name, writes, all, err)
			}
			stop()
		})
	}
}

// While a raise fails, the published number keeps its family, whichever numbers were tried since.
// Writers still need it.
func TestAFailedRaiseKeepsThePublishedNumber(t *testing.T) {
	for name, step := range map[string]func(ctx context.Context, f fence.Fence) error{
		"a raise": func(ctx context.Context, f fence.Fence) error { _, err := f.Raise(ctx, "t"); return err },
		"a clear": func(ctx context.Context, f fence.Fence) error { return f.Clear(ctx, "t") },
		"a mend":  func(ctx context.Context, f fence.Fence) error { return f.Mend(ctx, "t") },
	} {
		play(t, func(ctx context.Context, f fence.Fence, schema *families) {
			if err := f.Open(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			away := failure(sink.Unknown, "Unavailable")
			schema.creates = []error{away, away}
			if _, err := f.Raise(ctx, "t"); !sink.Is(err, sink.Unknown) {
				t.Fatal(err)
			}
			_ = step(ctx, f)
			target, _, err := f.Ledger.Target(ctx, "t")
			if err != nil || target.Fence != 1000 || target.Last <= target.Fence || !slices.Contains(schema.names, number(1000)) {
				t.Errorf("%s: %+v, families %q, %v", name, target, schema.names, err)
			}
		})
	}
}

// A withheld fence stays withheld if the test of the service fails, and a worker that creates no
// families leaves those that exist.
func TestAFenceStaysWithheldWhileTheTestFails(t *testing.T) {
	play(t, func(ctx context.Context, f fence.Fence, schema *families) {
		schema.creates = []error{withheld}
		if err := f.Open(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		schema.creates = []error{failure(sink.Unknown, "Unavailable")}
		if _, err := f.Raise(ctx, "t"); err == nil {
			t.Error("a raise succeeds although its test failed")
		}
		if target, _, err := f.Ledger.Target(ctx, "t"); err != nil || target.Withheld == "" || target.Fence != 0 {
			t.Errorf("%+v, %v", target, err)
		}
		f.Families = nil
		if err := errors.Join(f.Clear(ctx, "t"), f.Mend(ctx, "t")); err != nil {
			t.Error(err)
		}
	})
}

// A drop that is ended before it is in force fails, and forgets no writer.
func TestADropThatIsEndedForgetsNoWriter(t *testing.T) {
	store := &checkpointtest.Memory{}
	playOn(t, store, func(ctx context.Context, f fence.Fence, _ *families) {
		r, stamps := proved(t, ctx, f, "t")
		_, _ = sink.Execute(ctx, stamps, unanswered{}, nil, &transform.RowMutation{Table: "t", Row: "k", Version: "1"})
		raised, err := f.Raise(ctx, "t")
		if err := errors.Join(err, r.Leave(ctx)); err != nil {
			t.Fatal(err)
		}
		before := writers(t, ctx, f.Ledger)
		ended := errors.New("ended")
		f.Rest = func(context.Context, time.Duration) error { return ended }
		if _, err := f.Drop(ctx, "t", raised.Fence); !errors.Is(err, ended) || writers(t, ctx, f.Ledger) != before || before == "" {
			t.Errorf("%q, %v", writers(t, ctx, f.Ledger), err)
		}
		f.Rest = nil
		ending, end := context.WithCancelCause(ctx)
		end(ended)
		if _, err := f.Drop(ending, "t", raised.Fence); err == nil || writers(t, ctx, f.Ledger) != before {
			t.Errorf("%q, %v", writers(t, ctx, f.Ledger), err)
		}
		away := errors.New("away")
		store.OnRead = func(context.Context, string) error { return away }
		if _, err := f.Drop(ctx, "t", raised.Fence); !errors.Is(err, away) {
			t.Errorf("without a ledger: %v", err)
		}
	})
}
