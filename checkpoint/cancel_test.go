package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A load can be cancelled in any stage. The table still needs one, which only an operator can
// request. If the load has written something, the next one has another generation, because its
// images could not replace newer rows.
func TestALoadIsCancelled(t *testing.T) {
	window := checkpoint.Export{Address: "/w", ARN: "w", From: begin.Add(-time.Hour), At: begin}
	for name, c := range map[string]struct {
		change func(s *state)
		raised bool
		kind   checkpoint.GapKind
	}{
		"asked for": {func(s *state) { s.Load = checkpoint.Load{AskedAt: begin, Paused: checkpoint.PausedByOperator} }, false, checkpoint.KindStream},
		"its export stands": {func(s *state) {
			s.Load = checkpoint.Load{Number: 3, AskedAt: begin, Request: checkpoint.ExportRequest{To: "s3://b", Failed: "no"}}
		}, false, checkpoint.KindStream},
		"copying":  {func(s *state) { s.Load = checkpoint.Load{Generation: s.Generation, Number: 3, Parts: 4} }, true, checkpoint.KindAskedFor},
		"sweeping": {func(s *state) { s.Load = checkpoint.Load{Generation: s.Generation, Number: 3, Parts: 4, DoneAt: begin} }, true, checkpoint.KindAskedFor},
		"of windows": {func(s *state) {
			s.Load = checkpoint.Load{Generation: s.Generation, Number: 3, Parts: 4, Export: window, Sweep: checkpoint.Sweep{Approved: true}}
		}, true, checkpoint.KindStream},
	} {
		virtually(t, func(ctx context.Context, p *place) {
			_, l := p.worker("a")
			create(t, ctx, l, shard("s", ""))
			before, err := l.UpdateTable(ctx, source, func(s *state) error {
				s.Base, s.Adopted = s.Generation, s.Generation
				return nil
			})
			check(t, err)
			_, err = l.Raise(ctx, source, before.Generation, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Reason: "lost", LostFrom: begin}, nil)
			check(t, err)
			before, err = l.UpdateTable(ctx, source, func(s *state) error { c.change(s); return nil })
			check(t, err)
			for range 2 { // again, as after an unknown outcome
				after, err := l.CancelLoad(ctx, source)
				check(t, err)
				if raised := after.Generation > before.Generation; raised != c.raised || after.Stage() != checkpoint.StageNone || !after.NeedsLoad || after.Kind != c.kind {
					t.Errorf("%s: raised %t, %+v", name, raised, after)
				}
				if asks, why := after.AsksItself(true, true); asks || why != "an operator cancelled its load" {
					t.Errorf("%s: it begins by itself: %t, %q", name, asks, why)
				}
				if after.Load.Number != before.Load.Number || after.Load.Begun() != before.Load.Begun() || after.Load.Paused != "" || after.Load.Sweep.Approved != before.Load.Sweep.Approved {
					t.Errorf("%s: %+v", name, after.Load)
				}
				if mends := checkpoint.MendsFrom(after, begin.Add(-time.Hour)) == nil; mends != (c.kind == checkpoint.KindStream) {
					t.Errorf("%s: windows repair it: %t", name, mends)
				}
			}
			again, err := l.AskLoad(ctx, source, false)
			check(t, err)
			if again.Stage() != checkpoint.StageAsked || !again.Load.CancelledAt.IsZero() || again.Load.Number != before.Load.Number {
				t.Errorf("%s: the next load: %+v", name, again.Load)
			}
		})
	}
	virtually(t, func(ctx context.Context, p *place) { // nothing to cancel
		_, l := p.worker("a")
		create(t, ctx, l)
		var refused *checkpoint.LoadError
		if _, err := l.CancelLoad(ctx, source); !errors.As(err, &refused) || refused.Yet || refused.Cure == "" {
			t.Errorf("no load: %v", err)
		}
	})
}
