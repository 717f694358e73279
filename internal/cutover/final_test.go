package cutover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// withItems sets how much the last full verify of a table read.
func (s *scene) withItems(source string, items, rows int64) {
	s.Change(source, func(st *checkpoint.TableState) { st.Verify.Full.Items, st.Verify.Full.Rows = items, rows })
}

// The driver itself compares a small table. Of a large one the workers recheck all changes, from
// before a full verify that runs beside the application; at last the driver compares a sample.
func TestHowLargeTablesAreCompared(t *testing.T) {
	for _, c := range []struct {
		items, rows int64
		large       bool
	}{{19_999, 99_999, false}, {20_000, 0, true}, {10, 100_000, true}} {
		playScene(t, func(s *scene) {
			s.full = checkpoint.VerifyCounts{Items: c.items, Rows: c.rows}
			s.withItems("Orders", c.items, c.rows)
			frozen := time.Time{}
			s.answers(FreezeWrites, func(Call) (string, Outcome) { frozen = s.Now(); return "", HookDone })
			got := s.play(plan())
			s.expect(got, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
			state, r := s.Table("Orders"), got.Verified["Orders"]
			if !c.large {
				if s.begun != nil || state.Recheck.Verify != 0 || !slices.Equal(s.alone, []string{"Orders", "Parts"}) {
					t.Errorf("%+v: verifies begun %v, rechecks %+v, the driver compared %v", c, s.begun, state.Recheck, s.alone)
				}
				return
			}
			if !slices.Equal(s.begun, []string{"Orders"}) || state.Verify.Full.EndedAt.After(frozen) || state.Recheck.Verify != state.Verify.Full.Number || !slices.Equal(s.alone, []string{"Parts"}) {
				t.Errorf("%+v: verifies begun %v, the last one ended %s, frozen %s, rechecks %+v, the driver compared %v", c, s.begun, state.Verify.Full.EndedAt, frozen, state.Recheck, s.alone)
			}
			if r.Number != 0 || !r.Clean() || r.Items != max(c.items, 1000) && r.Items != c.items || !r.EndedAt.After(frozen) || !r.BegunAt.Before(frozen) || !strings.Contains(r.Why, "all rows by verify 2, then the rows of every change, at last ") {
				t.Errorf("%+v: the evidence says %+v", c, r)
			}
		})
	}
}

// A rehearsal compares small tables by the workers, because the application writes. It rechecks large
// ones, without a sample.
func TestARehearsalCompares(t *testing.T) {
	playScene(t, func(s *scene) {
		s.full = checkpoint.VerifyCounts{Items: 20_000}
		s.withItems("Orders", 20_000, 0)
		p := plan()
		p.Rehearse = true
		c := s.play(p)
		if c.Step != checkpoint.CutoverRehearsed || !slices.Equal(s.begun, []string{"Orders", "Parts"}) || s.alone != nil || s.samples > 0 {
			t.Errorf("%s (%s), verifies begun %v, the driver compared %v and %d samples", c.Step, c.Reason, s.begun, s.alone, s.samples)
		}
	})
}

// What a full verify beside the application finds, cancels before the freeze, as do rows that the
// sample at last finds, after it.
func TestWhatTheComparisonsOfALargeTableFind(t *testing.T) {
	playScene(t, func(s *scene) {
		s.full = checkpoint.VerifyCounts{Items: 20_000, Missing: 1}
		s.withItems("Parts", 20_000, 0)
		s.expect(s.play(plan()), checkpoint.CutoverCancelled, "gate verify of table Parts is not ready: 1 row differs")
	})
	playScene(t, func(s *scene) {
		s.full = checkpoint.VerifyCounts{Items: 20_000}
		s.withItems("Parts", 20_000, 0)
		s.sample = checkpoint.VerifyCounts{Different: 2}
		s.expect(s.play(plan()), checkpoint.CutoverCancelled, "table Parts: result of the final verify: 2 rows differ", FreezeWrites, UnfreezeWrites)
	})
}

// In mode topic a worker does not know when its changes are written: a large table is compared as a
// whole by the workers, while writes are frozen.
func TestALargeTableInModeTopic(t *testing.T) {
	playScene(t, func(s *scene) {
		s.withItems("Orders", 20_000, 0)
		s.Change("Orders", func(st *checkpoint.TableState) { st.Apply = checkpoint.Topic })
		v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault()}
		c := checkpoint.Cutover{Attempt: 1, CutoverPlan: plan()}
		waits, why, err := v.recheck(s.Ctx, c, s.Now())
		f, failed := v.final(s.Ctx, c, "Orders", s.Now())
		if waits+why != "" || err != nil || failed != nil || f.begun != 2 || s.Table("Orders").Recheck.Verify != 0 {
			t.Errorf("waits %q, cancels %q, %v; final %+v, %v", waits, why, err, f, failed)
		}
		c.Finals = map[string]uint32{"Orders": 2}
		if f, failed = v.final(s.Ctx, c, "Orders", s.Now()); failed != nil || f.waits != "the final verify is running" {
			t.Errorf("while it runs: %+v, %v", f, failed)
		}
		_, err = s.Ledger.CancelVerify(s.Ctx, "Orders")
		s.Must(err)
		if f, failed = v.final(s.Ctx, c, "Orders", s.Now()); failed != nil || f.begun != 3 {
			t.Errorf("after it was cancelled: %+v, %v", f, failed)
		}
		s.Sleep(time.Minute)
		c.Finals["Orders"] = 3
		if f, failed = v.final(s.Ctx, c, "Orders", s.Now()); failed != nil || f.result.Number != 3 || f.why != "" {
			t.Errorf("when it has ended: %+v, %v", f, failed)
		}
	})
}

