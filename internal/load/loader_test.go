package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A pause releases held parts between two pages, with their progress saved, so that they resume
// there. So does a stop.
func TestPartsAreLeftAndTakenUpAgain(t *testing.T) {
	for name, leave := range map[string]func(ctx context.Context, s *loadScene){
		"a pause": func(ctx context.Context, s *loadScene) {
			_, err := s.Ledger.PauseLoad(ctx, "Orders", checkpoint.PausedByOperator)
			s.check(err)
		},
		"a stop": func(context.Context, *loadScene) {},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.shop.items = 48
			s.sealed(ctx, 4)
			g := task.NewGroup(ctx, 0)
			g.Go("leave", func(ctx context.Context) error {
				err := task.Sleep(ctx, time.Second)
				leave(ctx, s)
				return err
			})
			lasts := time.Minute
			if name == "a stop" {
				lasts = time.Second
			}
			began := task.Mono(ctx)
			s.check(s.work(ctx, lasts, false))
			if took := task.Mono(ctx) - began; took > lasts+time.Second {
				t.Errorf("%s: it ends after %s", name, took)
			}
			s.check(g.Wait())
			read, items := s.shop.reads, int64(0)
			for _, p := range s.parts(ctx) {
				if items += p.Items; p.Owner != "" || p.State != checkpoint.PartOpen || p.Items > 0 && p.Position == nil {
					t.Errorf("%s: part %d is left as %+v", name, p.Index, p)
				}
			}
			if len(s.parts(ctx)) != 2 || items == 0 || items != int64(len(s.live(ctx))) || items > 14 {
				t.Errorf("%s: %d parts with %d items, %d rows", name, len(s.parts(ctx)), items, len(s.live(ctx)))
			}
			_, err := s.Ledger.ResumeLoad(ctx, "Orders", checkpoint.PausedByOperator)
			s.check(err)
			s.check(s.work(ctx, time.Minute, false))
			if sums := checkpoint.PartsDone(s.parts(ctx), 4); !sums.Complete() || sums.Items != 48 || len(s.live(ctx)) != 48 {
				t.Errorf("%s: in the end %+v", name, sums)
			}
			if s.shop.reads > read+52-int(items) {
				t.Errorf("%s: %d pages are read after %d items", name, s.shop.reads-read, items)
			}
			if told := strings.Join(s.told, ", "); told != fmt.Sprintf("started at 0, left, started at %d, left", items) {
				t.Errorf("%s: %s", name, told)
			}
		})
	}
}

// Another load of the same phase ends the parts of the previous one. The drain of the old parts
// does not end the new ones, and the begin of another copy is reported.
func TestPartsOfALoadBeforeAreLeft(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		first := s.shop.reads
		s.shop.scan = func(ctx context.Context) error {
			if first++; first == 3 {
				s.change(ctx, func(state *checkpoint.TableState) { state.Load.Number = 2 })
			}
			return nil
		}
		s.check(s.work(ctx, time.Minute, false))
		if told := strings.Join(s.told, ", "); told != "started at 0, left, started at 0, left" {
			t.Error(told)
		}
		if parts := s.parts(ctx); len(parts) != 1 || parts[0].State != checkpoint.PartDone || parts[0].Items != 12 {
			t.Errorf("parts of the second load %+v", parts)
		}
	})
}

// The last save of a part finds that the ledger was replaced: that is not a clean stop.
func TestAStopHidesNoFatalErrorOfAPart(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		g := task.NewGroup(ctx, 0)
		g.Go("exchange", func(ctx context.Context) error {
			err := task.Sleep(ctx, 900*time.Millisecond)
			s.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, checkpoint.ErrLedgerExchanged }
			return err
		})
		if err := s.work(ctx, 1050*time.Millisecond, false); !errors.Is(err, checkpoint.ErrLedgerExchanged) {
			t.Errorf("it ends with %v", err)
		}
		s.check(g.Wait())
	})
}

// An unreadable position of a part is reported again and again, at growing intervals, under the
// lease that is still held. The lease is not released and acquired in a loop, and the copy does not
// start again.
func TestAPositionThatCannotBeReadIsToldAndWaitedFor(t *testing.T) {
	const secret = "customer-4711"
	for _, sweeping := range []bool{false, true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.sealed(ctx, 1)
			if sweeping {
				s.finish(ctx, checkpoint.PartProgress{})
				s.change(ctx, func(state *checkpoint.TableState) {
					state.Load.DoneAt = task.Now(ctx)
					state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 1, Approved: true, Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
				})
			}
			part := s.part(ctx, 0)
			s.check(part.Commit(ctx, checkpoint.PartProgress{Position: []byte(`"` + secret + `"`), Items: 3}))
			s.check(part.Release(ctx))
			var told []error
			s.Events.Retry = func(_, _ string, _ time.Duration, err error) { told = append(told, err) }
			g := task.NewGroup(ctx, 0)
			var held []checkpoint.Part
			g.Go("look", func(ctx context.Context) (err error) {
				err = task.Sleep(ctx, 59*time.Minute)
				phase, _ := s.state(ctx).RunningPhase()
				held, _ = s.Ledger.Parts(ctx, s.state(ctx), phase)
				return err
			})
			s.Reset()
			s.check(s.work(ctx, time.Hour, false))
			s.check(g.Wait())
			if len(told) < 60 || len(told) > 400 || !strings.Contains(fmt.Sprint(told), "position") || strings.Contains(fmt.Sprint(told), secret) || s.shop.reads > 0 {
				t.Errorf("sweeping %v: told %d times, %d pages were read", sweeping, len(told), s.shop.reads)
			}
			if len(held) != 1 || held[0].Owner != "w" || held[0].Epoch != 2 || !strings.Contains(held[0].Trouble.Cause, "progress of the copy") || held[0].Items != 3 {
				t.Errorf("sweeping %v: %+v", sweeping, held)
			}
		})
	}
}

