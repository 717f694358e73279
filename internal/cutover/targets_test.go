package cutover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// schemas are the target tables' schemas. Drop is called before each drop, and its error is returned.
type schemas struct {
	sink.Families
	drop func(table, family string) error
}

func (f schemas) DropFamily(ctx context.Context, table, family string) error {
	if err := f.drop(table, family); err != nil {
		return err
	}
	return f.Families.DropFamily(ctx, table, family)
}

// The application is switched once the fences of all targets are dropped. One that cannot be dropped
// ends the attempt, whichever target it is of.
func TestTheFenceIsOfEveryTarget(t *testing.T) {
	for _, target := range plan().Targets {
		for _, denied := range []bool{false, true} {
			playScene(t, func(s *scene) {
				var until time.Time
				s.driver.Fence.Families = schemas{s.Target, func(table, _ string) error {
					switch {
					case table != target || s.Cutover().Step != checkpoint.CutoverFence:
					case denied:
						return &sink.Error{Code: "PermissionDenied"}
					case until.IsZero():
						until = s.Now().Add(time.Minute)
						return errAway
					case s.Now().Before(until):
						return errAway
					}
					return nil
				}}
				s.answers(Switch, func(Call) (string, Outcome) {
					if left := slices.DeleteFunc(slices.Clone(s.Target.Families[target]), func(name string) bool { return !sink.IsFence(name) }); len(left) > 0 || s.Now().Before(until) {
						t.Errorf("the application switches while %s has %v", target, left)
					}
					return "", HookDone
				})
				p := plan()
				p.FenceFirst = true
				got := s.play(p)
				if denied {
					s.expect(got, checkpoint.CutoverCancelled, "late writes to "+target+" cannot be rejected", FreezeWrites, UnfreezeWrites)
				} else if s.expect(got, checkpoint.CutoverWatching, "", FreezeWrites, Switch); until.IsZero() {
					t.Errorf("no fence of %s is dropped", target)
				}
			})
		}
	}
}

// While the witness of a table names a number, its application writes under that number, and it is not
// dropped. That holds if a witness cannot be written, once or for long.
func TestNoNumberIsDroppedThatAWitnessNames(t *testing.T) {
	for _, fails := range append([]string{""}, plan().Tables...) {
		for _, once := range []bool{false, true} {
			playScene(t, func(s *scene) {
				published := func(target string) string {
					found, _, err := s.Ledger.Target(s.Ctx, target)
					s.Must(err)
					return sink.FenceFamily(s.Ledger.ID(), found.Fence)
				}
				names, before, calls := map[[2]string]string{}, map[string]string{}, map[string]int{}
				for _, target := range plan().Targets {
					before[target] = published(target)
					for _, source := range plan().Tables {
						names[[2]string{source, target}] = before[target]
					}
				}
				s.driver.Announce = func(_ context.Context, source, target string) error {
					family := published(target)
					if calls[target]++; source == fails && family != before[target] && (!once || calls[target] < 5) {
						return errAway
					}
					names[[2]string{source, target}] = family
					return nil
				}
				drops := 0
				s.driver.Fence.Families = schemas{s.Target, func(target, family string) error {
					if s.Cutover().Step != checkpoint.CutoverChecks {
						return nil // the application has switched
					}
					drops++
					for _, source := range plan().Tables {
						if names[[2]string{source, target}] == family {
							t.Errorf("%s is dropped in %s, where the witness of %s names it", family, target, source)
						}
					}
					return nil
				}}
				s.start(plan())
				s.driveFor(time.Minute)
				if drops > 0 != (once || fails == "") {
					t.Errorf("the witness of %q fails, once: %t: %d drops", fails, once, drops)
				}
			})
		}
	}
}