// All small tables are compared at the same time, and what differs cancels.
func TestSmallTablesAreComparedSideBySide(t *testing.T) {
	playScene(t, func(s *scene) {
		s.withItems("Orders", 10, 10)
		s.withItems("Parts", 10, 10)
		c := s.play(plan())
		took := c.Verified["Parts"].EndedAt.Sub(c.Verified["Orders"].BegunAt)
		if c.Step != checkpoint.CutoverWatching || len(s.begun) > 0 || took != time.Second {
			t.Errorf("%s (%s) after %s, by workers %v", c.Step, c.Reason, took, s.begun)
		}
	})
	playScene(t, func(s *scene) {
		s.withItems("Parts", 10, 10)
		s.final = func(source string) (r checkpoint.VerifyResult) {
			if source == "Parts" {
				r.Missing = 1
			}
			return r
		}
		s.expect(s.play(plan()), checkpoint.CutoverCancelled, "table Parts: result of the final verify: 1 row differs", FreezeWrites, UnfreezeWrites)
	})
}

// A comparison that fails is repeated until the deadline of the step, and the record says why.
func TestAComparisonThatFails(t *testing.T) {
	playScene(t, func(s *scene) {
		s.withItems("Parts", 10, 10)
		denied, times := errors.New("DynamoDB denies Scan"), 0
		s.driver.Verifier = failing{s, func() error {
			if times++; times > 2 {
				return nil
			}
			return denied
		}}
		c := s.play(plan())
		if c.Step != checkpoint.CutoverWatching || times != 4 || !strings.Contains(strings.Join(s.failed, "\n"), "DynamoDB denies Scan") {
			t.Errorf("%s (%s) after %d comparisons, failures %q", c.Step, c.Reason, times, s.failed)
		}
	})
	playScene(t, func(s *scene) {
		s.withItems("Parts", 10, 10)
		s.driver.Verifier = failing{s, func() error { return errors.New("DynamoDB denies Scan") }}
		s.expect(s.play(plan()), checkpoint.CutoverCancelled, "DynamoDB denies Scan", FreezeWrites, UnfreezeWrites)
	})
}

// failing is a Verifier whose own comparisons fail as fails says.
type failing struct {
	*scene
	fails func() error
}

func (f failing) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	if err := f.fails(); err != nil {
		return checkpoint.VerifyResult{}, err
	}
	return f.scene.Compare(ctx, state)
}
