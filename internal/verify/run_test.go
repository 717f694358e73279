package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// A verify ends with the sums and findings of all its phases and parts: first by sums, then row by
// row. All of its data except the findings is then removed.
func TestAVerifyAddsUpItsPhases(t *testing.T) {
	for way, damaged := range map[verify.Way]bool{verify.Quiet: true, verify.Live: true, verify.Quiet + " ": false} {
		playScene(t, "abcdefghij", func(s *scene) {
			differing, want := 0, ""
			if damaged {
				s.Damage("orders", "c", "d", "pk", "x")
				s.Damage("orders", "e", "", "", "")
				s.Damage("orders", "z", "d", "pk", "x")
				differing, want = 3, "different c, missing e, foreign z"
			}
			s.begin(verify.Way(strings.TrimSpace(string(way))), verify.Scope{})
			began := s.Now()
			s.Must(s.run())
			v := s.Table("Orders").Verify
			r := v.Result
			if v.Running() || v.Number != 2 || r.Number != 2 || r.Items != 10 || r.Rows != 10 || r.Compared != 10 || r.Units < 10 || int(r.Differing()) != differing || s.found() != want {
				t.Errorf("%s: %+v found %s", way, r, s.found())
			}
			if r.Way != strings.TrimSpace(string(way)) || r.Why != "why" || !r.BegunAt.Equal(began) || r.EndedAt.Before(began) || r.EndedAt.After(s.Now()) || s.compared != 10 || len(s.told) > 0 {
				t.Errorf("%s: %+v, %d rows are told, %q", way, r, s.compared, s.told)
			}
			for _, kept := range []string{"sums/", "picked"} {
				if left, err := s.Ledger.VerifyData(s.Ctx, "Orders", 2, kept); err != nil || len(left) > 0 {
					t.Errorf("%s: %d of %s are left, %v", way, len(left), kept, err)
				}
			}
		})
	}
}

// A part that its worker released after a stop resumes at its saved position. Nothing is counted
// twice, and no finding of an earlier save is lost or overwritten.
func TestAPartIsGoneOnWith(t *testing.T) {
	for name, leave := range map[string][]time.Duration{"at once": nil, "while it sums": {25 * time.Minute}, "once": {75 * time.Minute}, "thrice": {22 * time.Minute, 50 * time.Minute, 15 * time.Minute}} {
		playScene(t, "abcdefghijklmnop", func(s *scene) {
			for _, row := range []string{"a", "e", "k", "p"} {
				s.Damage("orders", row, "d", "pk", "x")
			}
			s.begin(verify.Quiet, verify.Scope{})
			slots := &SumSlots{}
			s.pass = 15 * time.Second
			s.pages.each = 3 * time.Minute // so that waiting rows are checked again before the end
			for _, lasts := range leave {
				began := s.Now()
				s.Must(s.worker(slots, lasts))
				if took := s.Now().Sub(began); took < lasts || took > lasts+4*time.Minute {
					t.Errorf("%s: left after %s", name, took)
				}
				state := s.Table("Orders")
				parts, err := s.Ledger.VerifyParts(s.Ctx, state, state.Verify.Phase)
				s.Must(err)
				for _, p := range parts {
					if p.Owner != "" {
						t.Errorf("%s: part %d is held by %s", name, p.Index, p.Owner)
					}
				}
			}
			s.Must(s.worker(slots, 10*time.Hour))
			if r := s.Table("Orders").Verify.Result; r.Number != 2 || r.Different != 4 || r.Differing() != 4 || r.Items != 16 || r.Compared != 16 ||
				s.found() != "different a, different e, different k, different p" {
				t.Errorf("%s: %+v found %s", name, r, s.found())
			}
			if slots.taken.Load() != 0 {
				t.Errorf("%s: %d slots are taken", name, slots.taken.Load())
			}
		})
	}
}