// A request that was never answered while the fence was raised is forgotten before the freeze: its
// number is dropped, and another one raised. The records of other processes change nothing.
func TestADoubtAmongSeveralWritersIsForgotten(t *testing.T) {
	for _, doubtful := range []string{"first", "second"} {
		playScene(t, func(s *scene) {
			writers := map[string]*writer{"first": s.hire("first"), "second": s.hire("second")}
			before, _, err := s.Ledger.Target(s.Ctx, "orders")
			s.Must(err)
			doubted := uint64(0)
			s.World.Go("write", func(ctx context.Context) {
				for doubted == 0 && task.Sleep(ctx, 100*time.Millisecond) == nil {
					if now, _, err := s.Ledger.Target(ctx, "orders"); err == nil && now.Fence > before.Fence {
						doubted = now.Fence
					}
				}
				for name, w := range writers {
					if name == doubtful {
						w.answer = &sink.Error{Reason: sink.Unknown}
					}
					if err := w.write(s); sink.Is(err, sink.Unknown) != (name == doubtful) {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
			got := s.play(plan())
			s.expect(got, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
			if doubted == 0 || got.Raised["orders"] <= doubted {
				t.Errorf("%s doubts a request under %d, and the attempt is written under %d", doubtful, doubted, got.Raised["orders"])
			}
		})
	}
}

// One process that has not said goodbye is enough, whichever process is listed after it, and so is one
// target. Each target has a number of its own.
func TestH145_OneWriterOrOneTargetIsEnough(t *testing.T) {
	const attempt = 3
	c := checkpoint.Cutover{Attempt: attempt, CutoverPlan: checkpoint.CutoverPlan{Targets: []string{"low", "high"}}, Raised: map[string]uint64{"low": 7, "high": 12}}
	under := func(low, high checkpoint.Writing) map[string]checkpoint.Writing {
		return map[string]checkpoint.Writing{"low": low, "high": high}
	}
	old, holds := under(checkpoint.Writing{Number: 6, Doubt: 6}, checkpoint.Writing{Number: 11, Doubt: 11}), under(checkpoint.Writing{Number: 7}, checkpoint.Writing{Number: 12})
	gone := checkpoint.Writer{Worker: "gone", Goodbye: attempt, Targets: holds}
	dropped := checkpoint.Writer{Worker: "dropped", Targets: old}
	for name, w := range map[string]struct {
		is               checkpoint.Writer
		silent, doubtful bool
	}{
		"goodbye of both":         {checkpoint.Writer{Goodbye: attempt, Targets: holds}, false, false},
		"numbers that are gone":   {checkpoint.Writer{Targets: old}, false, false},
		"silent in both":          {checkpoint.Writer{Targets: holds}, true, false},
		"silent in the first":     {checkpoint.Writer{Targets: under(holds["low"], old["high"])}, true, false},
		"silent in the second":    {checkpoint.Writer{Targets: under(old["low"], holds["high"])}, true, false},
		"in doubt in the first":   {checkpoint.Writer{Goodbye: attempt, Targets: under(checkpoint.Writing{Number: 7, Doubt: 7}, holds["high"])}, false, true},
		"in doubt in the second":  {checkpoint.Writer{Goodbye: attempt, Targets: under(holds["low"], checkpoint.Writing{Number: 12, Doubt: 12})}, false, true},
		"a doubt that is dropped": {checkpoint.Writer{Goodbye: attempt, Targets: under(holds["low"], checkpoint.Writing{Number: 12, Doubt: 11})}, false, false},
	} {
		w.is.Worker = "w"
		for _, targets := range [][]string{{"low", "high"}, {"high", "low"}} {
			c.Targets = targets
			for _, all := range [][]checkpoint.Writer{{w.is}, {w.is, gone, dropped}, {gone, dropped, w.is}} {
				if silent, doubtful := judgeWriters(c, all, time.Unix(1e9, 0)); (silent != "") != w.silent || (doubtful != "") != w.doubtful {
					t.Errorf("%s, targets %s, %d writers: silent %q, in doubt %q", name, strings.Join(targets, " "), len(all), silent, doubtful)
				}
			}
		}
	}
}

// A drain ends once every table is drained, whichever is the last.
func TestEveryTableIsDrained(t *testing.T) {
	for _, source := range plan().Tables {
		playScene(t, func(s *scene) {
			s.Source.BlindIn = source
			s.start(plan())
			c := s.driveFor(5 * time.Minute)
			if c.Step != checkpoint.CutoverDrain || !strings.HasPrefix(c.Trouble, "table "+source+": ") {
				t.Errorf("%s is not drained: %s, %q", source, c.Step, c.Trouble)
			}
			s.Source.BlindIn = ""
			s.expect(s.drive(settled), checkpoint.CutoverWatching, "", FreezeWrites, Switch)
		})
	}
}

// The final comparison ends once every table is compared and equal. What was found of one table counts,
// whatever was found of the others, and the verify that was begun for one is kept beside theirs.
func TestEveryTableIsComparedAtLast(t *testing.T) {
	clean := checkpoint.VerifyResult{EndedAt: time.Unix(1e9, 0)}
	for name, one := range map[string]struct {
		found   final
		step    checkpoint.CutoverStep
		reason  string
		trouble string
		finals  uint32
	}{
		"clean":   {final{result: clean}, checkpoint.CutoverFence, "", "", 0},
		"waits":   {final{waits: "it runs"}, checkpoint.CutoverVerify, "", "it runs", 0},
		"differs": {final{why: "a row differs"}, checkpoint.CutoverCancelled, "a row differs", "", 0},
		"failed":  {final{failed: errAway}, checkpoint.CutoverVerify, "", "the final comparison failed", 0},
		"begun":   {final{begun: 7}, checkpoint.CutoverVerify, "", "", 7},
	} {
		for i, source := range plan().Tables {
			playScene(t, func(s *scene) {
				other := plan().Tables[1-i]
				s.start(plan())
				s.Must(s.Update(func(c *checkpoint.Cutover) error {
					c.Step, c.Finals = checkpoint.CutoverVerify, map[string]uint32{other: 5}
					return nil
				}))
				found := []final{{result: clean}, {result: clean}}
				found[i] = one.found
				v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault(), finals: finals{compared: map[string]checkpoint.VerifyResult{}}}
				err := v.conclude(s.Ctx, s.Cutover(), s.Now(), found)
				c := s.Cutover()
				if c.Step != one.step || !strings.Contains(c.Reason, one.reason) || !strings.Contains(c.Trouble, one.trouble) || one.trouble == "" && c.Trouble != "" ||
					c.Finals[source] != one.finals || c.Finals[other] != 5 || errors.Is(err, errAway) != (one.found.failed != nil) {
					t.Errorf("%s of %s: %s, %q, %q, verifies %v, %v", name, source, c.Step, c.Reason, c.Trouble, c.Finals, err)
				}
			})
		}
	}
}
