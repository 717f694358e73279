package status

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// Metrics for alerts show a freeze while it lasts, a cancel until it ends, and late writes after a
// switch until an operator has confirmed them.
func TestWhatAlertsHearOfACutover(t *testing.T) {
	began := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	now := began.Add(10 * time.Minute)
	limits := checkpoint.CutoverPlan{FreezeWithin: time.Minute, FreezeDeadline: 9 * time.Minute}
	for name, c := range map[string]struct {
		record checkpoint.Cutover
		driver string
		want   admin.Cutover
	}{
		"none":       {checkpoint.Cutover{}, "", admin.Cutover{}},
		"checks":     {checkpoint.Cutover{Step: checkpoint.CutoverChecks}, "w", admin.Cutover{Driven: true, Limit: 10 * time.Minute}},
		"frozen":     {checkpoint.Cutover{Step: checkpoint.CutoverDrain, FreezeBegunAt: began}, "w", admin.Cutover{Driven: true, Frozen: 10 * time.Minute, Limit: 10 * time.Minute}},
		"undriven":   {checkpoint.Cutover{Step: checkpoint.CutoverSwitching, FreezeBegunAt: began}, "", admin.Cutover{Frozen: 10 * time.Minute, Limit: 10 * time.Minute}},
		"cancelling": {checkpoint.Cutover{Step: checkpoint.CutoverCancelling, FreezeBegunAt: began, StepAt: began.Add(8 * time.Minute)}, "w", admin.Cutover{Driven: true, Frozen: 10 * time.Minute, Limit: 10 * time.Minute, Cancelling: 2 * time.Minute}},
		"unfrozen":   {checkpoint.Cutover{Step: checkpoint.CutoverCancelling, FreezeBegunAt: began, UnfrozenAt: now, StepAt: began}, "w", admin.Cutover{Driven: true, Limit: 10 * time.Minute, Lasted: 10 * time.Minute, Cancelling: 10 * time.Minute}},
		"cancelled":  {checkpoint.Cutover{Step: checkpoint.CutoverCancelled, FreezeBegunAt: began, Strays: 3}, "", admin.Cutover{Strays: 3}},
		"watching":   {checkpoint.Cutover{Step: checkpoint.CutoverWatching, FreezeBegunAt: began, SwitchedAt: now, Strays: 3, StraysSeen: 1}, "w", admin.Cutover{Driven: true, Strays: 3, Unanswered: 2, Limit: 10 * time.Minute, Lasted: 10 * time.Minute}},
		"done":       {checkpoint.Cutover{Step: checkpoint.CutoverDone, FreezeBegunAt: began, SwitchedAt: now, Strays: 3}, "", admin.Cutover{Strays: 3, Unanswered: 3, Lasted: 10 * time.Minute}},
		"answered":   {checkpoint.Cutover{Step: checkpoint.CutoverDone, SwitchedAt: now, Strays: 3, StraysSeen: 3}, "", admin.Cutover{Strays: 3}},
	} {
		c.record.Attempt, c.record.CutoverPlan = 1, limits
		if name == "none" {
			c.record = checkpoint.Cutover{}
		}
		l := &Input{Cfg: oneTable, Begun: true, Cutovers: checkpoint.Cutovers{c.record}, Drivers: []Driver{{Process: c.driver}}}
		c.want.Group = "Orders"
		m := l.Judge(func(string) (string, bool) { return "", false }, "", now)
		if got := m.CutoverFacts(); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// oneTable is a configuration with one group of tables.
var oneTable = &config.Config{Tables: []config.Table{{From: "Orders", To: "Orders"}}}

// A worker that reads the ledger repeatedly counts a driver until the driver's lease has ended by
// the worker's own clock, and again once it is renewed.
func TestASurveyMissesADriver(t *testing.T) {
	world, store := virtual.NewWorld(1, time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), false), &checkpointtest.Memory{}
	err := world.Run(time.Hour, func(ctx context.Context) {
		p := world.NewProcess("driver")
		p.Skew(10 * time.Minute)
		p.Go("drive", func() {
			theirs, err := checkpoint.Open(p.Context(), store, "p", checkpoint.Options{Worker: "driver", ID: "l"})
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = theirs.UpdateCutover(p.Context(), "", func(c *checkpoint.Cutover) error { c.Attempt, c.Step = 1, checkpoint.CutoverDrain; return nil })
			lease, _ := theirs.CoordinatorLease(p.Context(), checkpoint.CutoverLease(""))
			if held, err := theirs.TakeCoordinatorLease(p.Context(), lease); err == nil {
				_ = held.Keep()
			}
		})
		_ = task.Sleep(ctx, time.Minute)
		ledger, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: "w", ID: "l", ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		var survey Survey
		driven := func() bool {
			l, d := &Input{Cfg: oneTable, Begun: true, Ledger: ledger}, Driver{mono: task.Mono(ctx)}
			var err error
			if l.Cutovers, err = ledger.Cutovers(ctx); err == nil {
				d.lease, err = ledger.CoordinatorLease(ctx, checkpoint.CutoverLease(""))
			}
			d.Process = d.lease.Owner()
			l.Drivers = []Driver{d}
			m, _ := survey.Take(l, err, func(string) (string, bool) { return "", false }, "", task.Now(ctx))
			return m.Cutover.Driver != nil
		}
		for range 12 {
			if !driven() {
				t.Error("a driver that renews its lease is missed")
			}
			_ = task.Sleep(ctx, 5*time.Second)
		}
		p.Kill()
		died := task.Mono(ctx)
		for driven() && task.Mono(ctx)-died < time.Minute {
			_ = task.Sleep(ctx, 5*time.Second)
		}
		if after := task.Mono(ctx) - died; after < 10*time.Second || after > 25*time.Second {
			t.Errorf("a driver that died is missed after %s", after)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
