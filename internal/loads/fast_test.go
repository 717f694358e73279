package loads

import (
	"context"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// A fast load is refused at once, with the reason, if the table, its settings or its target can
// never have one. A guarded load is not refused.
func TestH146_WhenAFastLoadIsRefused(t *testing.T) {
	young := func(s *checkpoint.TableState) { s.MadeByUs = true }
	for name, c := range map[string]struct {
		backfill string
		change   func(ctx context.Context, s *scene)
		why      string // "" if it is not refused
	}{
		"allowed":          {"{}", func(ctx context.Context, s *scene) { s.update(ctx, young) }, ""},
		"mode guarded":     {"{mode: guarded}", func(ctx context.Context, s *scene) { s.update(ctx, young) }, ""},
		"another's target": {"{}", func(context.Context, *scene) {}, "replicator did not create the target table"},
		"after a gap":      {"{}", func(ctx context.Context, s *scene) { s.update(ctx, young); s.lose(ctx) }, "the table had a gap"},
		"dual writes":      {"{}\ndual_writes: {settle: 30s}", func(ctx context.Context, s *scene) { s.update(ctx, young) }, "dual_writes"},
		"no fence": {"{}", func(ctx context.Context, s *scene) {
			s.update(ctx, young)
			_, err := s.worker.UpdateTarget(ctx, "orders-rows", func(t *checkpoint.Target) error { t.Withheld = "protected"; return nil })
			s.check(err)
		}, "table orders-rows has no fence: protected"},
	} {
		play(t, c.backfill, func(ctx context.Context, s *scene) {
			s.begin(ctx)
			c.change(ctx, s)
			o := s.operator("Orders")
			err := o.Steer(ctx, Request{Action: ActionStart, Fast: true})
			d, state := o.document(t), s.state(ctx)
			if one := d.Decided[0]; (one.Action == actionRefused) != (c.why != "") || !strings.Contains(one.Why, c.why) || c.why != "" && !diag.Has(err, diag.LoadRefused) {
				t.Errorf("%s: %+v, %v", name, one, err)
			}
			if asked := state.Stage() == checkpoint.StageAsked; asked != (c.why == "") || asked && state.Load.Mode != checkpoint.FastLoad {
				t.Errorf("%s: %+v", name, state.Load)
			}
			guarded := s.operator("Orders")
			s.check(guarded.Steer(ctx, Request{Action: ActionStart}))
			if one := guarded.document(t).Decided[0]; one.Action != ActionStart && c.why != "" {
				t.Errorf("%s: a guarded load: %+v", name, one)
			}
		})
	}
}

// A request for a fast load replaces a request that leaves the mode open. It leaves a request for a
// fast load alone. Another load of a loaded table is never fast.
func TestAFastLoadIsRequestedOnce(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.update(ctx, func(s *checkpoint.TableState) { s.MadeByUs = true })
		for i, want := range []struct {
			r      Request
			action string
			mode   checkpoint.LoadMode
		}{
			{Request{Action: ActionStart}, ActionStart, ""},
			{Request{Action: ActionStart, Fast: true}, ActionStart, checkpoint.FastLoad},
			{Request{Action: ActionStart, Fast: true}, actionNone, checkpoint.FastLoad},
			{Request{Action: ActionRedo, Fast: true}, actionRefused, checkpoint.FastLoad},
		} {
			o := s.operator("Orders")
			_ = o.Steer(ctx, want.r)
			if d := o.document(t).Decided[0]; d.Action != want.action || s.state(ctx).Load.Mode != want.mode {
				t.Errorf("%d: %+v, mode %q", i, d, s.state(ctx).Load.Mode)
			}
		}
	})
}

// The document says how a planned load writes rows, and why it is guarded.
func TestTheModeOfALoadIsShown(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		for _, c := range []struct {
			load checkpoint.Load
			mode string
			note string
		}{
			{checkpoint.Load{AskedAt: noon, Mode: checkpoint.FastLoad}, "", ""},
			{checkpoint.Load{Parts: 1, Fast: true}, "fast", "Orders: a fast load; removed items and attributes may show until the sweep is done"},
			{checkpoint.Load{Parts: 1, Guarded: "keep_versions keeps older values"}, "guarded", "Orders: the load is guarded, not fast: keep_versions keeps older values"},
			{checkpoint.Load{Parts: 1, Fast: true, DoneAt: noon, Paused: checkpoint.PausedForFence + "orders-rows"}, "fast",
				"Orders is slow: waits: the fence does not reject late requests: orders-rows"},
		} {
			s.update(ctx, func(s *checkpoint.TableState) {
				if s.Load = c.load; c.load.Parts > 0 {
					s.Load.Generation, s.Load.Number, s.Load.StartedAt = s.Generation, 1, noon
				}
			})
			o := s.operator("Orders")
			s.check(o.Show(ctx))
			l := o.document(t).Tables[0].Load
			if (l.Mode == nil) != (c.mode == "") || l.Mode != nil && *l.Mode != c.mode || (l.Guarded != nil) != (c.load.Guarded != "") {
				t.Errorf("%+v: %+v", c.load, l)
			}
			if next := o.document(t).NextSteps; (len(next) == 1 && strings.Contains(next[0].Command, "backfill redo --table Orders")) != (c.load.Paused != "") {
				t.Errorf("%+v: %+v", c.load, next)
			}
			o = s.operator("Orders")
			o.Output = "text"
			s.check(o.Show(ctx))
			if text := o.out.String(); !strings.Contains(text, c.note) {
				t.Errorf("%+v: no %q in %s", c.load, c.note, text)
			}
		}
	})
}

// A dry run names the mode of the load that would begin.
func TestTheModeOfADryRun(t *testing.T) {
	for _, c := range []struct {
		backfill string
		fast     bool
		mode     string
	}{{"{}", false, "fast"}, {"{mode: guarded}", false, "guarded"}, {"{mode: guarded}", true, "fast"}} {
		play(t, c.backfill, func(ctx context.Context, s *scene) {
			s.begin(ctx)
			s.update(ctx, func(s *checkpoint.TableState) { s.MadeByUs = true })
			o := s.operator("Orders")
			o.DryRun = true
			s.check(o.Steer(ctx, Request{Action: ActionStart, Fast: c.fast}))
			if e := o.document(t).Decided[0].Estimate; e == nil || e.Mode != c.mode || (c.mode == "fast") != strings.Contains(e.Sweep, "removes the cells") {
				t.Errorf("%+v: %+v", c, e)
			}
		})
	}
}