// The reported numbers of compared rows add up to the result, whatever was saved in between by any
// process.
func TestWhatIsComparedIsToldOnce(t *testing.T) {
	playScene(t, "", func(s *scene) {
		for i := range 700 {
			s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item(fmt.Sprintf("%03d", i))))
		}
		s.Load("Orders")
		rate := 10.0
		s.spec.Limits = checkpoint.Limits{RowsPerSecond: &rate}
		s.begin(verify.Live, verify.Scope{Since: kit.Begin.Add(-time.Hour)})
		for range 2 {
			s.Must(s.worker(&SumSlots{}, 55*time.Second))
		}
		if !s.Table("Orders").Verify.Running() || s.compared == 0 || s.compared >= 700 {
			t.Errorf("%d rows are compared by those that left", s.compared)
		}
		s.Must(s.worker(&SumSlots{}, time.Hour))
		if r := s.Table("Orders").Verify.Result; r.Number != 2 || r.Compared != 700 || s.compared != 700 || !r.Since.Equal(kit.Begin.Add(-time.Hour)) {
			t.Errorf("%+v, %d rows are told", r, s.compared)
		}
		if s.waited[engine.LimitRows] < 10*time.Second {
			t.Errorf("it waited for %v", s.waited)
		}
	})
}

// Two concurrent processes have the same result as one, and each finding is found once.
func TestTwoProcessesShareAVerify(t *testing.T) {
	playScene(t, "abcdefghij", func(s *scene) {
		s.Damage("orders", "c", "d", "pk", "x")
		s.begin(verify.Live, verify.Scope{})
		g := task.NewGroup(s.Ctx, 0)
		for _, name := range []string{"one", "two"} {
			o := s.options()
			o.Ledger = s.Open(name)
			g.Go(name, func(ctx context.Context) error { return Run(ctx, o) })
		}
		s.Must(g.Wait())
		if r := s.Table("Orders").Verify.Result; r.Number != 2 || r.Items != 10 || r.Compared != 10 || s.compared != 10 || r.Differing() != 1 || s.found() != "different c" {
			t.Errorf("%+v, %d rows are told, found %s", r, s.compared, s.found())
		}
	})
}

// A part that no retry fixes ends a process that does nothing else, with the cause. A worker
// reports it and takes the part again.
func TestAPartThatFails(t *testing.T) {
	gone := &cdc.Error{Op: "Scan", Reason: cdc.NotFound, Err: errors.New("no such table")}
	playScene(t, "abc", func(s *scene) {
		s.begin(verify.Quiet, verify.Scope{})
		s.Source.Fail = func(call string) error {
			if call == "Scan" {
				return gone
			}
			return nil
		}
		if err := s.run(); !errors.Is(err, gone) || !s.Table("Orders").Verify.Running() {
			t.Errorf("it ends with %v", err)
		}
		slots := &SumSlots{}
		if s.told = nil; s.worker(slots, 2*time.Minute) != nil || len(s.told) == 0 || slots.taken.Load() != 0 {
			t.Errorf("told %q, %d slots are taken", s.told, slots.taken.Load())
		}
		s.Source.Fail = nil
		s.Must(s.worker(slots, time.Hour))
		if r := s.Table("Orders").Verify.Result; r.Number != 2 || r.Items != 3 {
			t.Errorf("%+v", r)
		}
	})
	// A replaced ledger ends it as well, because nothing else in the process checks that.
	playScene(t, "abc", func(s *scene) {
		s.begin(verify.Quiet, verify.Scope{})
		s.StopWorker()
		s.Sleep(time.Minute)
		s.Store.Clear()
		if err := s.run(); !errors.Is(err, checkpoint.ErrLedgerExchanged) {
			t.Errorf("it ends with %v", err)
		}
	})
	// Committed changes are not applied within the process's patience: no worker follows the table.
	playScene(t, "abc", func(s *scene) {
		s.StopWorker()
		s.Sleep(time.Minute)
		s.Damage("orders", "b", "d", "pk", "x")
		s.begin(verify.Live, verify.Scope{})
		s.patience = 90 * time.Second
		began := s.Now()
		var late *verify.NotApplied
		if err := s.run(); !errors.As(err, &late) || late.Waited < s.patience || s.Now().Sub(began) > 3*time.Minute {
			t.Errorf("after %s: %v", s.Now().Sub(began), err)
		}
	})
}

// A process that is asked to end returns that cause. If the caller passes Over, it decides when the
// work is over.
func TestTheEndOfARun(t *testing.T) {
	playScene(t, "abc", func(s *scene) {
		s.pages.each = time.Minute
		s.begin(verify.Quiet, verify.Scope{})
		stopped := errors.New("stopped")
		ctx, stop := context.WithCancelCause(s.Ctx)
		s.World.Go("stop", func(ctx context.Context) { _ = task.Sleep(ctx, 30*time.Second); stop(stopped) })
		began := s.Now()
		if err := Run(ctx, s.options()); !errors.Is(err, stopped) || s.Now().Sub(began) > time.Minute {
			t.Errorf("after %s: %v", s.Now().Sub(began), err)
		}
		looks := 0
		s.over = func(checkpoint.TableState) bool { looks++; return looks == 3 }
		if err := s.run(); err != nil || looks != 3 || !s.Table("Orders").Verify.Running() {
			t.Errorf("after %d looks: %v", looks, err)
		}
	})
}

