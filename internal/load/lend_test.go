package load

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

var lending = Lending{Patience: 10 * time.Minute, AtMost: 15 * time.Minute, Report: time.Second}

// lender returns the Lender of another process, for the copy that is running.
func (s *loadScene) lender(ctx context.Context) *Lender {
	s.Helper()
	ledger, err := checkpoint.Open(ctx, s.store, "load", checkpoint.Options{ReadOnly: true, Worker: "beam/job/host/1"})
	s.check(err)
	ledger.Heard(ctx, task.Now(ctx))
	o := *s.Options
	o.Ledger, o.Floors, o.Register = ledger, &engine.Floors{}, nil
	order, running := RunningCopy(s.state(ctx))
	if !running {
		s.Error("no copy is running")
	}
	return NewLender(ctx, &o, s.Spec, order, lending)
}

// lent copies a part, and checks the outcome and the state of the part's row.
func (s *loadScene) lent(ctx context.Context, l *Lender, index int, want Outcome) int64 {
	s.Helper()
	items := int64(0)
	got, err := l.Copy(ctx, index, func(n int64) { items += n })
	s.check(err)
	if got != want {
		s.Errorf("part %d: %s, not %s", index, got, want)
	}
	rows, err := s.Ledger.PartsOf(ctx, s.state(ctx).LoadPart())
	s.check(err)
	for _, p := range rows {
		if p.Index == index && (p.Owner == l.Ledger.Worker() || want == Done && p.State != checkpoint.PartDone) {
			s.Errorf("part %d is %s, of %q", index, p.State, p.Owner)
		}
	}
	return items
}

// A Lender copies only the parts that its callers name, and reports their items.
func TestChosenPartsAreCopied(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 3)
		l := s.lender(ctx)
		if items := s.lent(ctx, l, 1, Done); items != 4 {
			t.Errorf("%d items", items)
		}
		left, items, err := l.order.Left(ctx, s.Ledger, "Orders")
		if left != 2 || items != 4 || err != nil {
			t.Errorf("%d parts are left, %d items: %v", left, items, err)
		}
		if items := s.lent(ctx, l, 1, Done); items != 0 {
			t.Errorf("a part that is done: %d items", items)
		}
		g := task.NewGroup(ctx, 0)
		for _, index := range []int{0, 2} {
			g.Go("copy", func(ctx context.Context) error { s.lent(ctx, l, index, Done); return nil })
		}
		s.check(g.Wait())
		if live := s.live(ctx); len(live) != s.shop.items {
			t.Errorf("%d rows", len(live))
		}
		if _, err := l.Copy(ctx, 1, nil); err != nil {
			t.Error(err)
		}
	})
}

// The work on a part ends with its time, with its caller, with a pause, and when another worker
// holds it. The part is released before the return, and its position is kept.
func TestWhenABorrowedPartIsReleased(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(ctx context.Context, s *loadScene)
		ctx   func(ctx context.Context) (context.Context, context.CancelFunc)
		want  Outcome
		at    time.Duration
	}{
		"its time is over": {nil, nil, TimeOver, 15 * time.Minute},
		"the caller goes": {nil, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return task.WithTimeout(ctx, 3*time.Minute)
		}, Stopped, 3 * time.Minute},
		"a pause": {func(ctx context.Context, s *loadScene) {
			task.NewGroup(ctx, 0).Go("pause", func(ctx context.Context) error {
				s.pass(ctx, 5*time.Minute)
				s.change(ctx, func(state *checkpoint.TableState) { state.Load.Paused = checkpoint.PausedByOperator })
				return nil
			})
		}, nil, Paused, 5 * time.Minute},
		"another holds it": {func(ctx context.Context, s *loadScene) {
			lease := s.part(ctx, 0)
			task.NewGroup(ctx, 0).Go("hold", func(context.Context) error { return lease.Keep() })
		}, nil, Held, 10 * time.Minute},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.shop.items = 1 << 20
			s.sealed(ctx, 2)
			if c.begin != nil {
				c.begin(ctx, s)
			}
			l, caller := s.lender(ctx), ctx
			if c.ctx != nil {
				var cancel context.CancelFunc
				caller, cancel = c.ctx(ctx)
				defer cancel()
			}
			begun := task.Mono(ctx)
			got, err := l.Copy(caller, 0, func(int64) {})
			took := task.Mono(ctx) - begun
			if got != c.want || err != nil || took < c.at || took > c.at+10*time.Second {
				t.Errorf("%s: %s after %s: %v", name, got, took, err)
			}
			rows, err := s.Ledger.PartsOf(ctx, s.state(ctx).LoadPart())
			s.check(err)
			if c.want != Held && (len(rows) != 1 || rows[0].Owner != "" || rows[0].Items == 0 || rows[0].Position == nil) {
				t.Errorf("%s: %+v", name, rows)
			}
		})
	}
}

