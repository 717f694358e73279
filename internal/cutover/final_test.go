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

// The driver itself compares a small table, once, while the workers compare a large one. In a
// rehearsal the workers compare both, because the application writes.
func TestTheDriverComparesSmallTables(t *testing.T) {
	for _, c := range []struct {
		items, rows int64
		rehearse    bool
		alone       []string
	}{
		{19_999, 99_999, false, []string{"Orders"}},
		{20_000, 0, false, nil},
		{10, 100_000, false, nil},
		{10, 10, true, nil},
	} {
		playScene(t, func(s *scene) {
			s.withItems("Orders", c.items, c.rows)
			p := plan()
			p.Rehearse = c.rehearse
			got := s.play(p)
			if want := map[bool]checkpoint.CutoverStep{true: checkpoint.CutoverRehearsed, false: checkpoint.CutoverWatching}[c.rehearse]; got.Step != want {
				t.Fatalf("%+v: %s (%s)", c, got.Step, got.Reason)
			}
			byWorkers := slices.Contains(s.begun, "Orders")
			if !slices.Equal(s.alone, c.alone) || byWorkers == (c.alone != nil) || !slices.Contains(s.begun, "Parts") || !got.Verified["Orders"].Clean() {
				t.Errorf("%+v: the driver compared %v, the workers %v; verified %+v", c, s.alone, s.begun, got.Verified)
			}
		})
	}
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
		if c.Step != checkpoint.CutoverWatching || times != 3 || !strings.Contains(strings.Join(s.failed, "\n"), "table Parts: DynamoDB denies Scan") {
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
