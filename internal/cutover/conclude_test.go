package cutover

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// What follows from the final comparisons of two tables. A table that must not be switched counts
// most, then verifies that have just begun, then failures, and then what is still running.
func TestWhatFollowsFromTheFinalComparisons(t *testing.T) {
	now := kit.Noon
	clean := func(number uint32, items int64) checkpoint.VerifyResult {
		return checkpoint.VerifyResult{Number: number, EndedAt: now, VerifyCounts: checkpoint.VerifyCounts{Items: items}}
	}
	away := errors.New("away")
	for name, c := range map[string]struct {
		finals   map[string]uint32 // of passes before
		late     bool              // the time of the freeze is over
		found    []final
		step     checkpoint.CutoverStep
		reason   string
		trouble  string
		begun    map[string]uint32
		verified int
		compared int // results that the driver keeps for its next pass
		failed   bool
	}{
		"both are clean":            {nil, false, []final{{result: clean(0, 3)}, {result: clean(4, 5)}}, checkpoint.CutoverFence, "", "", nil, 2, 1, false},
		"one must not be switched":  {nil, false, []final{{begun: 3}, {why: "rows differ"}}, checkpoint.CutoverCancelling, "table Parts: rows differ", "", nil, 0, 0, false},
		"neither must":              {nil, false, []final{{why: "one"}, {why: "two"}}, checkpoint.CutoverCancelling, "table Orders: one", "", nil, 0, 0, false},
		"a failure hides no reason": {nil, false, []final{{failed: away}, {why: "two"}}, checkpoint.CutoverCancelling, "table Parts: two", "", nil, 0, 0, false},
		"one has begun":             {map[string]uint32{"Parts": 2}, false, []final{{begun: 3}, {waits: "it runs"}}, checkpoint.CutoverVerify, "", "", map[string]uint32{"Orders": 3, "Parts": 2}, 0, 0, false},
		"both have begun":           {nil, false, []final{{begun: 3}, {begun: 4}}, checkpoint.CutoverVerify, "", "", map[string]uint32{"Orders": 3, "Parts": 4}, 0, 0, false},
		"a verify begins anew":      {map[string]uint32{"Orders": 2, "Parts": 2}, false, []final{{begun: 3}, {result: clean(2, 1)}}, checkpoint.CutoverVerify, "", "", map[string]uint32{"Orders": 3, "Parts": 2}, 0, 0, false},
		"one has failed":            {nil, false, []final{{result: clean(0, 3)}, {failed: away}}, checkpoint.CutoverVerify, "", "the final comparison failed and is repeated: table Parts: away", nil, 0, 1, true},
		"it runs":                   {map[string]uint32{"Parts": 2}, true, []final{{result: clean(0, 3)}, {waits: "it runs"}}, checkpoint.CutoverVerify, "", "table Parts: it runs", map[string]uint32{"Parts": 2}, 0, 1, false},
		"both run":                  {map[string]uint32{"Parts": 2}, false, []final{{waits: "one"}, {waits: "two"}}, checkpoint.CutoverVerify, "", "table Orders: one", map[string]uint32{"Parts": 2}, 0, 0, false},
		"rows are rechecked":        {nil, false, []final{{waits: "one"}, {result: clean(0, 3)}}, checkpoint.CutoverVerify, "", "table Orders: one", nil, 0, 1, false},
		"and the time is over":      {nil, true, []final{{waits: "one"}, {result: clean(0, 3)}}, checkpoint.CutoverCancelling, "the freeze would last longer than 8s (table Orders: one)", "", nil, 0, 1, false},
	} {
		playScene(t, func(s *scene) {
			s.start(brief(1))
			s.Must(s.Update(func(k *checkpoint.Cutover) error {
				k.Step, k.Finals, k.FreezeBegunAt, k.FrozenAt = checkpoint.CutoverVerify, c.finals, now, now
				return nil
			}))
			at := now.Add(9 * time.Second)
			if c.late {
				at = now.Add(12 * time.Second)
			}
			v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault(), finals: finals{compared: map[string]checkpoint.VerifyResult{}}}
			v.draining.rest = 3 * time.Second
			before := s.Cutover()
			err := v.conclude(s.Ctx, before, at, c.found)
			got := s.Cutover()
			if got.Step != c.step || got.Reason != c.reason || got.Trouble != c.trouble || !maps.Equal(got.Finals, c.begun) || len(got.Verified) != c.verified || len(v.compared) != c.compared || errors.Is(err, away) != c.failed || err != nil && !c.failed {
				t.Errorf("%s: %s because of %q, trouble %q, begun %v, verified %v, kept %v, %v", name, got.Step, got.Reason, got.Trouble, got.Finals, got.Verified, v.compared, err)
			}
			for i, source := range got.Tables {
				if r, found := got.Verified[source]; found && r != c.found[i].result {
					t.Errorf("%s: table %s has the result %+v", name, source, r)
				}
			}
			if v.advanced != (c.step == checkpoint.CutoverFence || c.late && c.reason != "") {
				t.Errorf("%s: advanced %t", name, v.advanced)
			}
		})
	}
}