// A missing table is described again, with pauses in between.
func TestPartsOfATableThatIsGoneRest(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 8)
		s.shop.scan = func(context.Context) error {
			return &cdc.Error{Op: "Scan", Reason: cdc.NotFound, Err: errors.New("no")}
		}
		s.check(s.work(ctx, 10*time.Minute, false))
		if s.shop.reads < 10 || s.shop.reads > 100 {
			t.Errorf("it was read %d times in ten minutes", s.shop.reads)
		}
		s.shop.scan = nil
		s.check(s.work(ctx, 3*time.Minute, false))
		if sums := checkpoint.PartsDone(s.parts(ctx), 8); !sums.Complete() || sums.Items != 12 {
			t.Errorf("in the end %+v", sums)
		}
	})
}

// A stop ends the waits between two attempts of a load. They last up to most of a minute, which is
// longer than the grace, and leases would not be released.
func TestAStopEndsTheWaitsOfALoad(t *testing.T) {
	throttled := &cdc.Error{Op: "any", Reason: cdc.Throttled, Err: errors.New("slow down")}
	for name, fail := range map[string]func(s *loadScene){
		"described": func(s *loadScene) { s.shop.describe = func() error { return throttled } },
		"read":      func(s *loadScene) { s.shop.scan = func(context.Context) error { return throttled } },
		"sealed": func(s *loadScene) {
			s.change(t.Context(), func(state *checkpoint.TableState) { state.Load = checkpoint.Load{AskedAt: enginetest.ListingsBegin} })
			s.shop.describe = func() error { return throttled }
		},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Limits.Read = &checkpoint.ReadLimit{Share: 0.5}
			s.sealed(ctx, 2)
			fail(s)
			families, began := len(s.target.Names), task.Mono(ctx)
			s.check(s.work(ctx, 10*time.Minute, true))
			if took := task.Mono(ctx) - began; took > 10*time.Minute+time.Second {
				t.Errorf("while it is %s: ended after %s", name, took)
			}
			for _, p := range s.parts(ctx) {
				if p.Owner != "" {
					t.Errorf("while it is %s: part %d is held still", name, p.Index)
				}
			}
			if len(s.target.Names) != families {
				t.Errorf("while it is %s: the fence is raised with every attempt: %q", name, s.target.Names)
			}
		})
	}
}

// TestH71_APartThatARaiseOvertookIsFenced: the generation rises after a page was read and before it
// is written. The page belongs to the previous load.
func TestH71_APartThatARaiseOvertookIsFenced(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.shop.scan = func(ctx context.Context) error {
			if s.shop.reads < 3 {
				return nil
			}
			if state := s.state(ctx); state.Generation == 2 {
				state, err := s.Ledger.Raise(ctx, "Orders", 2, checkpoint.DeclaredGap{Reason: "lost"}, nil)
				s.Floors.Raise("Orders", state.Generation)
				return err
			}
			return nil
		}
		s.check(s.work(ctx, time.Minute, false))
		if s.shop.reads != 3 || len(s.live(ctx)) != 2 {
			t.Errorf("%d pages are read, rows %q", s.shop.reads, s.live(ctx))
		}
	})
}

// The rows of a load are limited by an operator or, without that, by the configuration, whose limit
// may change meanwhile.
func TestTheRowsOfALoadAreBounded(t *testing.T) {
	number := func(n float64) *float64 { return &n }
	for name, c := range map[string]struct {
		configured, live, operator *float64
		shared                     *float64      // for several tables
		lasts                      time.Duration // at least, for 12 items; at most twice that
	}{
		"no bound":               {},
		"configured":             {configured: number(1), lasts: 8 * time.Second},
		"an operator's":          {configured: number(100), operator: number(1), lasts: 8 * time.Second},
		"an operator's is none":  {configured: number(1), operator: number(0)},
		"configured anew":        {configured: number(100), live: number(1), lasts: 8 * time.Second},
		"configured without one": {configured: number(1), live: number(0)},
		"shared by tables":       {configured: number(100), shared: number(1), lasts: 8 * time.Second},
		"shared, and others new": {configured: number(100), live: number(100), shared: number(1), lasts: 8 * time.Second},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Limits.RowsPerSecond = c.configured
			if c.live != nil {
				s.LiveLimits = func() checkpoint.Limits { return checkpoint.Limits{RowsPerSecond: c.live} }
			}
			if c.shared != nil {
				s.Spec.Rows = backfill.NewThrottle(*c.shared)
			}
			l := s.loader()
			limits := checkpoint.Limits{RowsPerSecond: c.operator}
			kind{l}.Pace(ctx, checkpoint.TableState{Limits: limits}, limits.Over(l.settings.limits()))
			began := task.Mono(ctx)
			for range 12 {
				_, _, err := l.loop.Limits.Take(ctx, ctx, 1, 0.5)
				s.check(err)
			}
			if took := task.Mono(ctx) - began; took < c.lasts || took > 2*c.lasts {
				t.Errorf("%s: it took %s", name, took)
			}
		})
	}
}

// If the rows of the parts cannot be read at first, the begin of the copy is still reported, once.
func TestACopyIsToldWhenItsPartsAreRead(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 2)
		fails := 3
		s.store.OnRead = func(_ context.Context, prefix string) error {
			if strings.HasPrefix(prefix, "load/part/") && fails > 0 {
				fails--
				return errors.New("no answer")
			}
			return nil
		}
		s.check(s.work(ctx, time.Minute, false))
		if told := strings.Join(s.told, ", "); told != "started at 0, left" || fails > 0 {
			t.Errorf("told %s", told)
		}
	})
}