// A caller in the same process is no owner of the part of another caller.
func TestTwoCallersOfOnePart(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 2)
		l := s.lender(ctx)
		task.NewGroup(ctx, 0).Go("first", func(ctx context.Context) error { s.lent(ctx, l, 0, Done); return nil })
		s.pass(ctx, time.Second)
		if got, err := l.Copy(ctx, 0, nil); got != Held || err != nil {
			t.Errorf("%s: %v", got, err)
		}
		s.pass(ctx, time.Minute)
		s.lent(ctx, l, 0, Done)
	})
}

// After the load was replaced, or under another mapping, no part is copied, and the reason is an
// error.
func TestWhatEndsALender(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *checkpoint.TableState)
		want error
	}{
		"a gap":           {func(s *checkpoint.TableState) { s.Generation++ }, ErrReplaced},
		"another load":    {func(s *checkpoint.TableState) { s.Load.Number++ }, ErrReplaced},
		"another plan":    {func(s *checkpoint.TableState) { s.Load.Parts++ }, ErrReplaced},
		"another mapping": {func(s *checkpoint.TableState) { s.MappingHash = "another" }, checkpoint.ErrMappingChanged},
	} {
		for _, after := range []time.Duration{0, 30 * time.Second} {
			loads(t, func(ctx context.Context, s *loadScene) {
				s.shop.items = 1 << 20
				s.sealed(ctx, 2)
				l := s.lender(ctx)
				task.NewGroup(ctx, 0).Go("edit", func(ctx context.Context) error {
					s.pass(ctx, after)
					s.change(ctx, c.edit)
					return nil
				})
				s.pass(ctx, time.Millisecond)
				if _, err := l.Copy(ctx, 0, func(int64) {}); !errors.Is(err, c.want) {
					t.Errorf("%s after %s: %v", name, after, err)
				}
				if _, err := l.Copy(ctx, 1, func(int64) {}); !errors.Is(err, c.want) {
					t.Errorf("%s after %s, another part: %v", name, after, err)
				}
			})
		}
	}
}

// However short the patience is, the part of a dead worker is acquired.
func TestThePartOfADeadWorker(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 2)
		s.part(ctx, 0)
		before := lending
		lending.Patience = time.Second
		defer func() { lending = before }()
		s.lent(ctx, s.lender(ctx), 0, Done)
	})
}

// Trouble that passes is repeated under the lease. It is noted in the row of the part.
func TestTroubleOfABorrowedPart(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 2)
		until := task.Mono(ctx) + 5*time.Minute
		s.shop.scan = func(ctx context.Context) error {
			if task.Mono(ctx) < until {
				return fmt.Errorf("slow down")
			}
			return nil
		}
		l := s.lender(ctx)
		task.NewGroup(ctx, 0).Go("look", func(ctx context.Context) error {
			s.pass(ctx, 4*time.Minute)
			rows, err := s.Ledger.PartsOf(ctx, s.state(ctx).LoadPart())
			s.check(err)
			if len(rows) != 1 || rows[0].Owner != l.Ledger.Worker() || rows[0].Trouble.Cause == "" {
				t.Errorf("%+v", rows)
			}
			return nil
		})
		s.lent(ctx, l, 0, Done)
	})
}