// Workers are asked for rechecks in good time: for two hours, and again when less than one of these
// is left.
func TestHowLongRechecksAreAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		left, want time.Duration
		known      bool // the workers were asked before
	}{"never": {0, 2 * time.Hour, false}, "enough": {time.Hour, time.Hour, true}, "not enough": {time.Hour - 1, 2 * time.Hour, true}, "too late": {-1, 2 * time.Hour, true}} {
		playScene(t, func(s *scene) {
			s.withItems("Orders", 30_000, 0)
			now := s.Now()
			s.Change("Orders", func(st *checkpoint.TableState) {
				if c.known {
					st.BeginRecheck(now.Add(c.left))
				}
			})
			v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault()}
			waits, why, err := v.recheckTable(s.Ctx, s.Table("Orders"), now)
			if got := s.Table("Orders").Recheck; err != nil || waits == "" || why != "" || !got.Until.Equal(now.Add(c.want)) || got.Verify == 0 {
				t.Errorf("%s: until %s from now, verify %d, %q, %q, %v", name, got.Until.Sub(now), got.Verify, waits, why, err)
			}
		})
	}
}

// Rows that differ are counted in all shards of the stream, and in no shard of another one.
func TestDifferingRowsAreCountedInAllShards(t *testing.T) {
	s, shards := rechecking()
	other := shards[0]
	other.ID, other.Label, other.Rechecked.Differing, other.Rechecked.Through = "other", "former", 7, cdc.SequenceOf(1)
	late := shards[0]
	late.ID, late.Rechecked.Differing = "late", 2
	shards[0].Rechecked.Differing = 1
	shards = append(shards, other, late)
	if got := recheckOf(s, shards, kit.Noon); got != (rechecked{waits: "rows of changed items differ: 3"}) {
		t.Errorf("%+v", got)
	}
	if got := recheckedTo(s, shards, nil); got != "rows of changed items differ: 3" {
		t.Errorf("%q", got)
	}
	shards[0].Rechecked.Differing, shards[3].Rechecked.Differing = 0, 0
	if got := recheckedTo(s, shards, []checkpoint.CutoverProof{{Table: "T", Shard: "other", Position: "9"}, {Table: "T", Shard: "late", Position: "10"}, {Table: "T", Shard: "open", Position: "10"}}); got != "the last changes of 2 shards are not compared again yet" {
		t.Errorf("%q", got)
	}
}

// The results of a former try count nothing for the next one, because the application wrote
// meanwhile. Those of this try are not made again.
func TestResultsOfAFormerTryAreMadeAgain(t *testing.T) {
	for of, want := range map[uint32]string{1: "[Orders Parts]", 2: "[Parts]"} {
		playScene(t, func(s *scene) {
			s.start(brief(1))
			s.Must(s.Update(func(c *checkpoint.Cutover) error {
				c.Attempt, c.Step, c.StepAt, c.FrozenAt = 2, checkpoint.CutoverVerify, s.Now(), s.Now()
				return nil
			}))
			lease, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
			s.Must(err)
			held, err := s.Ledger.TakeCoordinatorLease(s.Ctx, lease)
			s.Must(err)
			v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault(), held: held}
			kept := s.Table("Orders").Verify.Full
			kept.Number = 0
			v.finals = finals{of: of, compared: map[string]checkpoint.VerifyResult{"Orders": kept}, compares: task.NewLimit(1)}
			err = v.verify(s.Ctx, s.Cutover(), s.Now())
			if got := s.Cutover(); err != nil || got.Step != checkpoint.CutoverFence || len(got.Verified) != 2 || fmt.Sprint(s.alone) != want {
				t.Errorf("results of attempt %d: %s, %s, compared %v, want %s, %v", of, got.Step, got.Reason, s.alone, want, err)
			}
			held.Abandon()
		})
	}
}

// Each write of a canary is another item, also if the same process drives again: DynamoDB publishes
// no change for a write that changes nothing.
func TestEachWriteOfACanaryIsAnotherItem(t *testing.T) {
	playScene(t, func(s *scene) {
		seen := map[string]bool{}
		for range 2 {
			lease, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
			s.Must(err)
			held, err := s.Ledger.TakeCoordinatorLease(s.Ctx, lease)
			s.Must(err)
			v := &drive{Driver: s.driver, held: held}
			for i := range 2 {
				if text := v.once(i); seen[text] {
					t.Errorf("%q is written twice", text)
				} else {
					seen[text] = true
				}
			}
			s.Must(held.Release(s.Ctx))
		}
	})
}