// No part is taken of a paused verify, of a suspended table, or of a verify that was begun under
// another mapping. Under another mapping the process would compare with other rows.
func TestWhichVerifiesAreWorkedOn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *checkpoint.TableState)
		works  bool
	}{
		"under way":       {func(*checkpoint.TableState) {}, true},
		"paused":          {func(s *checkpoint.TableState) { s.Verify.Paused = "an operator" }, false},
		"suspended":       {func(s *checkpoint.TableState) { s.Suspended.Reason = "its mapping" }, false},
		"another mapping": {func(s *checkpoint.TableState) { s.Verify.MappingHash = "other" }, false},
		"a newer mapping": {func(s *checkpoint.TableState) { s.MappingHash, s.Verify.MappingHash = "newer", "newer" }, false},
		"over":            {func(s *checkpoint.TableState) { s.Verify.Phase = 0 }, false},
	} {
		playScene(t, "abc", func(s *scene) {
			s.begin(verify.Quiet, verify.Scope{})
			s.Change("Orders", c.change)
			before := s.Table("Orders").Verify.Result.Number
			s.over = func(state checkpoint.TableState) bool { return state.Verify.Result.Number > before }
			began := s.Now()
			s.World.Go("give up", func(ctx context.Context) {
				_ = task.Sleep(ctx, time.Minute)
				s.over = nil
			})
			o := s.options()
			o.Over = func(state checkpoint.TableState) bool { return s.over == nil || s.over(state) }
			s.Must(Run(s.Ctx, o))
			parts, err := s.Ledger.VerifyParts(s.Ctx, s.Table("Orders"), 1)
			s.Must(err)
			begun := s.Table("Orders").Verify.Result.Number > before
			for _, p := range parts {
				begun = begun || p.Epoch > 0
			}
			if begun != c.works || c.works && s.Now().Sub(began) > 50*time.Second {
				t.Errorf("%s: parts are taken: %t", name, begun)
			}
		})
	}
}

// A row that replicator did not write is extra if replicator owns every row of the table: by the
// configuration, or because it created the table.
func TestWhoseRowsAreExtra(t *testing.T) {
	for name, c := range map[string]struct{ owned, made bool }{"foreign": {}, "by configuration": {owned: true}, "made by us": {made: true}} {
		playScene(t, "abc", func(s *scene) {
			s.Change("Orders", func(state *checkpoint.TableState) { state.MadeByUs = c.made })
			s.Damage("orders", "z", "d", "pk", "x")
			s.spec.Owned = c.owned
			s.begin(verify.Live, verify.Scope{})
			s.Must(s.run())
			want := map[bool]string{false: "foreign z", true: "extra z"}[c.owned || c.made]
			if found := s.found(); found != want {
				t.Errorf("%s: found %s", name, found)
			}
		})
	}
}

// The second check comes a while after committed changes are applied. A drain ends the wait for
// both.
func TestARunWaitsForItsSecondLook(t *testing.T) {
	for _, settle := range []time.Duration{0, 10 * time.Minute} {
		playScene(t, "abc", func(s *scene) {
			s.Damage("orders", "b", "d", "pk", "x")
			s.spec.Settle = settle
			s.begin(verify.Live, verify.Scope{})
			began := s.Now()
			if settle > 0 {
				if s.Must(s.worker(&SumSlots{}, time.Minute)); s.Now().Sub(began) > 2*time.Minute || !s.Table("Orders").Verify.Running() {
					t.Errorf("drained after %s", s.Now().Sub(began))
				}
			}
			s.Must(s.run())
			if took := s.Now().Sub(began); took < settle || took > settle+3*time.Minute || s.found() != "different b" {
				t.Errorf("settle %s: found %s after %s", settle, s.found(), took)
			}
		})
	}
}

// Read units are limited like a load's, and so are the rows read from the target. A drain does not
// wait for them, and is no failure.
func TestAVerifyIsPaced(t *testing.T) {
	one := 1.0
	for name, c := range map[string]struct {
		limits checkpoint.Limits
		reason string
	}{
		"units": {checkpoint.Limits{Read: &checkpoint.ReadLimit{Units: 0.5}}, engine.LimitUnits},
		"rows":  {checkpoint.Limits{RowsPerSecond: &one}, engine.LimitRows},
	} {
		playScene(t, "abcdefghijklmnopqrst", func(s *scene) {
			s.spec.Limits = c.limits
			s.begin(verify.Quiet, verify.Scope{})
			began := s.Now()
			s.Must(s.worker(&SumSlots{}, 5*time.Second))
			if took := s.Now().Sub(began); took > 8*time.Second || len(s.told) > 0 {
				t.Errorf("%s: drained after %s, told %q", name, took, s.told)
			}
			began = s.Now()
			s.Must(s.run())
			if took := s.Now().Sub(began); took < 10*time.Second || s.waited[c.reason] < 5*time.Second {
				t.Errorf("%s: it took %s, waited %v", name, took, s.waited)
			}
		})
	}
}

// If an application writes the target too, its delay is used to explain differences.
func TestLateWritesExplainDifferences(t *testing.T) {
	for _, late := range []time.Duration{0, time.Minute} {
		playScene(t, "abc", func(s *scene) {
			s.Damage("orders", "b", sink.LiveFamily, "", "")
			s.spec.Late = late
			s.begin(verify.Live, verify.Scope{})
			s.Must(s.run())
			all, err := verify.Findings(s.Ctx, s.Ledger, "Orders", s.Table("Orders").Verify.Result)
			s.Must(err)
			if len(all) != 1 || strings.Contains(all[0].Reason, "application") != (late > 0) {
				t.Errorf("late by %s: %+v", late, all[0].Reason)
			}
		})
	}
}

// A process computes sums of at most two parts at a time, over all tables. A worker works on one to
// four parts of a table.
func TestHowManyPartsAtOnce(t *testing.T) {
	slots := (&Slots{}).slots()
	for i, want := range []bool{true, true, false, false} {
		if got := slots.take(); got != want {
			t.Errorf("the slot number %d is free: %t", i+1, got)
		}
	}
	if slots.leave(); !slots.take() || slots.take() {
		t.Error("a slot that was left is not free, or more than one is")
	}
	if of := (*Slots)(nil).slots(); !of.take() {
		t.Error("without shared slots none is free")
	}
	shared := &Slots{}
	if first := shared.slots(); shared.slots() != first {
		t.Error("two tables share no slots")
	}
	playScene(t, "a", func(s *scene) {
		for segments, want := range map[int]int{0: 1, 1: 1, 3: 3, 4: 4, 9: 4} {
			s.spec.Segments = segments
			p := engine.NewWorker(&engine.Options{Ledger: s.Ledger, Floors: &engine.Floors{}}, func(error) {})
			if got := NewVerifier(engine.NewTable(p, s.spec), s.Target, func() int { return 1 }, slots).loop.AtOnce; got != want {
				t.Errorf("%d segments: %d parts at once", segments, got)
			}
		}
	})
}

// While parts of other tables compute sums, a further part waits for its turn, and that is no
// failure.
func TestSumsWaitForTheirTurn(t *testing.T) {
	playScene(t, "abc", func(s *scene) {
		s.begin(verify.Quiet, verify.Scope{})
		slots := &SumSlots{}
		for slots.take() {
		}
		s.Must(s.worker(slots, 30*time.Second))
		parts, err := s.Ledger.VerifyParts(s.Ctx, s.Table("Orders"), 1)
		s.Must(err)
		for _, p := range parts {
			if p.Epoch > 0 || len(s.told) > 0 {
				t.Errorf("part %d is taken, told %q", p.Index, s.told)
			}
		}
		slots.leave()
		if s.Must(s.worker(slots, time.Hour)); s.Table("Orders").Verify.Running() {
			t.Error("it is not gone on with")
		}
	})
	playScene(t, "abc", func(s *scene) {
		s.begin(verify.Quiet, verify.Scope{Since: s.Now().Add(-time.Hour)})
		slots := &SumSlots{}
		for slots.take() {
		}
		if s.Must(s.worker(slots, time.Minute)); s.Table("Orders").Verify.Running() {
			t.Error("a part without sums waits too")
		}
	})
}
